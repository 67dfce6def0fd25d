//! The invariants tell right from wrong.

use std::sync::Arc;

use api::kinds::Node;
use expect_test::{Expect, expect};

use super::super::{converged, safe};
use super::node;

const UNREACHABLE: &str = "taint=node.kubernetes.io/unreachable:NoExecute";
const NOT_READY: &str = "taint=node.kubernetes.io/not-ready:NoExecute";

fn told(outcome: Result<(), String>) -> String {
    outcome.err().unwrap_or_else(|| "fine".into())
}

fn check_safe(before: &str, after: &str, expected: Expect) {
    let outcome = safe(&node(&format!("a {before}")), &node(&format!("a {after}")));
    expected.assert_eq(&told(outcome));
}

#[test]
fn a_write_is_safe_or_not() {
    check_safe("Ready=Unknown", UNREACHABLE, expect!["fine"]);
    check_safe(
        "Ready=True",
        UNREACHABLE,
        expect!["node a is ready and got the taint node.kubernetes.io/unreachable:NoExecute"],
    );
    check_safe(
        &format!("Ready=Unknown {NOT_READY}"),
        &format!("{NOT_READY} {UNREACHABLE}"),
        expect!["node a is both not ready and unreachable"],
    );
    check_safe(
        "Ready=Unknown taint=mine:NoExecute",
        "Ready=Unknown",
        expect!["node a lost the taint mine:NoExecute, which is somebody else's"],
    );
}

fn check_converged(nodes: &[&str], heard: bool, expected: Expect) {
    let nodes: Vec<Arc<Node>> = nodes.iter().map(|text| Arc::new(node(text))).collect();
    expected.assert_eq(&told(converged(&nodes, |_| heard, |_| false)));
}

#[test]
fn nodes_have_converged_or_not() {
    let scheduling = "taint=node.kubernetes.io/unreachable:NoSchedule";
    let down = format!("b Ready=Unknown {scheduling} {UNREACHABLE}");
    check_converged(&["a Ready=True", &down], true, expect!["fine"]);
    check_converged(
        &["a Ready=True"],
        false,
        expect!["the kubelet of node a stopped posting status, and it still says Ready=True"],
    );
    let waiting = format!("b Ready=Unknown {scheduling}");
    check_converged(
        &["a Ready=True", &waiting],
        true,
        expect![[
            r#"node b has the taints {"unreachable:NoSchedule"} and should have {"unreachable:NoExecute", "unreachable:NoSchedule"}"#
        ]],
    );
    check_converged(&[&waiting], true, expect!["fine"]);
    check_converged(
        &["a Ready=True cordoned"],
        true,
        expect![[r#"node a has the taints {} and should have {"unschedulable:NoSchedule"}"#]],
    );
    check_converged(
        &[&format!("a Ready=True {NOT_READY}")],
        true,
        expect![[r#"node a has the taints {"not-ready:NoExecute"} and should have {}"#]],
    );
}

#[test]
fn nodes_of_a_zone_that_is_partly_down_keep_the_taints_they_have() {
    let scheduling = "taint=node.kubernetes.io/unreachable:NoSchedule";
    let down = |name: &str| format!("{name} Ready=Unknown {scheduling}");
    let (b, c, d) = (down("b"), down("c"), down("d"));
    check_converged(&["a Ready=True", &b, &c, &d], true, expect!["fine"]);
    check_converged(
        &["a Ready=True", "e Ready=True", &b, &c],
        true,
        expect![[
            r#"node b has the taints {"unreachable:NoSchedule"} and should have {"unreachable:NoExecute", "unreachable:NoSchedule"}"#
        ]],
    );
}
