//! Plans first, then the whole against the embedded API server.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::kinds::{Node, Pod};
use api::{Istr, Resource, Time};
use expect_test::{Expect, expect};
use serde_json::json;
use testkit::World;

use super::{controller, plan};

/// `name:phase,age` with facts `on=N`, `deleting`, `evicted`.
fn pod(text: &str) -> Arc<Pod> {
    let (name, facts) = text.split_once(':').unwrap();
    let mut object = json!({"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": {}, "status": {}});
    for fact in facts.split(',') {
        match fact.split_once('=') {
            Some(("on", node)) => object["spec"]["nodeName"] = json!(node),
            Some(("born", second)) => {
                let at = Time::from_unix(second.parse().unwrap());
                object["metadata"]["creationTimestamp"] = json!(at);
            }
            _ if fact == "deleting" => {
                object["metadata"]["deletionTimestamp"] = json!(Time::from_unix(1));
            }
            _ if fact == "evicted" => object["status"]["reason"] = json!("Evicted"),
            _ => object["status"]["phase"] = json!(fact),
        }
    }
    Arc::new(Pod::decode(object.to_string().as_bytes()).unwrap())
}

fn node(name: &str, ready: &str, taint: &str) -> Arc<Node> {
    let object = json!({
        "metadata": {"name": name},
        "spec": {"taints": [{"key": taint, "effect": "NoExecute"}]},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    });
    Arc::new(Node::decode(object.to_string().as_bytes()).unwrap())
}

fn collected(pods: &str, nodes: &[Arc<Node>], gone: &[&str], threshold: usize) -> String {
    let pods: Vec<_> = pods.split_whitespace().map(pod).collect();
    let gone = gone.iter().map(|name| Istr::new(name)).collect();
    let lines: Vec<String> = plan(&pods, nodes, &gone, threshold)
        .iter()
        .map(|one| format!("{} {}", one.pod.metadata.name, one.reason.label()))
        .collect();
    lines.join(", ")
}

fn check(pods: &str, nodes: &[Arc<Node>], gone: &[&str], threshold: usize, expected: Expect) {
    expected.assert_eq(&collected(pods, nodes, gone, threshold));
}

// Upstream: TestGCTerminated.
#[test]
fn finished_pods_beyond_the_threshold_go_oldest_first() {
    let pods = "a:Failed,born=3 b:Succeeded,born=1 c:Running,born=0 d:Failed,born=2";
    check(pods, &[], &[], 0, expect![""]);
    check(pods, &[], &[], 1, expect!["b terminated, d terminated"]);
    check(pods, &[], &[], 3, expect![""]);
    check(
        "a:Failed,born=1 b:Failed,born=9,evicted c:Failed,born=1",
        &[],
        &[],
        1,
        expect!["b terminated, a terminated"],
    );
}

// Upstream: TestGCTerminating.
#[test]
fn terminating_pods_of_a_node_out_of_service_go() {
    let taint = "node.kubernetes.io/out-of-service";
    let pods = "a:Running,on=n,deleting b:Running,on=n c:Running,on=other,deleting";
    check(
        pods,
        &[node("n", "False", taint)],
        &[],
        0,
        expect!["a out-of-service"],
    );
    check(pods, &[node("n", "True", taint)], &[], 0, expect![""]);
    check(
        pods,
        &[node("n", "Unknown", taint), node("other", "False", "")],
        &[],
        0,
        expect!["a out-of-service"],
    );
    // Whatever the phase of the pod, and whatever effect and value the taint has.
    let phases = "a:Pending,on=n b:Unknown,on=n c:Pending,on=n,deleting d:Running,on=n,deleting e:Failed,on=n,deleting f:Succeeded,on=n,deleting";
    let expected = "c out-of-service, d out-of-service, e out-of-service, f out-of-service";
    for effect in ["NoExecute", "NoSchedule", "PreferNoSchedule"] {
        for value in ["", "any-value"] {
            let mut node = (*node("n", "False", taint)).clone();
            node.spec.taints[0].effect = effect.into();
            node.spec.taints[0].value = value.into();
            let collected = collected(phases, &[Arc::new(node)], &[], 0);
            assert_eq!(collected, expected, "{effect} {value}");
        }
    }
    check(pods, &[node("n", "False", "other")], &[], 0, expect![""]);
}

// Upstream: TestGCOrphaned, TestGCUnscheduledTerminating.
#[test]
fn pods_without_a_node_go_once() {
    check(
        "a:Running,on=x b:Failed,on=x,deleting c:Pending,deleting d:Pending e:Running,on=y",
        &[],
        &["x"],
        0,
        expect!["a orphaned, b orphaned, c unscheduled"],
    );
    check(
        "a:Failed,on=x b:Failed,on=y",
        &[],
        &["x"],
        1,
        expect!["a terminated"],
    );
}

// Upstream: TestGCTerminating, TestGCUnscheduledTerminating, TestGCOrphaned, TestGCTerminated. Only what has not ended yet
// is said to have failed.
#[tokio::test(start_paused = true)]
async fn pods_that_have_ended_are_deleted_as_they_are() {
    let world = world().await;
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
        "spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]},
    });
    world.create(&Node::TYPE, node).await;
    for (name, phase) in [("a", "Running"), ("b", "Failed"), ("c", "Succeeded")] {
        for (node, prefix) in [("n1", "tainted"), ("gone", "orphan"), ("", "unbound")] {
            let mut pod = running_pod(&format!("{prefix}-{name}"));
            pod["spec"]["nodeName"] = json!(node);
            pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
            world.create(&Pod::TYPE, pod).await;
            let name = format!("{prefix}-{name}");
            world.pod_status(&name, json!({"phase": phase})).await;
            if prefix != "orphan" {
                world.delete(&Pod::TYPE, &name).await;
            }
        }
    }
    tokio::time::sleep(Duration::from_secs(90)).await;
    let writes = world.writes();
    let of = |method: &str| {
        let written = writes.iter().filter(|write| write.method == method);
        let names: BTreeSet<&str> = written
            .filter_map(|write| write.path.split("/pods/").nth(1))
            .map(|path| path.trim_end_matches("/status"))
            .collect();
        names.into_iter().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(of("PATCH"), "orphan-a tainted-a unbound-a");
    assert_eq!(
        of("DELETE"),
        "orphan-a orphan-b orphan-c tainted-a tainted-b tainted-c unbound-a unbound-b unbound-c"
    );
    let told = |name: &str| {
        let path = format!("/pods/{name}/status");
        let write = writes.iter().find(|write| write.path.ends_with(&path));
        write.unwrap().body["status"]["conditions"].clone()
    };
    assert_eq!(told("tainted-a"), json!(null), "it says no more than that");
    assert_eq!(told("unbound-a"), json!(null));
    assert_eq!(told("orphan-a")[0]["type"], "DisruptionTarget");
}

async fn world() -> World {
    let mut world = World::new().await;
    let context = world.context();
    let running = controller(&context, 2).run(world.stop());
    world.run(running);
    world.start().await;
    world
}

fn running_pod(name: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "nginx"}]},
    })
}

// Upstream: TestGCOrphaned.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_gone_takes_its_pods_along_after_a_while() {
    let world = world().await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    world.create(&Node::TYPE, node).await;
    world.create(&Pod::TYPE, running_pod("p")).await;
    world.make_ready("p").await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(world.written(), "");
    world.delete(&Node::TYPE, "n1").await;
    tokio::time::sleep(Duration::from_secs(39)).await;
    assert_eq!(world.written(), "", "quarantine");
    tokio::time::sleep(Duration::from_secs(45)).await;
    let writes = world.writes();
    assert_eq!(writes[0].to_string(), "PATCH pods/p/status");
    let status = &writes[0].body["status"];
    assert_eq!(status["phase"], "Failed");
    let condition = &status["conditions"][0];
    assert_eq!(condition["type"], "DisruptionTarget");
    assert_eq!(condition["status"], "True");
    assert_eq!(condition["reason"], "DeletionByPodGC");
    assert_eq!(condition["message"], "PodGC: node no longer exists");
    assert_eq!(writes[1].to_string(), "DELETE pods/p");
    assert_eq!(writes[1].body["gracePeriodSeconds"], 0);
    assert_eq!(writes.len(), 2);
    assert!(world.pod_names().await.is_empty());
}

// Upstream: TestGCOrphaned (nodes that the cache lacks).
#[tokio::test(start_paused = true)]
async fn a_node_that_only_the_server_knows_keeps_its_pods() {
    let world = world().await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    world.create(&Node::TYPE, node).await;
    for (name, phase) in [("a", "Running"), ("b", "Failed"), ("c", "Succeeded")] {
        world.create(&Pod::TYPE, running_pod(name)).await;
        world.pod_status(name, json!({"phase": phase})).await;
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    world.informers.of::<Node>().store().remove("", "n1");
    world.writes();
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(world.written(), "");
    assert!(world.reads_of("/nodes/n1") > 0, "the server is asked");
    world.delete(&Node::TYPE, "n1").await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(world.pod_names().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_a_missing_node_says_until_when_it_stays() {
    let mut world = World::new().await;
    let context = world.context();
    let decisions = context.decisions.clone();
    let running = controller(&context, 2).run(world.stop());
    world.run(running);
    world.start().await;
    world.create(&Pod::TYPE, running_pod("p")).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let told = decisions.get("test-controller", &api::Key::new("default", "p"));
    let lines: Vec<String> = told
        .iter()
        .flat_map(|decision| decision.lines.iter().map(ToString::to_string))
        .collect();
    assert_eq!(
        lines,
        [
            "is deleted at 2024-01-01T00:01:00Z: its node is missing; it is kept if the node comes back"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_in_time_keeps_its_pods() {
    let world = world().await;
    world.create(&Pod::TYPE, running_pod("p")).await;
    tokio::time::sleep(Duration::from_secs(25)).await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    world.create(&Node::TYPE, node).await;
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_shortens_and_lengthens_nothing() {
    for jump in [3600, -3600] {
        let world = world().await;
        world.create(&Pod::TYPE, running_pod("p")).await;
        world.make_ready("p").await;
        tokio::time::sleep(Duration::from_secs(25)).await;
        world.jump(jump);
        tokio::time::sleep(Duration::from_secs(14)).await;
        assert_eq!(world.written(), "", "{jump} s");
        tokio::time::sleep(Duration::from_secs(45)).await;
        assert_eq!(world.written(), "PATCH pods/p/status\nDELETE pods/p");
    }
}
