//! Why a node takes no pods, or evicts them.

use super::{check, check_verdict};
use expect_test::{Expect, expect};

fn check_node(spec: &str, ready: &str, expected: Expect) {
    let conditions = match ready {
        "" => String::new(),
        ready => format!("{{type: Ready, {ready}}}"),
    };
    let yaml = format!(
        "
kind: Node
metadata: {{name: node-1}}
spec: {spec}
status: {{conditions: [{conditions}]}}"
    );
    check_verdict(&yaml, expected);
}

#[test]
fn nodes_in_one_sentence() {
    check_node("{}", "status: 'True'", expect!["is ready"]);
    check_node(
        "{unschedulable: true}",
        "status: 'True'",
        expect![[r#"
        is ready, but cordoned: it takes no new pods
        kubectl uncordon node-1"#]],
    );
    check_node(
        "{taints: [{key: gpu, value: 'yes', effect: NoExecute}]}",
        "status: 'True'",
        expect!["is ready; pods that do not tolerate its taints are evicted"],
    );
    check_node(
        "{}",
        "status: 'False', message: container runtime is down",
        expect![[r#"
            is not ready: container runtime is down
            kubectl describe node node-1"#]],
    );
    check_node(
        "{}",
        "",
        expect![[r#"
            kubelet never posted status: it may not run
            kubectl describe node node-1"#]],
    );
}

#[test]
fn a_node_whose_kubelet_stopped_posting_status() {
    check(
        "
kind: Node
metadata: {name: node-1}
spec:
  taints:
  - {key: node.kubernetes.io/unreachable, effect: NoSchedule}
  - {key: node.kubernetes.io/unreachable, effect: NoExecute}
status:
  conditions:
  - {type: MemoryPressure, status: 'True', lastTransitionTime: '2026-01-01T11:50:00Z'}
  - {type: Ready, status: Unknown, reason: NodeStatusUnknown, lastHeartbeatTime: '2026-01-01T11:55:00Z', lastTransitionTime: '2026-01-01T11:56:00Z'}
---
controller: node-lifecycle-controller
object: {kind: Node, name: node-1}
lines: [{class: acts, reason: Taints, what: 'taints it with node.kubernetes.io/unreachable:NoExecute', why: its kubelet stopped posting status}]",
        expect![[r#"
            node/node-1: kubelet stopped posting status 5m ago (2026-01-01T11:55:00Z); pods that do not tolerate its taints are evicted

            wants       to be ready, and to take pods

            sees        taints node.kubernetes.io/unreachable:NoSchedule, node.kubernetes.io/unreachable:NoExecute

            did         2m ago    taints it with node.kubernetes.io/unreachable:NoExecute: its kubelet stopped posting status

            in the way  node/node-1: is short of memory (for 10m)

            would help  kubectl describe node node-1
                        shows what it reported last; if it is gone for good, delete the Node

            Source: the controllers themselves, at https://here.
        "#]],
    );
}

/// It reports its status every few minutes, and renews its lease every few seconds.
#[test]
fn the_later_of_status_and_lease_counts() {
    let node = "
kind: Node
metadata: {name: node-1}
status: {conditions: [{type: Ready, status: Unknown, lastHeartbeatTime: '2026-01-01T11:55:00Z'}]}";
    let lease = |renewed: &str| {
        format!(
            "{node}\n---\nkind: Lease\nmetadata: {{name: node-1, namespace: kube-node-lease}}\nspec: {{renewTime: '{renewed}'}}"
        )
    };
    check_verdict(
        &lease("2026-01-01T11:58:20.123456Z"),
        expect![[r#"
            kubelet stopped posting status 100s ago (2026-01-01T11:58:20Z)
            kubectl describe node node-1"#]],
    );
    check_verdict(
        &lease("2026-01-01T11:50:00.000000Z"),
        expect![[r#"
            kubelet stopped posting status 5m ago (2026-01-01T11:55:00Z)
            kubectl describe node node-1"#]],
    );
    let mut unread = super::facts(node);
    unread.could_not_read("Lease", "lease of node/node-1: forbidden".to_owned());
    expect![
        "kubelet last posted node status 5m ago (2026-01-01T11:55:00Z); its lease could not be read"
    ]
    .assert_eq(&crate::explain(&unread).verdict);
}

#[test]
fn pods_on_a_node_that_is_down_name_it() {
    let on = |ready: &str| {
        format!(
            "
kind: Pod
metadata: {{name: web-1, namespace: shop}}
spec: {{nodeName: node-1, containers: [{{name: main, readinessProbe: {{}}}}]}}
status: {{phase: Running, containerStatuses: [{{name: main, ready: false, state: {{running: {{}}}}}}], conditions: [{{type: Ready, status: 'False'}}]}}
---
kind: Node
metadata: {{name: node-1}}
status: {{conditions: [{{type: Ready, {ready}}}]}}"
        )
    };
    check_verdict(
        &on(
            "status: Unknown, lastHeartbeatTime: '2026-01-01T11:57:00Z', lastTransitionTime: '2026-01-01T11:58:00Z'",
        ),
        expect![[r#"
            is not ready: kubelet of node-1 stopped posting status 3m ago (2026-01-01T11:57:00Z) (for 2m)
            kubectl describe node node-1"#]],
    );
    check_verdict(
        &on("status: 'False', message: container runtime is down"),
        expect![[r#"
            is not ready: node node-1 is not ready: container runtime is down
            kubectl describe node node-1"#]],
    );
    check_verdict(
        &on("status: 'True'"),
        expect![[r#"
        container main runs, and its readiness probe has not succeeded yet
        kubectl logs web-1 -c main -n shop"#]],
    );
}

#[test]
fn which_nodes_have_to_be_read() {
    let pod = |name: &str, node: &str, ready: &str| {
        format!(
            "
---
kind: Pod
metadata: {{name: {name}}}
spec: {{nodeName: '{node}'}}
status: {{phase: Running, conditions: [{{type: Ready, status: '{ready}'}}]}}"
        )
    };
    let yaml = [
        "{kind: Deployment, metadata: {name: web}}".to_owned(),
        pod("a", "node-1", "False"),
        pod("b", "node-2", "True"),
        pod("c", "node-3", "False"),
        pod("d", "", "False"),
        "\n---\n{kind: Node, metadata: {name: node-3}, status: {conditions: [{type: Ready, status: Unknown}]}}".to_owned(),
    ];
    let facts = super::facts(&yaml.concat());
    assert!(crate::unknown_nodes_of_pods(&facts).eq(["node-1"]));
    assert!(crate::unreachable_nodes(&facts).eq(["node-3"]));
}

#[test]
fn a_simulated_node_that_was_stopped_can_be_started() {
    super::check_verdict(
        "
kind: Node
metadata: {name: n1, annotations: {steersman.dev/silent: 'true'}}
status: {conditions: [{type: Ready, status: Unknown, lastHeartbeatTime: '2026-01-01T11:50:00Z'}]}",
        expect![[r#"
            kubelet stopped posting status 10m ago (2026-01-01T11:50:00Z)
            steersman node start n1"#]],
    );
}
