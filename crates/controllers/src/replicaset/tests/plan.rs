use api::Gate;
use api::decision::Explain;
use expect_test::{Expect, expect};

use super::super::ranking::age_ratios;
use super::super::{Plan, plan};
use super::{now, snapshot};
use crate::workload::lines::with_class;

/// The plan in a line, its reasons below.
fn check(text: &str, expected: Expect) {
    let snapshot = snapshot(text);
    let plan = plan(&snapshot, 5, now(), || snapshot.active.clone());
    let head = match &plan {
        Plan::Nothing(_) => "nothing".to_string(),
        Plan::Create { count, .. } => format!("create {count}"),
        Plan::Delete { pods, .. } => {
            let names: Vec<&str> = pods.iter().map(|pod| &*pod.metadata.name).collect();
            format!("delete {}", names.join(", "))
        }
    };
    let reasons: Vec<String> = plan
        .explain()
        .into_iter()
        .map(|line| format!("\n  {}", with_class(line)))
        .collect();
    expected.assert_eq(&format!("{head}{}", reasons.concat()));
}

fn deletes(text: &str) -> String {
    let snapshot = snapshot(text);
    let Plan::Delete { pods, .. } = plan(&snapshot, 500, now(), || snapshot.active.clone()) else {
        panic!("{text} deletes nothing");
    };
    let names: Vec<&str> = pods.iter().map(|pod| &*pod.metadata.name).collect();
    names.join(" ")
}

// Upstream: TestSyncReplicaSetDoesNothing, TestDeleteFinalStateUnknown.
#[test]
fn enough_is_enough() {
    check(
        "replicas=2 | a:ready b:ready",
        expect![[r#"
            nothing
              states: has the 2 pods it wants"#]],
    );
}

#[test]
fn says_which_pods_are_awaited() {
    check(
        "replicas=3 | a:ready b:pending c:running",
        expect![[r#"
            nothing
              waits: waits for 2 pods to be available"#]],
    );
}

// Upstream: TestControllerBurstReplicas.
#[test]
fn creates_what_is_missing_up_to_the_burst() {
    check(
        "replicas=3 | a:ready",
        expect![[r#"
            create 2
              acts: creates 2 pods: it has 1 of 3"#]],
    );
    check(
        "replicas=30 |",
        expect![[r#"
            create 5
              acts: creates 5 pods: it has 0 of 30"#]],
    );
}

// Upstream: TestGetPodsToDelete.
#[test]
fn deletes_pending_before_ready() {
    check(
        "replicas=1 | a:ready,10m b:pending c:ready,1m",
        expect![[r#"
            delete b, c
              acts: deletes 2 pods: it has 3 and wants 1
              acts: deletes b: its phase is Pending
              acts: deletes c: n1 has 2 more pods of the workload"#]],
    );
}

// Upstream: TestGetPodsToDelete. Another set of the same workload has a pod on n2, too.
#[test]
fn pods_beside_those_of_a_related_set_go_first() {
    let pods = snapshot("replicas=1 | a:ready,on=n1 b:ready,on=n2");
    let related = snapshot("replicas=0 | a:ready,on=n1 b:ready,on=n2 c:ready,on=n2").active;
    let Plan::Delete { pods, .. } = plan(&pods, 500, now(), || related) else {
        panic!("one pod is too many");
    };
    let names: Vec<&str> = pods.iter().map(|pod| &*pod.metadata.name).collect();
    assert_eq!(names, ["b"]);
}

// Upstream: TestGetPodsToDelete.
#[test]
fn all_go_without_ranking_when_none_is_wanted() {
    check(
        "replicas=0 | a:ready b:pending",
        expect![[r#"
            delete a, b
              acts: deletes 2 pods: it has 2 and wants 0"#]],
    );
}

#[test]
fn the_order_of_deletion() {
    // Unassigned < pending < unknown < running; not ready < ready.
    assert_eq!(
        deletes(
            "replicas=1 | ready:ready running:running unknown:unknown pending:pending free:pending,nonode"
        ),
        "free pending unknown running"
    );
    // Lower cost first; a malformed cost counts as 0.
    assert_eq!(
        deletes("replicas=1 | a:ready,cost=10 b:ready,cost=-5 c:ready,cost=x"),
        "b c"
    );
    // More pods of the workload on the node first.
    assert_eq!(
        deletes("replicas=2 | a:ready,on=n1 b:ready,on=n2 c:ready,on=n2"),
        "b"
    );
    // Ready for less time first, by powers of two of the time.
    assert_eq!(
        deletes("replicas=2 | old:ready,10h,on=a mid:ready,1h,on=b new:ready,1m,on=c"),
        "new"
    );
    // In one bucket the uid decides, not the time.
    assert_eq!(
        deletes("replicas=1 | b:ready,100s,on=a,uid=2 a:ready,101s,on=b,uid=1"),
        "a"
    );
    // More restarts first, of containers and then of sidecars.
    assert_eq!(
        deletes("replicas=1 | a:running,restarts=1 b:running,restarts=3"),
        "b"
    );
    assert_eq!(
        deletes("replicas=2 | a:running,sidecar=9 b:running,restarts=1 c:running,sidecar=3"),
        "b"
    );
    assert_eq!(
        deletes("replicas=1 | a:running,sidecar=3 b:running,sidecar=9"),
        "b"
    );
    // Newer first.
    assert_eq!(
        deletes("replicas=1 | old:running,created=10d new:running,created=1m"),
        "new"
    );
}

// Upstream: TestSortingActivePodsWithRanks, TestSortingActivePods.
#[test]
fn an_earlier_rule_beats_all_later_ones() {
    let first = |one: &str, other: &str| {
        for text in [format!("{one} {other}"), format!("{other} {one}")] {
            assert_eq!(deletes(&format!("replicas=1 | {text}")), "a", "{text}");
        }
    };
    // A lone pod without a node, however old, against a fresh one that restarts.
    first("a:pending,nonode,10d", "b:pending,restarts=9");
    first("a:pending,cost=9", "b:unknown,cost=-9");
    first("a:unknown", "b:running,restarts=9");
    first("a:running,cost=9", "b:ready,cost=-9");
    // A pod that does not say since when it is ready is the youngest of all.
    first("a:ready,nosince", "b:ready,1s");
    first("a:ready,1s", "b:ready,30d");
    first("a:ready,nosince,restarts=1", "b:ready,nosince");
    first(
        "a:ready,1s,created=30d,restarts=9",
        "b:ready,1s,created=30d",
    );
    first("a:ready,1s,created=2s", "b:ready,1s,created=30d");
    // On a node with two of them time and restarts do not count, the cost does.
    assert_eq!(
        deletes(
            "replicas=2 | a:ready,30d,on=n2 b:ready,30d,on=n2 c:ready,1s,restarts=9,on=n1,uid=0"
        ),
        "a"
    );
    assert_eq!(
        deletes("replicas=2 | a:ready,on=n2,cost=5 b:ready,on=n2,cost=5 c:ready,on=n1"),
        "c"
    );
}

// Upstream: TestSortingActivePodsWithRanks, with each gate in both states.
#[test]
fn gates_change_the_order_of_deletion() {
    let first = |text: &str, gate: Gate, on: bool| {
        let mut snapshot = snapshot(&format!("replicas=1 | {text}"));
        snapshot.gates = snapshot.gates.with(gate, on);
        let Plan::Delete { pods, .. } = plan(&snapshot, 500, now(), Vec::new) else {
            panic!("{text} deletes nothing");
        };
        pods[0].metadata.name.to_string()
    };
    let costs = "cheap:ready,1h,cost=-1 young:ready,1m,cost=1";
    assert_eq!(first(costs, Gate::PodDeletionCost, true), "cheap");
    assert_eq!(first(costs, Gate::PodDeletionCost, false), "young");
    let same_bucket = "older:ready,101s,uid=1 newer:ready,100s,uid=2";
    assert_eq!(
        first(same_bucket, Gate::LogarithmicScaleDown, true),
        "older"
    );
    assert_eq!(
        first(same_bucket, Gate::LogarithmicScaleDown, false),
        "newer"
    );
    let unready = "older:running,created=101s,uid=1 newer:running,created=100s,uid=2";
    assert_eq!(first(unready, Gate::LogarithmicScaleDown, true), "older");
    assert_eq!(first(unready, Gate::LogarithmicScaleDown, false), "newer");
}

#[test]
fn ages_are_relative_to_the_youngest_ready_pod() {
    let ratios = |active: &str, chosen: &str| {
        let pods = |text: &str| snapshot(&format!("replicas=0 | {text}")).active;
        age_ratios(&pods(active), &pods(chosen), now())
    };
    let active = "old:ready,created=10m young:ready,created=4m new:pending,created=1m";
    assert_eq!(ratios(active, active), [2.0, 1.0]);
    assert!(ratios("new:pending,created=1m", "new:pending,created=1m").is_empty());
    assert!(ratios("a:ready", "a:ready").is_empty(), "no age, no ratio");
}

#[test]
fn a_circular_order_is_survived() {
    // a < b by uid within a time bucket, b < c by restarts at equal times, c < a by uid.
    let pods = "a:ready,100s,on=x,uid=2 b:ready,101s,on=y,uid=3,restarts=5 c:ready,101s,on=z,uid=1";
    let many: Vec<String> = (0..40)
        .map(|round| {
            pods.replace(':', &format!("{round}:"))
                .replace("uid=", &format!("uid={round}"))
        })
        .collect();
    assert_eq!(
        deletes(&format!("replicas=1 | {}", many.join(" ")))
            .split(' ')
            .count(),
        119
    );
}
