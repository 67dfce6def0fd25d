//! Which changes enqueue which Deployments.

use api::Resource;
use api::kinds::{Deployment, Pod, ReplicaSet};
use runtime::controller::Controller;
use serde_json::{Value, json};
use testkit::World;

use super::super::controller;

/// A world whose Deployment controller is built but does not run: keys stay in its queue.
async fn world() -> (World, Controller) {
    let world = World::new().await;
    let context = world.context();
    let controller = controller(&context, 1);
    world.start().await;
    (world, controller)
}

/// The names of the Deployments that were enqueued since the last call.
async fn enqueued(world: &World, controller: &Controller) -> String {
    world.wait_until_idle().await;
    testkit::enqueued(&controller.queue).await
}

async fn deploy(world: &World, name: &str, strategy: &str, app: &str) -> Value {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": app}}, "strategy": {"type": strategy},
            "template": template(app),
        },
    });
    world.create(&Deployment::TYPE, object).await
}

fn template(app: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "image": "nginx"}]},
    })
}

fn reference(kind: &str, owner: &Value) -> Value {
    json!([{
        "apiVersion": "apps/v1", "kind": kind, "controller": true,
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
    }])
}

async fn set(world: &World, name: &str, owners: Value) -> Value {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": name, "labels": {"app": "web"}, "ownerReferences": owners},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template("web")},
    });
    world.create(&ReplicaSet::TYPE, object).await
}

async fn pod(world: &World, name: &str, set: &Value) {
    let mut object = template("web");
    object["apiVersion"] = json!("v1");
    object["kind"] = json!("Pod");
    object["metadata"]["name"] = json!(name);
    object["metadata"]["ownerReferences"] = reference("ReplicaSet", set);
    world.create(&Pod::TYPE, object).await;
}

async fn edit(world: &World, name: &str, metadata: Value) {
    let patch = json!({"metadata": metadata});
    world.patch(&ReplicaSet::TYPE, name, patch).await;
}

// Upstream: TestAddReplicaSet, TestUpdateReplicaSet, TestDeleteReplicaSet.
#[tokio::test(start_paused = true)]
async fn a_set_enqueues_its_owner_alone() {
    let (world, controller) = world().await;
    let one = deploy(&world, "one", "RollingUpdate", "web").await;
    deploy(&world, "two", "RollingUpdate", "web").await;
    assert_eq!(enqueued(&world, &controller).await, "one two");
    set(&world, "a", reference("Deployment", &one)).await;
    assert_eq!(enqueued(&world, &controller).await, "one");
    edit(&world, "a", json!({"annotations": {"x": "y"}})).await;
    assert_eq!(enqueued(&world, &controller).await, "one");
    world.delete(&ReplicaSet::TYPE, "a").await;
    assert_eq!(enqueued(&world, &controller).await, "one");
}

// Upstream: TestAddReplicaSetOrphan, TestUpdateReplicaSetOrphanWithNewLabels,
// TestDeleteReplicaSetOrphan, TestGetDeploymentsForReplicaSet.
#[tokio::test(start_paused = true)]
async fn an_orphan_enqueues_all_that_select_it() {
    let (world, controller) = world().await;
    for (name, app) in [("one", "web"), ("two", "web"), ("three", "db")] {
        deploy(&world, name, "RollingUpdate", app).await;
    }
    enqueued(&world, &controller).await;
    set(&world, "a", Value::Null).await;
    assert_eq!(enqueued(&world, &controller).await, "one two");
    edit(&world, "a", json!({"annotations": {"x": "y"}})).await;
    assert_eq!(enqueued(&world, &controller).await, "", "nobody cares");
    edit(&world, "a", json!({"labels": {"app": null}})).await;
    assert_eq!(enqueued(&world, &controller).await, "");
    edit(&world, "a", json!({"labels": {"app": "db"}})).await;
    assert_eq!(enqueued(&world, &controller).await, "three");
    world.delete(&ReplicaSet::TYPE, "a").await;
    assert_eq!(enqueued(&world, &controller).await, "", "it was nobody's");
}

// Upstream: TestUpdateReplicaSetChangeControllerRef, TestUpdateReplicaSetRelease.
#[tokio::test(start_paused = true)]
async fn a_set_that_changes_hands_enqueues_both() {
    let (world, controller) = world().await;
    let one = deploy(&world, "one", "RollingUpdate", "web").await;
    let two = deploy(&world, "two", "RollingUpdate", "web").await;
    deploy(&world, "three", "RollingUpdate", "web").await;
    set(&world, "a", reference("Deployment", &one)).await;
    enqueued(&world, &controller).await;
    edit(
        &world,
        "a",
        json!({"ownerReferences": reference("Deployment", &two)}),
    )
    .await;
    assert_eq!(enqueued(&world, &controller).await, "one two");
    edit(&world, "a", json!({"ownerReferences": null})).await;
    assert_eq!(enqueued(&world, &controller).await, "one three two");
}

// Upstream: TestPodDeletionEnqueuesRecreateDeployment, TestPodDeletionDoesntEnqueueRecreateDeployment,
// TestPodDeletionPartialReplicaSetOwnershipEnqueueRecreateDeployment,
// TestPodDeletionPartialReplicaSetOwnershipDoesntEnqueueRecreateDeployment, TestGetPodMapForReplicaSets.
#[tokio::test(start_paused = true)]
async fn the_last_pod_enqueues_a_deployment_that_recreates() {
    let (world, controller) = world().await;
    let recreated = deploy(&world, "recreated", "Recreate", "web").await;
    let rolled = deploy(&world, "rolled", "RollingUpdate", "web").await;
    let first = set(&world, "a", reference("Deployment", &recreated)).await;
    let second = set(&world, "b", reference("Deployment", &recreated)).await;
    let orphan = set(&world, "c", Value::Null).await;
    let other = set(&world, "d", reference("Deployment", &rolled)).await;
    for (name, owner) in [("a1", &first), ("b1", &second), ("b2", &second)] {
        pod(&world, name, owner).await;
    }
    pod(&world, "c1", &orphan).await;
    pod(&world, "d1", &other).await;
    enqueued(&world, &controller).await;
    for (name, expected) in [
        ("c1", ""),
        ("d1", ""),
        ("b1", ""),
        ("a1", ""),
        ("b2", "recreated"),
    ] {
        world.delete(&Pod::TYPE, name).await;
        world.finish_deletions().await;
        assert_eq!(enqueued(&world, &controller).await, expected, "{name}");
    }
    // One that has ended does not run any more.
    pod(&world, "a2", &first).await;
    pod(&world, "a3", &first).await;
    world.make_failed("a2").await;
    world.delete(&Pod::TYPE, "a3").await;
    assert_eq!(enqueued(&world, &controller).await, "recreated");
}
