//! The whole against the embedded API server, under virtual time.

use std::time::Duration;

use api::Resource;
use api::kinds::{Node, Pod};
use expect_test::expect;
use runtime::informer::StreamOptions;
use runtime::{Informers, Stop};
use serde_json::json;

use super::super::controller;
use super::*;

async fn ready_of(world: &World, pod: &str) -> String {
    let pod = world.get(&Pod::TYPE, pod).await.unwrap();
    let ready = &pod["status"]["conditions"][0];
    assert_eq!(ready["type"], "Ready");
    ready["status"].as_str().unwrap().to_owned()
}

/// Two nodes of which `b` stops posting status after a while; a pod on each.
async fn with_silent_node() -> World {
    let world = world().await;
    for name in ["a", "b"] {
        make_node(&world, name, json!({})).await;
        make_pod(&world, &format!("on-{name}"), name).await;
    }
    pass(&world, 20, &["a", "b"]).await;
    expect![[r#"
        PATCH nodes/a
        PATCH nodes/b"#]]
    .assert_eq(&world.written());
    assert_eq!(taints(&world, "b").await, "", "the taint of birth is gone");
    pass(&world, 50, &["a"]).await;
    world
}

// Upstream: TestMonitorNodeHealthUpdateStatus, TestApplyNoExecuteTaints, TestMonitorNodeHealthMarkPodsNotReady.
#[tokio::test(start_paused = true)]
async fn a_silent_node_becomes_unknown_and_its_pods_unready() {
    let world = with_silent_node().await;
    assert_eq!(world.written(), "", "it still has its grace period");
    pass(&world, 10, &["a"]).await;
    expect!["MemoryPressure=Unknown(NodeStatusUnknown) DiskPressure=Unknown(NodeStatusUnknown) PIDPressure=Unknown(NodeStatusUnknown) Ready=Unknown(NodeStatusUnknown)"]
        .assert_eq(&conditions(&world, "b").await);
    assert_eq!(
        taints(&world, "b").await,
        "unreachable:NoExecute unreachable:NoSchedule"
    );
    assert_eq!(
        (
            ready_of(&world, "on-a").await,
            ready_of(&world, "on-b").await
        ),
        ("True".into(), "False".into())
    );
    assert_eq!(taints(&world, "a").await, "");
    let mut events = world.events().await;
    events.sort();
    expect![[r#"
        Normal NodeNotReady Node b status is now: NodeNotReady
        Normal RegisteredNode Node a event: Registered Node a in Controller
        Normal RegisteredNode Node b event: Registered Node b in Controller
        Warning NodeNotReady Node is not ready"#]]
    .assert_eq(&events.join("\n"));
    world.writes();
    pass(&world, 300, &["a"]).await;
    assert_eq!(world.written(), "", "what is said is said");
}

#[tokio::test(start_paused = true)]
async fn what_is_written_about_a_silent_node() {
    let world = with_silent_node().await;
    let before = world.get(&Node::TYPE, "b").await.unwrap();
    pass(&world, 10, &["a"]).await;
    let writes = world.writes();
    let lines: Vec<String> = writes.iter().map(ToString::to_string).collect();
    assert_eq!(lines[0], "PATCH nodes/b/status");
    let now = &writes[0].body["status"]["conditions"][0]["lastTransitionTime"];
    let silent = |type_: &str| {
        json!({
            "type": type_, "status": "Unknown", "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.", "lastTransitionTime": now,
        })
    };
    let order = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"];
    let order = order.map(|type_| json!({"type": type_}));
    let body = json!({
        "metadata": {"resourceVersion": before["metadata"]["resourceVersion"]},
        "status": {"$setElementOrder/conditions": order, "conditions": [
            silent("Ready"), silent("MemoryPressure"), silent("DiskPressure"), silent("PIDPressure"),
        ]},
    });
    assert_eq!(writes[0].body, body);
    let pod = world.get(&Pod::TYPE, "on-b").await.unwrap();
    let marked = writes
        .iter()
        .find(|write| write.to_string() == "PATCH pods/on-b/status");
    let body = json!({
        "metadata": {"uid": pod["metadata"]["uid"]},
        "status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": now}]},
    });
    assert_eq!(marked.unwrap().body, body);
    let mut sorted = lines.clone();
    sorted.sort();
    // One of them may find the node changed by the other.
    sorted.retain(|line| !line.ends_with("409"));
    assert_eq!(
        sorted,
        [
            "PATCH nodes/b",
            "PATCH nodes/b",
            "PATCH nodes/b/status",
            "PATCH pods/on-b/status"
        ]
    );
    let node = world.get(&Node::TYPE, "b").await.unwrap();
    let heartbeats = |node: &Value| node["status"]["conditions"][3]["lastHeartbeatTime"].clone();
    assert_eq!(
        heartbeats(&node),
        heartbeats(&before),
        "we did not hear of it"
    );
    assert_eq!(node["spec"]["taints"][0]["timeAdded"], *now);
}

/// The manager that wrote so ended before it marked them.
#[tokio::test(start_paused = true)]
async fn pods_of_a_node_that_is_unknown_at_first_sight_are_marked() {
    let world = world().await;
    make_node(&world, "b", json!({})).await;
    make_pod(&world, "on-b", "b").await;
    let unknown = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    world
        .patch_subresource(&Node::TYPE, "b", Some("status"), unknown)
        .await;
    pass(&world, 10, &[]).await;
    assert_eq!(ready_of(&world, "on-b").await, "False");
}

// Upstream: TestApplyNoExecuteTaints (the node recovers), TestSwapUnreachableNotReadyTaints.
#[tokio::test(start_paused = true)]
async fn a_node_that_speaks_again_is_as_before() {
    let world = with_silent_node().await;
    pass(&world, 10, &["a"]).await;
    report(&world, "b", "True").await;
    pass(&world, 10, &["a", "b"]).await;
    assert_eq!(taints(&world, "b").await, "");
    world.writes();
    pass(&world, 100, &["a", "b"]).await;
    assert_eq!(world.written(), "");
}

// Upstream: TestSwapUnreachableNotReadyTaints.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_down_in_another_way_changes_its_taint_at_once() {
    let world = with_silent_node().await;
    pass(&world, 10, &["a"]).await;
    assert_eq!(
        taints(&world, "b").await,
        "unreachable:NoExecute unreachable:NoSchedule"
    );
    report(&world, "b", "False").await;
    pass(&world, 10, &["a", "b"]).await;
    assert_eq!(
        taints(&world, "b").await,
        "not-ready:NoExecute not-ready:NoSchedule"
    );
    let pod = ready_of(&world, "on-b").await;
    assert_eq!(pod, "False");
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_is_not_ready_itself_looks_after_its_pods_itself() {
    let world = world().await;
    for name in ["a", "b"] {
        make_node(&world, name, json!({})).await;
    }
    make_pod(&world, "on-b", "b").await;
    pass(&world, 10, &["a", "b"]).await;
    report(&world, "b", "False").await;
    pass(&world, 10, &["a", "b"]).await;
    assert_eq!(
        taints(&world, "b").await,
        "not-ready:NoExecute not-ready:NoSchedule"
    );
    assert_eq!(ready_of(&world, "on-b").await, "True");
    // Upstream: TestProcessPodMarkPodNotReady.
    let late = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "late"},
        "spec": {"containers": [{"name": "c", "image": "nginx"}]},
    });
    world.create(&Pod::TYPE, late).await;
    world.make_ready("late").await;
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "late"},
        "target": {"kind": "Node", "name": "b"},
    });
    world
        .user
        .create_subresource(
            &Pod::TYPE,
            "default",
            "late",
            "binding",
            binding.to_string(),
        )
        .await
        .unwrap();
    pass(&world, 5, &["a", "b"]).await;
    let late = world.get(&Pod::TYPE, "late").await.unwrap();
    let conditions = late["status"]["conditions"].as_array().unwrap();
    let ready = conditions.iter().find(|held| held["type"] == "Ready");
    assert_eq!(ready.unwrap()["status"], "False");
}

// Upstream: TestProcessPodMarkPodNotReady.
#[tokio::test(start_paused = true)]
async fn a_pod_of_a_node_that_nobody_has_looked_at_yet_is_left_alone() {
    let mut world = World::new().await;
    make_namespace(&world).await;
    let loops = controller(&world.context(), settings());
    let running = runtime::Runnable::from(loops.pods).run(world.stop());
    world.run(running);
    world.start().await;
    make_node(&world, "a", json!({})).await;
    report(&world, "a", "False").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    make_pod(&world, "on-a", "a").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.written(), "");
    assert_eq!(ready_of(&world, "on-a").await, "True");
}

// Upstream: TestMonitorNodeHealthUpdateStatus (never reported).
#[tokio::test(start_paused = true)]
async fn a_node_that_never_reports_is_told_so() {
    let world = world().await;
    make_node(&world, "a", json!({})).await;
    let born = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "mute"}});
    let born = world.create(&Node::TYPE, born).await;
    pass(&world, 55, &["a"]).await;
    let mute = world.get(&Node::TYPE, "mute").await.unwrap();
    assert_eq!(mute["status"]["conditions"], Value::Null);
    pass(&world, 15, &["a"]).await;
    expect!["Ready=Unknown(NodeStatusNeverUpdated) MemoryPressure=Unknown(NodeStatusNeverUpdated) DiskPressure=Unknown(NodeStatusNeverUpdated) PIDPressure=Unknown(NodeStatusNeverUpdated)"]
        .assert_eq(&conditions(&world, "mute").await);
    let mute = world.get(&Node::TYPE, "mute").await.unwrap();
    let ready = &mute["status"]["conditions"][0];
    assert_eq!(ready["message"], "Kubelet never posted node status.");
    assert_eq!(
        ready["lastHeartbeatTime"],
        born["metadata"]["creationTimestamp"]
    );
    assert_eq!(
        taints(&world, "mute").await,
        "not-ready:NoSchedule unreachable:NoExecute unreachable:NoSchedule"
            .replace("not-ready:NoSchedule ", "")
    );
}

// Upstream: TestNodeEventGeneration.
#[tokio::test(start_paused = true)]
async fn added_and_deleted_nodes_are_reported() {
    let world = world().await;
    make_node(&world, "a", json!({})).await;
    pass(&world, 10, &["a"]).await;
    world.delete(&Node::TYPE, "a").await;
    pass(&world, 10, &[]).await;
    let events = world.events().await.join("\n");
    assert!(
        events.contains("Normal RemovingNode Node a event: Removing Node a from Controller"),
        "{events}"
    );
}

// Upstream: TestMonitorNodeHealthMarkPodsNotReadyRetry.
#[tokio::test(start_paused = true)]
async fn pods_that_could_not_be_marked_are_tried_again() {
    let world = with_silent_node().await;
    make_pod(&world, "on-b-too", "b").await;
    world.refuse("PATCH", "/pods/on-b/status", 409, 1);
    world.refuse("PATCH", "/pods/on-b/status", 500, 100);
    pass(&world, 10, &["a"]).await;
    assert_eq!(
        (
            ready_of(&world, "on-b").await,
            ready_of(&world, "on-b-too").await
        ),
        ("True".into(), "False".into())
    );
    pass(&world, 600, &["a"]).await;
    assert_eq!(ready_of(&world, "on-b").await, "False");
}

// Upstream: TestTryUpdateNodeHealth, the retries of TestMonitorNodeHealth.
#[tokio::test(start_paused = true)]
async fn a_status_that_cannot_be_written_is_tried_again() {
    let world = with_silent_node().await;
    world.refuse("PATCH", "/nodes/b/status", 409, 1);
    pass(&world, 10, &["a"]).await;
    assert!(
        conditions(&world, "b")
            .await
            .ends_with("Ready=Unknown(NodeStatusUnknown)")
    );
    assert_eq!(ready_of(&world, "on-b").await, "False");
    let world = with_silent_node().await;
    world.refuse("PATCH", "/nodes/b/status", 500, 6);
    pass(&world, 10, &["a"]).await;
    assert_eq!(
        taints(&world, "b").await,
        "",
        "whose health is unknown is left alone"
    );
    pass(&world, 10, &["a"]).await;
    assert_eq!(
        taints(&world, "b").await,
        "unreachable:NoExecute unreachable:NoSchedule"
    );
    assert_eq!(ready_of(&world, "on-b").await, "False");
}

// Upstream: TestAddOrUpdateTaintOnNode, TestRemoveTaintOffNode.
#[tokio::test(start_paused = true)]
async fn a_node_that_others_write_to_gets_its_taints_all_the_same() {
    let world = world().await;
    make_node(&world, "a", json!({"kubernetes.io/os": "linux"})).await;
    pass(&world, 5, &["a"]).await;
    world.writes();
    world.refuse("PATCH", "/nodes/a", 409, 4);
    world
        .patch(&Node::TYPE, "a", json!({"spec": {"unschedulable": true}}))
        .await;
    pass(&world, 5, &["a"]).await;
    assert_eq!(taints(&world, "a").await, "unschedulable:NoSchedule");
    expect![[r#"
        PATCH nodes/a -> 409 ×4
        PATCH nodes/a"#]]
    .assert_eq(&world.written());
    let node = world.get(&Node::TYPE, "a").await.unwrap();
    assert_eq!(node["metadata"]["labels"]["beta.kubernetes.io/os"], "linux");
    world
        .patch(&Node::TYPE, "a", json!({"spec": {"unschedulable": null}}))
        .await;
    pass(&world, 5, &["a"]).await;
    assert_eq!(taints(&world, "a").await, "");
}

/// A taint that meets a conflict is tried again on the node as it is by then.
#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_while_its_taint_is_tried_gets_none() {
    let world = with_silent_node().await;
    // Both the taint that keeps new pods away and the one that drives the others away.
    world.refuse("PATCH", "/nodes/b", 409, 2);
    let is_refused = |write: &testkit::Write| write.to_string() == "PATCH nodes/b -> 409";
    let mut refused = 0;
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        refused += world
            .writes()
            .iter()
            .filter(|write| is_refused(write))
            .count();
        if refused == 2 {
            break;
        }
    }
    assert_eq!(refused, 2, "it was to be tainted");
    report(&world, "b", "True").await;
    for _ in 0..40 {
        beat(&world, "b").await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(taints(&world, "b").await, "");
    }
}

/// A new process has seen nobody: everyone has their whole time, and pods stay until it is over.
#[tokio::test(start_paused = true)]
async fn a_restarted_controller_gives_everyone_their_time_again() {
    let mut world = with_silent_node().await;
    pass(&world, 10, &["a"]).await;
    make_node(&world, "c", json!({})).await;
    pass(&world, 30, &["a", "c"]).await;
    world.shut_down();
    world.writes();
    let stream = StreamOptions {
        rng: world.rng.fork(),
        resync: None,
    };
    let informers = std::sync::Arc::new(Informers::new(world.client.clone(), stream));
    let (_stopper, stop) = Stop::new();
    let context = runtime::Context {
        informers: informers.clone(),
        ..world.context()
    };
    let parts = controller(&context, settings()).into_runnables();
    let _running: Vec<_> = parts
        .into_iter()
        .map(|part| runtime::spawn(part.run(stop.clone())))
        .collect();
    informers.start(&stop);
    tokio::time::sleep(Duration::from_secs(1)).await;
    // UPSTREAM: it is taken off and, because the node still says Unknown, put on when the rate limit allows.
    assert_eq!(world.written(), "PATCH nodes/b ×2");
    assert_eq!(
        taints(&world, "b").await,
        "unreachable:NoExecute unreachable:NoSchedule"
    );
    pass(&world, 45, &["a"]).await;
    assert_eq!(world.written(), "", "c has its time from now on");
    pass(&world, 10, &["a"]).await;
    assert!(
        conditions(&world, "c")
            .await
            .ends_with("Ready=Unknown(NodeStatusUnknown)")
    );
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_makes_no_node_silent_and_hides_none() {
    for jump in [3600, -3600] {
        let world = world().await;
        make_node(&world, "a", json!({})).await;
        make_node(&world, "b", json!({})).await;
        pass(&world, 20, &["a", "b"]).await;
        world.written();
        world.jump(jump);
        // Not even the next heartbeat has come when all nodes are looked at.
        pass(&world, 6, &[]).await;
        pass(&world, 60, &["a"]).await;
        assert_eq!(taints(&world, "a").await, "", "{jump} s");
        assert_eq!(
            taints(&world, "b").await,
            "unreachable:NoExecute unreachable:NoSchedule",
            "{jump} s"
        );
    }
}
