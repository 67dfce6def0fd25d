//! The pod failure policy and the success policy.

use api::kinds::{Job, Pod};
use expect_test::{Expect, expect};

use super::super::indexes::Indexes;
use super::super::policy::{counts, failure_rule, success_rule};
use super::pure::{pod, snapshot, sync};

fn policy(rules: &str) -> std::sync::Arc<Job> {
    snapshot(&format!("policy={rules}")).job
}

/// The rule that the pod meets: its action, whether the failure counts, and the message.
fn met(rules: &str, facts: &str) -> String {
    let job = policy(rules);
    let policy = job.spec.pod_failure_policy.as_deref();
    let pod: std::sync::Arc<Pod> = pod(&format!("a:failed,{facts}"));
    let Some(met) = failure_rule(policy, &pod) else {
        assert!(counts(policy, &pod));
        return "none".to_owned();
    };
    let counted = if counts(policy, &pod) {
        "counts"
    } else {
        "does not count"
    };
    format!("{}, {counted}: {met}", met.action.as_str())
}

// Upstream: TestMatchPodFailurePolicy.
#[test]
fn the_first_rule_that_matches_decides() {
    let codes = |action: &str, operator: &str, values: &str| {
        format!(
            r#"{{"action":"{action}","onExitCodes":{{"operator":"{operator}","values":[{values}]}}}}"#
        )
    };
    let condition = |action: &str, type_: &str, status: &str| {
        format!(
            r#"{{"action":"{action}","onPodConditions":[{{"type":"{type_}","status":"{status}"}}]}}"#
        )
    };
    let cases = [
        (codes("FailJob", "In", "1,2"), "exit=2"),
        (codes("FailJob", "In", "1,2"), "exit=3"),
        (codes("FailJob", "NotIn", "1,2"), "exit=3"),
        (codes("FailJob", "NotIn", "1,2"), "exit=2"),
        // A container that ended well is not looked at.
        (codes("FailJob", "NotIn", "1,2"), "exit=0"),
        (codes("Ignore", "In", "7"), "exit=7"),
        (codes("Count", "In", "7"), "exit=7"),
        (codes("FailIndex", "In", "7"), "exit=7"),
        (codes("Unheard", "In", "7"), "exit=7"),
        // An operator that we do not know matches nothing.
        (codes("Ignore", "Unheard", "7"), "exit=7"),
        (
            format!(
                "{},{}",
                codes("Ignore", "Unheard", "7"),
                codes("FailJob", "In", "7")
            ),
            "exit=7",
        ),
        // As programs on Windows end.
        (
            codes("Ignore", "In", "-1073741676,-1073741510"),
            "exit=-1073741510",
        ),
        (codes("FailJob", "NotIn", "0"), "exit=1"),
        (
            format!(
                "{},{}",
                codes("Count", "In", "1,2"),
                codes("FailJob", "In", "5,6")
            ),
            "exit=6",
        ),
        (
            format!(
                "{},{}",
                codes("Count", "NotIn", "8"),
                codes("FailJob", "NotIn", "5")
            ),
            "exit=32",
        ),
        (
            format!(
                "{},{}",
                codes("Unheard", "In", "7"),
                codes("Ignore", "In", "7")
            ),
            "exit=7",
        ),
        (
            format!(
                "{},{}",
                codes("Ignore", "In", "7"),
                codes("FailJob", "In", "7")
            ),
            "exit=7",
        ),
        (
            format!(
                "{},{}",
                condition("Unheard", "DisruptionTarget", "True"),
                condition("Ignore", "DisruptionTarget", "True")
            ),
            "condition=DisruptionTarget",
        ),
        (
            condition("Count", "DisruptionTarget", "True"),
            "condition=DisruptionTarget",
        ),
        (
            condition("FailIndex", "DisruptionTarget", "True"),
            "condition=DisruptionTarget",
        ),
        (condition("Ignore", "Ready", "True"), "ended=5"),
        (condition("Ignore", "Ready", "Unknown"), "unknown=Ready"),
        (
            condition("FailJob", "DisruptionTarget", "True"),
            "condition=DisruptionTarget",
        ),
        (
            condition("FailJob", "DisruptionTarget", "False"),
            "condition=DisruptionTarget",
        ),
        (
            condition("Ignore", "Mine", "True"),
            "condition=DisruptionTarget,condition=Mine",
        ),
        (condition("FailJob", "Ready", "False"), "ended=5"),
    ];
    let told = cases.map(|(rules, facts)| met(&format!("[{rules}]"), facts));
    expect![[r#"
        FailJob, counts: Container c for pod default/a failed with exit code 2 matching FailJob rule at index 0
        none
        FailJob, counts: Container c for pod default/a failed with exit code 3 matching FailJob rule at index 0
        none
        none
        Ignore, does not count: Container c for pod default/a failed with exit code 7 matching Ignore rule at index 0
        Count, counts: Container c for pod default/a failed with exit code 7 matching Count rule at index 0
        FailIndex, counts: Container c for pod default/a failed with exit code 7 matching FailIndex rule at index 0
        none
        none
        FailJob, counts: Container c for pod default/a failed with exit code 7 matching FailJob rule at index 1
        Ignore, does not count: Container c for pod default/a failed with exit code -1073741510 matching Ignore rule at index 0
        FailJob, counts: Container c for pod default/a failed with exit code 1 matching FailJob rule at index 0
        FailJob, counts: Container c for pod default/a failed with exit code 6 matching FailJob rule at index 1
        Count, counts: Container c for pod default/a failed with exit code 32 matching Count rule at index 0
        Ignore, does not count: Container c for pod default/a failed with exit code 7 matching Ignore rule at index 1
        Ignore, does not count: Container c for pod default/a failed with exit code 7 matching Ignore rule at index 0
        Ignore, does not count: Pod default/a has condition DisruptionTarget matching Ignore rule at index 1
        Count, counts: Pod default/a has condition DisruptionTarget matching Count rule at index 0
        FailIndex, counts: Pod default/a has condition DisruptionTarget matching FailIndex rule at index 0
        none
        Ignore, does not count: Pod default/a has condition Ready matching Ignore rule at index 0
        FailJob, counts: Pod default/a has condition DisruptionTarget matching FailJob rule at index 0
        none
        Ignore, does not count: Pod default/a has condition Mine matching Ignore rule at index 0
        FailJob, counts: Pod default/a has condition Ready matching FailJob rule at index 0"#]].assert_eq(&told.join("\n"));
}

#[test]
fn a_rule_may_name_a_container() {
    let rule = |name: &str| {
        format!(
            r#"[{{"action":"FailJob","onExitCodes":{{"containerName":"{name}","operator":"In","values":[5]}}}}]"#
        )
    };
    assert!(met(&rule("c"), "exit=5").starts_with("FailJob"));
    assert_eq!(met(&rule("other"), "exit=5"), "none");
}

fn check(text: &str, expected: Expect) {
    expected.assert_eq(&sync(text));
}

const FAIL_ON_5: &str =
    r#"policy=[{"action":"FailJob","onExitCodes":{"operator":"In","values":[5]}}]"#;
const IGNORE_5: &str =
    r#"policy=[{"action":"Ignore","onExitCodes":{"operator":"In","values":[5]}}]"#;

// Upstream: TestSyncJobWithJobPodFailurePolicy.
#[test]
fn a_policy_ends_a_job_or_looks_away() {
    check(
        &format!("parallelism=2 {FAIL_ON_5} | a:failed,exit=5 b:running"),
        expect![[r#"
            end b
            write FailureTarget(PodFailurePolicy) ready=0 start=00:00 terminating=1 uncounted={failed:[a,b]}
            untrack a b
            write FailureTarget(PodFailurePolicy) failed=2 ready=0 start=00:00 terminating=1"#]],
    );
    check(
        &format!("parallelism=1 {FAIL_ON_5} backoffLimit=6 | a:failed,exit=4"),
        expect![[r#"
            create 1
            write active=1 ready=0 start=00:00 terminating=0 uncounted={failed:[a]}
            untrack a
            write active=1 failed=1 ready=0 start=00:00 terminating=0"#]],
    );
    check(
        &format!("parallelism=1 {FAIL_ON_5} | a:running,exit=5"),
        expect!["write active=1 ready=0 start=00:00 terminating=0"],
    );
    check(
        &format!("parallelism=1 {FAIL_ON_5} condition=FailureTarget | a:failed,exit=5"),
        expect![[r#"
            end
            write FailureTarget(Before) ready=0 start=00:00 terminating=0 uncounted={failed:[a]}
            untrack a
            write Failed(Before) FailureTarget(Before) failed=1 ready=0 start=00:00 terminating=0"#]],
    );
    check(
        &format!("parallelism=1 {IGNORE_5} backoffLimit=0 | a:failed,exit=5"),
        expect![[r#"
            create 1
            write active=1 ready=0 start=00:00 terminating=0
            untrack a"#]],
    );
    // What does not count against the limit delays the next pod all the same.
    let ignored = r#"policy=[{"action":"Ignore","onPodConditions":[{"type":"DisruptionTarget","status":"True"}]}]"#;
    check(
        &format!(
            "parallelism=1 {ignored} backoffLimit=0 | a:failed,condition=DisruptionTarget,ended=4"
        ),
        expect![[r#"
            wait 6s
            write ready=0 start=00:00 terminating=0
            untrack a"#]],
    );
    check(
        &format!("parallelism=1 {FAIL_ON_5} | a:running,going"),
        expect!["write ready=0 start=00:00 terminating=1"],
    );
}

// Upstream: TestMatchSuccessPolicy.
#[test]
fn success_may_come_early() {
    let rule = |rules: &str, succeeded: &str| {
        let job = snapshot(&format!("success={rules}")).job;
        let policy = job.spec.success_policy.as_deref();
        success_rule(policy, 10, &Indexes::parse(succeeded, 10))
    };
    let all = r#"[{"succeededIndexes":"0-2"}]"#;
    assert_eq!(rule(all, "0-1,3"), None);
    assert_eq!(rule(all, "0-3"), Some(0));
    let some = r#"[{"succeededIndexes":"0-4","succeededCount":2}]"#;
    assert_eq!(rule(some, "4,7"), None);
    assert_eq!(rule(some, "0,4"), Some(0));
    let any = r#"[{"succeededIndexes":"9"},{"succeededCount":3}]"#;
    assert_eq!(rule(any, "0-1"), None);
    assert_eq!(rule(any, "0-2"), Some(1));
    assert_eq!(rule(any, "0-2,9"), Some(0));
    assert_eq!(
        rule(
            r#"[{"succeededIndexes":"x"},{"succeededIndexes":"20-30"}]"#,
            "0-9"
        ),
        None
    );
    let cases = [
        (r#"[{"succeededIndexes":"0-2"}]"#, "0-2,4-7", Some(0)),
        (r#"[{"succeededIndexes":"3"}]"#, "0-2", None),
        (r#"[{"succeededCount":2}]"#, "0-2", Some(0)),
        (r#"[{"succeededCount":4}]"#, "0-2", None),
        (
            r#"[{"succeededIndexes":"9"},{"succeededIndexes":"4,6"}]"#,
            "0-2,4-7",
            Some(1),
        ),
        (
            r#"[{"succeededIndexes":"0,1"},{"succeededIndexes":"5"}]"#,
            "0-2,4-7",
            Some(0),
        ),
        (
            r#"[{"succeededIndexes":"3-6","succeededCount":2}]"#,
            "0-2,4-7",
            Some(0),
        ),
        (
            r#"[{"succeededIndexes":"3-6","succeededCount":2}]"#,
            "0-2,6-7",
            None,
        ),
        (r#"[{"succeededIndexes":"2-4,6-8"}]"#, "1-9", Some(0)),
        (r#"[{"succeededIndexes":"2-4,6-9"}]"#, "2-4,6-9", Some(0)),
        // What is asked of indexes that there are not, is not asked.
        (r#"[{"succeededIndexes":"2-4,8-12"}]"#, "2-5,7-9", Some(0)),
        (r#"[{"succeededIndexes":"10-12,14-16"}]"#, "1-3,5-7", None),
        (r#"[{"succeededIndexes":""}]"#, "1-3", None),
        (r#"[{"succeededIndexes":""}]"#, "", None),
        (r#"[{"succeededCount":4}]"#, "", None),
        ("[]", "0", None),
    ];
    for (rules, succeeded, expected) in cases {
        assert_eq!(rule(rules, succeeded), expected, "{rules} {succeeded}");
    }
    // Intervals that overlap in every way: all of them, or enough.
    for (wanted, succeeded, overlap) in [
        ("1-3,5-7", "2-4,6-8", 4),
        ("2-4,6-9", "1-3,5-7", 4),
        ("0-4,6-9", "1-3,7-8", 5),
        ("0-6,8-9", "1-3,5-9", 7),
        ("0-5,7-9", "1-5,7-9", 8),
        ("0-3,6-9", "1-9", 7),
    ] {
        let all = format!(r#"[{{"succeededIndexes":"{wanted}"}}]"#);
        assert_eq!(rule(&all, succeeded), None, "{wanted} {succeeded}");
        for (count, expected) in [(overlap, Some(0)), (overlap + 1, None)] {
            let some = format!(r#"[{{"succeededIndexes":"{wanted}","succeededCount":{count}}}]"#);
            assert_eq!(rule(&some, succeeded), expected, "{some} {succeeded}");
        }
    }
    assert_eq!(
        rule(r#"[{"succeededCount":0}]"#, ""),
        None,
        "something has to succeed"
    );
    assert_eq!(success_rule(None, 10, &Indexes::parse("0", 10)), None);
}

// Upstream: TestSyncJobWithJobSuccessPolicy.
#[test]
fn an_end_that_was_decided_stays() {
    let job = r#"indexed parallelism=3 completions=3 success=[{"succeededIndexes":"0"}]"#;
    check(
        &format!("{job} | a:succeeded,ix=0 b:running,ix=1 c:failed,ix=2"),
        expect![[r#"
            end b
            write SuccessCriteriaMet(SuccessPolicy) completedIndexes=0 ready=0 start=00:00 succeeded=1 terminating=1 uncounted={failed:[c]}
            untrack a b c
            write SuccessCriteriaMet(SuccessPolicy) completedIndexes=0 failed=1 ready=0 start=00:00 succeeded=1 terminating=1"#]],
    );
    // A failure comes before a success.
    check(
        &format!("{job} backoffLimit=0 | a:succeeded,ix=0 b:running,ix=1 c:failed,ix=2"),
        expect![[r#"
            end b
            write FailureTarget(BackoffLimitExceeded) completedIndexes=0 ready=0 start=00:00 succeeded=1 terminating=1 uncounted={failed:[b,c]}
            untrack a b c
            write FailureTarget(BackoffLimitExceeded) completedIndexes=0 failed=2 ready=0 start=00:00 succeeded=1 terminating=1"#]],
    );
    check(
        &format!("{job} {FAIL_ON_5} | a:succeeded,ix=0 b:failed,ix=1,exit=5"),
        expect![[r#"
            end
            write FailureTarget(PodFailurePolicy) completedIndexes=0 ready=0 start=00:00 succeeded=1 terminating=0 uncounted={failed:[b]}
            untrack a b
            write Failed(PodFailurePolicy) FailureTarget(PodFailurePolicy) completedIndexes=0 failed=1 ready=0 start=00:00 succeeded=1 terminating=0"#]],
    );
    // What was decided before comes before all.
    check(
        &format!(
            "{job} {FAIL_ON_5} condition=SuccessCriteriaMet completed=0 succeeded=1 | b:failed,ix=1,exit=5"
        ),
        expect![[r#"
            end
            write SuccessCriteriaMet(Before) completedIndexes=0 ready=0 start=00:00 succeeded=1 terminating=0 uncounted={failed:[b]}
            untrack b
            write Complete(Before) SuccessCriteriaMet(Before) completedIndexes=0 completion=00:00 failed=1 ready=0 start=00:00 succeeded=1 terminating=0"#]],
    );
    check(
        &format!("{job} condition=FailureTarget failed=1 | a:succeeded,ix=0"),
        expect![[r#"
            end
            write FailureTarget(Before) completedIndexes=0 failed=1 ready=0 start=00:00 succeeded=1 terminating=0
            untrack a
            write Failed(Before) FailureTarget(Before) completedIndexes=0 failed=1 ready=0 start=00:00 succeeded=1 terminating=0"#]],
    );
}
