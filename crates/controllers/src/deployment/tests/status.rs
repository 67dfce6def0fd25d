use std::time::Duration;

use api::conditions;
use api::kinds::DeploymentStatus;
use api::{Gate, Gates};
use expect_test::{Expect, expect};

use super::super::plan::Report;
use super::super::status::{deadline_at, progressed, timed_out, until_deadline};
use super::super::{compute, plan};
use super::{now, snapshot};

fn computed(text: &str, report: Report) -> DeploymentStatus {
    let snapshot = snapshot(text);
    let mut after = plan(&snapshot, now()).after;
    after.report = report;
    compute(&snapshot.deployment, &after, snapshot.gates, now())
}

/// Type, status, reason, age of update and of transition in seconds, and message, of each condition.
fn conditions_of(status: &DeploymentStatus) -> String {
    let ago = |at: Option<api::Time>| now().time().unix() - at.unwrap_or_default().unix();
    let line = |held: &api::Condition| {
        format!(
            "{} {:?} {} {}s/{}s {}",
            held.type_,
            held.status,
            held.reason,
            ago(held.last_update_time),
            ago(held.last_transition_time),
            held.message
        )
    };
    let lines: Vec<String> = status.conditions.iter().map(line).collect();
    lines.join("\n")
}

fn check(text: &str, expected: Expect) {
    expected.assert_eq(&conditions_of(&computed(text, Report::Progress)));
}

// Upstream: TestGetReplicaCountForReplicaSets.
#[test]
fn counts() {
    let status = computed(
        "replicas=10 surge=3 unavailable=2 | old:8/7 new:5/1",
        Report::Counts,
    );
    expect![[r#"{"observedGeneration":1,"replicas":13,"updatedReplicas":5,"readyReplicas":8,"availableReplicas":8,"unavailableReplicas":4,"terminatingReplicas":0,"conditions":[{"type":"Available","status":"True","lastUpdateTime":"2024-01-01T00:00:00Z","lastTransitionTime":"2024-01-01T00:00:00Z","reason":"MinimumReplicasAvailable","message":"Deployment has minimum availability."}]}"#]].assert_eq(&serde_json::to_string(&status).unwrap());
}

// Upstream: TestGetReplicaCountForReplicaSets.
#[test]
fn terminating_pods_are_known_only_if_every_set_knows() {
    let status = |edit: fn(&mut api::kinds::ReplicaSet), gates: Gates| {
        let snapshot = snapshot("replicas=3 | old:0 new:3");
        let mut after = plan(&snapshot, now()).after;
        let new = after.new.as_mut().expect("it has the template");
        new.status.terminating_replicas = Some(1);
        after.old[0].status.terminating_replicas = Some(2);
        edit(&mut after.old[0]);
        compute(&snapshot.deployment, &after, gates, now()).terminating_replicas
    };
    let on = Gates::default();
    assert_eq!(status(|_| {}, on), Some(3));
    assert_eq!(
        status(|set| set.status.terminating_replicas = None, on),
        None
    );
    let never_seen = |set: &mut api::kinds::ReplicaSet| set.status = Default::default();
    assert_eq!(status(never_seen, on), Some(1));
    let off = on.with(Gate::DeploymentReplicaSetTerminatingReplicas, false);
    assert_eq!(status(|_| {}, off), None);
}

// Upstream: TestSyncRolloutStatus.
#[test]
fn progress() {
    // Without a deadline there is no such condition.
    check(
        "replicas=3 surge=1 status=2/2/2 progressing=ReplicaSetUpdated/99 | old:0/1,pods=1 new:3/2,pods=2",
        expect![
            "Available True MinimumReplicasAvailable 0s/0s Deployment has minimum availability."
        ],
    );
    // One that is complete stays as it is, whatever its pods do.
    check(
        "replicas=3 deadline=60 status=3/3/3 progressing=NewReplicaSetAvailable/99 | new:3/2",
        expect![[r#"
            Progressing True NewReplicaSetAvailable 99s/99s before
            Available True MinimumReplicasAvailable 0s/0s Deployment has minimum availability."#]],
    );
    // Progress moves the time of the update, and the other only if it was stuck.
    check(
        "replicas=3 deadline=60 status=2/2/2 progressing=ReplicaSetUpdated/99 | old:0/1,pods=1 new:3/2,pods=2",
        expect![[r#"
            Available True MinimumReplicasAvailable 0s/0s Deployment has minimum availability.
            Progressing True ReplicaSetUpdated 0s/99s ReplicaSet "new" is progressing."#]],
    );
    check(
        "replicas=3 deadline=60 status=2/2/2 progressing=ProgressDeadlineExceeded/99 | old:0/1,pods=1 new:3/2,pods=2",
        expect![[r#"
            Available True MinimumReplicasAvailable 0s/0s Deployment has minimum availability.
            Progressing True ReplicaSetUpdated 0s/0s ReplicaSet "new" is progressing."#]],
    );
    check(
        "replicas=3 deadline=60 status=2/2/2 | old:0/1,pods=1 new:3/2,pods=2",
        expect![[r#"
            Available True MinimumReplicasAvailable 0s/0s Deployment has minimum availability.
            Progressing True ReplicaSetUpdated 0s/0s ReplicaSet "new" is progressing."#]],
    );
    // Completion.
    check(
        "replicas=3 deadline=60 status=3/3/3 progressing=ReplicaSetUpdated/99 | new:3/3",
        expect![[r#"
            Available True MinimumReplicasAvailable 0s/0s Deployment has minimum availability.
            Progressing True NewReplicaSetAvailable 0s/99s ReplicaSet "new" has successfully progressed."#]],
    );
    check(
        "replicas=3 deadline=60 status=3/3/3 progressing=ProgressDeadlineExceeded/99 | new:3/3",
        expect![[r#"
            Available True MinimumReplicasAvailable 0s/0s Deployment has minimum availability.
            Progressing True NewReplicaSetAvailable 0s/0s ReplicaSet "new" has successfully progressed."#]],
    );
    check(
        "replicas=0 recreate deadline=60 status=3/3/3 progressing=ReplicaSetUpdated/99 | old:0,unfinished=1",
        expect![[r#"
            Available True MinimumReplicasAvailable 0s/0s Deployment has minimum availability.
            Progressing True NewReplicaSetAvailable 0s/99s Deployment "web" has successfully progressed."#]],
    );
    // Timing out, once.
    check(
        "replicas=3 deadline=60 status=2/2/2 progressing=ReplicaSetUpdated/99 | new:3/2,pods=2",
        expect![[r#"
            Available True MinimumReplicasAvailable 0s/0s Deployment has minimum availability.
            Progressing False ProgressDeadlineExceeded 0s/0s ReplicaSet "new" has timed out progressing."#]],
    );
    check(
        "replicas=3 deadline=60 status=2/2/2 progressing=ProgressDeadlineExceeded/99 | new:3/2,pods=2",
        expect![[r#"
            Progressing False ProgressDeadlineExceeded 99s/99s before
            Available True MinimumReplicasAvailable 0s/0s Deployment has minimum availability."#]],
    );
}

// Upstream: TestDeploymentProgressing.
#[test]
fn what_counts_as_progress() {
    let status = |text: &str| {
        let numbers: Vec<i32> = text.split('/').map(|one| one.parse().unwrap()).collect();
        DeploymentStatus {
            replicas: numbers[0],
            updated_replicas: numbers[1],
            ready_replicas: numbers[2],
            available_replicas: numbers[3],
            ..DeploymentStatus::default()
        }
    };
    let cases = [
        ("10/4/4/4", "10/6/4/4", true),
        ("10/4/4/4", "10/4/4/4", false),
        ("10/4/6/6", "8/4/6/6", true),
        // More old and new pods at once is progress; fewer new ones is none.
        ("10/0/10/10", "12/1/10/10", true),
        ("10/7/3/3", "10/5/3/3", false),
        ("10/7/3/3", "10/6/3/3", false),
        // Fewer in all and fewer that are available, but more new ones.
        ("10/4/7/7", "8/8/5/5", true),
        ("10/10/9/8", "10/10/10/8", true),
        ("10/10/9/8", "10/10/9/9", true),
        // New pods were killed, and old ones came instead.
        ("8/7/7/7", "7/2/7/7", false),
    ];
    for (before, after, expected) in cases {
        assert_eq!(
            progressed(&status(before), &status(after)),
            expected,
            "{before} {after}"
        );
    }
}

// Upstream: TestDeploymentTimedOut.
#[test]
fn timing_out() {
    let check = |facts: &str| {
        let snapshot = snapshot(&format!("replicas=1 {facts} |"));
        timed_out(&snapshot.deployment, &snapshot.deployment.status, now())
    };
    assert!(!check("progressing=X/11"), "no deadline");
    assert!(
        !check("deadline=2147483647 progressing=X/11"),
        "an endless one"
    );
    assert!(!check("deadline=10"), "no base to count from");
    assert!(check("deadline=10 progressing=X/11"));
    assert!(!check("deadline=10 progressing=X/10"), "to the second");
    assert!(
        check("deadline=10 progressing=ProgressDeadlineExceeded/1"),
        "already"
    );
    assert!(
        !check("deadline=10 progressing=NewReplicaSetAvailable/99"),
        "it was complete"
    );
}

// Upstream: TestRequeueStuckDeployment.
#[test]
fn requeues_at_the_progress_deadline() {
    let wait = |facts: &str| {
        let snapshot = snapshot(&format!("{facts} |"));
        let at = deadline_at(&snapshot.deployment, &snapshot.deployment.status)?;
        Some(until_deadline(at, now()))
    };
    let seconds = |number| Some(Duration::from_secs(number));
    assert_eq!(wait("replicas=4 status=3/3/2 progressing=X/30"), None);
    assert_eq!(
        wait("replicas=4 deadline=2147483647 status=3/3/2 progressing=X/30"),
        None
    );
    assert_eq!(wait("replicas=4 deadline=60 status=3/3/2"), None);
    assert_eq!(
        wait("replicas=3 deadline=60 status=3/3/3 progressing=X/30"),
        None
    );
    for reason in ["ProgressDeadlineExceeded", "NewReplicaSetAvailable"] {
        let facts = format!("replicas=3 deadline=60 status=3/3/0 progressing={reason}/30");
        assert_eq!(wait(&facts), None);
    }
    assert_eq!(
        wait("replicas=3 deadline=60 status=3/3/1 progressing=X/30"),
        seconds(31)
    );
    assert_eq!(
        wait("replicas=3 deadline=60 status=3/3/1 progressing=X/59"),
        seconds(2)
    );
    assert_eq!(
        wait("replicas=3 deadline=60 status=3/3/1 progressing=X/60"),
        seconds(1)
    );
    assert_eq!(
        wait("replicas=3 deadline=60 status=3/3/1 progressing=X/120"),
        seconds(1)
    );
}

#[test]
fn a_pause_is_noted_and_so_is_its_end() {
    let note = |facts: &str| {
        let plan = plan(&snapshot(&format!("replicas=1 {facts} | new:1/0")), now());
        let held = conditions::find(&plan.after.status.conditions, "Progressing").cloned();
        held.map(|held| format!("{:?} {} {}", held.status, held.reason, held.message))
    };
    assert_eq!(
        note("paused deadline=60 progressing=X/99").as_deref(),
        Some("Unknown DeploymentPaused Deployment is paused")
    );
    assert_eq!(
        note("deadline=60 progressing=DeploymentPaused/99").as_deref(),
        Some("Unknown DeploymentResumed Deployment is resumed")
    );
    assert_eq!(
        note("paused deadline=60 progressing=ProgressDeadlineExceeded/99").as_deref(),
        Some("False ProgressDeadlineExceeded before"),
        "what was stuck stays so"
    );
    assert_eq!(note("paused"), None, "nothing to note without a deadline");
}

#[test]
fn a_set_that_was_there_before_is_found() {
    let plan = plan(&snapshot("replicas=1 deadline=60 | new:1/0"), now());
    assert_eq!(
        &*plan.after.status.conditions[0].message,
        "Found new replica set \"new\""
    );
    assert_eq!(
        &*plan.after.status.conditions[0].reason,
        "FoundNewReplicaSet"
    );
}

#[test]
fn failures_of_sets_are_passed_on_the_new_one_first() {
    let snapshot = snapshot("replicas=2 | old:1 new:1");
    let mut after = plan(&snapshot, now()).after;
    let status = |after: &_| {
        let status = compute(&snapshot.deployment, after, snapshot.gates, now());
        conditions_of(&status)
    };
    let failure = |message: &str| {
        let at = api::Time::from_unix(now().time().unix() - 50);
        let status = conditions::ConditionStatus::True;
        vec![api::Condition::new(
            "ReplicaFailure",
            status,
            "FailedCreate",
            message,
            at,
        )]
    };
    after.old[0].status.conditions = failure("old");
    expect![[r#"
        Available True MinimumReplicasAvailable 0s/0s Deployment has minimum availability.
        ReplicaFailure True FailedCreate 50s/50s old"#]]
    .assert_eq(&status(&after));
    after.new.as_mut().unwrap().status.conditions = failure("new");
    expect![[r#"
        Available True MinimumReplicasAvailable 0s/0s Deployment has minimum availability.
        ReplicaFailure True FailedCreate 50s/50s new"#]]
    .assert_eq(&status(&after));
}
