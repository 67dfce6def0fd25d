//! The controller against the embedded API server, under virtual time.

use std::time::Duration;

use api::kinds::{DeviceTaintRule, Pod, ResourceClaim, ResourceSlice};
use api::{Gate, Gates, Resource};
use expect_test::expect;
use runtime::{Context, Metrics};
use serde_json::{Value, json};
use testkit::World;

use crate::device_taint_eviction::controller;

fn slice(taints: Value) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"},
        "spec": {
            "driver": "gpu.example.com", "allNodes": true,
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "taints": taints}],
        },
    })
}

fn broken() -> Value {
    json!([{"key": "broken", "effect": "NoExecute"}])
}

/// A pod on a node, which uses a claim of its name with the one device.
async fn pod_with_device(world: &World, tolerations: Value) -> Value {
    let spec =
        json!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}});
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "web"}, "spec": spec,
    });
    world.create(&ResourceClaim::TYPE, claim).await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "nodeName": "n", "containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0,
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "web"}],
        },
    });
    let pod = world.create(&Pod::TYPE, pod).await;
    let result = json!({
        "request": "r", "driver": "gpu.example.com", "pool": "p", "device": "gpu-0", "tolerations": tolerations,
    });
    let status = json!({"status": {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "web", "uid": pod["metadata"]["uid"]}],
    }});
    world
        .patch_subresource(&ResourceClaim::TYPE, "web", Some("status"), status)
        .await;
    pod
}

fn minute() -> Value {
    json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}])
}

async fn running(has_rules: bool) -> (World, Metrics) {
    let mut world = World::new().await;
    let context = Context {
        gates: Gates::default().with(Gate::DRADeviceTaintRules, has_rules),
        ..world.context()
    };
    let running = controller(&context, 8).run(world.stop());
    world.run(running);
    world.start().await;
    (world, context.metrics)
}

fn evicted(metrics: &Metrics) -> String {
    let text = metrics.render();
    let mut lines = text.lines();
    let counted = lines.find_map(|line| {
        line.strip_prefix("device_taint_eviction_controller_pod_deletions_total ")
    });
    counted.unwrap_or("0").to_owned()
}

// Upstream: TestEviction (initial, add, update).
#[tokio::test(start_paused = true)]
async fn a_pod_is_marked_and_deleted_when_its_device_is_tainted() {
    let (world, metrics) = running(false).await;
    world.create(&ResourceSlice::TYPE, slice(json!([]))).await;
    let pod = pod_with_device(&world, json!([])).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
    world
        .patch(&ResourceSlice::TYPE, "s", slice(broken()))
        .await;
    world.wait_until_idle().await;
    let writes = world.writes();
    let lines: Vec<String> = writes.iter().map(ToString::to_string).collect();
    assert_eq!(lines, ["PATCH pods/web/status", "DELETE pods/web"]);
    let condition = &writes[0].body["status"]["conditions"][0];
    assert_eq!(
        (
            &condition["type"],
            &condition["reason"],
            &condition["message"]
        ),
        (
            &json!("DisruptionTarget"),
            &json!("DeletionByDeviceTaintManager"),
            &json!("Device Taint manager: deleting due to NoExecute taint"),
        )
    );
    let uid = &pod["metadata"]["uid"];
    assert_eq!(writes[0].body["metadata"]["uid"], *uid);
    assert_eq!(writes[1].body["preconditions"]["uid"], *uid);
    assert_eq!(
        world.events().await,
        ["Normal DeviceTaintManagerEviction Marking for deletion"]
    );
    assert_eq!(evicted(&metrics), "1");
}

// Upstream: TestCancelEviction (slice-deleted), TestController (cancel-eviction-remove-taint).
#[tokio::test(start_paused = true)]
async fn an_eviction_is_cancelled_when_the_taint_is_removed() {
    let (world, metrics) = running(false).await;
    world.create(&ResourceSlice::TYPE, slice(broken())).await;
    pod_with_device(&world, minute()).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(world.written(), "");
    world.delete(&ResourceSlice::TYPE, "s").await;
    world.wait_until_idle().await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(world.written(), "");
    assert_eq!(
        world.events().await,
        ["Normal DeviceTaintManagerEviction Cancelling deletion"]
    );
    assert_eq!(evicted(&metrics), "0");
}

// Upstream: TestCancelEviction (pod-deleted).
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_needs_no_word() {
    let (world, _) = running(false).await;
    world.create(&ResourceSlice::TYPE, slice(broken())).await;
    pod_with_device(&world, minute()).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    world.delete(&Pod::TYPE, "web").await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(world.written(), "");
    assert_eq!(world.events().await, [""; 0]);
}

// Upstream: TestParallelPodDeletion.
#[tokio::test(start_paused = true)]
async fn an_eviction_by_another_client_is_not_counted() {
    let (world, metrics) = running(false).await;
    world.create(&ResourceSlice::TYPE, slice(broken())).await;
    world.refuse("PATCH", "pods/web/status", 404, 1);
    pod_with_device(&world, json!([])).await;
    world.wait_until_idle().await;
    assert_eq!(world.events().await, [""; 0]);
    assert_eq!(evicted(&metrics), "0");
}

// Upstream: TestRetry.
#[tokio::test(start_paused = true)]
async fn a_refused_eviction_is_tried_again() {
    let (world, metrics) = running(false).await;
    world.create(&ResourceSlice::TYPE, slice(broken())).await;
    world.refuse("PATCH", "pods/web/status", 500, 1);
    pod_with_device(&world, json!([])).await;
    world.wait_until_idle().await;
    assert!(world.get(&Pod::TYPE, "web").await.is_none());
    assert_eq!(
        world.events().await,
        ["Normal DeviceTaintManagerEviction Marking for deletion"]
    );
    assert_eq!(evicted(&metrics), "1");
}

async fn progress(world: &World) -> String {
    let rule = world.get(&DeviceTaintRule::TYPE, "r").await.unwrap();
    let condition = &rule["status"]["conditions"][0];
    let text = |name: &str| condition[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        condition["observedGeneration"],
        rule["metadata"]["generation"]
    );
    format!("{} {} {}", text("status"), text("reason"), text("message"))
}

fn rule(effect: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule", "metadata": {"name": "r"},
        "spec": {"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "service", "effect": effect}},
    })
}

// Upstream: TestDeviceTaintRule (delayed): shows what it would do, does it when told to, and says so in time.
#[tokio::test(start_paused = true)]
async fn a_rule_shows_what_it_would_do_and_does_it() {
    let (world, metrics) = running(true).await;
    pod_with_device(&world, minute()).await;
    world.create(&DeviceTaintRule::TYPE, rule("None")).await;
    world.wait_until_idle().await;
    expect!["False NoEffect 0 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."]
        .assert_eq(&progress(&world).await);
    let writes = world.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].to_string(), "PATCH devicetaintrules/r/status");
    assert_eq!(
        writes[0].body["status"]["conditions"][0]["type"],
        "EvictionInProgress"
    );
    tokio::time::sleep(Duration::from_secs(20)).await;
    let effect = json!({"spec": {"taint": {"effect": "NoExecute"}}});
    world.patch(&DeviceTaintRule::TYPE, "r", effect).await;
    world.wait_until_idle().await;
    expect!["True PodsPendingEviction 1 pod needs to be evicted in 1 namespace."]
        .assert_eq(&progress(&world).await);
    // The toleration counts from when the effect changed.
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert!(world.get(&Pod::TYPE, "web").await.is_some());
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(world.get(&Pod::TYPE, "web").await.is_none());
    tokio::time::sleep(Duration::from_secs(11)).await;
    expect!["False Completed 1 pod evicted since starting the controller."]
        .assert_eq(&progress(&world).await);
    assert_eq!(evicted(&metrics), "1");
    let _ = world.writes();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(world.written(), "");
}

// The gate is off: rules taint nothing and are not told anything.
#[tokio::test(start_paused = true)]
async fn rules_mean_nothing_without_their_gate() {
    let (world, _) = running(false).await;
    pod_with_device(&world, json!([])).await;
    world
        .create(&DeviceTaintRule::TYPE, rule("NoExecute"))
        .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.written(), "");
}
