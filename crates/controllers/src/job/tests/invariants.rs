//! The checks that the simulator asks about how pods ended: what is true passes, and nothing else.

use std::time::Duration;

use api::Gates;
use api::kinds::Job;
use serde_json::{Value, json};

use super::super::invariants::{Ends, Seen, reported};
use super::pure::{at, now, pod, snapshot};

/// What is said of the job of these words. `pods` ended ten seconds ago, with their finalizer, unless they are `free`.
fn told(words: &str, pods: &str) -> String {
    told_of(&snapshot(words).job, pods)
}

fn told_of(job: &Job, pods: &str) -> String {
    let mut ends = Ends::default();
    let window = Duration::from_secs(3);
    for text in pods.split_whitespace() {
        let ended_at = now().minus(Duration::from_secs(10));
        ends.note(job, &pod(text), ended_at, window);
    }
    let seen = Seen {
        pods: &[],
        ends: &ends,
        window,
        gates: Gates::default(),
        now: now(),
    };
    reported(job, &seen).err().unwrap_or_default()
}

/// A job that runs, and has said so.
fn runs(words: &str, pods: &str) -> String {
    told(
        &format!("started=60 ready=0 terminating=0 active=1 {words}"),
        pods,
    )
}

#[test]
fn counts_of_pods_are_checked() {
    assert_eq!(runs("", ""), "");
    let started = |words: &str| told(&format!("started=60 {words}"), "");
    assert_eq!(
        started("ready=1 terminating=0"),
        "default/j: status says ready Some(1), the objects say Some(0)"
    );
    assert_eq!(
        started("ready=0 terminating=1"),
        "default/j: status says terminating Some(1), the objects say Some(0)"
    );
    assert_eq!(
        told("ready=0 terminating=0", ""),
        "default/j: status says startTime false, the objects say true"
    );
}

#[test]
fn every_end_is_counted_and_nothing_else() {
    let three = "completions=3";
    assert_eq!(runs(&format!("{three} succeeded=1"), "a:succeeded"), "");
    assert_eq!(
        runs(three, "a:succeeded"),
        "default/j: status says succeeded 0, between 1 and 1 have ended so"
    );
    assert_eq!(
        runs("completions=3 succeeded=1", ""),
        "default/j: status says succeeded 1, between 0 and 0 have ended so"
    );
    assert_eq!(runs("failed=1", "a:failed"), "");
    assert_eq!(
        runs("", "a:failed"),
        "default/j: status says failed 0, between 1 and 1 have ended so"
    );
    assert_eq!(runs("", "a:failed,going"), "", "nobody knows");
    assert_eq!(runs("failed=1", "a:running,going"), "");
    let ignores = r#"policy=[{"action":"Ignore","onExitCodes":{"operator":"In","values":[42]}}]"#;
    assert_eq!(runs(ignores, "a:failed,exit=42"), "");
    assert_eq!(
        runs(&format!("{ignores} failed=1"), "a:failed,exit=42"),
        "default/j: status says failed 1, between 0 and 0 have ended so"
    );
}

#[test]
fn indexes_are_checked() {
    let runs = |words: &str, pods: &str| runs(&format!("indexed completions=3 {words}"), pods);
    assert_eq!(runs("succeeded=1 completed=1", "a:succeeded,ix=1"), "");
    assert_eq!(
        runs("succeeded=2 completed=1", "a:succeeded,ix=1"),
        "default/j: status says succeeded 2, the objects say 1"
    );
    assert_eq!(
        runs("succeeded=1 completed=0", "a:succeeded,ix=1"),
        "default/j: status says completedIndexes {0}, {1} have succeeded, and perhaps {1}"
    );
    let limited = |words: &str, pods: &str| runs(&format!("backoffLimitPerIndex=0 {words}"), pods);
    assert_eq!(limited("failed=1 failedIndexes=1", "a:failed,ix=1"), "");
    let missed = "default/j: status says failedIndexes {}, index 1 has failed 1 times of 0";
    assert_eq!(limited("failed=1", "a:failed,ix=1"), missed);
    let invented = "default/j: status says failedIndexes {2}, index 2 has failed 0 times of 0";
    assert_eq!(limited("failedIndexes=2", ""), invented);
}

#[test]
fn a_job_that_has_a_reason_to_be_over_is() {
    let over = |told: &str| {
        let part = told.split_once(", and is not").map(|(part, _)| part);
        part.unwrap_or(told).to_owned()
    };
    let fails = r#"policy=[{"action":"FailJob","onExitCodes":{"operator":"In","values":[42]}}]"#;
    assert_eq!(
        over(&runs(&format!("{fails} failed=1"), "a:failed,exit=42")),
        "default/j should be over for its pod failure policy"
    );
    assert_eq!(
        over(&runs(&format!("{fails} failed=1"), "a:failed,exit=7")),
        ""
    );
    assert_eq!(
        over(&runs("backoffLimit=0 failed=1", "a:failed")),
        "default/j should be over for its back-off limit"
    );
    assert_eq!(
        over(&runs("activeDeadlineSeconds=20", "")),
        "default/j should be over for its deadline"
    );
    let early = r#"indexed completions=3 success=[{"succeededIndexes":"0"}]"#;
    let first = "succeeded=1 completed=0";
    assert_eq!(
        over(&runs(&format!("{early} {first}"), "a:succeeded,ix=0")),
        "default/j should be over for its success policy"
    );
    let second = "succeeded=1 completed=1";
    assert_eq!(
        over(&runs(&format!("{early} {second}"), "a:succeeded,ix=1")),
        ""
    );
    assert_eq!(
        over(&told(
            "started=60 ready=0 terminating=0 completions=1 succeeded=1",
            "a:succeeded"
        )),
        "default/j should be over for its completions"
    );
    assert_eq!(
        runs("suspend", ""),
        "default/j: status says startTime true, the objects say false"
    );
    let ending = "suspend condition=FailureTarget terminating=1 started=60 ready=0";
    let waits = "default/j: status says terminating Some(1), the objects say Some(0)";
    assert_eq!(told(ending, ""), waits, "and nothing of its start");
    assert_eq!(
        told("ready=0 terminating=0 suspend", ""),
        "default/j: status says Suspended None, the objects say Some((\"True\", \"JobSuspended\"))"
    );
}

#[test]
fn suspending_a_finished_job_changes_nothing() {
    let told = |words: &str, conditions: &[(&str, &str)]| {
        let words = format!("started=60 activeDeadlineSeconds=50 ready=0 terminating=0 {words}");
        let mut job = (*snapshot(&words).job).clone();
        let held = conditions.iter().map(|(type_, reason)| {
            json!({"type": type_, "status": "True", "reason": reason, "lastTransitionTime": at(5)})
        });
        let held = Value::Array(held.collect());
        job.status.conditions = serde_json::from_value(held).unwrap();
        told_of(&job, "")
    };
    let over = [
        ("FailureTarget", "DeadlineExceeded"),
        ("Failed", "DeadlineExceeded"),
    ];
    assert_eq!(told("", &over), "");
    assert_eq!(told("suspend", &over), "");
    let paused = [over[0], over[1], ("Suspended", "JobSuspended")];
    let paused = told("suspend", &paused);
    assert!(paused.contains("and that is not so"), "{paused}");
}
