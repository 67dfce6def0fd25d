//! How many pods, and which.

use expect_test::{Expect, expect};

use super::pure::{reason, sync};

fn check(text: &str, expected: Expect) {
    expected.assert_eq(&sync(text));
}

// Upstream: TestControllerSyncJob ("job start", "WQ job start", "pending pods", "correct # of pods").
#[test]
fn runs_as_many_as_it_may() {
    check(
        "parallelism=2 completions=5",
        expect![[r#"
        create 2
        write active=2 ready=0 start=00:00 terminating=0"#]],
    );
    check(
        "parallelism=2",
        expect![[r#"
        create 2
        write active=2 ready=0 start=00:00 terminating=0"#]],
    );
    check(
        "parallelism=7 completions=3",
        expect![[r#"
        create 3
        write active=3 ready=0 start=00:00 terminating=0"#]],
    );
    check(
        "parallelism=2 completions=5 | a:pending b:pending",
        expect!["write active=2 ready=0 start=00:00 terminating=0"],
    );
    let settled = "parallelism=3 completions=5 active=3 ready=2 terminating=0 started=9";
    check(
        &format!("{settled} | a:running,ready b:running,ready c:running"),
        expect![[""]],
    );
    check(
        "parallelism=1 completions=1 active=1 failed=1 ready=0 terminating=0 started=9 | a:running",
        expect![[""]],
    );
    check(
        "parallelism=900 completions=2000",
        expect![[r#"
        create 500
        write active=500 ready=0 start=00:00 terminating=0"#]],
    );
    check(
        "parallelism=0 completions=5",
        expect!["write ready=0 start=00:00 terminating=0"],
    );
}

// Upstream: TestControllerSyncJob ("too few active pods", "status change").
#[test]
fn successes_make_room_for_others() {
    check(
        "parallelism=2 completions=5 | a:running b:succeeded",
        expect![[r#"
            create 1
            write active=2 ready=0 start=00:00 terminating=0 uncounted={succeeded:[b]}
            untrack b
            write active=2 ready=0 start=00:00 succeeded=1 terminating=0"#]],
    );
    check(
        "parallelism=2 completions=5 | a:running b:running c:succeeded d:succeeded",
        expect![[r#"
            write active=2 ready=0 start=00:00 terminating=0 uncounted={succeeded:[c,d]}
            untrack c d
            write active=2 ready=0 start=00:00 succeeded=2 terminating=0"#]],
    );
    check(
        "parallelism=3 completions=4 | a:running b:running c:running d:succeeded e:succeeded",
        expect![[r#"
            delete a
            write active=2 ready=0 start=00:00 terminating=1 uncounted={succeeded:[d,e]}
            untrack d e
            write active=2 ready=0 start=00:00 succeeded=2 terminating=1"#]],
    );
}

// Upstream: TestControllerSyncJob ("too many active pods", "count ready pods when too many active pods",
// "more active pods than parallelism").
#[test]
fn too_many_go_the_least_useful_first() {
    check(
        "parallelism=1 completions=5 | a:running,bound,ready b:pending c:running,bound d:pending,bound",
        expect![[r#"
            delete b d c
            write active=1 ready=1 start=00:00 terminating=3"#]],
    );
    check(
        "parallelism=2 completions=5 | a:running,ready b:running,ready c:running,ready",
        expect![[r#"
            delete a
            write active=2 ready=2 start=00:00 terminating=1"#]],
    );
    check(
        "parallelism=1 completions=5 | a:running,bound,restarts=1 b:running,bound,restarts=3 c:running,bound",
        expect![[r#"
            delete b a
            write active=1 ready=0 start=00:00 terminating=2"#]],
    );
}

// Upstream: TestControllerSyncJob (indexed jobs), TestAppendDuplicatedIndexPodsForRemoval.
#[test]
fn each_index_has_one_pod() {
    let job = "indexed parallelism=3 completions=4";
    check(
        &format!("{job} | a:running,ix=1"),
        expect![[r#"
        create [0, 2]
        write active=3 ready=0 start=00:00 terminating=0"#]],
    );
    check(
        &format!("{job} | a:failed,ix=0 b:pending,ix=1 c:failed,ix=2"),
        expect![[r#"
            create [0, 2]
            write active=3 ready=0 start=00:00 terminating=0 uncounted={failed:[a,c]}
            untrack a c
            write active=3 failed=2 ready=0 start=00:00 terminating=0"#]],
    );
    check(
        &format!("{job} | a:running,ix=0 b:running,ready,ix=0 c:running,ix=4 d:running"),
        expect![[r#"
            delete a c d
            write active=1 ready=1 start=00:00 terminating=3"#]],
    );
    check(
        &format!("{job} | a:succeeded,ix=0 b:succeeded,ix=1 c:succeeded,ix=1 d:running,ix=3"),
        expect![[r#"
            create [2]
            write active=2 completedIndexes=0,1 ready=0 start=00:00 succeeded=2 terminating=0
            untrack a b c"#]],
    );
    check(
        &format!("{job} completed=0-1 succeeded=2 | a:succeeded,ix=1 b:running,ix=2"),
        expect![[r#"
            create [3]
            write active=2 completedIndexes=0,1 ready=0 start=00:00 succeeded=2 terminating=0
            untrack a"#]],
    );
    check(
        "indexed parallelism=8 completions=20 | a:running,ix=0 b:succeeded,ix=2 c:pending,ix=3 d:succeeded,ix=4 e:succeeded,ix=9",
        expect![[r#"
            create [1, 5, 6, 7, 8, 10]
            write active=8 completedIndexes=2,4,9 ready=0 start=00:00 succeeded=3 terminating=0
            untrack b d e"#]],
    );
}

// Upstream: TestControllerSyncJob (PodReplacementPolicy).
#[test]
fn a_pod_on_its_way_out_may_hold_its_place() {
    let pods = "a:running b:running,going";
    check(
        &format!("parallelism=2 completions=2 | {pods}"),
        expect![[r#"
            wait 9s
            write active=1 ready=0 start=00:00 terminating=1 uncounted={failed:[b]}
            untrack b
            write active=1 failed=1 ready=0 start=00:00 terminating=1"#]],
    );
    check(
        &format!("parallelism=2 completions=2 replace=Failed | {pods}"),
        expect!["write active=1 ready=0 start=00:00 terminating=1"],
    );
    check(
        &format!("parallelism=2 completions=2 policy=[] | {pods}"),
        expect!["write active=1 ready=0 start=00:00 terminating=1"],
    );
    check(
        "parallelism=1 replace=Failed | a:running b:failed c:running,going",
        expect![[r#"
            write active=1 ready=0 start=00:00 terminating=1 uncounted={failed:[b]}
            untrack b
            write active=1 failed=1 ready=0 start=00:00 terminating=1"#]],
    );
    check(
        "parallelism=1 completions=1 | a:running b:failed c:running,going",
        expect![[r#"
            write active=1 ready=0 start=00:00 terminating=1 uncounted={failed:[b,c]}
            untrack b c
            write active=1 failed=2 ready=0 start=00:00 terminating=1"#]],
    );
    check(
        "parallelism=1 completions=1 replace=Failed | a:running b:running c:running,going d:running,going",
        expect![[r#"
            delete a
            write active=1 ready=0 start=00:00 terminating=3"#]],
    );
    check(
        "indexed parallelism=2 completions=5 replace=Failed | a:running,going,ix=0",
        expect![[r#"
            create [1]
            write active=1 ready=0 start=00:00 terminating=1"#]],
    );
    check(
        "indexed parallelism=2 completions=5 | a:running,going,ix=0",
        expect![[r#"
            wait 9s
            write ready=0 start=00:00 terminating=1 uncounted={failed:[a]}
            untrack a
            write failed=1 ready=0 start=00:00 terminating=1"#]],
    );
}

// Upstream: TestControllerSyncJob (back-off), TestJobBackoffReset.
#[test]
fn a_replacement_waits() {
    check(
        "parallelism=2 completions=2 backoff=1@0 | a:running,ready",
        expect![[r#"
            wait 10s
            write active=1 ready=1 start=00:00 terminating=0"#]],
    );
    check(
        "parallelism=1 completions=1 backoff=3@30 failed=3",
        expect![[r#"
            wait 10s
            write failed=3 ready=0 start=00:00 terminating=0"#]],
    );
    check(
        "parallelism=1 completions=1 backoff=3@40 failed=3",
        expect![[r#"
            create 1
            write active=1 failed=3 ready=0 start=00:00 terminating=0"#]],
    );
    check(
        "parallelism=1 completions=1 | a:failed,ended=4",
        expect![[r#"
            wait 6s
            write ready=0 start=00:00 terminating=0 uncounted={failed:[a]}
            untrack a
            write failed=1 ready=0 start=00:00 terminating=0"#]],
    );
    check(
        "parallelism=1 completions=2 backoff=3@5 failed=3 | a:succeeded,ended=1",
        expect![[r#"
            create 1
            write active=1 failed=3 ready=0 start=00:00 terminating=0 uncounted={succeeded:[a]}
            untrack a
            write active=1 failed=3 ready=0 start=00:00 succeeded=1 terminating=0"#]],
    );
    check(
        "parallelism=1 completions=1 backoff=1@9 failed=1",
        expect![[r#"
            wait 1s
            write failed=1 ready=0 start=00:00 terminating=0"#]],
    );
}

// Upstream: TestGetPodCreationInfoForIndependentIndexes, TestSyncJobWithJobBackoffLimitPerIndex.
#[test]
fn each_index_waits_for_itself() {
    let job = "indexed parallelism=3 completions=3 backoffLimitPerIndex=5";
    check(
        &format!("{job} | a:failed,ix=0,ended=1 b:failed,ix=1,failures=1,ended=1 c:running,ix=2"),
        expect![[r#"
            wait 9s
            write active=1 failedIndexes= ready=0 start=00:00 terminating=0"#]],
    );
    check(
        &format!("{job} | a:failed,ix=0,ended=11 b:failed,ix=1,failures=1,ended=11 c:running,ix=2"),
        expect![[r#"
            create [0]
            write active=2 failedIndexes= ready=0 start=00:00 terminating=0"#]],
    );
    check(
        &format!(
            "{job} | a:failed,ix=0,failures=1,ended=60 b:failed,ix=0,failures=2,ignored=1,ended=50 c:running,ix=1 d:running,ix=2"
        ),
        expect![[r#"
            wait 30s
            write active=2 failedIndexes= ready=0 start=00:00 terminating=0 uncounted={failed:[a]}
            untrack a
            write active=2 failed=1 failedIndexes= ready=0 start=00:00 terminating=0"#]],
    );
}

// Upstream: TestControllerSyncJob ("suspending a job...", "resuming a job...").
#[test]
fn a_suspended_job_has_no_pods() {
    check(
        "suspend parallelism=2 completions=5 | a:running b:running,ready c:succeeded",
        expect![[r#"
            delete a b
            event Suspended
            write Suspended(JobSuspended) ready=0 terminating=2 uncounted={succeeded:[c]}
            untrack c
            write Suspended(JobSuspended) ready=0 succeeded=1 terminating=2"#]],
    );
    check(
        "suspend parallelism=2 completions=5 ready=0 terminating=0 condition=Suspended",
        expect!["delete"],
    );
    check(
        "parallelism=2 completions=5 condition=Suspended",
        expect![[r#"
            create 2
            event Resumed
            write active=2 not Suspended(JobResumed) ready=0 start=00:00 terminating=0"#]],
    );
    check(
        "suspend parallelism=2 completions=1 | a:succeeded",
        expect![[r#"
            delete
            write SuccessCriteriaMet(CompletionsReached) ready=0 terminating=0 uncounted={succeeded:[a]}
            untrack a
            write Complete(CompletionsReached) SuccessCriteriaMet(CompletionsReached) completion=00:00 ready=0 succeeded=1 terminating=0"#]],
    );
    check(
        "suspend unseen parallelism=2 completions=4 | a:running,ready b:running,ready c:running,ready",
        expect![[r#"
            hold
            write active=3 ready=3 terminating=0"#]],
    );
    // One that is being deleted is not suspended any more.
    check(
        "suspend deleting parallelism=2 completions=4 | a:running b:running",
        expect![[r#"
            hold
            write active=2 ready=0 terminating=0
            untrack a b"#]],
    );
    check(
        "suspend unseen parallelism=2 completions=5 | a:running",
        expect![[r#"
            hold
            write active=1 ready=0 terminating=0"#]],
    );
}

// Upstream: TestControllerSyncJob ("deleting job", "... unsatisfied expectations"), TestSyncJobExpectations.
#[test]
fn nothing_is_done_on_half_knowledge() {
    check(
        "deleting parallelism=2 completions=5 | a:pending b:running c:succeeded",
        expect![[r#"
            hold
            write active=2 ready=0 start=00:00 terminating=0 uncounted={succeeded:[c]}
            untrack a b c
            write active=2 ready=0 start=00:00 succeeded=1 terminating=0"#]],
    );
    check(
        "unseen parallelism=2 completions=5 | a:succeeded",
        expect![[r#"
            hold
            write ready=0 start=00:00 terminating=0 uncounted={succeeded:[a]}
            untrack a
            write ready=0 start=00:00 succeeded=1 terminating=0"#]],
    );
    check(
        "deleting parallelism=2 completions=5 backoffLimit=0 | a:failed",
        expect![[r#"
            end
            write FailureTarget(BackoffLimitExceeded) ready=0 start=00:00 terminating=0 uncounted={failed:[a]}
            untrack a
            write Failed(BackoffLimitExceeded) FailureTarget(BackoffLimitExceeded) failed=1 ready=0 start=00:00 terminating=0"#]],
    );
    check(
        "deleting unseen parallelism=2 completions=5 backoffLimit=0 | a:failed",
        expect![[r#"
            end
            write ready=0 start=00:00 terminating=0 uncounted={failed:[a]}
            untrack a
            write failed=1 ready=0 start=00:00 terminating=0"#]],
    );
    check(
        "unseen parallelism=2 completions=5 backoffLimit=0 | a:failed b:running",
        expect![[r#"
            end b
            write ready=0 start=00:00 terminating=1 uncounted={failed:[a]}
            untrack a
            write failed=1 ready=0 start=00:00 terminating=1"#]],
    );
}

#[test]
fn says_why() {
    let told = [
        "parallelism=2 completions=5 | a:running",
        "parallelism=1 completions=5 | a:running b:running",
        "parallelism=1 completions=5 succeeded=3 | a:running",
        "parallelism=1 completions=2 succeeded=2",
        "parallelism=1 replace=Failed | a:running,going",
        "suspend | a:running",
        "suspend",
        "backoffLimit=0 parallelism=2 | a:failed b:running",
        "backoff=2@5 failed=2",
        "unseen",
        "deleting",
    ]
    .map(reason);
    expect![[r#"
        acts: creates 1 pod: it has 1 of 2
        acts: deletes 1 pod: it has 2 and wants 1
        states: has the 1 pod it wants: 3 of 5 succeeded
        states: wants no pods: 2 of 2 succeeded
        waits: waits for 1 terminating pod to end: podReplacementPolicy replaces pods only when they have ended; 0 succeeded
        acts: deletes 1 pod: it is suspended
        waits: is suspended [hint: set spec.suspend to false to resume it]
        acts: ends (BackoffLimitExceeded) and deletes 1 active pod: Job has reached the specified backoff limit
        waits: replaces failed pods at 2024-01-01T01:00:15Z: 2 pods failed since the last success
        waits: waits for the cache: it does not show yet which pods were just created or deleted
        states: is being deleted: its pods are left to the garbage collector"#]].assert_eq(&told.join("\n"));
}
