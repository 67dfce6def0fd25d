//! Which pods are counted, and which indexes: the rows of upstream's tables that are about books.

use expect_test::{Expect, expect};

use super::super::assess::{all_failures, assess, failure_count};
use super::pure::{now, pod, snapshot, sync};

fn check(text: &str, expected: Expect) {
    expected.assert_eq(&sync(text));
}

// Upstream: TestTrackJobStatusAndRemoveFinalizers, TestGetNewFinshedPods.
#[test]
fn what_was_written_down_before_is_counted_with_what_is_new() {
    let job = "parallelism=9 started=9 backoff=1@0 ready=0 terminating=0";
    check(
        &format!(
            "{job} | a:succeeded b:failed c:succeeded,going d:failed,going e:pending,going f:pending g:running"
        ),
        expect![[r#"
            write active=2 ready=0 start=59:51 terminating=1 uncounted={failed:[b,d,e],succeeded:[a,c]}
            untrack a b c d e
            write active=2 failed=3 ready=0 start=59:51 succeeded=2 terminating=1"#]],
    );
    check(
        &format!(
            "{job} active=1 succeeded=2 failed=3 uncounted=a,e lost=b,f | e:succeeded,free x:failed,free y:pending,free a:succeeded b:failed c:succeeded d:failed"
        ),
        expect![[r#"
            write active=1 failed=4 ready=0 start=59:51 succeeded=3 terminating=0 uncounted={failed:[b,d],succeeded:[a,c]}
            untrack a b c d
            write active=1 failed=6 ready=0 start=59:51 succeeded=5 terminating=0"#]],
    );
    // Some of them wait only for the cache to show that their finalizer went.
    check(
        &format!(
            "{job} succeeded=2 failed=3 uncounted=a,g lost=b,h leaving=c,d,g,h | a:succeeded b:failed c:succeeded d:failed e:succeeded f:failed g:succeeded h:failed"
        ),
        expect![[r#"
            write SuccessCriteriaMet(CompletionsReached) failed=4 ready=0 start=59:51 succeeded=3 terminating=0 uncounted={failed:[b,f],succeeded:[a,e]}
            untrack a b e f
            write Complete(CompletionsReached) SuccessCriteriaMet(CompletionsReached) completion=00:00 failed=6 ready=0 start=59:51 succeeded=5 terminating=0"#]],
    );
    check(
        &format!("deleting {job} active=1 | a:succeeded b:failed c:running"),
        expect![[r#"
            hold
            write active=1 ready=0 start=59:51 terminating=0 uncounted={failed:[b],succeeded:[a]}
            untrack a b c
            write active=1 failed=1 ready=0 start=59:51 succeeded=1 terminating=0"#]],
    );
}

// Upstream: TestTrackJobStatusAndRemoveFinalizers.
#[test]
fn a_pod_that_changed_its_mind_has_failed() {
    let job = "parallelism=2 completions=2 condition=FailureTarget";
    check(
        &format!("{job} lost=a,b | a:failed b:succeeded"),
        expect![[r#"
            end
            write FailureTarget(Before) ready=0 start=00:00 terminating=0 uncounted={failed:[a,b]}
            untrack a b
            write Failed(Before) FailureTarget(Before) failed=2 ready=0 start=00:00 terminating=0"#]],
    );
    check(
        &format!("{job} lost=a | a:failed"),
        expect![[r#"
        end
        write FailureTarget(Before) ready=0 start=00:00 terminating=0 uncounted={failed:[a]}
        untrack a
        write Failed(Before) FailureTarget(Before) failed=1 ready=0 start=00:00 terminating=0"#]],
    );
}

// Upstream: TestTrackJobStatusAndRemoveFinalizers (indexed jobs), TestControllerSyncJob, TestCalculateSucceededIndexes.
#[test]
fn an_index_is_counted_once_and_only_if_the_job_has_it() {
    let settled = "indexed parallelism=1 started=9 backoff=1@0 ready=0 terminating=0";
    check(
        &format!(
            "{settled} completions=6 active=1 | a:succeeded,ix=1 b:succeeded,ix=3 c:succeeded,ix=3 d:running,ix=5 e:succeeded"
        ),
        expect![[r#"
            write active=1 completedIndexes=1,3 ready=0 start=59:51 succeeded=2 terminating=0
            untrack e a b c"#]],
    );
    check(
        &format!(
            "{settled} completions=6 active=1 | a:failed,ix=1 b:failed,ix=3 c:failed,ix=3 d:running,ix=5 e:failed"
        ),
        expect![[r#"
            write active=1 ready=0 start=59:51 terminating=0 uncounted={failed:[a,b,c]}
            untrack e a b c
            write active=1 failed=3 ready=0 start=59:51 terminating=0"#]],
    );
    // Completions went down: indexes that the job no longer has are forgotten.
    let fewer = "indexed parallelism=2 completions=2 started=9 active=2 ready=0 terminating=0";
    check(
        &format!("{fewer} succeeded=1 completed=3 | a:running,ix=0 b:running,ix=1"),
        expect!["write active=2 ready=0 start=59:51 terminating=0"],
    );
    check(
        &format!("{fewer} succeeded=1 completed=3 | a:running,ix=0 b:succeeded,ix=1"),
        expect![[r#"
            write active=1 completedIndexes=1 ready=0 start=59:51 succeeded=1 terminating=0
            untrack b"#]],
    );
    check(
        &format!(
            "{settled} completions=7 failed=2 succeeded=5 completed=0-2,4,6,7 | p:succeeded,free,ix=0 q:failed,free,ix=1 r:succeeded,ix=1 s:succeeded,ix=3 a:failed,ix=2 b:failed,ix=5"
        ),
        expect![[r#"
            create [5]
            write active=1 completedIndexes=0-4,6 failed=2 ready=0 start=59:51 succeeded=6 terminating=0 uncounted={failed:[a,b]}
            untrack r a s b
            write active=1 completedIndexes=0-4,6 failed=4 ready=0 start=59:51 succeeded=6 terminating=0"#]],
    );
}

// Upstream: TestControllerSyncJob (indexed jobs).
#[test]
fn pods_without_an_index_of_the_job_go_and_count_for_nothing() {
    check(
        "indexed parallelism=2 completions=3 | a:succeeded,ix=0 b:failed,ix=1 c:succeeded,ix=1 d:succeeded,ix=2",
        expect![[r#"
            write SuccessCriteriaMet(CompletionsReached) completedIndexes=0-2 ready=0 start=00:00 succeeded=3 terminating=0 uncounted={failed:[b]}
            untrack a b c d
            write Complete(CompletionsReached) SuccessCriteriaMet(CompletionsReached) completedIndexes=0-2 completion=00:00 failed=1 ready=0 start=00:00 succeeded=3 terminating=0"#]],
    );
    check(
        "indexed parallelism=2 completions=5 | a:running b:succeeded c:failed d:running,ix=x e:succeeded,ix=x f:failed,ix=x g:pending,ix=x h:succeeded,ix=0 i:running,ix=1 j:running,ix=2",
        expect![[r#"
            delete g a d
            write active=2 completedIndexes=0 ready=0 start=00:00 succeeded=1 terminating=3
            untrack b c e f h"#]],
    );
    check(
        "indexed parallelism=5 completions=5 | a:succeeded b:failed c:running,ix=x d:succeeded,ix=0 e:running,ix=1 f:running,ix=2 g:pending,ix=2",
        expect![[r#"
            delete g c
            write active=2 completedIndexes=0 ready=0 start=00:00 succeeded=1 terminating=2
            untrack a b d"#]],
    );
    check(
        "indexed parallelism=2 completions=5 | a:succeeded,ix=0 b:running,ix=5 c:succeeded,ix=6 d:pending,ix=7 e:failed,ix=8",
        expect![[r#"
            delete d b
            write completedIndexes=0 ready=0 start=00:00 succeeded=1 terminating=2
            untrack a c e"#]],
    );
}

// Upstream: TestTrackJobStatusAndRemoveFinalizers ("too many finished").
#[test]
fn what_was_written_down_before_takes_up_room() {
    let pods: Vec<String> = (0..500)
        .map(|number| format!("p{number:03}:succeeded"))
        .collect();
    let lines = sync(&format!(
        "parallelism=1 completions=900 started=9 backoff=1@0 lost=a,b | {} b:failed",
        pods.join(" ")
    ));
    let untracked = lines.lines().find(|line| line.starts_with("untrack"));
    assert_eq!(untracked.unwrap().split_whitespace().count() - 1, 499);
    let last = lines.lines().last().unwrap();
    expect!["write active=1 failed=1 ready=0 start=59:51 succeeded=499 terminating=0 uncounted={failed:[b]}"].assert_eq(last);
}

// Upstream: TestSyncJobWithJobBackoffLimitPerIndex, TestTrackJobStatusAndRemoveFinalizers.
#[test]
fn each_index_fails_or_succeeds_for_itself() {
    let job = "indexed parallelism=2 completions=2 backoffLimitPerIndex=1 started=9";
    let on_3 = |action: &str| {
        format!(
            r#"policy=[{{"action":"{action}","onExitCodes":{{"operator":"In","values":[3]}}}}]"#
        )
    };
    check(
        &format!(
            "{job} | a1:failed,ix=0,failures=0 a2:succeeded,ix=0,failures=1 b:succeeded,ix=1,failures=0"
        ),
        expect![[r#"
            write SuccessCriteriaMet(CompletionsReached) completedIndexes=0,1 failedIndexes= ready=0 start=59:51 succeeded=2 terminating=0 uncounted={failed:[a1]}
            untrack a1 a2 b
            write Complete(CompletionsReached) SuccessCriteriaMet(CompletionsReached) completedIndexes=0,1 completion=00:00 failed=1 failedIndexes= ready=0 start=59:51 succeeded=2 terminating=0"#]],
    );
    check(
        &format!("{job} | a:failed,ix=0,failures=0"),
        expect![[r#"
            create [0, 1]
            write active=2 failedIndexes= ready=0 start=59:51 terminating=0"#]],
    );
    check(
        &format!("{job} | a:failed,ix=0,failures=0 b:pending,ix=0,failures=1"),
        expect![[r#"
            create [1]
            write active=2 failedIndexes= ready=0 start=59:51 terminating=0 uncounted={failed:[a]}
            untrack a
            write active=2 failed=1 failedIndexes= ready=0 start=59:51 terminating=0"#]],
    );
    check(
        &format!("{job} | a:failed,ix=0,failures=1"),
        expect![[r#"
            create [1]
            write active=1 failedIndexes=0 ready=0 start=59:51 terminating=0 uncounted={failed:[a]}
            untrack a
            write active=1 failed=1 failedIndexes=0 ready=0 start=59:51 terminating=0"#]],
    );
    check(
        &format!(
            "{job} {} | a:failed,ix=0,failures=0,exit=3",
            on_3("FailIndex")
        ),
        expect![[r#"
            create [1]
            write active=1 failedIndexes=0 ready=0 start=59:51 terminating=0 uncounted={failed:[a]}
            untrack a
            write active=1 failed=1 failedIndexes=0 ready=0 start=59:51 terminating=0"#]],
    );
    check(
        &format!(
            "{job} {} | a:failed,ix=0,failures=0,exit=3",
            on_3("FailJob")
        ),
        expect![[r#"
            end
            write FailureTarget(PodFailurePolicy) failedIndexes= ready=0 start=59:51 terminating=0 uncounted={failed:[a]}
            untrack a
            write Failed(PodFailurePolicy) FailureTarget(PodFailurePolicy) failed=1 failedIndexes= ready=0 start=59:51 terminating=0"#]],
    );
    check(
        &format!("{job} {} | a:failed,ix=0,failures=0,exit=3", on_3("Ignore")),
        expect![[r#"
            create [0, 1]
            write active=2 failedIndexes= ready=0 start=59:51 terminating=0"#]],
    );
    check(
        &format!("{job} backoffLimit=1 | a:failed,ix=0,failures=0 b:failed,ix=1,failures=0"),
        expect![[r#"
            end
            write FailureTarget(BackoffLimitExceeded) failedIndexes= ready=0 start=59:51 terminating=0 uncounted={failed:[a,b]}
            untrack a b
            write Failed(BackoffLimitExceeded) FailureTarget(BackoffLimitExceeded) failed=2 failedIndexes= ready=0 start=59:51 terminating=0"#]],
    );
    check(
        &format!("{job} | a:failed,ix=0,failures=1 b:succeeded,ix=1,failures=0"),
        expect![[r#"
            end
            write FailureTarget(FailedIndexes) completedIndexes=1 failedIndexes=0 ready=0 start=59:51 succeeded=1 terminating=0 uncounted={failed:[a]}
            untrack a b
            write Failed(FailedIndexes) FailureTarget(FailedIndexes) completedIndexes=1 failed=1 failedIndexes=0 ready=0 start=59:51 succeeded=1 terminating=0"#]],
    );
}

// Upstream: TestCalculateFailedIndexes, TestIsIndexFailed.
#[test]
fn an_index_fails_with_the_last_try_that_it_has() {
    let failed = |text: &str| {
        let assessed = assess(&snapshot(&format!("indexed completions=2 {text}")), now());
        assessed.indexes.unwrap().failed.unwrap().to_string()
    };
    let once = "backoffLimitPerIndex=1";
    let never = "backoffLimitPerIndex=0";
    let pods = "a:failed,ix=0,failures=0 b:failed,ix=1,failures=1";
    assert_eq!(failed(&format!("{once} | {pods}")), "1");
    let tried = "failed,failures=0";
    assert_eq!(failed(&format!("{never} | a:{tried},ix=0")), "0");
    assert_eq!(failed(&format!("{never} | a:{tried},ix=0,free")), "");
    assert_eq!(failed(&format!("{never} | a:{tried},ix=3")), "");
    for (before, after) in [("0", "0,1"), ("", "1"), ("9", "1")] {
        let text = format!("{never} failedIndexes={before} | a:{tried},ix=1");
        assert_eq!(failed(&text), after, "{before}");
    }
}

// Upstream: TestGetPodsWithDelayedDeletionPerIndex.
#[test]
fn the_last_failure_of_an_index_waits_for_its_successor() {
    let waiting = |limit: i32, text: &str| {
        let job = format!("indexed completions=3 backoffLimitPerIndex={limit}");
        let assessed = assess(&snapshot(&format!("{job} {text}")), now());
        let delayed = assessed.indexes.unwrap().delayed;
        let names: Vec<&str> = delayed.values().map(|pod| &*pod.metadata.name).collect();
        names.join(" ")
    };
    let pods = "a:failed,ix=0,failures=0 b:failed,ix=1,failures=1 c:failed,ix=2,failures=0";
    assert_eq!(waiting(1, &format!("| {pods}")), "a c");
    assert_eq!(waiting(1, "| a:failed,ix=0,free"), "");
    assert_eq!(waiting(1, "leaving=a | a:failed,ix=0"), "");
    assert_eq!(waiting(1, "| a:failed,ix=4"), "");
    assert_eq!(
        waiting(1, "| a1:failed,ix=0 a2:running,ix=0,failures=1"),
        ""
    );
    assert_eq!(
        waiting(1, "| a1:failed,ix=0 a2:succeeded,ix=0,failures=1"),
        ""
    );
    // Of several the one that has failed most often, or last.
    let counts = "a1:failed,ix=0,failures=0 a3:failed,ix=0,failures=2 a2:failed,ix=0,failures=1";
    assert_eq!(waiting(4, &format!("| {counts}")), "a3");
    let times = "a1:failed,ix=0,ended=8 a3:failed,ix=0,ended=7 a2:failed,ix=0,ended=9";
    assert_eq!(waiting(4, &format!("| {times}")), "a3");
}

// Upstream: TestGetIndexFailureCount.
#[test]
fn a_count_that_makes_no_sense_is_none() {
    let count = |facts: &str| failure_count(&pod(&format!("a:failed,{facts}")));
    assert_eq!(count("ix=0"), 0);
    assert_eq!(count("failures=2"), 2);
    assert_eq!(count("failures=2147483647"), i32::MAX);
    assert_eq!(count("failures=2147483648"), 0);
    assert_eq!(count("failures=-1"), 0);
    assert_eq!(count("failures=xyz"), 0);
    assert_eq!(
        all_failures(&pod("a:failed,failures=2147483647,ignored=2")),
        i32::MAX
    );
}

// Upstream: TestFirstPendingIndexes, TestAppendDuplicatedIndexPodsForRemoval.
#[test]
fn new_pods_get_the_lowest_free_indexes() {
    let act = |text: &str| {
        let lines = sync(&format!("indexed backoff=1@99 {text}"));
        lines.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(act("parallelism=5 completions=3"), "create [0, 1, 2]");
    assert_eq!(act("parallelism=2 completions=5"), "create [0, 1]");
    assert_eq!(
        act("parallelism=5 completions=10 | a:running,ix=0 b:pending,ix=1"),
        "create [2, 3, 4]"
    );
    assert_eq!(
        act("parallelism=8 completions=20 completed=2-4,9 | b:running,ix=5 c:pending,ix=8"),
        "create [0, 1, 6, 7, 10, 11]"
    );
    assert_eq!(
        act(
            "parallelism=6 completions=20 backoffLimitPerIndex=1 completed=1,5,9 failedIndexes=2,6-7 | a:pending,ix=3"
        ),
        "create [0, 4, 8, 10, 11]"
    );
    // Of several pods of one index the one that has come furthest stays.
    assert_eq!(
        act("parallelism=6 completions=6 | a:pending b:pending,ix=2 c:running,ix=5 d:running,ix=6"),
        "delete a d"
    );
    assert_eq!(
        act(
            "parallelism=6 completions=6 | a:pending,ix=5 b:running,ix=0 c:pending,ix=3 d:running,ready,ix=0 e:running,ix=3 f:pending,ix=0 g:running,ix=6 h:pending,ix=6"
        ),
        "delete c f h b g"
    );
    assert_eq!(
        act(
            "parallelism=6 completions=6 | a:pending b:running,ix=invalid c:running,ix=-2 d:pending,ix=0 e:pending,ix=1 f:pending,ix=1 g:running,ix=1"
        ),
        "delete a e f b c"
    );
}

// Upstream: TestSyncJobWithJobSuccessPolicy.
#[test]
fn a_success_policy_goes_with_limits_for_each_index() {
    let job = |limit: i32, rules: &str| {
        format!(
            "indexed parallelism=2 completions=2 backoffLimitPerIndex={limit} started=9 success={rules}"
        )
    };
    let one_of_two = r#"[{"succeededIndexes":"0,1","succeededCount":1}]"#;
    // The index has tries left when the policy is met: the last failure is counted all the same.
    check(
        &format!(
            "{} | a1:failed,ix=0 a2:running,ix=0 b:succeeded,ix=1",
            job(2, one_of_two)
        ),
        expect![[r#"
            end a2
            write SuccessCriteriaMet(SuccessPolicy) completedIndexes=1 failedIndexes= ready=0 start=59:51 succeeded=1 terminating=1 uncounted={failed:[a1]}
            untrack a1 a2 b
            write SuccessCriteriaMet(SuccessPolicy) completedIndexes=1 failed=1 failedIndexes= ready=0 start=59:51 succeeded=1 terminating=1"#]],
    );
    check(
        &format!(
            "{} condition=SuccessCriteriaMet | a:failed,ix=0 b:succeeded,ix=1",
            job(2, one_of_two)
        ),
        expect![[r#"
            end
            write SuccessCriteriaMet(Before) completedIndexes=1 failedIndexes= ready=0 start=59:51 succeeded=1 terminating=0 uncounted={failed:[a]}
            untrack a b
            write Complete(Before) SuccessCriteriaMet(Before) completedIndexes=1 completion=00:00 failed=1 failedIndexes= ready=0 start=59:51 succeeded=1 terminating=0"#]],
    );
    check(
        &format!(
            "{} condition=SuccessCriteriaMet | a1:failed,ix=0 a2:running,ix=1 b:succeeded,ix=1",
            job(3, one_of_two)
        ),
        expect![[r#"
            end a2
            write SuccessCriteriaMet(Before) completedIndexes=1 failedIndexes= ready=0 start=59:51 succeeded=1 terminating=1 uncounted={failed:[a1]}
            untrack a1 a2 b
            write SuccessCriteriaMet(Before) completedIndexes=1 failed=1 failedIndexes= ready=0 start=59:51 succeeded=1 terminating=1"#]],
    );
    // Both at once: it has failed.
    check(
        &format!(
            "{} | a:failed,ix=0,failures=1 b:succeeded,ix=1",
            job(1, one_of_two)
        ),
        expect![[r#"
            end
            write FailureTarget(FailedIndexes) completedIndexes=1 failedIndexes=0 ready=0 start=59:51 succeeded=1 terminating=0 uncounted={failed:[a]}
            untrack a b
            write Failed(FailedIndexes) FailureTarget(FailedIndexes) completedIndexes=1 failed=1 failedIndexes=0 ready=0 start=59:51 succeeded=1 terminating=0"#]],
    );
    // But a success that was announced stays one.
    check(
        &format!(
            "{} condition=SuccessCriteriaMet completed=1 succeeded=1 | a:failed,ix=0,failures=1 b:succeeded,ix=1",
            job(1, r#"[{"succeededIndexes":"1"}]"#)
        ),
        expect![[r#"
            end
            write SuccessCriteriaMet(Before) completedIndexes=1 failedIndexes=0 ready=0 start=59:51 succeeded=1 terminating=0 uncounted={failed:[a]}
            untrack a b
            write Complete(Before) SuccessCriteriaMet(Before) completedIndexes=1 completion=00:00 failed=1 failedIndexes=0 ready=0 start=59:51 succeeded=1 terminating=0"#]],
    );
    check(
        &format!(
            "{} condition=SuccessCriteriaMet backoffLimit=1 completed=1 succeeded=1 | a:failed,ix=0 c:failed,ix=0 b:succeeded,ix=1",
            job(3, one_of_two)
        ),
        expect![[r#"
            end
            write SuccessCriteriaMet(Before) completedIndexes=1 failedIndexes= ready=0 start=59:51 succeeded=1 terminating=0 uncounted={failed:[a,c]}
            untrack a c b
            write Complete(Before) SuccessCriteriaMet(Before) completedIndexes=1 completion=00:00 failed=2 failedIndexes= ready=0 start=59:51 succeeded=1 terminating=0"#]],
    );
}

// Upstream: TestControllerSyncJob ("... condition added manually is ignored"), TestSingleJobFailedCondition.
#[test]
fn conditions_that_are_false_say_nothing() {
    let settled = "parallelism=1 completions=1 active=1 ready=1 terminating=0 started=9";
    for type_ in ["FailureTarget", "SuccessCriteriaMet", "Failed", "Complete"] {
        let lines = sync(&format!("{settled} not={type_} | a:running,ready"));
        assert_eq!(lines, "", "{type_}");
    }
    // One that comes true takes their place.
    check(
        "parallelism=1 completions=1 activeDeadlineSeconds=10 started=15 not=Failed",
        expect![[r#"
            end
            write FailureTarget(DeadlineExceeded) not Failed(ByHand) ready=0 start=59:45 terminating=0
            write Failed(DeadlineExceeded) FailureTarget(DeadlineExceeded) ready=0 start=59:45 terminating=0"#]],
    );
    check(
        "parallelism=1 completions=1 started=15 not=Complete | a:succeeded",
        expect![[r#"
            write SuccessCriteriaMet(CompletionsReached) not Complete(ByHand) ready=0 start=59:45 terminating=0 uncounted={succeeded:[a]}
            untrack a
            write Complete(CompletionsReached) SuccessCriteriaMet(CompletionsReached) completion=00:00 ready=0 start=59:45 succeeded=1 terminating=0"#]],
    );
}
