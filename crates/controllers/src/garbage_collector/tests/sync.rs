//! The whole collector against the embedded API server, on a virtual clock.

use std::time::Duration;

use api::kinds::{Pod, ReplicaSet};
use api::{Resource, ResourceType};
use client::{Client, DeleteOptions, Propagation};
use runtime::informer::{MetadataStreams, StreamOptions};
use serde_json::{Value, json};
use testkit::World;

use super::super::{GraphHandle, Memory, controller};
use runtime::Context;

pub(super) const CONFIG_MAP: ResourceType =
    ResourceType::namespaced("", "v1", "configmaps", "ConfigMap");

pub(super) async fn world() -> (World, GraphHandle) {
    let mut world = World::new().await;
    let graph = start(&mut world).await;
    (world, graph)
}

async fn start(world: &mut World) -> GraphHandle {
    let client = world.client.clone();
    start_with(world, client.clone(), client).await
}

/// `acting` decides and writes, `watching` feeds the streams of metadata.
pub(super) async fn start_with(world: &mut World, acting: Client, watching: Client) -> GraphHandle {
    let context = Context {
        client: acting,
        ..world.context()
    };
    let options = StreamOptions {
        rng: world.rng.fork(),
        resync: None,
    };
    // Somebody caches pods, and nobody caches nodes.
    world.informers.of::<Pod>();
    let memory = Memory::new(MetadataStreams::new(watching, options));
    let collector = controller(&context, &memory, 5);
    let graph = memory.graph();
    let running = collector.run(world.stop());
    world.run(running);
    world.start().await;
    world.wait_until_idle().await;
    graph
}

pub(super) fn config_map(name: &str, owners: &[&Value]) -> Value {
    let owners: Vec<Value> = owners.iter().map(|owner| reference(owner)).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners}})
}

fn reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": true,
    })
}

fn pod(name: &str, owner: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "ownerReferences": [reference(owner)]},
        "spec": {"containers": [{"name": "c", "image": "nginx"}]},
    })
}

fn replica_set() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    })
}

pub(super) fn by(propagation: Propagation) -> DeleteOptions {
    DeleteOptions {
        propagation: Some(propagation),
        ..DeleteOptions::default()
    }
}

pub(super) async fn names(world: &World) -> Vec<String> {
    let all = world.list(&CONFIG_MAP).await;
    all.iter()
        .map(|map| map["metadata"]["name"].as_str().unwrap().to_owned())
        .filter(|name| name != "kube-root-ca.crt")
        .collect()
}

#[tokio::test(start_paused = true)]
async fn pods_follow_their_replica_set_with_one_request_each() {
    let (world, _) = world().await;
    let set = world.create(&ReplicaSet::TYPE, replica_set()).await;
    for number in 0..3 {
        world
            .create(&Pod::TYPE, pod(&format!("p{number}"), &set))
            .await;
    }
    world.wait_until_idle().await;
    assert_eq!(world.written(), "", "nothing to collect");
    world
        .delete_with(&ReplicaSet::TYPE, "web", &by(Propagation::Background))
        .await;
    world.wait_until_idle().await;
    let writes = world.writes();
    let mut lines: Vec<String> = writes.iter().map(ToString::to_string).collect();
    lines.sort();
    assert_eq!(
        lines,
        ["DELETE pods/p0", "DELETE pods/p1", "DELETE pods/p2"]
    );
    let body = &writes[0].body;
    assert_eq!(body["propagationPolicy"], "Background");
    assert!(body["preconditions"]["uid"].is_string());
    assert!(body["preconditions"]["resourceVersion"].is_string());
    world.finish_deletions().await;
    world.wait_until_idle().await;
    assert!(world.list(&Pod::TYPE).await.is_empty());
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn a_whole_tree_goes() {
    let (world, graph) = world().await;
    let root = world.create(&CONFIG_MAP, config_map("root", &[])).await;
    let middle = world
        .create(&CONFIG_MAP, config_map("middle", &[&root]))
        .await;
    world
        .create(&CONFIG_MAP, config_map("leaf", &[&middle]))
        .await;
    world.wait_until_idle().await;
    let before = graph.len();
    world.delete(&CONFIG_MAP, "root").await;
    world.wait_until_idle().await;
    assert!(names(&world).await.is_empty());
    assert_eq!(graph.len(), before - 3);
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_takes_the_leaves_first() {
    let (world, _) = world().await;
    let root = world.create(&CONFIG_MAP, config_map("root", &[])).await;
    let middle = world
        .create(&CONFIG_MAP, config_map("middle", &[&root]))
        .await;
    world
        .create(&CONFIG_MAP, config_map("leaf", &[&middle]))
        .await;
    world.wait_until_idle().await;
    world
        .delete_with(&CONFIG_MAP, "root", &by(Propagation::Foreground))
        .await;
    world.wait_until_idle().await;
    assert!(names(&world).await.is_empty());
    assert_eq!(
        world.written(),
        "DELETE configmaps/middle\nDELETE configmaps/leaf\nPATCH configmaps/middle\nPATCH configmaps/root"
    );
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_waits_for_who_is_held() {
    let (world, _) = world().await;
    let root = world.create(&CONFIG_MAP, config_map("root", &[])).await;
    let mut held = config_map("held", &[&root]);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.create(&CONFIG_MAP, held).await;
    world.wait_until_idle().await;
    world
        .delete_with(&CONFIG_MAP, "root", &by(Propagation::Foreground))
        .await;
    world.wait_until_idle().await;
    assert_eq!(names(&world).await, ["held", "root"]);
    assert_eq!(world.written(), "DELETE configmaps/held");
    let free = json!({"metadata": {"finalizers": null}});
    world.patch(&CONFIG_MAP, "held", free).await;
    world.wait_until_idle().await;
    assert!(names(&world).await.is_empty());
}

// Upstream: TestOrphanDependentsFailure has the failing half.
#[tokio::test(start_paused = true)]
async fn orphans_stay_and_forget_their_owner() {
    let (world, _) = world().await;
    let root = world.create(&CONFIG_MAP, config_map("root", &[])).await;
    let other = world.create(&CONFIG_MAP, config_map("other", &[])).await;
    world
        .create(&CONFIG_MAP, config_map("leaf", &[&root, &other]))
        .await;
    world.wait_until_idle().await;
    world
        .delete_with(&CONFIG_MAP, "root", &by(Propagation::Orphan))
        .await;
    world.wait_until_idle().await;
    assert_eq!(names(&world).await, ["leaf", "other"]);
    assert_eq!(
        world.written(),
        "PATCH configmaps/leaf\nPATCH configmaps/root"
    );
    let leaf = world.get(&CONFIG_MAP, "leaf").await.unwrap();
    let owners = leaf["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!(owners.len(), 1);
    assert_eq!(owners[0]["uid"], other["metadata"]["uid"]);
}

#[tokio::test(start_paused = true)]
async fn one_living_owner_is_enough() {
    let (world, _) = world().await;
    let one = world.create(&CONFIG_MAP, config_map("one", &[])).await;
    let two = world.create(&CONFIG_MAP, config_map("two", &[])).await;
    world
        .create(&CONFIG_MAP, config_map("leaf", &[&one, &two]))
        .await;
    world.wait_until_idle().await;
    world.delete(&CONFIG_MAP, "one").await;
    world.wait_until_idle().await;
    assert_eq!(names(&world).await, ["leaf", "two"]);
    let writes = world.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(
        writes[0].body["metadata"]["ownerReferences"],
        json!([{"$patch": "delete", "uid": one["metadata"]["uid"]}])
    );
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_owner_never_existed_is_deleted() {
    let (world, graph) = world().await;
    let ghost = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ghost", "uid": "3f9d9c3a-0000-4000-8000-000000000001"}});
    world
        .create(&CONFIG_MAP, config_map("leaf", &[&ghost]))
        .await;
    world.wait_until_idle().await;
    assert!(names(&world).await.is_empty());
    let uid = "3f9d9c3a-0000-4000-8000-000000000001".into();
    assert!(!graph.has(&uid), "the virtual node is gone as well");
}

#[tokio::test(start_paused = true)]
async fn an_owner_of_an_unknown_kind_is_left_alone() {
    let (world, _) = world().await;
    let alien = json!({"apiVersion": "example.com/v1", "kind": "Alien", "metadata": {"name": "x", "uid": "u-1"}});
    world
        .create(&CONFIG_MAP, config_map("leaf", &[&alien]))
        .await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(names(&world).await, ["leaf"]);
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_another_namespace_is_none() {
    let (world, _) = world().await;
    let namespaces = ResourceType::cluster("", "v1", "namespaces", "Namespace");
    world
        .create(
            &namespaces,
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "far"}}),
        )
        .await;
    let owner = config_map("owner", &[]).to_string();
    let owner = world.user.create(&CONFIG_MAP, "far", owner).await.unwrap();
    let owner: Value = serde_json::from_slice(&owner).unwrap();
    world.wait_until_idle().await;
    world
        .create(&CONFIG_MAP, config_map("leaf", &[&owner]))
        .await;
    world.wait_until_idle().await;
    assert!(names(&world).await.is_empty());
    let uid = owner["metadata"]["uid"].as_str().unwrap();
    assert_eq!(
        world.events().await,
        [format!(
            "Warning OwnerRefInvalidNamespace ownerRef [v1/ConfigMap, namespace: default, name: owner, uid: {uid}] does not exist in namespace \"default\""
        )]
    );
}

#[tokio::test(start_paused = true)]
async fn cycles_can_be_deleted_in_the_foreground() {
    let (world, _) = world().await;
    let one = world.create(&CONFIG_MAP, config_map("one", &[])).await;
    let two = world.create(&CONFIG_MAP, config_map("two", &[&one])).await;
    let back = json!({"metadata": {"ownerReferences": [reference(&two), reference(&one)]}});
    world.patch(&CONFIG_MAP, "one", back).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "", "a cycle alone is no reason");
    world
        .delete_with(&CONFIG_MAP, "one", &by(Propagation::Foreground))
        .await;
    world.wait_until_idle().await;
    assert!(names(&world).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn changes_missed_while_not_running_are_caught_up() {
    let mut world = World::new().await;
    let root = world.create(&CONFIG_MAP, config_map("root", &[])).await;
    world
        .create(&CONFIG_MAP, config_map("leaf", &[&root]))
        .await;
    let other = world.create(&CONFIG_MAP, config_map("other", &[])).await;
    world
        .create(&CONFIG_MAP, config_map("kept", &[&other]))
        .await;
    world
        .delete_with(&CONFIG_MAP, "root", &by(Propagation::Background))
        .await;
    start(&mut world).await;
    assert_eq!(names(&world).await, ["kept", "other"]);
    assert_eq!(world.written(), "DELETE configmaps/leaf");
}
