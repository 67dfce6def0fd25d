//! Taints and labels that follow from what a node says.

use api::Time;
use expect_test::{Expect, expect};

use super::super::taints::{self, Change};
use super::super::writes::scheduling_patch;
use super::node;

fn short(change: &Change) -> String {
    change.to_string().replace("node.kubernetes.io/", "")
}

fn check(text: &str, expected: Expect) {
    expected.assert_eq(&short(&taints::scheduling(&node(text))));
}

// Upstream: TestTaintsNodeByCondition.
#[test]
fn new_pods_stay_away_from_nodes_in_trouble() {
    check("a Ready=True", expect!["keeps its taints"]);
    check(
        "a Ready=False",
        expect!["taints it with not-ready:NoSchedule"],
    );
    check(
        "a Ready=Unknown",
        expect!["taints it with unreachable:NoSchedule"],
    );
    check(
        "a Ready=True MemoryPressure=True DiskPressure=True PIDPressure=True NetworkUnavailable=True",
        expect![
            "taints it with memory-pressure:NoSchedule, disk-pressure:NoSchedule, pid-pressure:NoSchedule, network-unavailable:NoSchedule"
        ],
    );
    check(
        "a Ready=True MemoryPressure=Unknown",
        expect!["keeps its taints"],
    );
    check(
        "a cordoned",
        expect!["taints it with unschedulable:NoSchedule"],
    );
}

#[test]
fn taints_go_with_the_trouble_and_others_stay() {
    let held = "taint=node.kubernetes.io/unreachable:NoSchedule taint=mine:NoSchedule";
    check(
        &format!("a Ready=False {held}"),
        expect!["taints it with not-ready:NoSchedule instead of unreachable:NoSchedule"],
    );
    check(
        &format!("a Ready=True {held}"),
        expect!["takes the taint unreachable:NoSchedule away"],
    );
    check(
        &format!("a Ready=Unknown {held}"),
        expect!["keeps its taints"],
    );
    check(
        "a taint=node.kubernetes.io/unschedulable:NoSchedule taint=node.kubernetes.io/unreachable:NoExecute",
        expect!["takes the taint unschedulable:NoSchedule away"],
    );
    check(
        "a Ready=True taint=node.kubernetes.io/disk-pressure:PreferNoSchedule taint=node.kubernetes.io/other:NoSchedule",
        expect!["keeps its taints"],
    );
}

// Upstream: TestAddOrUpdateTaintOnNode, TestRemoveTaintOffNode.
#[test]
fn a_change_of_taints_touches_nothing_else() {
    let applied = |text: &str, change: &Change| {
        let now = Time::from_unix(7);
        let after = change.applied(&node(text).spec.taints, now)?;
        let line: Vec<String> = after
            .iter()
            .map(|taint| {
                let at = taint
                    .time_added
                    .map_or("".into(), |at| format!("@{}", at.unix()));
                format!("{taint}{at}").replace("node.kubernetes.io/", "")
            })
            .collect();
        Some(line.join(" "))
    };
    let down = taints::eviction(&"Unknown".into()).unwrap();
    let other = "taint=b:NoSchedule";
    assert_eq!(
        applied(&format!("a {other}"), &down).as_deref(),
        Some("b:NoSchedule unreachable:NoExecute@7")
    );
    assert_eq!(
        applied(
            &format!("a taint=node.kubernetes.io/not-ready:NoExecute {other}"),
            &down
        )
        .as_deref(),
        Some("b:NoSchedule unreachable:NoExecute@7")
    );
    assert_eq!(
        applied("a taint=node.kubernetes.io/unreachable:NoExecute", &down),
        None
    );
    assert_eq!(
        applied("a taint=node.kubernetes.io/unreachable:NoSchedule", &down).as_deref(),
        Some("unreachable:NoSchedule unreachable:NoExecute@7"),
        "the same key with another effect is another taint"
    );
    let up = taints::REACHABLE.clone();
    assert_eq!(applied(&format!("a {other}"), &up), None);
    assert_eq!(applied("a", &up), None);
    assert_eq!(
        applied("a taint=node.kubernetes.io/unreachable:NoExecute taint=node.kubernetes.io/not-ready:NoExecute", &up)
            .as_deref(),
        Some("")
    );
    assert_eq!(taints::eviction(&"True".into()), None);
}

// Upstream: TestReconcileNodeLabels.
#[test]
fn old_labels_say_what_the_new_ones_say() {
    let labels = |text: &str| {
        let found = taints::labels(&node(&format!("a {text}")).metadata.labels);
        let all: Vec<String> = found
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        all.join(" ")
    };
    let both = "label=kubernetes.io/os=linux label=kubernetes.io/arch=arm64";
    assert_eq!(labels(""), "");
    assert_eq!(
        labels("label=beta.kubernetes.io/os=linux"),
        "",
        "the new name is the one that counts"
    );
    assert_eq!(
        labels(both),
        "beta.kubernetes.io/os=linux beta.kubernetes.io/arch=arm64"
    );
    assert_eq!(
        labels(&format!(
            "{both} label=beta.kubernetes.io/os=windows label=beta.kubernetes.io/arch=arm64"
        )),
        "beta.kubernetes.io/os=linux"
    );
}

#[test]
fn one_patch_says_it_all() {
    let patch = |text: &str| scheduling_patch(&node(text), Time::from_unix(0));
    assert_eq!(patch("a Ready=True"), None);
    expect![[r#"{"metadata":{"labels":{"beta.kubernetes.io/os":"linux"}},"spec":{"taints":[{"effect":"NoExecute","key":"b"},{"effect":"NoSchedule","key":"node.kubernetes.io/not-ready","timeAdded":"1970-01-01T00:00:00Z"}]}}"#]]
        .assert_eq(&patch("a Ready=False taint=b:NoExecute label=kubernetes.io/os=linux").unwrap().to_string());
    expect![[r#"{"spec":{"taints":[]}}"#]].assert_eq(
        &patch("a Ready=True taint=node.kubernetes.io/not-ready:NoSchedule")
            .unwrap()
            .to_string(),
    );
}

#[test]
fn zones_are_distinguished_by_old_and_new_labels() {
    let zone = |text: &str| taints::zone(&node(&format!("a {text}"))).replace('\0', "0");
    assert_eq!(zone(""), "");
    assert_eq!(zone("label=topology.kubernetes.io/zone=z"), ":0:z");
    assert_eq!(
        zone(
            "label=topology.kubernetes.io/region=r label=failure-domain.beta.kubernetes.io/zone=old label=topology.kubernetes.io/zone=z"
        ),
        "r:0:old"
    );
}
