//! Gates that older releases let users turn off: `--emulated-version=1.33` still does.

use expect_test::{Expect, expect};

use super::pure::sync;

const BOTH: &str = "off=JobPodReplacementPolicy,JobManagedBy";
const REPLACEMENT: &str = "off=JobPodReplacementPolicy";

fn check(text: &str, expected: Expect) {
    expected.assert_eq(&sync(text));
}

// Upstream: TestSyncJobWithJobBackoffLimitPerIndex, TestControllerSyncJob.
#[test]
fn a_failure_is_announced_only_where_a_job_waits_for_its_last_pod() {
    let job = "indexed parallelism=2 completions=2 backoffLimitPerIndex=1";
    let pods = "a:failed,ix=0,failures=1 b:succeeded,ix=1";
    check(
        &format!("{job} {BOTH} | {pods}"),
        expect![[r#"
        end
        write completedIndexes=1 failedIndexes=0 ready=0 start=00:00 succeeded=1 uncounted={failed:[a]}
        untrack a b
        write Failed(FailedIndexes) completedIndexes=1 failed=1 failedIndexes=0 ready=0 start=00:00 succeeded=1"#]],
    );
    check(
        &format!("{job} {REPLACEMENT} | {pods}"),
        expect![[r#"
        end
        write FailureTarget(FailedIndexes) completedIndexes=1 failedIndexes=0 ready=0 start=00:00 succeeded=1 uncounted={failed:[a]}
        untrack a b
        write Failed(FailedIndexes) FailureTarget(FailedIndexes) completedIndexes=1 failed=1 failedIndexes=0 ready=0 start=00:00 succeeded=1"#]],
    );
    let job = "indexed parallelism=4 completions=4 backoffLimitPerIndex=1 maxFailedIndexes=1";
    let pods = "a:failed,ix=0,failures=1 b:succeeded,ix=1 c:failed,ix=2,failures=1 d:running,ix=3";
    check(
        &format!("{job} {BOTH} | {pods}"),
        expect![[r#"
        end d
        write completedIndexes=1 failedIndexes=0,2 ready=0 start=00:00 succeeded=1 uncounted={failed:[a,c,d]}
        untrack a b c d
        write Failed(MaxFailedIndexesExceeded) completedIndexes=1 failed=3 failedIndexes=0,2 ready=0 start=00:00 succeeded=1"#]],
    );
    check(
        &format!("{job} {REPLACEMENT} | {pods}"),
        expect![[r#"
        end d
        write FailureTarget(MaxFailedIndexesExceeded) completedIndexes=1 failedIndexes=0,2 ready=0 start=00:00 succeeded=1 uncounted={failed:[a,c,d]}
        untrack a b c d
        write FailureTarget(MaxFailedIndexesExceeded) completedIndexes=1 failed=3 failedIndexes=0,2 ready=0 start=00:00 succeeded=1"#]],
    );
    let job = "indexed parallelism=2 completions=3 backoffLimit=0";
    let pods = "a:succeeded,ix=0 b:failed,ix=1 c:running,ix=2";
    check(
        &format!("{job} {BOTH} | {pods}"),
        expect![[r#"
        end c
        write completedIndexes=0 ready=0 start=00:00 succeeded=1 uncounted={failed:[b,c]}
        untrack a b c
        write Failed(BackoffLimitExceeded) completedIndexes=0 failed=2 ready=0 start=00:00 succeeded=1"#]],
    );
    check(
        &format!("{job} {REPLACEMENT} | {pods}"),
        expect![[r#"
        end c
        write FailureTarget(BackoffLimitExceeded) completedIndexes=0 ready=0 start=00:00 succeeded=1 uncounted={failed:[b,c]}
        untrack a b c
        write FailureTarget(BackoffLimitExceeded) completedIndexes=0 failed=2 ready=0 start=00:00 succeeded=1"#]],
    );
    let deadline = "parallelism=1 activeDeadlineSeconds=10 started=15";
    check(
        &format!("{deadline} {BOTH} | a:running"),
        expect![[r#"
        end a
        write ready=0 start=59:45 uncounted={failed:[a]}
        untrack a
        write Failed(DeadlineExceeded) failed=1 ready=0 start=59:45"#]],
    );
}

// Upstream: TestSyncJobWithJobSuccessPolicy, TestControllerSyncJob ("job finish"), TestTrackJobStatusAndRemoveFinalizers.
#[test]
fn a_success_is_announced_by_a_policy_and_otherwise_like_a_failure() {
    check(
        &format!("parallelism=1 completions=1 {BOTH} | a:succeeded"),
        expect![[r#"
            write ready=0 start=00:00 uncounted={succeeded:[a]}
            untrack a
            write Complete(CompletionsReached) completion=00:00 ready=0 start=00:00 succeeded=1"#]],
    );
    let job = r#"indexed parallelism=3 completions=3 success=[{"succeededIndexes":"0,1","succeededCount":1}]"#;
    let pods = "a1:failed,ix=0 a2:running,ix=0 b:succeeded,ix=1 c:running,ix=2";
    check(
        &format!("{job} {BOTH} | {pods}"),
        expect![[r#"
        end a2 c
        write SuccessCriteriaMet(SuccessPolicy) completedIndexes=1 ready=0 start=00:00 succeeded=1 uncounted={failed:[a1]}
        untrack a1 a2 b c
        write Complete(SuccessPolicy) SuccessCriteriaMet(SuccessPolicy) completedIndexes=1 completion=00:00 failed=1 ready=0 start=00:00 succeeded=1"#]],
    );
    check(
        &format!("{job} {REPLACEMENT} | {pods}"),
        expect![[r#"
        end a2 c
        write SuccessCriteriaMet(SuccessPolicy) completedIndexes=1 ready=0 start=00:00 succeeded=1 uncounted={failed:[a1]}
        untrack a1 a2 b c
        write SuccessCriteriaMet(SuccessPolicy) completedIndexes=1 failed=1 ready=0 start=00:00 succeeded=1"#]],
    );
}

// Upstream: TestTrackJobStatusAndRemoveFinalizers.
#[test]
fn an_end_that_was_announced_waits_for_the_last_pod_only_behind_either_gate() {
    let failed = "parallelism=1 completions=1 condition=FailureTarget lost=a";
    let met = "parallelism=1 completions=1 condition=SuccessCriteriaMet lost=a uncounted=b";
    let pods = "a:running,going,free";
    for gates in ["off=JobManagedBy", REPLACEMENT] {
        for job in [failed, met] {
            let lines = sync(&format!("{job} {gates} | {pods}"));
            assert!(
                !lines.contains("Failed(") && !lines.contains("Complete("),
                "{lines}"
            );
        }
    }
    check(
        &format!("{failed} {BOTH} | {pods}"),
        expect![[r#"
        end
        write FailureTarget(Before) failed=1 ready=0 start=00:00
        write Failed(Before) FailureTarget(Before) failed=1 ready=0 start=00:00"#]],
    );
    check(
        &format!("{met} {BOTH} | {pods}"),
        expect![[r#"
        end
        write SuccessCriteriaMet(Before) failed=1 ready=0 start=00:00 succeeded=1
        write Complete(Before) SuccessCriteriaMet(Before) completion=00:00 failed=1 ready=0 start=00:00 succeeded=1"#]],
    );
}

// Upstream: TestControllerSyncJob ("more terminating pods than parallelism; PodFailurePolicy used").
#[test]
fn terminating_pods_are_counted_but_not_listed() {
    let pods = "a:running b:running c:running,going d:running,going";
    check(
        &format!("parallelism=1 completions=1 policy=[] {BOTH} | {pods}"),
        expect![[r#"
            delete a
            write active=1 ready=0 start=00:00"#]],
    );
}

// Upstream: TestSyncJobPastDeadline.
#[test]
fn a_deadline_that_has_passed_ends_all_but_suspended_jobs() {
    check(
        &format!(
            "parallelism=1 completions=1 activeDeadlineSeconds=10 started=15 {BOTH} | a:running"
        ),
        expect![[r#"
        end a
        write ready=0 start=59:45 uncounted={failed:[a]}
        untrack a
        write Failed(DeadlineExceeded) failed=1 ready=0 start=59:45"#]],
    );
    check(
        &format!(
            "parallelism=1 completions=2 activeDeadlineSeconds=10 started=15 {BOTH} | a:running b:succeeded"
        ),
        expect![[r#"
        end a
        write ready=0 start=59:45 uncounted={failed:[a],succeeded:[b]}
        untrack a b
        write Failed(DeadlineExceeded) failed=1 ready=0 start=59:45 succeeded=1"#]],
    );
    check(
        &format!("parallelism=1 completions=1 activeDeadlineSeconds=10 started=10 {BOTH} |"),
        expect![[r#"
        end
        write ready=0 start=59:50
        write Failed(DeadlineExceeded) ready=0 start=59:50"#]],
    );
    check(
        &format!(
            "parallelism=1 completions=1 activeDeadlineSeconds=1 started=10 backoffLimit=0 {BOTH} | a:failed"
        ),
        expect![[r#"
        end
        write ready=0 start=59:50 uncounted={failed:[a]}
        untrack a
        write Failed(BackoffLimitExceeded) failed=1 ready=0 start=59:50"#]],
    );
    check(
        &format!(
            "suspend=true parallelism=1 completions=2 activeDeadlineSeconds=10 started=15 {BOTH} |"
        ),
        expect![[r#"
        delete
        event Suspended
        write Suspended(JobSuspended) ready=0"#]],
    );
    check(
        "parallelism=1 completions=2 activeDeadlineSeconds=10 started=15 off=JobManagedBy | a:running b:succeeded",
        expect![[r#"
        end a
        write FailureTarget(DeadlineExceeded) ready=0 start=59:45 terminating=1 uncounted={failed:[a],succeeded:[b]}
        untrack a b
        write FailureTarget(DeadlineExceeded) failed=1 ready=0 start=59:45 succeeded=1 terminating=1"#]],
    );
    check(
        &format!(
            "parallelism=1 completions=2 activeDeadlineSeconds=10 started=15 {REPLACEMENT} | a:running b:succeeded"
        ),
        expect![[r#"
        end a
        write FailureTarget(DeadlineExceeded) ready=0 start=59:45 uncounted={failed:[a],succeeded:[b]}
        untrack a b
        write FailureTarget(DeadlineExceeded) failed=1 ready=0 start=59:45 succeeded=1"#]],
    );
    check(
        &format!(
            "parallelism=1 completions=1 activeDeadlineSeconds=1 started=10 backoffLimit=0 {REPLACEMENT} | a:failed"
        ),
        expect![[r#"
        end
        write FailureTarget(BackoffLimitExceeded) ready=0 start=59:50 uncounted={failed:[a]}
        untrack a
        write Failed(BackoffLimitExceeded) FailureTarget(BackoffLimitExceeded) failed=1 ready=0 start=59:50"#]],
    );
}
