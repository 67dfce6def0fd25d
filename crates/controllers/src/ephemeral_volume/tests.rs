//! Plans first, then the whole against the embedded API server. Upstream: TestSyncHandler.

use std::sync::Arc;

use api::kinds::{PersistentVolumeClaim, Pod};
use api::{Key, Resource};
use expect_test::expect;
use runtime::{Context, Metrics};
use serde_json::{Value, json};
use testkit::{Lagging, World, enqueued};

use super::controller;
use super::plan::plan;

fn pod(volumes: &[&str]) -> Value {
    let volume = |name: &&str| {
        let template = json!({
            "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        });
        json!({"name": name, "ephemeral": {"volumeClaimTemplate": template}})
    };
    let volumes: Vec<Value> = volumes.iter().map(volume).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": volumes},
    })
}

fn claim(name: &str, owner: Option<&str>) -> Value {
    let owners = owner.map(|uid| {
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid, "controller": true}])
    });
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "ownerReferences": owners},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    })
}

/// `claims` are `name=uid of the pod that they were created for`.
fn check(volumes: &[&str], leaving: bool, claims: &str, expected: &str) {
    let mut pod = pod(volumes);
    pod["metadata"]["uid"] = json!("u");
    if leaving {
        pod["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
    }
    let pod = Pod::decode(pod.to_string().as_bytes()).unwrap();
    let claims: Vec<Arc<PersistentVolumeClaim>> = claims
        .split_whitespace()
        .map(|text| {
            let (name, owner) = text.split_once('=').unwrap();
            let json = claim(name, Some(owner)).to_string();
            Arc::new(PersistentVolumeClaim::decode(json.as_bytes()).unwrap())
        })
        .collect();
    let named = |name: &str| {
        let mut claims = claims.iter();
        claims.find(|claim| *claim.metadata.name == *name).cloned()
    };
    let steps: Vec<String> = plan(&pod, named)
        .iter()
        .map(|step| step.line().to_string())
        .collect();
    assert_eq!(steps.join("; "), expected);
}

#[test]
fn each_ephemeral_volume_gets_a_claim_of_its_own() {
    let creates = |volume| format!("creates claim web-{volume}: volume {volume} is ephemeral");
    check(&[], false, "", "");
    check(&["a"], true, "", "");
    check(&["a"], false, "", &creates("a"));
    check(&["a", "b"], false, "web-a=u", &creates("b"));
    check(&["a"], false, "other-a=x", &creates("a"));
    let refused = "claim web-a of volume a must be created for this pod: a claim of that name was not created for it";
    check(&["a", "b"], false, "web-a=x", refused);
    check(
        &["b", "a"],
        false,
        "web-a=x",
        &format!("{}; {refused}", creates("b")),
    );
}

async fn running() -> (World, Metrics) {
    let mut world = World::new().await;
    let context = world.context();
    let running = controller(&context, 5).run(world.stop());
    world.run(running);
    world.start().await;
    (world, context.metrics)
}

fn counts(metrics: &Metrics) -> String {
    let text = metrics.render();
    let lines = text.lines();
    let own = lines.filter_map(|line| line.strip_prefix("ephemeral_volume_controller_"));
    own.collect::<Vec<_>>().join(", ")
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_created_from_the_template_and_again_when_somebody_deletes_it() {
    let (world, metrics) = running().await;
    let made = world.create(&Pod::TYPE, pod(&["data"])).await;
    world.wait_until_idle().await;
    let writes = world.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(
        writes[0].body,
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": "web-data", "labels": {"a": "b"}, "annotations": {"c": "d"},
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Pod", "name": "web", "uid": made["metadata"]["uid"],
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        })
    );
    let off = json!({"metadata": {"finalizers": null}});
    world
        .patch(&PersistentVolumeClaim::TYPE, "web-data", off)
        .await;
    world.delete(&PersistentVolumeClaim::TYPE, "web-data").await;
    world.wait_until_idle().await;
    expect!["POST persistentvolumeclaims"].assert_eq(&world.written());
    expect!["create_failures_total 0, create_total 2"].assert_eq(&counts(&metrics));
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_somebody_else_is_not_used() {
    let (world, metrics) = running().await;
    let theirs = world
        .create(&PersistentVolumeClaim::TYPE, claim("web-data", None))
        .await;
    world.create(&Pod::TYPE, pod(&["data"])).await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(world.written(), "");
    let events = world.events().await;
    assert_eq!(
        events,
        [
            "Warning FailedBinding ephemeral volume data: PVC default/web-data was not created for pod default/web (pod is not owner)"
        ]
    );
    expect!["create_failures_total 0, create_total 0"].assert_eq(&counts(&metrics));
    let held = world.get(&PersistentVolumeClaim::TYPE, "web-data").await;
    assert_eq!(held.unwrap(), theirs);
}

#[tokio::test(start_paused = true)]
async fn a_refused_claim_is_reported_and_retried() {
    let (world, metrics) = running().await;
    world.refuse("POST", "persistentvolumeclaims", 409, 1);
    world.create(&Pod::TYPE, pod(&["data"])).await;
    world.wait_until_idle().await;
    assert!(
        world
            .get(&PersistentVolumeClaim::TYPE, "web-data")
            .await
            .is_some()
    );
    let events = world.events().await;
    assert_eq!(events.len(), 1);
    assert!(
        events[0].starts_with("Warning FailedBinding ephemeral volume data: create PVC web-data: "),
        "{events:?}"
    );
    expect!["create_failures_total 1, create_total 2"].assert_eq(&counts(&metrics));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_created_for_a_namesake_or_for_a_pod_that_is_leaving() {
    let world = World::new().await;
    let controller = controller(&world.context(), 1);
    world.create(&Pod::TYPE, pod(&["data"])).await;
    let lagging = Lagging { world, controller };
    lagging.see::<Pod>("web").await;
    lagging.world.delete(&Pod::TYPE, "web").await;
    lagging.world.finish_deletions().await;
    lagging.reconcile("web").await.unwrap();
    lagging.world.create(&Pod::TYPE, pod(&["other"])).await;
    lagging.reconcile("web").await.unwrap();
    assert_eq!(lagging.world.written(), "");
    lagging.reconcile("nosuch").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_the_cache_has_not_seen_is_not_created_twice() {
    let world = World::new().await;
    let controller = controller(&world.context(), 1);
    world.create(&Pod::TYPE, pod(&["data"])).await;
    let lagging = Lagging { world, controller };
    lagging.see::<Pod>("web").await;
    lagging.reconcile("web").await.unwrap();
    assert!(
        lagging.reconcile("web").await.is_err(),
        "waits for its own write"
    );
    assert_eq!(lagging.world.writes().len(), 1);
    lagging.see::<PersistentVolumeClaim>("web-data").await;
    lagging.reconcile("web").await.unwrap();
    assert_eq!(lagging.world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn only_new_pods_with_such_a_volume_are_enqueued() {
    let world = World::new().await;
    let context: Context = world.context();
    let controller = controller(&context, 1);
    world.start().await;
    let mut plain = pod(&[]);
    plain["metadata"]["name"] = json!("plain");
    world.create(&Pod::TYPE, plain).await;
    assert_eq!(enqueued(&controller.queue).await, "");
    world.create(&Pod::TYPE, pod(&["data"])).await;
    assert_eq!(enqueued(&controller.queue).await, "web");
    let label = json!({"metadata": {"labels": {"x": "y"}}});
    world.patch(&Pod::TYPE, "web", label).await;
    assert_eq!(enqueued(&controller.queue).await, "");
    controller
        .reconcile(&Key::new("default", "plain"))
        .await
        .unwrap();
}
