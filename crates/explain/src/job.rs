//! Jobs: how far they are, why they wait, and why they failed.

use api::Resource;
use api::decision::counted;
use api::kinds::{Job, PersistentVolumeClaim, Pod};
use serde_json::Value;

use crate::facts::Facts;
use crate::json::{condition, number, text, time, truth};
use crate::kinds::{Kind, Need};
use crate::pod::{Cause, problem};
use crate::replicas::{conclude_refused, note_refusal_of};
use crate::{Draft, State, help};

pub(crate) const KIND: Kind = Kind {
    resource: Job::TYPE,
    inputs: &[Pod::TYPE],
    needs: &[
        Need::AllPods,
        Need::All(PersistentVolumeClaim::TYPE),
        Need::Budgets,
        Need::Owner,
    ],
    explain,
    tells_deletion: false,
};

pub(crate) fn explain(facts: &Facts, draft: &mut Draft<'_>) {
    let job = &facts.object;
    draft.wants(wants(job));
    draft.sees(sees(job));
    if let Some(done) = held(job, "Complete") {
        let at = text(done, "/lastTransitionTime");
        let succeeded = counted(number(job, "/status/succeeded"), "pod");
        return draft.conclude(
            State::Settled,
            format!("is complete since {at}: {succeeded} succeeded"),
        );
    }
    if let Some(failed) = held(job, "Failed") {
        let why = text(failed, "/message");
        draft.conclude(State::Stuck, format!("has failed: {why}"));
        return offer_logs(facts, draft);
    }
    if let Some(manager) = other_manager(job) {
        let verdict = format!("is managed by {manager}, not by the job controller");
        return draft.conclude(State::Progressing, verdict);
    }
    if truth(job, "/spec/suspend") {
        let name = text(job, "/metadata/name");
        let command =
            format!("patch job {name} --type=merge -p '{{\"spec\":{{\"suspend\":false}}}}'");
        draft.offer(help::on(facts, &command, "resumes it"));
        return draft.conclude(State::Stuck, "is suspended: it runs when it is resumed");
    }
    if note_refusal_of(facts, job, number(job, "/status/active") == 0, draft) {
        return conclude_refused(draft);
    }
    let stuck = note_pods(facts, draft);
    conclude(facts, draft, stuck);
}

fn conclude(facts: &Facts, draft: &mut Draft<'_>, stuck: bool) {
    let job = &facts.object;
    let count = progress(job);
    let ending = [
        ("FailureTarget", "fails"),
        ("SuccessCriteriaMet", "has done enough"),
    ]
    .into_iter()
    .find_map(|(type_, word)| Some((held(job, type_)?, word)));
    if let Some((ending, word)) = ending {
        let left = counted(number(job, "/status/terminating"), "pod");
        let why = text(ending, "/message");
        let verdict = format!("{word} ({why}); waits for {left} to end");
        return draft.conclude(State::Progressing, verdict);
    }
    let state = if stuck {
        State::Stuck
    } else {
        State::Progressing
    };
    let first = draft.explanation.in_the_way.first().cloned();
    let wait = draft.explanation.waits.first().cloned();
    match (wait, first) {
        (Some(wait), _) if !stuck => {
            if number(job, "/status/failed") > 0 {
                offer_logs(facts, draft);
                let command = format!("describe {}", facts.name_of(job));
                draft.offer(help::on(facts, &command, "shows what happened to its pods"));
            }
            draft.conclude(state, format!("{count}; {wait}"));
        }
        (_, Some(first)) => {
            let why = first.why.headline();
            draft.conclude(state, format!("{count}; {} {why}", first.object));
        }
        _ => draft.conclude_progressing(&count, count.clone()),
    }
}

fn wants(job: &Value) -> String {
    let at_once = match job.pointer("/spec/parallelism") {
        Some(_) => number(job, "/spec/parallelism"),
        None => 1,
    };
    let images = help::images(job);
    match job.pointer("/spec/completions").and_then(Value::as_i64) {
        Some(completions) if text(job, "/spec/completionMode") == "Indexed" => {
            format!(
                "each of {completions} indexes to succeed once, {at_once} at a time, with {images}"
            )
        }
        Some(completions) => {
            format!(
                "{} of {images} to succeed, {at_once} at a time",
                counted(completions, "pod")
            )
        }
        None => format!("one of {} of {images} to succeed", counted(at_once, "pod")),
    }
}

fn sees(job: &Value) -> String {
    let of = |field: &str| number(job, &format!("/status/{field}"));
    let mut line = format!(
        "{} active, {} succeeded, {} failed",
        of("active"),
        of("succeeded"),
        of("failed")
    );
    for (field, words) in [
        ("completedIndexes", "completed"),
        ("failedIndexes", "failed"),
    ] {
        let indexes = text(job, &format!("/status/{field}"));
        if !indexes.is_empty() {
            line = format!("{line}, {words} indexes {indexes}");
        }
    }
    line
}

fn progress(job: &Value) -> String {
    let succeeded = number(job, "/status/succeeded");
    match job.pointer("/spec/completions").and_then(Value::as_i64) {
        Some(completions) => format!("{succeeded} of {completions} succeeded"),
        None => format!("{} active", counted(number(job, "/status/active"), "pod")),
    }
}

/// Pods that run are as they should be, and so are those that ended.
fn note_pods(facts: &Facts, draft: &mut Draft<'_>) -> bool {
    let mut stuck = false;
    for pod in facts.controlled("Pod", &facts.object) {
        if matches!(text(pod, "/status/phase"), "Failed" | "Succeeded") {
            continue;
        }
        let Some(problem) = problem(facts, pod, 0).filter(|problem| problem.cause != Cause::Young)
        else {
            continue;
        };
        if !problem.passing {
            stuck = true;
            draft.offer(help::for_pod(facts, pod, &problem.cause));
        }
        draft.in_the_way(problem.obstacle(pod));
    }
    stuck
}

/// What the pod that failed last said.
fn offer_logs(facts: &Facts, draft: &mut Draft<'_>) {
    let pods = facts.controlled("Pod", &facts.object);
    let failed = pods
        .into_iter()
        .filter(|pod| text(pod, "/status/phase") == "Failed");
    if let Some(last) = failed.max_by_key(|pod| time(pod, "/metadata/creationTimestamp")) {
        let command = format!("logs {}", text(last, "/metadata/name"));
        draft.offer(help::on(
            facts,
            &command,
            "shows what it said before it ended",
        ));
    }
}

fn other_manager(job: &Value) -> Option<&str> {
    let manager = text(job, "/spec/managedBy");
    (!manager.is_empty() && manager != "kubernetes.io/job-controller").then_some(manager)
}

fn held<'a>(job: &'a Value, type_: &str) -> Option<&'a Value> {
    condition(job, type_).filter(|held| text(held, "/status") == "True")
}
