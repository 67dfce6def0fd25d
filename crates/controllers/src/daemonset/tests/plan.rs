//! What a sync does, and why.

use api::decision::Explain;
use std::time::Duration;

use expect_test::{Expect, expect};

use super::super::plan;
use super::super::update::{max_surge, max_unavailable};
use super::{now, set, snapshot};
use crate::workload::lines::with_class;

fn check(text: &str, expected: Expect) {
    check_with(text, None, expected);
}

fn check_with(text: &str, backoff: Option<Duration>, expected: Expect) {
    let plan = plan(&snapshot(text), 250, now(), |_| backoff);
    let lines: Vec<String> = plan.explain().into_iter().map(with_class).collect();
    expected.assert_eq(&lines.join("\n"));
}

// Upstream: TestSimpleDaemonSetLaunchesPods, TestOneNodeDaemonLaunchesPod, TestDealsWithExistingPods.
#[test]
fn every_node_gets_one_pod() {
    check(
        "max=1 | n1 n2 n3 | a@n2:ready",
        expect![[r#"
            acts: creates a pod on n1: the node has none
            acts: creates a pod on n3: the node has none"#]],
    );
    check(
        "max=1 | n1 n2 | a@n1:ready b>n2:pending",
        expect![[r#"
            states: has a pod on each of 2 nodes
            waits: waits for 1 pod to be available"#]],
    );
    check("max=1 | |", expect!["states: has no eligible node"]);
}

// Upstream: TestDealsWithExistingPods, TestSelectorDaemonDealsWithExistingPods.
#[test]
fn surplus_pods_go_but_the_oldest_that_is_bound() {
    check(
        "max=1 | n1 | a@n1:age=5 b@n1:age=9 c>n1:age=20",
        expect![[r#"
            acts: deletes a on n1: b is there already
            acts: deletes c on n1: b is there already"#]],
    );
    check(
        "max=1 | n1 | a@n1:age=5 b@n1:age=5 c@n1:gone",
        expect!["acts: deletes b on n1: a is there already"],
    );
}

// Upstream: TestSelectorDaemonDeletesUnselectedPods, TestNoExecuteTaintedDoesEvicitRunningIntolerantPod,
// TestNoScheduleTaintedDoesntEvicitRunningIntolerantPod.
#[test]
fn pods_leave_nodes_that_are_not_for_them() {
    check(
        "max=1 selector=disk/ssd | n1 n2:disk=ssd | a@n1:ready b@n2:ready",
        expect![
            "acts: deletes a on n1: the node does not match the node selector and affinity of the template"
        ],
    );
    check(
        "max=1 | n1:taint=k/NoExecute n2:taint=k/NoSchedule n3:taint=k/NoSchedule | a@n1:ready b@n2:ready",
        expect!["acts: deletes a on n1: the taint k:NoExecute is not tolerated"],
    );
}

// Upstream: TestDeleteUnscheduledPodForNotExistingNode, TestDeleteNoDaemonPod.
#[test]
fn unbound_pods_of_missing_nodes_are_deleted() {
    check(
        "max=1 | n1 | a@n1:ready b@n2:ready c>n3:pending d>n3:pending,gone",
        expect!["acts: deletes c on n3: the node is gone, and the pod was never bound"],
    );
}

// Upstream: TestDaemonKillFailedPods, TestDaemonKillFailedPodsBackoff.
#[test]
fn finished_pods_go_and_failed_ones_when_their_time_has_come() {
    check(
        "max=1 | n1 n2 | a@n1:failed b@n2:succeeded",
        expect![[r#"
            acts: deletes a on n1: it has failed
            acts: deletes b on n2: it has succeeded, and daemon pods should keep running"#]],
    );
    check(
        "max=1 | n1 | a@n1:failed b@n1:failed c@n1:failed,gone d@n1:ready",
        expect![[r#"
            acts: deletes a on n1: it has failed
            waits: deletes b on n1 at 2024-01-01T00:00:01Z: it has failed, and pods keep failing there"#]],
    );
    check_with(
        "max=1 | n1 | a@n1:failed",
        Some(Duration::from_secs(8)),
        expect![[r#"
            waits: deletes a on n1 at 2024-01-01T00:00:08Z: it has failed, and pods keep failing there
            waits: waits for 1 pod to be available"#]],
    );
}

#[test]
fn a_finished_pod_that_is_being_deleted_is_no_longer_there() {
    check(
        "max=1 | n1 n2 | a@n1:failed,gone b@n2:ready,gone",
        expect!["acts: creates a pod on n1: the node has none"],
    );
}

#[test]
fn nodes_without_pods_are_explained() {
    check(
        "max=1 node=n2 | n1 n2 | a@n2:ready",
        expect!["states: has no pod on n1: the template names another node"],
    );
}

// Upstream: TestDaemonSetUpdatesPods.
#[test]
fn old_pods_are_replaced_within_the_budget() {
    check(
        "max=2 | n1 n2 n3 | a@n1:ready,old b@n2:ready,old c@n3:ready,old",
        expect![[r#"
            acts: deletes a on n1: it is outdated
            acts: deletes b on n2: it is outdated
            waits: waits to update 1 more pod: 2 nodes have no available pod, and maxUnavailable is 2"#]],
    );
    check(
        "max=2 | n1 n2 n3 | a@n1:pending b@n2:ready,gone c@n3:ready,old",
        expect![[r#"
            waits: waits to update 1 more pod: 2 nodes have no available pod, and maxUnavailable is 2
            waits: waits for 1 pod to be available"#]],
    );
    check(
        "max=50% | n1 n2 n3 | a@n1:ready,old b@n2:ready,old c@n3:ready,old",
        expect![[r#"
            acts: deletes a on n1: it is outdated
            acts: deletes b on n2: it is outdated
            waits: waits to update 1 more pod: 2 nodes have no available pod, and maxUnavailable is 2"#]],
    );
}

// Upstream: TestDaemonSetUpdatesAllOldPodsNotReady, TestDaemonSetUpdatesSomeOldPodsNotReady,
// TestDaemonSetUpdatesAllOldNotReadyPodsAndNewNotReadyPods, TestDaemonSetUpdatesSaveOldHealthyPods.
#[test]
fn old_pods_that_are_not_available_go_at_once() {
    check(
        "max=1 | n1 n2 n3 | a@n1:old b@n2:old c@n3:ready,old",
        expect![[r#"
            acts: deletes a on n1: it is outdated and not available
            acts: deletes b on n2: it is outdated and not available
            waits: waits to update 1 more pod: 2 nodes have no available pod, and maxUnavailable is 1"#]],
    );
    check(
        "max=3 | n1 n2 n3 n4 | a@n1:old b@n2:old c@n3:ready,old d@n4:ready,old",
        expect![[r#"
            acts: deletes a on n1: it is outdated and not available
            acts: deletes b on n2: it is outdated and not available
            acts: deletes c on n3: it is outdated
            waits: waits to update 1 more pod: 3 nodes have no available pod, and maxUnavailable is 3"#]],
    );
    // New pods that are not available use the budget up, but hold back no old ones that are not either.
    check(
        "max=1 | n1 n2 n3 n4 | a@n1 b@n2 c@n3:old d@n4:ready,old",
        expect![[r#"
            acts: deletes c on n3: it is outdated and not available
            waits: waits to update 1 more pod: 3 nodes have no available pod, and maxUnavailable is 1"#]],
    );
    check(
        "max=1 | n1 n2 | a@n1 b@n2:old",
        expect!["acts: deletes b on n2: it is outdated and not available"],
    );
    check(
        "max=1 min=10 | n1 n2 | a@n1:ready,since=5 b@n2:ready,old",
        expect![[r#"
            waits: waits to update 1 more pod: 1 node has no available pod, and maxUnavailable is 1
            waits: counts another pod as available at 2024-01-01T00:00:05Z: minReadySeconds has not passed, and 1 pod is unavailable"#]],
    );
}

// Upstream: TestDaemonSetUpdatesNoTemplateChanged.
#[test]
fn pods_of_the_template_generation_are_up_to_date() {
    check(
        "max=1 generation=3 | n1 n2 | a@n1:ready,generation=3 b@n2:ready,generation=2",
        expect!["acts: deletes b on n2: it is outdated"],
    );
}

// Upstream: TestGetUnavailableNumbers.
#[test]
fn with_neither_surge_nor_unavailability_one_moves() {
    check(
        "max=0 | n1 n2 | a@n1:ready,old b@n2:ready,old",
        expect![[r#"
            acts: deletes a on n1: it is outdated
            waits: waits to update 1 more pod: 1 node has no available pod, and maxUnavailable is 1"#]],
    );
}

// Upstream: TestGetUnavailableNumbers.
#[test]
fn numbers_and_percentages_are_rounded_up() {
    let check = |text: &str, desired: i32| {
        let set = set(text);
        (max_surge(&set, desired), max_unavailable(&set, desired))
    };
    assert_eq!(check("max=1", 2), (0, 1));
    assert_eq!(check("max=0 surge=50%", 3), (2, 0));
    assert_eq!(check("max=50%", 3), (0, 2));
    assert_eq!(check("max=0 surge=0", 3), (0, 1), "something has to move");
    assert_eq!(check("max=0", 0), (0, 0));
    assert_eq!(check("max=10% surge=10%", 0), (0, 0));
    assert_eq!(check("max=0 surge=100%", 2), (2, 0));
    assert_eq!(check("ondelete", 3).0, 0);
}

#[test]
fn on_delete_leaves_old_pods_to_the_user() {
    check(
        "ondelete | n1 n2 | a@n1:ready,old b@n2:old",
        expect![[r#"
            waits: leaves 2 outdated pods alone until they are deleted: the update strategy is OnDelete [hint: delete outdated pods; kubectl get pods -L controller-revision-hash shows which they are]
            waits: waits for 1 pod to be available"#]],
    );
}

// Upstream: TestDaemonSetUpdatesPodsWithMaxSurge, TestDaemonSetUpdatesAllOldPodsNotReadyMaxSurge.
#[test]
fn a_surge_starts_new_pods_beside_old_ones() {
    check(
        "max=0 surge=1 | n1 n2 n3 | a@n1:ready,old b@n2:ready,old c@n3:old",
        expect![[r#"
            acts: creates a pod on n3: c is outdated and not available
            acts: creates a pod on n1: it takes over from a
            waits: waits to update 1 more pod: 1 new pod is starting beside old ones, and maxSurge is 1"#]],
    );
    check(
        "max=0 surge=1 | n1 n2 | a@n1:ready,old x@n1 b@n2:ready,old",
        expect![[r#"
            waits: waits to update 1 more pod: 1 new pod is starting beside old ones, and maxSurge is 1
            waits: waits for 1 pod to be available"#]],
    );
}

// Upstream: TestSurgeDealsWithExistingPods, TestSurgePreservesReadyOldPods,
// TestSurgeCreatesNewPodWhenAtMaxSurgeAndOldPodDeleted, TestSurgeDeletesUnreadyOldPods,
// TestSurgePreservesOldReadyWithUnsatisfiedMinReady, TestSurgeDeletesOldReadyWithUnsatisfiedMinReady.
#[test]
fn a_surge_keeps_an_old_pod_until_the_new_one_is_available() {
    check(
        "max=0 surge=1 | n1 | a@n1:ready,old x@n1",
        expect![[r#"
            states: has a pod on its only node
            waits: waits for 1 pod to be available"#]],
    );
    check(
        "max=0 surge=1 min=10 | n1 | a@n1:ready,old x@n1:ready,since=5",
        expect![[r#"
            states: has a pod on its only node
            waits: counts another pod as available at 2024-01-01T00:00:05Z: minReadySeconds has not passed, and 1 pod is unavailable"#]],
    );
    check(
        "max=0 surge=1 min=10 | n1 | a@n1:ready,old x@n1:ready,since=15",
        expect!["acts: deletes a on n1: x has taken over"],
    );
    check(
        "max=0 surge=1 | n1 | a@n1:old x@n1",
        expect!["acts: deletes a on n1: x has taken over"],
    );
    check(
        "max=0 surge=1 | n1 | a@n1:ready,old,age=9 b@n1:ready,old,age=5 x@n1:age=3 y@n1:age=1",
        expect![[r#"
            acts: deletes b on n1: a is there already
            acts: deletes y on n1: x is there already"#]],
    );
    check(
        "max=0 surge=1 | n1 n2 | a@n1:ready,old,gone b@n2:ready,old x@n2",
        expect!["acts: creates a pod on n1: the node has none"],
    );
    check(
        "max=0 surge=1 | n1 | x@n1:age=1 a@n1:old,age=9 b@n1:old,ready,age=5",
        expect![[r#"
            acts: deletes b on n1: a is there already
            acts: deletes a on n1: x has taken over"#]],
    );
    check(
        "max=0 surge=1 min=15 | n1 | x@n1:ready,since=10,age=1 a@n1:old,ready,age=9 b@n1:old,ready,age=5",
        expect!["acts: deletes b on n1: a is there already"],
    );
    check(
        "max=0 surge=1 min=15 | n1 | x@n1:ready,since=20,age=1 a@n1:old,ready,age=9 b@n1:old,ready,age=5",
        expect![[r#"
            acts: deletes b on n1: a is there already
            acts: deletes a on n1: x has taken over"#]],
    );
}

// Upstream: TestDaemonSetUpdatesPodsNotMatchTainstWithMaxSurge.
#[test]
fn a_surge_gives_up_a_node_only_when_another_has_taken_over() {
    check(
        "max=0 surge=1 | n1:taint=k/NoSchedule n2 | a@n1:ready,old x@n2",
        expect![[r#"
            states: has a pod on its only node
            waits: waits for 1 pod to be available"#]],
    );
    check(
        "max=0 surge=1 | n1:taint=k/NoSchedule n2 | a@n1:ready,old x@n2:ready",
        expect!["acts: deletes a on n1: the template does not select that node any more"],
    );
    // The node that is given up does not wait for the others.
    check(
        "max=0 surge=1 | n1:taint=k/NoSchedule n2 n3 | a@n1:ready,old b@n2:ready,old c@n3:ready,old",
        expect![[r#"
            acts: creates a pod on n2: it takes over from b
            acts: deletes a on n1: the template does not select that node any more
            waits: waits to update 1 more pod: 1 new pod is starting beside old ones, and maxSurge is 1"#]],
    );
    check(
        "max=0 surge=1 | n1:taint=k/NoSchedule n2 | a@n1:old x@n2:ready",
        expect!["acts: deletes a on n1: the template does not select that node any more"],
    );
}

#[test]
fn a_round_is_bounded() {
    let plan = plan(
        &snapshot("max=1 | n1 n2 n3 | a@n9 b>n8 c>n7 d>n6"),
        2,
        now(),
        |_| None,
    );
    assert_eq!((plan.create.len(), plan.delete.len()), (2, 2));
}
