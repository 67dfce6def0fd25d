//! Why a node does not take pods, or drives them away.

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
        is ready, but takes no new pods: somebody has cordoned it
        kubectl uncordon node-1"#]],
    );
    check_node(
        "{taints: [{key: gpu, value: 'yes', effect: NoExecute}]}",
        "status: 'True'",
        expect!["is ready; pods that do not tolerate its taints are driven away"],
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
        has never reported: its kubelet may not run
        kubectl describe node node-1"#]],
    );
}

#[test]
fn a_node_that_fell_silent() {
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
about: node//node-1
lines: ['taints it with node.kubernetes.io/unreachable:NoExecute: it is silent']",
        expect![[r#"
            node/node-1: is silent: its kubelet has said nothing since 2026-01-01T11:55:00Z (5m ago); pods that do not tolerate its taints are driven away

            wants       to be ready, and to take pods

            sees        taints node.kubernetes.io/unreachable:NoSchedule, node.kubernetes.io/unreachable:NoExecute

            did         2m ago    taints it with node.kubernetes.io/unreachable:NoExecute: it is silent

            in the way  node/node-1: is short of memory (for 10m)
                        node/node-1: its kubelet has said nothing since 2026-01-01T11:55:00Z (5m ago) (for 4m)

            would help  kubectl describe node node-1
                        shows what it said last; if it is gone for good, delete the Node

            Told by the controllers themselves, at https://here.
        "#]],
    );
}
