//! What a sync does, and why.

use expect_test::{Expect, expect};

use super::super::plan::{Plan, Step, Which, plan};
use super::super::{ClaimWork, Snapshot};
use super::*;
use crate::workload::lines::with_class;

/// The steps of a plan, one stage a line, then its reasons.
pub(super) fn text(snapshot: &Snapshot) -> String {
    let plan: Plan = plan(snapshot, now());
    let stages = [
        ("", &plan.replicas),
        ("claims: ", &plan.condemned_claims),
        ("scale down: ", &plan.condemned),
        ("update: ", &plan.update),
    ];
    let mut lines: Vec<String> = stages
        .iter()
        .filter(|(_, steps)| !steps.is_empty())
        .map(|(name, steps)| {
            let steps: Vec<String> = steps.iter().map(step).collect();
            format!("{name}{}", steps.join("; "))
        })
        .collect();
    let reasons = plan.reasons.iter().map(with_class);
    lines.extend(reasons.map(|reason| format!("- {reason}")));
    lines.join("\n")
}

pub(super) fn step(step: &Step) -> String {
    match step {
        Step::Create {
            ordinal,
            revision,
            claims,
        } => {
            let revision = match revision {
                Which::Current => "old",
                Which::Update => "new",
            };
            format!("create {ordinal} at {revision}{}", work(claims))
        }
        Step::Claims {
            ordinal, claims, ..
        } => format!("claims of {ordinal}{}", work(claims)),
        Step::Repair {
            ordinal,
            identity,
            storage,
            claims,
            ..
        } => format!(
            "repair {ordinal} identity={identity} storage={storage}{}",
            work(claims)
        ),
        Step::Delete(pod) => format!("delete {}", pod.metadata.name),
    }
}

fn work(claims: &ClaimWork) -> String {
    let missing = claims.missing.iter().map(|(name, _)| format!(" +{name}"));
    let leaving = claims.leaving.iter().map(|name| format!(" leaving {name}"));
    let update_owners = claims
        .update_owners
        .iter()
        .map(|name| format!(" update_owners {name}"));
    let conflicting = claims
        .conflicting
        .iter()
        .map(|name| format!(" conflict {name}"));
    missing
        .chain(leaving)
        .chain(update_owners)
        .chain(conflicting)
        .collect()
}

fn check(text_: &str, expected: Expect) {
    expected.assert_eq(&text(&snapshot(text_, Gates::default(), false)));
}

fn check_recovery(text_: &str, expected: Expect) {
    expected.assert_eq(&text(&snapshot(text_, Gates::default(), true)));
}

// Upstream: TestStatefulSetControl/CreatesPods, ScalesUp.
#[test]
fn an_ordered_set_creates_the_first_that_is_missing() {
    check(
        "replicas=3 |",
        expect![[r#"
            create 0 at new
            - acts: creates web-0 of revision new: it is missing"#]],
    );
    check(
        "replicas=3 | 0:ready 2:ready",
        expect![[r#"
            create 1 at new
            - acts: creates web-1 of revision new: it is missing"#]],
    );
    check("replicas=0 |", expect!["- states: wants no pods"]);
    check(
        "replicas=2 | 0:ready 1:ready",
        expect!["- states: has the 2 pods it wants: the current revision is new"],
    );
    check(
        "replicas=2 parallel | 0:ready 1:pending",
        expect![[r#"
            - states: has the 2 pods it wants: the current revision is new
            - waits: waits for 1 pod to be available"#]],
    );
}

// Upstream: TestStatefulSetControl/UpdatePodFailure and the monotonic cases of processReplica.
#[test]
fn an_ordered_set_waits_for_the_one_before() {
    check(
        "replicas=2 | 0:running",
        expect![
            "- waits: waits until web-0 is running and ready: OrderedReady handles one pod after the other"
        ],
    );
    check(
        "replicas=2 | 0:pending",
        expect![
            "- waits: waits until web-0 is running and ready: OrderedReady handles one pod after the other"
        ],
    );
    check(
        "replicas=2 | 0:ready,gone",
        expect!["- waits: waits until web-0 is gone: it is being deleted"],
    );
    check(
        "replicas=2 min=30 | 0:ready,since=10",
        expect![
            "- waits: counts web-0 as available at 2024-01-01T00:00:20Z: minReadySeconds has not passed"
        ],
    );
    check(
        "replicas=2 min=30 | 0:ready,since=30",
        expect![[r#"
            create 1 at new
            - acts: creates web-1 of revision new: it is missing"#]],
    );
}

// Upstream: TestParallelScale, TestStatefulSetControl with parallel management.
#[test]
fn a_parallel_set_waits_for_nothing() {
    check(
        "replicas=4 parallel | 0:pending 2:ready,gone",
        expect![[r#"
            create 1 at new; create 3 at new
            - acts: creates web-1 of revision new: it is missing
            - acts: creates web-3 of revision new: it is missing"#]],
    );
    check(
        "replicas=1 parallel | 0:pending 1:ready 2:running 3:ready,gone",
        expect![[r#"
            scale down: delete web-2; delete web-1
            - acts: deletes web-2: spec.replicas is 1
            - acts: deletes web-1: spec.replicas is 1"#]],
    );
}

// Upstream: TestStatefulSetControl/RecreatesFailedPod, RecreatesSucceededPod.
#[test]
fn what_has_ended_is_deleted_first() {
    check(
        "replicas=2 | 0:failed",
        expect![[r#"
            delete web-0
            - acts: deletes web-0: it has failed, and is replaced"#]],
    );
    check(
        "replicas=2 | 0:succeeded,gone",
        expect!["- waits: waits until web-0 is gone: it is being deleted"],
    );
    check(
        "replicas=3 parallel | 0:succeeded 1:ready",
        expect![[r#"
            delete web-0; create 2 at new
            - acts: deletes web-0: it has succeeded, and is replaced
            - acts: creates web-2 of revision new: it is missing"#]],
    );
}

// Upstream: TestStatefulSetControllerDeletes, TestStatefulSetScaleDownRespectsMinReadySeconds.
#[test]
fn an_ordered_set_scales_down_from_the_top() {
    check(
        "replicas=1 | 0:ready 1:ready 2:ready",
        expect![[r#"
            scale down: delete web-2
            - acts: deletes web-2: spec.replicas is 1"#]],
    );
    check(
        "replicas=1 | 0:ready 1:ready 2:ready,gone",
        expect!["- waits: waits until web-2 is gone: it is being deleted"],
    );
    check(
        "replicas=1 | 0:ready 1:running 2:running",
        expect!["- waits: waits to delete web-2: web-1 has to be healthy or gone first"],
    );
    check(
        "replicas=1 | 0:ready 1:ready 2:running",
        expect![[r#"
            scale down: delete web-2
            - acts: deletes web-2: spec.replicas is 1"#]],
    );
    // Marked as failed with its node, and never asked again whether it is ready.
    check(
        "replicas=1 | 0:ready 1:failed,ready",
        expect![[r#"
            scale down: delete web-1
            - acts: deletes web-1: spec.replicas is 1"#]],
    );
    check(
        "replicas=1 | 0:ready 1:failed,ready 2:running",
        expect![[r#"
            scale down: delete web-2
            - acts: deletes web-2: spec.replicas is 1"#]],
    );
    check(
        "replicas=1 | 0:running 1:ready",
        expect![
            "- waits: waits until web-0 is running and ready: OrderedReady handles one pod after the other"
        ],
    );
    check(
        "replicas=1 min=30 | 0:ready 1:ready,since=5 2:ready,since=5",
        expect!["- waits: waits to delete web-2: web-1 has to be healthy or gone first"],
    );
}

// Upstream: TestStatefulSetControlWithStartOrdinal.
#[test]
fn a_start_ordinal_moves_the_window() {
    check(
        "replicas=2 start=3 | 2:ready 3:ready",
        expect![[r#"
            create 4 at new
            - acts: creates web-4 of revision new: it is missing"#]],
    );
    check(
        "replicas=2 start=3 | 2:ready 3:ready 4:ready",
        expect![[r#"
            scale down: delete web-2
            - acts: deletes web-2: spec.replicas is 2"#]],
    );
    check(
        "replicas=2 start=3 partition=1 | 3:ready,rev=old 4:ready,rev=old",
        expect![[r#"
            update: delete web-4
            - acts: deletes web-4: its revision is old, and new is wanted
            - states: keeps 1 outdated pod: the partition lets ordinals from 4 on be updated"#]],
    );
    check(
        "replicas=2 start=3 partition=1 |",
        expect![[r#"
            create 3 at old
            - acts: creates web-3 of revision old: it is missing"#]],
    );
}

// Upstream: TestStatefulSetControlRollingUpdate, TestStatefulSetControlOnDeleteUpdate.
#[test]
fn an_update_proceeds_from_the_highest_ordinal_one_by_one() {
    check(
        "replicas=3 | 0:ready,rev=old 1:ready,rev=old 2:ready,rev=old",
        expect![[r#"
            update: delete web-2
            - acts: deletes web-2: its revision is old, and new is wanted"#]],
    );
    check(
        "replicas=3 | 0:ready,rev=old 1:ready,rev=old 2:ready",
        expect![[r#"
            update: delete web-1
            - acts: deletes web-1: its revision is old, and new is wanted"#]],
    );
    check(
        "replicas=3 parallel | 0:ready,rev=old 1:ready,rev=old 2:running",
        expect!["- waits: waits until web-2 is available: the update continues after it"],
    );
    check(
        "replicas=3 parallel | 0:ready,rev=old 1:ready,rev=old 2:ready,rev=old,gone",
        expect!["- waits: waits until web-2 is available: the update continues after it"],
    );
    check(
        "replicas=3 parallel | 0:ready,rev=old 1:running,rev=old 2:ready",
        expect![[r#"
            update: delete web-1
            - acts: deletes web-1: its revision is old, and new is wanted"#]],
    );
    check(
        "replicas=2 ondelete | 0:ready,rev=old 1:ready,rev=old",
        expect![
            "- waits: leaves 2 outdated pods alone until they are deleted: the update strategy is OnDelete [hint: delete outdated pods; kubectl get pods -L controller-revision-hash shows which they are]"
        ],
    );
    check(
        "replicas=2 ondelete | 0:ready,rev=old",
        expect![[r#"
            create 1 at new
            - acts: creates web-1 of revision new: it is missing"#]],
    );
    check(
        "replicas=1 parallel | 0:failed,rev=old",
        expect![[r#"
            delete web-0
            - acts: deletes web-0: it has failed, and is replaced
            - waits: waits until web-0 is available: the update continues after it"#]],
    );
}

// Upstream: TestStatefulSetControlRollingUpdateWithPartition.
#[test]
fn a_partition_keeps_the_lower_ones() {
    check(
        "replicas=3 partition=2 | 0:ready,rev=old 1:ready,rev=old 2:ready",
        expect![
            "- states: keeps 2 outdated pods: the partition lets ordinals from 2 on be updated"
        ],
    );
    check(
        "replicas=3 partition=2 | 1:ready,rev=old 2:ready",
        expect![[r#"
            create 0 at old
            - acts: creates web-0 of revision old: it is missing"#]],
    );
    check(
        "replicas=3 partition=9 parallel | 0:ready,rev=old",
        expect![[r#"
            create 1 at old; create 2 at old
            - acts: creates web-1 of revision old: it is missing
            - acts: creates web-2 of revision old: it is missing
            - states: keeps 1 outdated pod: the partition lets ordinals from 9 on be updated"#]],
    );
    check(
        "replicas=3 norolling current=1 parallel |",
        expect![[r#"
            create 0 at old; create 1 at new; create 2 at new
            - acts: creates web-0 of revision old: it is missing
            - acts: creates web-1 of revision new: it is missing
            - acts: creates web-2 of revision new: it is missing"#]],
    );
}

#[test]
fn a_superseded_pod_that_never_got_ready_is_waited_for_unless_recovery_is_on() {
    let stuck = "replicas=3 | 0:ready,rev=old 1:ready,rev=old 2:running,rev=bad";
    check(
        stuck,
        expect![
            "- waits: waits until web-2 is running and ready: OrderedReady handles one pod after the other, although its revision bad is superseded by new [hint: delete pod web-2 if it never becomes ready]"
        ],
    );
    // By this, `steersman why` names the pod to delete.
    let line = api::decision::Line::from(
        &plan(&snapshot(stuck, Gates::default(), false), now()).reasons[0],
    );
    let pod = line.object.expect("it is about a pod").to_string();
    assert_eq!(
        (&*line.reason, &*pod),
        ("AwaitsSuperseded", "Pod default/web-2")
    );
    check_recovery(
        stuck,
        expect![[r#"
            delete web-2
            - acts: deletes web-2: it is not ready, blocks the others, and its revision bad is superseded by new"#]],
    );
    check_recovery(
        "replicas=2 | 0:running,rev=old",
        expect![[r#"
            delete web-0
            - acts: deletes web-0: it is not ready, blocks the others, and its revision old is superseded by new"#]],
    );
    check_recovery(
        "replicas=2 | 0:running,rev=old 1:ready,rev=old",
        expect![
            "- waits: waits until web-0 is running and ready: OrderedReady handles one pod after the other"
        ],
    );
    check_recovery(
        "replicas=2 partition=2 | 0:running,rev=old",
        expect![
            "- waits: waits until web-0 is running and ready: OrderedReady handles one pod after the other"
        ],
    );
    check_recovery(
        "replicas=2 ondelete | 0:running,rev=bad",
        expect![
            "- waits: waits until web-0 is running and ready: OrderedReady handles one pod after the other"
        ],
    );
    check_recovery(
        "replicas=2 | 0:running",
        expect![
            "- waits: waits until web-0 is running and ready: OrderedReady handles one pod after the other"
        ],
    );
}

// Upstream: TestStorageMatches, TestIdentityMatches, TestUpdateStorage, TestStatefulPodControlUpdateIdentityFailure.
#[test]
fn members_get_their_identity_and_claims_back() {
    check(
        "replicas=1 | 0:ready,nolabel",
        expect![[r#"
            repair 0 identity=true storage=false
            - acts: updates web-0: its labels do not match the set"#]],
    );
    check(
        "replicas=1 claims | 0:ready,novolume |",
        expect![[r#"
            repair 0 identity=false storage=true +data-web-0
            - acts: updates web-0: its volumes do not match the set"#]],
    );
    check(
        "replicas=1 claims | 0:ready |",
        expect!["- states: has the 1 pod it wants: the current revision is new"],
    );
    check(
        "replicas=1 claims | 0:pending |",
        expect![[r#"
            claims of 0 +data-web-0
            - acts: updates the volume claims of web-0: some are missing, or have outdated owner references
            - waits: waits until web-0 is running and ready: OrderedReady handles one pod after the other"#]],
    );
    check(
        "replicas=1 claims parallel | 0:pending |",
        expect![[r#"
            claims of 0 +data-web-0
            - acts: updates the volume claims of web-0: some are missing, or have outdated owner references"#]],
    );
    check(
        "replicas=1 claims whendeleted=delete | 0:ready | data-web-0",
        expect![[r#"
            repair 0 identity=false storage=false update_owners data-web-0
            - acts: updates web-0: its claim owner references do not match the set"#]],
    );
}

// Upstream: TestPodClaimIsStale, TestStaleOwnerRefOnScaleup.
#[test]
fn claims_of_condemned_pods_come_before_their_deletion() {
    check(
        "replicas=0 claims scaled=delete | 0:ready | data-web-0",
        expect![[r#"
            claims: claims of 0 update_owners data-web-0
            scale down: delete web-0
            - acts: updates the volume claims of web-0: some are missing, or have outdated owner references
            - acts: deletes web-0: spec.replicas is 0"#]],
    );
    check(
        "replicas=1 claims scaled=delete | | data-web-0:pod=before",
        expect![
            "- waits: waits to create web-0: its claim data-web-0 is deleted with the previous pod"
        ],
    );
    check(
        "replicas=2 claims scaled=delete parallel | | data-web-0:pod=before",
        expect![[r#"
            create 1 at new +data-web-1
            - waits: waits to create web-0: its claim data-web-0 is deleted with the previous pod
            - acts: creates web-1 of revision new: it is missing"#]],
    );
    check(
        "replicas=1 claims | | data-web-0:pod=before",
        expect![[r#"
            create 0 at new
            - acts: creates web-0 of revision new: it is missing"#]],
    );
    check(
        "replicas=1 claims | | data-web-0:gone",
        expect![[r#"
            create 0 at new leaving data-web-0
            - acts: creates web-0 of revision new: it is missing"#]],
    );
}

#[test]
fn a_name_that_only_looks_right_takes_no_place() {
    check(
        "replicas=1 | web-00:ready web-99999999999:ready",
        expect![[r#"
            create 0 at new
            - acts: creates web-0 of revision new: it is missing"#]],
    );
}

#[test]
fn a_set_on_its_way_out_does_nothing() {
    check(
        "replicas=3 deleted | 0:failed 5:ready",
        expect!["- states: is being deleted: its pods are left to the garbage collector"],
    );
}

#[test]
fn a_set_of_absurd_size_costs_a_bounded_plan() {
    let huge = snapshot("replicas=2147483647 parallel |", Gates::default(), false);
    let plan = plan(&huge, now());
    assert_eq!(plan.replicas.len(), super::super::plan::CREATIONS_MAX);
    assert!(plan.reasons.len() <= 11);
}

// Upstream: TestStatefulSetRollingUpdateRespectsMinReadySeconds, TestStatefulSetScaleDownRespectsMinReadySeconds,
// TestStatefulSetOnDeleteStrategyIgnoresMinReadySeconds, TestStatefulSetZeroMinReadySeconds,
// TestStatefulSetPartitionRollingUpdateWithMinReadySeconds.
#[test]
fn an_update_counts_pods_that_have_been_ready_long_enough() {
    check(
        "replicas=2 min=30 parallel | 0:ready,rev=old 1:ready,since=10",
        expect!["- waits: waits until web-1 is available: the update continues after it"],
    );
    check(
        "replicas=2 min=30 parallel | 0:ready,rev=old 1:ready,since=30",
        expect![[r#"
            update: delete web-0
            - acts: deletes web-0: its revision is old, and new is wanted"#]],
    );
    check(
        "replicas=2 min=0 | 0:ready,rev=old 1:ready,since=0",
        expect![[r#"
            update: delete web-0
            - acts: deletes web-0: its revision is old, and new is wanted"#]],
    );
    check(
        "replicas=3 min=30 partition=1 parallel | 0:ready,rev=old 1:ready,rev=old 2:ready,since=1",
        expect![[r#"
            - waits: waits until web-2 is available: the update continues after it
            - states: keeps 1 outdated pod: the partition lets ordinals from 1 on be updated"#]],
    );
    check(
        "replicas=2 min=30 ondelete parallel | 0:ready,rev=old,since=1 1:ready,since=1",
        expect![
            "- waits: leaves 1 outdated pod alone until it is deleted: the update strategy is OnDelete [hint: delete outdated pods; kubectl get pods -L controller-revision-hash shows which they are]"
        ],
    );
}

// Upstream: TestParallelScale.
#[test]
fn a_parallel_set_scales_by_any_number_at_once() {
    let created = |text: &str| {
        plan(&snapshot(text, Gates::default(), false), now())
            .replicas
            .len()
    };
    assert_eq!(created("replicas=1000 parallel |"), 1000);
    let pods: Vec<String> = (0..1000)
        .map(|ordinal| format!("{ordinal}:pending"))
        .collect();
    let down = snapshot(
        &format!("replicas=2 parallel | {}", pods.join(" ")),
        Gates::default(),
        false,
    );
    assert_eq!(plan(&down, now()).condemned.len(), 998);
}
