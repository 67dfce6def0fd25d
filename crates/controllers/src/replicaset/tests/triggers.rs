//! What enqueues a set.

use std::sync::Arc;

use api::Resource;
use api::kinds::{Pod, ReplicaSet};
use runtime::Queue;
use serde_json::{Value, json};
use testkit::World;

use super::super::controller;
use super::sync::{orphan, replica_set};

/// Two sets, `web` and `other`, that select pods of their own name. The workers rest.
struct Watching {
    world: World,
    queue: Arc<Queue>,
    web: Value,
    other: Value,
}

impl Watching {
    async fn new() -> Watching {
        let world = World::new().await;
        let queue = controller::<ReplicaSet>(&world.context(), 1).queue;
        world.start().await;
        let web = world.create(&ReplicaSet::TYPE, replica_set(1)).await;
        let mut other = replica_set(1);
        other["metadata"]["name"] = json!("other");
        other["spec"]["selector"] = json!({"matchLabels": {"app": "other"}});
        other["spec"]["template"]["metadata"]["labels"] = json!({"app": "other"});
        let other = world.create(&ReplicaSet::TYPE, other).await;
        let watching = Watching {
            world,
            queue,
            web,
            other,
        };
        assert_eq!(watching.enqueued().await, "other web");
        watching
    }

    async fn enqueued(&self) -> String {
        testkit::enqueued(&self.queue).await
    }

    async fn pod(&self, app: &str, owners: Value) -> String {
        let mut pod = orphan("pod");
        pod["metadata"]["labels"] = json!({"app": app});
        pod["metadata"]["ownerReferences"] = owners;
        self.world.create(&Pod::TYPE, pod).await;
        self.enqueued().await
    }

    async fn patch(&self, patch: Value) -> String {
        self.world.patch(&Pod::TYPE, "pod", patch).await;
        self.enqueued().await
    }
}

fn owned_by(owner: &Value) -> Value {
    let meta = &owner["metadata"];
    json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": meta["name"], "uid": meta["uid"], "controller": true}])
}

fn labels(app: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}})
}

// Upstream: TestUpdatePods, TestWatchPods.
#[tokio::test(start_paused = true)]
async fn a_pod_enqueues_its_owner_whatever_its_labels() {
    let watching = Watching::new().await;
    assert_eq!(watching.pod("web", owned_by(&watching.web)).await, "web");
    assert_eq!(watching.patch(labels("other")).await, "web");
    assert_eq!(watching.patch(labels("nobody")).await, "web");
    watching.world.delete(&Pod::TYPE, "pod").await;
    watching.world.finish_deletions().await;
    assert_eq!(watching.enqueued().await, "web");
}

// Upstream: TestUpdatePods.
#[tokio::test(start_paused = true)]
async fn a_pod_that_loses_its_owner_enqueues_it_and_all_that_select_it() {
    let freed = || json!({"metadata": {"ownerReferences": null}});
    for (app, owner, expected) in [
        ("other", "other", "other"),
        ("other", "web", "other web"),
        ("nobody", "web", "web"),
    ] {
        let watching = Watching::new().await;
        let owner = match owner {
            "web" => &watching.web,
            _ => &watching.other,
        };
        watching.pod(app, owned_by(owner)).await;
        assert_eq!(watching.patch(freed()).await, expected, "{app}");
    }
}

// Upstream: TestPodControllerLookup.
#[tokio::test(start_paused = true)]
async fn an_orphan_enqueues_sets_that_select_it_in_its_namespace() {
    for (app, expected) in [("web", "web"), ("other", "other"), ("nobody", "")] {
        let watching = Watching::new().await;
        assert_eq!(watching.pod(app, json!([])).await, expected);
    }
    let watching = Watching::new().await;
    let world = &watching.world;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "far"}});
    world.create(&api::kinds::Namespace::TYPE, namespace).await;
    let accounts = api::ResourceType::namespaced("", "v1", "serviceaccounts", "ServiceAccount");
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    let user = &world.user;
    user.create(&accounts, "far", account.to_string())
        .await
        .unwrap();
    user.create(&Pod::TYPE, "far", orphan("pod").to_string())
        .await
        .unwrap();
    assert_eq!(
        watching.enqueued().await,
        "",
        "another namespace is another world"
    );
}

// Upstream: TestWatchControllers.
#[tokio::test(start_paused = true)]
async fn a_set_enqueues_itself() {
    let watching = Watching::new().await;
    let world = &watching.world;
    let resized = json!({"spec": {"replicas": 5}});
    world.patch(&ReplicaSet::TYPE, "web", resized).await;
    assert_eq!(watching.enqueued().await, "web");
    world.delete(&ReplicaSet::TYPE, "web").await;
    assert_eq!(watching.enqueued().await, "web");
}

// Upstream: TestDeleteFinalStateUnknown. Only a new listing shows that the pod is gone.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_deletion_was_missed_enqueues_its_owner() {
    let watching = Watching::new().await;
    let informers = &watching.world.informers;
    let mut pod = orphan("pod");
    pod["metadata"]["namespace"] = json!("default");
    pod["metadata"]["ownerReferences"] = owned_by(&watching.web);
    let pods = informers.store::<Pod>();
    pods.put(Arc::new(Pod::decode(pod.to_string().as_bytes()).unwrap()));
    assert_eq!(watching.enqueued().await, "");
    informers.demand_fresh(tokio::time::Instant::now());
    assert_eq!(watching.enqueued().await, "web");
    assert!(pods.is_empty());
}
