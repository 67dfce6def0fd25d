//! The whole against the embedded API server, under virtual time.

use std::time::Duration;

use api::Resource;
use api::kinds::{Node, Pod};
use expect_test::expect;
use serde_json::{Value, json};
use testkit::World;

use super::super::controller;

async fn world() -> World {
    let mut world = World::new().await;
    let running = controller(&world.context()).run(world.stop());
    world.run(running);
    world.start().await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    world.create(&Node::TYPE, node).await;
    world
}

/// A pod on the node that tolerates `down` for so long; `None` not at all.
async fn make_pod(world: &World, name: &str, seconds: Option<i64>) -> Value {
    let tolerations = seconds.map(|seconds| {
        json!({"key": "down", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds})
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "nodeName": "n1", "containers": [{"name": "c", "image": "nginx"}],
            "tolerations": tolerations.into_iter().collect::<Vec<_>>(),
        },
    });
    world.create(&Pod::TYPE, pod).await
}

async fn taint(world: &World, taints: Value) {
    world
        .patch(&Node::TYPE, "n1", json!({"spec": {"taints": taints}}))
        .await;
}

fn down() -> Value {
    json!([{"key": "down", "effect": "NoExecute"}])
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

// Upstream: TestCreatePod, TestUpdateNode, TestPodDeletionEvent.
#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_tolerate_the_taint_is_marked_and_deleted() {
    let world = world().await;
    let pod = make_pod(&world, "a", None).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
    taint(&world, down()).await;
    seconds(1).await;
    let writes = world.writes();
    let lines: Vec<String> = writes.iter().map(ToString::to_string).collect();
    assert_eq!(lines, ["PATCH pods/a/status", "DELETE pods/a"]);
    let uid = &pod["metadata"]["uid"];
    let at = &writes[0].body["status"]["conditions"][0]["lastTransitionTime"];
    assert!(at.is_string());
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
        "lastProbeTime": null, "lastTransitionTime": at,
        "observedGeneration": pod["metadata"]["generation"],
    });
    assert_eq!(
        writes[0].body,
        json!({"metadata": {"uid": uid}, "status": {"conditions": [condition]}})
    );
    assert_eq!(writes[1].body["preconditions"], json!({"uid": uid}));
    assert_eq!(
        writes[1].body["gracePeriodSeconds"],
        Value::Null,
        "the pod has its grace"
    );
    seconds(1).await;
    assert_eq!(
        world.events().await,
        ["Normal TaintManagerEviction Marking for deletion Pod default/a"]
    );
    // It is on its way out; more taints change nothing.
    taint(
        &world,
        json!([{"key": "down", "effect": "NoExecute"}, {"key": "more", "effect": "NoExecute"}]),
    )
    .await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

// Upstream: TestUpdateNodeWithMultiplePods, TestExecuteDelayed.
#[tokio::test(start_paused = true)]
async fn each_pod_leaves_when_its_own_time_is_up() {
    let world = world().await;
    taint(&world, down()).await;
    for (name, time) in [("now", None), ("soon", Some(10)), ("later", Some(300))] {
        make_pod(&world, name, time).await;
    }
    make_pod(&world, "never", Some(1_000_000)).await;
    let mut left = Vec::new();
    // Half a second off, so that it is clear which second is meant.
    tokio::time::sleep(Duration::from_millis(500)).await;
    for second in 0..=310 {
        for write in world.writes() {
            left.push(format!("{second} {write}"));
        }
        seconds(1).await;
    }
    expect![[r#"
        0 PATCH pods/now/status
        0 DELETE pods/now
        10 PATCH pods/soon/status
        10 DELETE pods/soon
        300 PATCH pods/later/status
        300 DELETE pods/later"#]]
    .assert_eq(&left.join("\n"));
}

// Upstream: TestUpdateNode (taint removed), TestCancel.
#[tokio::test(start_paused = true)]
async fn a_taint_that_goes_in_time_calls_it_off() {
    let world = world().await;
    make_pod(&world, "a", Some(60)).await;
    taint(&world, down()).await;
    seconds(50).await;
    taint(&world, json!([])).await;
    seconds(100).await;
    assert_eq!(world.written(), "");
    assert_eq!(
        world.events().await,
        ["Normal TaintManagerEviction Cancelling deletion of Pod default/a"]
    );
    // Should it come back, the time starts over.
    taint(&world, down()).await;
    seconds(59).await;
    assert_eq!(world.written(), "");
    seconds(2).await;
    assert_eq!(world.written(), "PATCH pods/a/status\nDELETE pods/a");
}

/// Gives the pod another time for which it tolerates the taint; `None` is for ever.
async fn tolerate(world: &World, name: &str, seconds: Option<i64>) {
    let mut toleration = json!({"key": "down", "operator": "Exists", "effect": "NoExecute"});
    if let Some(seconds) = seconds {
        toleration["tolerationSeconds"] = json!(seconds);
    }
    let pod = world.get(&Pod::TYPE, name).await.unwrap();
    // Admission has added some of its own, which must stay.
    let mut tolerations = pod["spec"]["tolerations"].as_array().unwrap().clone();
    tolerations.retain(|held| held["key"] != "down");
    tolerations.insert(0, toleration);
    world
        .patch(
            &Pod::TYPE,
            name,
            json!({"spec": {"tolerations": tolerations}}),
        )
        .await;
}

// Upstream: TestUpdatePod.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_tolerations_change_is_looked_at_again() {
    let world = world().await;
    for name in ["forever", "longer"] {
        make_pod(&world, name, Some(60)).await;
    }
    taint(&world, down()).await;
    seconds(30).await;
    tolerate(&world, "forever", None).await;
    tolerate(&world, "longer", Some(1000)).await;
    seconds(29).await;
    assert_eq!(world.written(), "");
    seconds(2).await;
    // UPSTREAM: what was decided stays decided.
    assert_eq!(
        world.written(),
        "PATCH pods/longer/status\nDELETE pods/longer"
    );
    let events = world.events().await.join("\n");
    assert!(
        events.contains("Cancelling deletion of Pod default/forever"),
        "{events}"
    );
}

// Upstream: TestCreateNode.
#[tokio::test(start_paused = true)]
async fn a_node_that_comes_with_its_taints_drives_away_who_waits_there() {
    let world = world().await;
    world.delete(&Node::TYPE, "n1").await;
    make_pod(&world, "now", None).await;
    make_pod(&world, "soon", Some(10)).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {"taints": down()},
    });
    world.create(&Node::TYPE, node).await;
    seconds(1).await;
    assert_eq!(world.written(), "PATCH pods/now/status\nDELETE pods/now");
    seconds(10).await;
    assert_eq!(world.written(), "PATCH pods/soon/status\nDELETE pods/soon");
}

// Upstream: TestDeletePod, TestCancelAndRead.
#[tokio::test(start_paused = true)]
async fn a_namesake_of_a_pod_that_was_to_leave_has_its_own_time() {
    let world = world().await;
    taint(&world, down()).await;
    make_pod(&world, "a", Some(60)).await;
    seconds(50).await;
    let at_once = client::DeleteOptions {
        grace_period_seconds: Some(0),
        ..client::DeleteOptions::default()
    };
    world.delete_with(&Pod::TYPE, "a", &at_once).await;
    make_pod(&world, "a", Some(60)).await;
    seconds(50).await;
    assert_eq!(world.written(), "");
    seconds(11).await;
    assert_eq!(world.written(), "PATCH pods/a/status\nDELETE pods/a");
    let events = world.events().await.join("\n");
    assert!(
        events.contains("Cancelling deletion of Pod default/a"),
        "{events}"
    );
}

// Upstream: TestEventualConsistency.
#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_to_a_tainted_node_is_not_missed() {
    let world = world().await;
    taint(&world, down()).await;
    world.wait_until_idle().await;
    make_pod(&world, "late", None).await;
    seconds(1).await;
    assert_eq!(world.written(), "PATCH pods/late/status\nDELETE pods/late");
}

// Upstream: TestCreatePod, TestUpdatePod, TestEventualConsistency.
#[tokio::test(start_paused = true)]
async fn a_pod_is_looked_at_when_it_gets_its_node() {
    let world = world().await;
    taint(&world, down()).await;
    for (name, seconds) in [
        ("now", None),
        ("soon", Some(10)),
        ("never", Some(1_000_000)),
    ] {
        let mut pod = unbound(name);
        if let Some(seconds) = seconds {
            let toleration = json!({"key": "down", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
            pod["spec"]["tolerations"] = json!([toleration]);
        }
        world.create(&Pod::TYPE, pod).await;
    }
    seconds(100).await;
    assert_eq!(world.written(), "", "they are nowhere");
    for name in ["now", "soon", "never"] {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
            "target": {"kind": "Node", "name": "n1"},
        });
        let (pods, body) = (Pod::TYPE, binding.to_string());
        let bound = world
            .user
            .create_subresource(&pods, "default", name, "binding", body)
            .await;
        bound.unwrap();
    }
    seconds(1).await;
    assert_eq!(world.written(), "PATCH pods/now/status\nDELETE pods/now");
    seconds(10).await;
    assert_eq!(world.written(), "PATCH pods/soon/status\nDELETE pods/soon");
    seconds(1000).await;
    assert_eq!(world.written(), "");
}

fn unbound(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "nginx"}]},
    })
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_is_tried_until_it_works() {
    let world = world().await;
    make_pod(&world, "a", None).await;
    world.refuse("DELETE", "/pods/a", 500, 8);
    taint(&world, down()).await;
    seconds(30).await;
    let pod = world.get(&Pod::TYPE, "a").await;
    assert!(pod.is_none_or(|pod| pod["metadata"]["deletionTimestamp"].is_string()));
    let marked = world
        .writes()
        .iter()
        .filter(|write| write.to_string() == "PATCH pods/a/status")
        .count();
    assert_eq!(marked, 1, "once is enough");
    assert_eq!(world.events().await.len(), 1);
}

/// A conflict need not mean that another pod has its name.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_meets_a_conflict_is_tried_again() {
    let world = world().await;
    make_pod(&world, "a", None).await;
    world.refuse("DELETE", "/pods/a", 409, 2);
    taint(&world, down()).await;
    seconds(30).await;
    let pod = world.get(&Pod::TYPE, "a").await;
    assert!(pod.is_none_or(|pod| pod["metadata"]["deletionTimestamp"].is_string()));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_gone_does_not_save_its_pods() {
    let world = world().await;
    make_pod(&world, "a", Some(60)).await;
    taint(&world, down()).await;
    seconds(30).await;
    world.delete(&Node::TYPE, "n1").await;
    seconds(25).await;
    assert_eq!(world.written(), "");
    seconds(10).await;
    assert_eq!(world.written(), "PATCH pods/a/status\nDELETE pods/a");
}
