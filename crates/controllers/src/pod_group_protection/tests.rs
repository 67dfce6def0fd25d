//! The controller against the embedded API server, under virtual time.

use api::Resource;
use api::kinds::{POD_GROUP_PROTECTION, Pod, PodGroup};
use serde_json::{Value, json};
use testkit::World;

use super::{controller, converged, safe};

fn group(name: &str) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}},
    })
}

fn pod(name: &str, group: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0,
            "schedulingGroup": group,
        },
    })
}

fn of(name: &str) -> Value {
    json!({"podGroupName": name})
}

async fn running() -> World {
    let mut world = World::new().await;
    let running = controller(&world.context()).run(world.stop());
    world.run(running);
    world.start().await;
    world
}

async fn is_there(world: &World) -> bool {
    world.get(&PodGroup::TYPE, "g").await.is_some()
}

// Upstream: TestPodGroupProtectionController (not being deleted), TestHandlePodGroupUpdate.
#[tokio::test(start_paused = true)]
async fn a_group_that_is_not_deleted_is_left_alone() {
    let world = running().await;
    let made = world.create(&PodGroup::TYPE, group("g")).await;
    // Admission adds it.
    assert_eq!(
        made["metadata"]["finalizers"],
        json!([POD_GROUP_PROTECTION])
    );
    let off = json!({"metadata": {"finalizers": null}});
    world.patch(&PodGroup::TYPE, "g", off).await;
    world.create(&Pod::TYPE, pod("one", of("g"))).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
    // UPSTREAM: nobody adds it later, so nothing holds the group.
    world.delete(&PodGroup::TYPE, "g").await;
    world.wait_until_idle().await;
    assert!(!is_there(&world).await);
    assert_eq!(world.written(), "");
}

// Upstream: TestPodGroupProtectionController (no active pods, other finalizers).
#[tokio::test(start_paused = true)]
async fn a_group_without_active_pods_goes() {
    let world = running().await;
    world.create(&PodGroup::TYPE, group("g")).await;
    world
        .create(&Pod::TYPE, pod("other", of("elsewhere")))
        .await;
    world.create(&Pod::TYPE, pod("none", Value::Null)).await;
    let hold = json!({"metadata": {"finalizers": [POD_GROUP_PROTECTION, "example.com/hold"]}});
    world.patch(&PodGroup::TYPE, "g", hold).await;
    world.delete(&PodGroup::TYPE, "g").await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "PUT podgroups/g");
    let held = world.get(&PodGroup::TYPE, "g").await.unwrap();
    assert_eq!(held["metadata"]["finalizers"], json!(["example.com/hold"]));
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

// Upstream: TestPodGroupProtectionController (active pods, terminated pods, the last pod is deleted), TestHandlePodChange,
// TestActivePodSchedulingGroupIndexer, TestHasActivePods, TestIsPodTerminated.
#[tokio::test(start_paused = true)]
async fn a_group_stays_until_its_last_pod_is_over_or_gone() {
    let world = running().await;
    world.create(&PodGroup::TYPE, group("g")).await;
    for name in ["one", "two", "three"] {
        world.create(&Pod::TYPE, pod(name, of("g"))).await;
    }
    world.delete(&PodGroup::TYPE, "g").await;
    world.wait_until_idle().await;
    world.pod_status("one", json!({"phase": "Succeeded"})).await;
    world.pod_status("two", json!({"phase": "Failed"})).await;
    world.pod_status("three", json!({"phase": "Running"})).await;
    world.wait_until_idle().await;
    assert!(is_there(&world).await);
    assert_eq!(world.written(), "");
    world.delete(&Pod::TYPE, "three").await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "PUT podgroups/g");
    assert!(!is_there(&world).await);
}

// Upstream: TestPodGroupProtectionController (a conflict is tried again).
#[tokio::test(start_paused = true)]
async fn a_refused_update_is_tried_again() {
    let world = running().await;
    world.refuse("PUT", "podgroups/g", 409, 1);
    world.create(&PodGroup::TYPE, group("g")).await;
    world.delete(&PodGroup::TYPE, "g").await;
    world.wait_until_idle().await;
    assert!(!is_there(&world).await);
}

#[test]
fn invariants_can_fail() {
    let decode = |object: Value| PodGroup::decode(object.to_string().as_bytes()).unwrap();
    let mut object = group("g");
    assert!(safe(&decode(object.clone()), None).is_err());
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    object["metadata"]["finalizers"] = json!([POD_GROUP_PROTECTION]);
    let leaving = decode(object);
    let user = Pod::decode(pod("one", of("g")).to_string().as_bytes()).unwrap();
    assert!(safe(&leaving, Some(&user)).is_err());
    assert_eq!(safe(&leaving, None), Ok(()));
    assert!(converged(&leaving, false).is_err());
    assert_eq!(converged(&leaving, true), Ok(()));
}
