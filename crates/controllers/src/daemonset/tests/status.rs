//! What the status says.

use expect_test::{Expect, expect};

use super::super::compute;
use super::{now, snapshot};

fn check(text: &str, expected: Expect) {
    let status = compute(&snapshot(text), now());
    let line = format!(
        "desired {} current {} misscheduled {} ready {} updated {} available {} unavailable {}",
        status.desired_number_scheduled,
        status.current_number_scheduled,
        status.number_misscheduled,
        status.number_ready,
        status.updated_number_scheduled,
        status.number_available,
        status.number_unavailable,
    );
    expected.assert_eq(&line);
}

// Upstream: TestNumberReadyStatus.
#[test]
fn counts_nodes_by_their_senior_pod() {
    check(
        "max=1 | n1 n2 n3 | a@n1:ready b@n2:old,ready",
        expect!["desired 3 current 2 misscheduled 0 ready 2 updated 1 available 2 unavailable 1"],
    );
    check(
        "max=1 min=10 | n1 n2 | a@n1:ready,since=5 b@n2:ready,since=10",
        expect!["desired 2 current 2 misscheduled 0 ready 2 updated 2 available 1 unavailable 1"],
    );
    check(
        "max=0 surge=1 | n1 | a@n1:ready,old,age=9 b@n1:age=1",
        expect!["desired 1 current 1 misscheduled 0 ready 1 updated 0 available 1 unavailable 0"],
    );
}

#[test]
fn counts_pods_where_they_should_not_be() {
    check(
        "max=1 | n1:taint=k/NoSchedule n2:taint=k/NoSchedule | a@n1:ready b@n9:ready",
        expect!["desired 0 current 0 misscheduled 1 ready 0 updated 0 available 0 unavailable 0"],
    );
}

// Upstream: TestObservedGeneration, TestStoreDaemonSetStatus.
#[test]
fn a_generation_is_observed_only_by_a_sync_that_acts() {
    let mut snapshot = snapshot("max=1 | n1 |");
    assert_eq!(compute(&snapshot, now()).observed_generation, 2);
    snapshot.may_act = false;
    assert_eq!(compute(&snapshot, now()).observed_generation, 0);
}
