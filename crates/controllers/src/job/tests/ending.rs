//! When and how a job ends, and who is counted on the way.

use expect_test::{Expect, expect};

use super::pure::sync;

fn check(text: &str, expected: Expect) {
    expected.assert_eq(&sync(text));
}

// Upstream: TestSyncJobComplete, TestControllerSyncJob ("job finish", "WQ job all finished...").
#[test]
fn enough_successes_complete_it() {
    check(
        "parallelism=2 completions=2 | a:succeeded b:succeeded",
        expect![[r#"
            write SuccessCriteriaMet(CompletionsReached) ready=0 start=00:00 terminating=0 uncounted={succeeded:[a,b]}
            untrack a b
            write Complete(CompletionsReached) SuccessCriteriaMet(CompletionsReached) completion=00:00 ready=0 start=00:00 succeeded=2 terminating=0"#]],
    );
    check(
        "parallelism=2 | a:succeeded b:failed",
        expect![[r#"
        write SuccessCriteriaMet(CompletionsReached) ready=0 start=00:00 terminating=0 uncounted={failed:[b],succeeded:[a]}
        untrack a b
        write Complete(CompletionsReached) SuccessCriteriaMet(CompletionsReached) completion=00:00 failed=1 ready=0 start=00:00 succeeded=1 terminating=0"#]],
    );
    check(
        "parallelism=2 | a:succeeded b:running",
        expect![[r#"
        write active=1 ready=0 start=00:00 terminating=0 uncounted={succeeded:[a]}
        untrack a
        write active=1 ready=0 start=00:00 succeeded=1 terminating=0"#]],
    );
    check(
        "parallelism=2 completions=2 succeeded=1 | a:succeeded b:running,going",
        expect![[r#"
            write SuccessCriteriaMet(CompletionsReached) ready=0 start=00:00 succeeded=1 terminating=1 uncounted={failed:[b],succeeded:[a]}
            untrack a b
            write SuccessCriteriaMet(CompletionsReached) failed=1 ready=0 start=00:00 succeeded=2 terminating=1"#]],
    );
    check(
        "parallelism=2 completions=0",
        expect![[r#"
        write SuccessCriteriaMet(CompletionsReached) ready=0 start=00:00 terminating=0
        write Complete(CompletionsReached) SuccessCriteriaMet(CompletionsReached) completion=00:00 ready=0 start=00:00 terminating=0"#]],
    );
}

// Upstream: TestJobBackoffOnRestartPolicyNever, TestControllerSyncJob ("too many job failures", "count ready
// pods when job fails"), TestSingleJobFailedCondition.
#[test]
fn one_failure_too_many_fails_it() {
    check(
        "parallelism=2 backoffLimit=1 | a:failed b:running",
        expect![[r#"
            create 1
            write active=2 ready=0 start=00:00 terminating=0 uncounted={failed:[a]}
            untrack a
            write active=2 failed=1 ready=0 start=00:00 terminating=0"#]],
    );
    check(
        "parallelism=3 backoffLimit=1 | a:failed b:failed c:running,ready",
        expect![[r#"
            end c
            write FailureTarget(BackoffLimitExceeded) ready=0 start=00:00 terminating=1 uncounted={failed:[a,b,c]}
            untrack a b c
            write FailureTarget(BackoffLimitExceeded) failed=3 ready=0 start=00:00 terminating=1"#]],
    );
    check(
        "parallelism=1 backoffLimit=0 condition=FailureTarget failed=1 terminating=0",
        expect![[r#"
            end
            write FailureTarget(Before) failed=1 ready=0 start=00:00 terminating=0
            write Failed(Before) FailureTarget(Before) failed=1 ready=0 start=00:00 terminating=0"#]],
    );
    check(
        "indexed parallelism=2 completions=3 backoffLimit=0 | a:succeeded,ix=0 b:failed,ix=1 c:running,ix=2",
        expect![[r#"
            end c
            write FailureTarget(BackoffLimitExceeded) completedIndexes=0 ready=0 start=00:00 succeeded=1 terminating=1 uncounted={failed:[b,c]}
            untrack a b c
            write FailureTarget(BackoffLimitExceeded) completedIndexes=0 failed=2 ready=0 start=00:00 succeeded=1 terminating=1"#]],
    );
}

// Upstream: TestJobBackoffForOnFailure.
#[test]
fn restarts_in_place_are_failures() {
    let on = |limit: i32, pods: &str| {
        sync(&format!(
            "onfailure parallelism=2 backoffLimit={limit} active=2 ready=0 terminating=0 | {pods}"
        ))
    };
    expect![[""]].assert_eq(&on(1, "a:running b:running"));
    expect![[r#"
        end a b
        write FailureTarget(BackoffLimitExceeded) ready=0 start=00:00 terminating=2 uncounted={failed:[a,b]}
        untrack a b
        write FailureTarget(BackoffLimitExceeded) failed=2 ready=0 start=00:00 terminating=2"#]].assert_eq(&on(1, "a:running,restarts=1 b:pending"));
    expect![[r#"
        end a b
        write FailureTarget(BackoffLimitExceeded) ready=0 start=00:00 terminating=2 uncounted={failed:[a,b]}
        untrack a b
        write FailureTarget(BackoffLimitExceeded) failed=2 ready=0 start=00:00 terminating=2"#]].assert_eq(&on(0, "a:running,restarts=1 b:running"));
    expect![[""]].assert_eq(&on(3, "a:running,restarts=1 b:pending,restarts=1"));
    expect![[r#"
        end a b
        write FailureTarget(BackoffLimitExceeded) ready=0 start=00:00 terminating=2 uncounted={failed:[a,b]}
        untrack a b
        write FailureTarget(BackoffLimitExceeded) failed=2 ready=0 start=00:00 terminating=2"#]].assert_eq(&on(2, "a:running,restarts=1 b:pending,restarts=1"));
    let never =
        sync("parallelism=1 backoffLimit=1 active=1 ready=0 terminating=0 | a:running,restarts=5");
    expect![[""]].assert_eq(&never);
}

// Upstream: TestSyncJobPastDeadline, TestPastDeadlineJobFinished.
#[test]
fn a_deadline_counts_from_the_start() {
    check(
        "parallelism=1 activeDeadlineSeconds=10 started=15 | a:running",
        expect![[r#"
            end a
            write FailureTarget(DeadlineExceeded) ready=0 start=59:45 terminating=1 uncounted={failed:[a]}
            untrack a
            write FailureTarget(DeadlineExceeded) failed=1 ready=0 start=59:45 terminating=1"#]],
    );
    check(
        "parallelism=1 activeDeadlineSeconds=10 started=8 active=1 ready=0 terminating=0 | a:running",
        expect!["look again in 2s"],
    );
    check(
        "parallelism=1 activeDeadlineSeconds=10 started=15 suspend condition=Suspended",
        expect![[r#"
            delete
            write Suspended(JobSuspended) ready=0 start=59:45 terminating=0"#]],
    );
    check(
        "parallelism=1 activeDeadlineSeconds=1 started=15 backoffLimit=0 | a:failed",
        expect![[r#"
            end
            write FailureTarget(BackoffLimitExceeded) ready=0 start=59:45 terminating=0 uncounted={failed:[a]}
            untrack a
            write Failed(BackoffLimitExceeded) FailureTarget(BackoffLimitExceeded) failed=1 ready=0 start=59:45 terminating=0"#]],
    );
    check(
        "parallelism=1 activeDeadlineSeconds=10",
        expect![[r#"
        create 1
        write active=1 ready=0 start=00:00 terminating=0
        look again in 10s"#]],
    );
}

// Upstream: TestTrackJobStatusAndRemoveFinalizers.
#[test]
fn a_pod_is_counted_exactly_once() {
    let settled = "parallelism=9 active=1 ready=0 terminating=0 started=9 backoff=1@0";
    let counted = |text: &str| sync(&format!("{settled} {text}"));
    // A pod whose finalizer went is in the counter, not in the list.
    expect![[r#"
        write active=1 ready=0 start=59:51 succeeded=1 terminating=0 uncounted={succeeded:[b]}
        untrack b
        write active=1 ready=0 start=59:51 succeeded=2 terminating=0"#]]
    .assert_eq(&counted(
        "uncounted=a,b | a:succeeded,free b:succeeded c:running",
    ));
    expect![[r#"
        create 8
        write active=9 failed=2 ready=0 start=59:51 terminating=0 uncounted={failed:[b]}
        untrack b
        write active=9 failed=3 ready=0 start=59:51 terminating=0"#]]
    .assert_eq(&counted(
        "lost=a failed=1 | a:failed,free b:failed c:running",
    ));
    // Our own patch is on its way.
    expect!["wait 10s"].assert_eq(&counted("leaving=a | a:succeeded c:running"));
    // A pod that was counted as failed while it was being deleted, and then succeeded, has failed.
    expect![[r#"
        untrack a
        write active=1 failed=1 ready=0 start=59:51 terminating=0"#]]
    .assert_eq(&counted("lost=a | a:succeeded c:running"));
    // A pod that is gone.
    expect!["write active=1 ready=0 start=59:51 succeeded=1 terminating=0"]
        .assert_eq(&counted("uncounted=a | c:running"));
}

// Upstream: TestTrackJobStatusAndRemoveFinalizers ("too many finished", "too many indexed finished").
#[test]
fn five_hundred_are_counted_at_a_time() {
    let many = |facts: &str, count: u32| {
        let pod = |number: u32| format!("p{number:03}:{}", facts.replace('#', &number.to_string()));
        (0..count).map(pod).collect::<Vec<_>>().join(" ")
    };
    let lines = sync(&format!(
        "parallelism=1 completions=501 | {}",
        many("succeeded", 501)
    ));
    let released = |lines: &str| {
        let line = lines
            .lines()
            .find(|line| line.starts_with("untrack"))
            .unwrap();
        (line.split_whitespace().count() - 1, line.ends_with("p499"))
    };
    assert_eq!(released(&lines), (500, true));
    let end = lines.lines().last().unwrap();
    expect!["write SuccessCriteriaMet(CompletionsReached) ready=0 start=00:00 succeeded=500 terminating=0"].assert_eq(end);
    let indexed = format!(
        "indexed parallelism=1 completions=501 | {}",
        many("succeeded,ix=#", 501)
    );
    let lines = sync(&indexed);
    assert_eq!(released(&lines), (500, true));
    let ends = lines.contains("Complete(");
    assert!(!ends, "one still has its finalizer");
}

// Upstream: TestTrackJobStatusAndRemoveFinalizers (delayed conditions), TestSyncJobWithJobSuccessPolicy.
#[test]
fn the_job_finishes_when_the_last_pod_is_gone() {
    check(
        "parallelism=1 completions=1 condition=SuccessCriteriaMet succeeded=1 | a:running,going,free",
        expect![[r#"
            end
            write SuccessCriteriaMet(Before) ready=0 start=00:00 succeeded=1 terminating=1"#]],
    );
    check(
        "parallelism=1 completions=1 condition=SuccessCriteriaMet succeeded=1",
        expect![[r#"
            end
            write SuccessCriteriaMet(Before) ready=0 start=00:00 succeeded=1 terminating=0
            write Complete(Before) SuccessCriteriaMet(Before) completion=00:00 ready=0 start=00:00 succeeded=1 terminating=0"#]],
    );
    check(
        "parallelism=1 condition=FailureTarget failed=1 | a:failed,free b:running,going,free",
        expect![[r#"
            end
            write FailureTarget(Before) failed=1 ready=0 start=00:00 terminating=1"#]],
    );
}

// Upstream: TestSyncJobWithJobBackoffLimitPerIndex, TestCalculateFailedIndexes, TestIsIndexFailed,
// TestGetPodsWithDelayedDeletionPerIndex.
#[test]
fn indexes_fail_one_by_one() {
    let job = "indexed parallelism=2 completions=2 backoffLimitPerIndex=1";
    // Not counted before there is a replacement that knows of it.
    check(
        &format!("{job} | a:failed,ix=0,ended=1 b:running,ix=1"),
        expect![[r#"
            wait 9s
            write active=1 failedIndexes= ready=0 start=00:00 terminating=0"#]],
    );
    // Unless none can come.
    check(
        &format!("{job} homeless | a:failed,ix=0,ended=1 b:running,ix=1"),
        expect![[r#"
            wait 9s
            write active=1 failedIndexes= ready=0 start=00:00 terminating=0 uncounted={failed:[a]}
            untrack a
            write active=1 failed=1 failedIndexes= ready=0 start=00:00 terminating=0"#]],
    );
    check(
        &format!("{job} | a:failed,ix=0,ended=20 c:running,ix=0,failures=1 b:running,ix=1"),
        expect![[r#"
            write active=2 failedIndexes= ready=0 start=00:00 terminating=0 uncounted={failed:[a]}
            untrack a
            write active=2 failed=1 failedIndexes= ready=0 start=00:00 terminating=0"#]],
    );
    check(
        &format!("{job} | c:failed,ix=0,failures=1,ended=1 b:running,ix=1"),
        expect![[r#"
            write active=1 failedIndexes=0 ready=0 start=00:00 terminating=0 uncounted={failed:[c]}
            untrack c
            write active=1 failed=1 failedIndexes=0 ready=0 start=00:00 terminating=0"#]],
    );
    check(
        &format!("{job} failedIndexes=0 failed=2 | b:succeeded,ix=1"),
        expect![[r#"
            end
            write FailureTarget(FailedIndexes) completedIndexes=1 failed=2 failedIndexes=0 ready=0 start=00:00 succeeded=1 terminating=0
            untrack b
            write Failed(FailedIndexes) FailureTarget(FailedIndexes) completedIndexes=1 failed=2 failedIndexes=0 ready=0 start=00:00 succeeded=1 terminating=0"#]],
    );
    check(
        &format!("{job} maxFailedIndexes=0 | c:failed,ix=0,failures=1 b:running,ix=1"),
        expect![[r#"
            end b
            write FailureTarget(MaxFailedIndexesExceeded) failedIndexes=0 ready=0 start=00:00 terminating=1 uncounted={failed:[c,b]}
            untrack c b
            write FailureTarget(MaxFailedIndexesExceeded) failed=2 failedIndexes=0 ready=0 start=00:00 terminating=1"#]],
    );
    check(
        &format!("{job} backoffLimit=0 | a:failed,ix=0 b:running,ix=1"),
        expect![[r#"
            end b
            write FailureTarget(BackoffLimitExceeded) failedIndexes= ready=0 start=00:00 terminating=1 uncounted={failed:[a,b]}
            untrack a b
            write FailureTarget(BackoffLimitExceeded) failed=2 failedIndexes= ready=0 start=00:00 terminating=1"#]],
    );
    check(
        &format!("{job} | c:failed,ix=0,failures=-7 b:running,ix=1"),
        expect![[r#"
            create [0]
            write active=2 failedIndexes= ready=0 start=00:00 terminating=0"#]],
    );
}
