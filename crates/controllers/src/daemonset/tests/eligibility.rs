//! Which nodes fit.

use api::{Gate, Gates, Resource};

use super::super::Eligibility;
use super::{node, set};

/// The verdict: `runs`, `stays` or `leaves`.
fn check(set_text: &str, node_text: &str, expected: &str) {
    let set = set(set_text);
    let verdict = Eligibility::new(&set, Gates::default()).verdict(&node(node_text));
    let word = match (verdict.should_run(), verdict.may_stay()) {
        (true, _) => "runs",
        (false, true) => "stays",
        (false, false) => "leaves",
    };
    assert_eq!(word, expected, "{set_text} on {node_text}");
}

// Upstream: TestNodeShouldRunDaemonPod, TestNameDaemonSetLaunchesPods, TestBadNameDaemonSetDoesNothing,
// TestNameAndSelectorDaemonSetLaunchesPods, TestInconsistentNameSelectorDaemonSetDoesNothing,
// TestSelectorDaemonSetLaunchesPods, TestBadSelectorDaemonDoesNothing.
#[test]
fn names_and_selectors_choose_nodes() {
    check("", "n1", "runs");
    check("node=n1", "n1", "runs");
    check("node=n2", "n1", "leaves");
    check("selector=disk/ssd", "n1:disk=ssd", "runs");
    check("selector=disk/ssd", "n1:disk=hdd", "leaves");
    check("selector=disk/ssd", "n1", "leaves");
    check("node=n1 selector=disk/ssd", "n1:disk=ssd", "runs");
    check("node=n1 selector=disk/ssd", "n1", "leaves");
    check("node=n2 selector=disk/ssd", "n1:disk=ssd", "leaves");
}

// Upstream: TestTaintedNodeDaemonDoesNotLaunchIntolerantPod, TestTaintedNodeDaemonLaunchesToleratePod,
// TestNodeDaemonLaunchesToleratePod.
#[test]
fn taints_repel_unless_tolerated() {
    check("", "n1:taint=k/NoSchedule", "stays");
    check("", "n1:taint=k/NoExecute", "leaves");
    check("", "n1:taint=k/NoSchedule,taint=j/NoExecute", "leaves");
    check("", "n1:taint=k/PreferNoSchedule", "runs");
    check("tolerate=k", "n1", "runs");
    check("tolerate=k", "n1:taint=k/NoSchedule", "runs");
    check("tolerate=k", "n1:taint=k/NoExecute", "runs");
    check("tolerate=k", "n1:taint=j/NoSchedule", "stays");
    check("selector=disk/ssd", "n1:taint=k/NoSchedule", "leaves");
}

// Upstream: TestNotReadyNodeDaemonLaunchesPod, TestNotReadyNodeDaemonDoesLaunchPod,
// TestUnreachableNodeDaemonLaunchesPod, TestTaintPressureNodeDaemonLaunchesPod,
// TestNetworkUnavailableNodeDaemonLaunchesPod.
#[test]
fn trouble_with_the_node_is_tolerated() {
    for taint in [
        "not-ready/NoExecute",
        "unreachable/NoExecute",
        "disk-pressure/NoSchedule",
        "memory-pressure/NoSchedule",
        "pid-pressure/NoSchedule",
        "unschedulable/NoSchedule",
    ] {
        check("", &format!("n1:taint=node.kubernetes.io/{taint}"), "runs");
    }
    let unavailable = "n1:taint=node.kubernetes.io/network-unavailable/NoSchedule";
    check("", unavailable, "stays");
    check("hostnetwork", unavailable, "runs");
}

// Upstream: TestNodeAffinityDaemonLaunchesPods, TestNodeShouldRunDaemonPod.
#[test]
fn required_affinity_chooses_nodes() {
    let check = |affinity: serde_json::Value, fits: &str, does_not: &str| {
        let mut set = (*set("")).clone();
        let mut placement = (*set.spec.placement).clone();
        placement.affinity = serde_json::from_value(affinity).unwrap();
        set.spec.placement = placement.into();
        let eligibility = Eligibility::new(&set, Gates::default());
        assert!(eligibility.verdict(&node(fits)).should_run(), "{fits}");
        assert!(!eligibility.verdict(&node(does_not)).may_stay());
    };
    check(super::meant_for("n2"), "n2", "n1");
    let labelled = serde_json::json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [
            {"key": "disk", "operator": "In", "values": ["ssd", "nvme"]},
        ]}],
    }}});
    check(labelled.clone(), "n1:disk=ssd", "n1:disk=hdd");
    check(labelled, "n1:disk=nvme", "n1");
}

// Upstream: TestNodeShouldRunDaemonPod.
#[test]
fn a_node_that_is_cordoned_runs_daemons_all_the_same() {
    let mut cordoned =
        serde_json::json!({"metadata": {"name": "n1"}, "spec": {"unschedulable": true}});
    cordoned["spec"]["taints"] =
        serde_json::json!([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]);
    let cordoned = api::kinds::Node::decode(cordoned.to_string().as_bytes()).unwrap();
    let set = set("");
    let verdict = Eligibility::new(&set, Gates::default()).verdict(&cordoned);
    assert!(verdict.should_run());
}

#[test]
fn tolerations_may_compare_numbers_behind_a_gate() {
    let mut set = (*set("")).clone();
    let mut placement = (*set.spec.placement).clone();
    let toleration =
        serde_json::json!({"key": "k", "operator": "Gt", "value": "5", "effect": "NoSchedule"});
    placement.tolerations = vec![serde_json::from_value(toleration).unwrap()];
    set.spec.placement = placement.into();
    let mut node = (*node("n1:taint=k/NoSchedule")).clone();
    node.spec.taints[0].value = "9".into();
    let verdict = |gates| Eligibility::new(&set, gates).verdict(&node);
    assert!(!verdict(Gates::default()).should_run());
    let gate = Gate::TaintTolerationComparisonOperators;
    assert!(verdict(Gates::default().with(gate, true)).should_run());
}
