//! Dependents that have their owner wrong: its namespace, its version, its kind. Upstream: TestConflictingData.

use std::time::Duration;

use api::ResourceType;
use serde_json::{Value, json};
use testkit::World;

use super::super::graph::Graph;
use super::sync::{CONFIG_MAP, config_map, names, world};
use super::{gone, observe};

const NAMESPACE: ResourceType = ResourceType::cluster("", "v1", "namespaces", "Namespace");

/// Shows the graph objects one by one; what each of them led to.
fn seen(texts: &[&str]) -> Vec<String> {
    let mut graph = Graph::default();
    texts
        .iter()
        .map(|text| observe(&mut graph, &[text]))
        .collect()
}

#[test]
fn a_cluster_scoped_owner_may_be_seen_after_its_dependents() {
    assert_eq!(seen(&["ns/a <o", "o"]), ["delete o", ""]);
    assert_eq!(seen(&["o", "ns/a <o"]), ["", ""]);
}

#[test]
fn a_cluster_scoped_dependent_of_a_namespaced_owner_is_warned_about() {
    let warned = "delete wide; warn wide [v1/Thing, namespace: , name: o, uid: o]";
    assert_eq!(seen(&["wide <o", "ns/o"]), ["delete o", warned]);
    assert_eq!(seen(&["ns/o", "wide <o"]), ["", warned]);
    // Another one that has it right is looked at once, because nobody knows yet who is right.
    assert_eq!(
        seen(&["wide <o", "ns/a <o", "ns/o"]),
        ["delete o", "delete a", warned]
    );
    assert_eq!(
        seen(&["ns/a <o", "wide <o", "ns/o"]),
        ["delete o", "delete wide", ""]
    );
}

#[test]
fn a_dependent_that_was_wrong_is_forgotten_with_its_owner() {
    let mut graph = Graph::default();
    observe(&mut graph, &["ns/bad <o=Cat", "ns/o", "ns/good <o"]);
    assert_eq!(gone(&mut graph, "ns/bad <o=Cat"), "");
    assert_eq!(gone(&mut graph, "ns/o"), "delete good");
}

fn called(owner: &Value, api_version: &str, kind: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": owner["metadata"]})
}

fn wide(name: &str, owner: &Value) -> Value {
    let mut wide = config_map(name, &[owner]);
    wide["kind"] = json!("Namespace");
    wide
}

/// A namespace that is deleted stays for a while: nobody empties it here.
async fn is_deleted(world: &World, namespace: &str) -> bool {
    let namespace = world.get(&NAMESPACE, namespace).await;
    namespace.is_none_or(|held| !held["metadata"]["deletionTimestamp"].is_null())
}

/// An owner that existed once: its uid is nobody's any more.
async fn former(world: &World) -> Value {
    let former = world.create(&CONFIG_MAP, config_map("former", &[])).await;
    world.delete(&CONFIG_MAP, "former").await;
    world.wait_until_idle().await;
    former
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_dependent_of_a_namespaced_owner_is_kept() {
    for owner_first in [true, false] {
        let (world, _) = world().await;
        let owner = if owner_first {
            world.create(&CONFIG_MAP, config_map("owner", &[])).await
        } else {
            former(&world).await
        };
        world.create(&NAMESPACE, wide("wide", &owner)).await;
        let leaf = config_map("leaf", &[&owner]);
        world.create(&CONFIG_MAP, leaf).await;
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert!(!is_deleted(&world, "wide").await);
        let (uid, events) = (&owner["metadata"]["uid"], world.events().await);
        if owner_first {
            assert_eq!(names(&world).await, ["leaf", "owner"]);
            let uid = uid.as_str().unwrap();
            let warning = format!(
                "Warning OwnerRefInvalidNamespace ownerRef [v1/ConfigMap, namespace: , name: owner, uid: {uid}] does not exist in namespace \"\""
            );
            assert_eq!(events, [warning]);
            world.delete(&CONFIG_MAP, "owner").await;
            world.wait_until_idle().await;
            assert!(!is_deleted(&world, "wide").await);
        } else {
            assert!(events.is_empty(), "{events:?}");
        }
        assert!(names(&world).await.is_empty(), "who has it right goes");
    }
}

// An unknown version may mean anything, even if the uid is that of an object that we know.
#[tokio::test(start_paused = true)]
async fn an_owner_of_an_unserved_version_keeps_its_dependents() {
    for first in ["right", "wrong"] {
        let (world, _) = world().await;
        let owner = world.create(&CONFIG_MAP, config_map("owner", &[])).await;
        let unserved = called(&owner, "extensions/v1beta1", "ConfigMap");
        for name in [first, if first == "right" { "wrong" } else { "right" }] {
            let owner = if name == "right" { &owner } else { &unserved };
            world.create(&CONFIG_MAP, config_map(name, &[owner])).await;
        }
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(names(&world).await, ["owner", "right", "wrong"]);
        world.delete(&CONFIG_MAP, "owner").await;
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(names(&world).await, ["wrong"], "{first} first");
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_owner_of_a_version_that_nobody_serves_does_not_hold_up_others() {
    for first in ["right", "wrong"] {
        let (world, _) = world().await;
        let owner = former(&world).await;
        let unserved = called(&owner, "extensions/v1beta1", "ConfigMap");
        for name in [first, if first == "right" { "wrong" } else { "right" }] {
            let owner = if name == "right" { &owner } else { &unserved };
            world.create(&CONFIG_MAP, config_map(name, &[owner])).await;
        }
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(names(&world).await, ["wrong"], "{first} first");
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_by_another_version_that_is_served_is_the_same_owner() {
    let (world, _) = world().await;
    let scalers = ResourceType::namespaced(
        "autoscaling",
        "v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
    );
    let scaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "owner"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    });
    let owner = world.create(&scalers, scaler).await;
    let older = called(&owner, "autoscaling/v1", "HorizontalPodAutoscaler");
    world
        .create(&CONFIG_MAP, config_map("leaf", &[&older]))
        .await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(names(&world).await, ["leaf"]);
    assert_eq!(world.written(), "");
    world.delete(&scalers, "owner").await;
    world.wait_until_idle().await;
    assert!(names(&world).await.is_empty());
}

// The uid is that of the owner, the kind is not: just who says so goes, whatever is seen first.
#[tokio::test(start_paused = true)]
async fn a_wrong_kind_costs_just_the_one_who_uses_it() {
    for order in [["owner", "good", "bad"], ["owner", "bad", "good"]] {
        let (world, _) = world().await;
        let owner = world.create(&CONFIG_MAP, config_map("owner", &[])).await;
        for name in &order[1..] {
            let secret = called(&owner, "v1", "Secret");
            let owner = if *name == "good" { &owner } else { &secret };
            world.create(&CONFIG_MAP, config_map(name, &[owner])).await;
        }
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(names(&world).await, ["good", "owner"], "{order:?}");
    }
}
