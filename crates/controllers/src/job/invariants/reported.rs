//! What the status of a job must say, reckoned from its pods and from how they ended, apart from the code that writes it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::conditions::{self, Condition};
use api::kinds::{Job, Pod};
use api::{Gate, Gates, Key, MicroTime};

use super::ended::{Ended, Ends};
use super::own;
use crate::job::snapshot::is_tracked;
use crate::oracle::{count, says};

/// What there is to see of a job.
pub struct Seen<'a> {
    /// Those that it controls.
    pub pods: &'a [Arc<Pod>],
    pub ends: &'a Ends,
    /// How long the controller may overlook that a pod has ended.
    pub window: Duration,
    pub gates: Gates,
    pub now: MicroTime,
}

/// How long after its deadline a job may take to say that it has failed: requests that are tried again.
const SLACK: Duration = Duration::from_secs(30);

/// The status says what the pods say and how they ended, and a job that has a reason to be over is. Holds also while the
/// job is suspended.
pub fn reported(job: &Job, seen: &Seen<'_>) -> Result<(), String> {
    let key = job.metadata.key();
    if job.metadata.is_terminating() || job.external_manager(seen.gates).is_some() {
        return Ok(());
    }
    check_pods(&key, job, seen)?;
    if !seen.ends.is_unsure {
        check_counters(&key, job, seen)?;
    }
    check_times(&key, job, seen)?;
    match job.finished() {
        Some(end) => check_end(&key, job, seen, end),
        None => check_goes_on(&key, job, seen),
    }
}

fn check_pods(key: &Key, job: &Job, seen: &Seen<'_>) -> Result<(), String> {
    let own = || own(job, seen.pods);
    let is_ready = |pod: &&Arc<Pod>| pod.is_active() && pod.is_ready();
    let ready = Some(count(own().filter(is_ready)));
    says(key, "ready", job.status.ready, ready)?;
    let tells = seen.gates.enabled(Gate::JobPodReplacementPolicy);
    let terminating = count(own().filter(|pod| pod.is_terminating()));
    says(
        key,
        "terminating",
        job.status.terminating,
        tells.then_some(terminating),
    )
}

/// Every end that is certain is counted, and nothing that did not happen.
fn check_counters(key: &Key, job: &Job, seen: &Seen<'_>) -> Result<(), String> {
    let status = &job.status;
    let within = |field: &str, said: i32, least: i32, most: i32| match said < least || said > most {
        true => Err(format!(
            "{key}: status says {field} {said}, between {least} and {most} have ended so"
        )),
        false => Ok(()),
    };
    let counts = |ended: &Ended| !job.is_indexed() || ended.index.is_some();
    // The last failed pod of an index counts when it has a successor.
    let is_held = |uid: &api::Uid| {
        let mut pods = seen.pods.iter();
        pods.any(|pod| pod.metadata.uid == *uid && is_tracked(pod))
    };
    let certain = || {
        let ends = seen.ends.certain(seen.window);
        ends.filter(|(uid, ended)| counts(ended) && !is_held(uid))
            .map(|(_, ended)| ended)
    };
    let possible = || seen.ends.possible().filter(|ended| counts(ended));
    let is_failure = |ended: &&Ended| !ended.has_succeeded;
    let is_counted =
        |ended: &&Ended| is_failure(ended) && ended.action.as_deref() != Some("Ignore");
    let may_count = |ended: &&Ended| is_counted(ended) || ended.is_doubtful;
    let least = count(certain().filter(is_counted));
    let most = count(possible().filter(may_count)) + count(0..seen.ends.deleted());
    within("failed", status.failed, least, most)?;
    if !job.is_indexed() {
        let least = count(certain().filter(|ended| ended.has_succeeded));
        let most = count(possible().filter(|ended| ended.has_succeeded));
        return within("succeeded", status.succeeded, least, most);
    }
    let completed = indexes(&status.completed_indexes);
    says(key, "succeeded", status.succeeded, count(&completed))?;
    let succeeded = |ended: &Ended| ended.index.filter(|_| ended.has_succeeded);
    let least: BTreeSet<u32> = certain().filter_map(succeeded).collect();
    let most: BTreeSet<u32> = possible().filter_map(succeeded).collect();
    if !least.is_subset(&completed) || !completed.is_subset(&most) {
        return Err(format!(
            "{key}: status says completedIndexes {completed:?}, {least:?} have succeeded, and perhaps {most:?}"
        ));
    }
    check_failed_indexes(key, job, seen, &completed)
}

fn check_failed_indexes(
    key: &Key,
    job: &Job,
    seen: &Seen<'_>,
    completed: &BTreeSet<u32>,
) -> Result<(), String> {
    let (limit, held) = (job.spec.backoff_limit_per_index, &job.status.failed_indexes);
    let Some(limit) = limit else {
        return says(key, "failedIndexes", held.as_deref(), None);
    };
    let failed = indexes(held.as_deref().unwrap_or_default());
    if let Some(both) = failed.intersection(completed).next() {
        return Err(format!("{key}: index {both} has succeeded and failed"));
    }
    for index in 0..job.index_count() {
        let of_index = |ended: &Ended| ended.index == Some(index) && !ended.has_succeeded;
        let certain = seen.ends.certain(seen.window).map(|(_, ended)| ended);
        let certain = certain.filter(|ended| of_index(ended));
        let ends_it = certain
            .clone()
            .any(|it| it.action.as_deref() == Some("FailIndex"));
        let is_counted = |ended: &&Ended| ended.action.as_deref() != Some("Ignore");
        let failures = count(certain.filter(is_counted));
        let may_have_failed = seen.ends.possible().any(of_index) || seen.ends.deleted() > 0;
        let must_have_failed = (ends_it || failures > limit) && !completed.contains(&index);
        let has_failed = failed.contains(&index);
        if must_have_failed && !has_failed || has_failed && !may_have_failed {
            return Err(format!(
                "{key}: status says failedIndexes {failed:?}, index {index} has failed {failures} times of {limit}"
            ));
        }
    }
    Ok(())
}

fn check_times(key: &Key, job: &Job, seen: &Seen<'_>) -> Result<(), String> {
    let (status, end) = (&job.status, job.finished());
    let is_complete = end.is_some_and(|end| end.type_ == "Complete");
    says(
        key,
        "completionTime",
        status.completion_time.is_some(),
        is_complete,
    )?;
    let is_true = |type_: &str| conditions::is_true(&status.conditions, type_);
    let is_ending = end.is_some() || is_true("SuccessCriteriaMet") || is_true("FailureTarget");
    let forgets = seen
        .gates
        .enabled(Gate::MutableSchedulingDirectivesForSuspendedJobs);
    match job.spec.suspend || is_true("Suspended") {
        // It may have begun before, and the end may have come first.
        true if is_ending || !forgets => Ok(()),
        is_suspended => says(key, "startTime", status.start_time.is_some(), !is_suspended),
    }
}

/// A job that is over has a reason to be, and said so before.
fn check_end(key: &Key, job: &Job, seen: &Seen<'_>, end: &Condition) -> Result<(), String> {
    let status = &job.status;
    let announced = match &*end.type_ {
        "Complete" => "SuccessCriteriaMet",
        _ => "FailureTarget",
    };
    let held = conditions::find(&status.conditions, announced);
    let held = held.filter(|held| held.is_true()).map(|held| &*held.reason);
    says(key, announced, held, Some(&*end.reason))?;
    check_in_time(key, job, seen, end)?;
    let failed = indexes(status.failed_indexes.as_deref().unwrap_or_default());
    let most = job.spec.max_failed_indexes.unwrap_or(i32::MAX);
    let is_true = match (&*end.type_, &*end.reason) {
        ("Complete", "CompletionsReached") => status.succeeded >= job.spec.completions.unwrap_or(1),
        ("Complete", "SuccessPolicy") => {
            meets_success_policy(job, &indexes(&status.completed_indexes))
        }
        ("Failed", "PodFailurePolicy") => {
            let mut ends = seen.ends.possible();
            let fails = |ended: &Ended| ended.action.as_deref() == Some("FailJob");
            ends.any(fails) || seen.ends.is_unsure || seen.ends.deleted() > 0
        }
        // Where containers are restarted in place that counts as well.
        ("Failed", "BackoffLimitExceeded") => {
            status.failed > job.backoff_limit() || restarts_in_place(job)
        }
        // Suspending a finished job changes nothing: its condition says whether it was suspended when it ended.
        ("Failed", "DeadlineExceeded") => {
            let ended_at = end.last_transition_time.map(|at| at.micro());
            !conditions::is_true(&status.conditions, "Suspended")
                && is_past_deadline(job, ended_at, Duration::ZERO)
        }
        ("Failed", "MaxFailedIndexesExceeded") => count(&failed) > most,
        ("Failed", "FailedIndexes") => !failed.is_empty(),
        _ => false,
    };
    match is_true {
        true => Ok(()),
        false => Err(format!(
            "{key} is {} for {}, and that is not so: {status:?}",
            end.type_, end.reason
        )),
    }
}

/// What a policy says ends the job at once: no other reason can come long after it.
fn check_in_time(key: &Key, job: &Job, seen: &Seen<'_>, end: &Condition) -> Result<(), String> {
    if seen.ends.is_unsure {
        return Ok(());
    }
    let certain = || seen.ends.certain(seen.window).map(|(_, ended)| ended);
    let succeeded = |ended: &Ended| ended.index.filter(|_| ended.has_succeeded);
    let succeeded: BTreeSet<u32> = certain().filter_map(succeeded).collect();
    let fails = certain().any(|ended| ended.action.as_deref() == Some("FailJob"));
    let due = [
        ("PodFailurePolicy", fails),
        ("SuccessPolicy", meets_success_policy(job, &succeeded)),
    ];
    let mut due = due.iter().filter(|(_, is_due)| *is_due).peekable();
    let Some((first, _)) = due.peek() else {
        return Ok(());
    };
    match due.any(|(reason, _)| end.reason == *reason) {
        true => Ok(()),
        false => Err(format!(
            "{key} is {} for {}, long after it had a reason to be over: {first}",
            end.type_, end.reason
        )),
    }
}

/// A job that is not over has no reason to be, and says whether it is suspended.
fn check_goes_on(key: &Key, job: &Job, seen: &Seen<'_>) -> Result<(), String> {
    let status = &job.status;
    let is_told = |type_: &str| conditions::is_true(&status.conditions, type_);
    if is_told("SuccessCriteriaMet") || is_told("FailureTarget") {
        // UPSTREAM: it waits for the last of its pods to be gone.
        return match status.terminating.unwrap_or(0) > 0 {
            true => Ok(()),
            false => Err(format!(
                "{key} is to end, waits for no pod, and does not end"
            )),
        };
    }
    let ends_it = |(_, ended): (_, &Ended)| ended.action.as_deref() == Some("FailJob");
    let failed = indexes(status.failed_indexes.as_deref().unwrap_or_default());
    let most = job.spec.max_failed_indexes.unwrap_or(i32::MAX);
    let ended = status.succeeded.saturating_add(count(&failed));
    let is_unsure = seen.ends.is_unsure;
    let reasons = [
        (
            "its pod failure policy",
            !is_unsure && seen.ends.certain(seen.window).any(ends_it),
        ),
        ("its back-off limit", status.failed > job.backoff_limit()),
        (
            "its deadline",
            !job.spec.suspend && is_past_deadline(job, Some(seen.now), SLACK + seen.window),
        ),
        ("its failed indexes", count(&failed) > most),
        (
            "its failed indexes",
            !failed.is_empty() && Some(ended) >= job.spec.completions,
        ),
        (
            "its success policy",
            meets_success_policy(job, &indexes(&status.completed_indexes)),
        ),
        (
            "its completions",
            status.active == 0 && status.succeeded >= job.spec.completions.unwrap_or(1),
        ),
    ];
    if let Some((reason, _)) = reasons.iter().find(|(_, holds)| *holds) {
        return Err(format!(
            "{key} should be over for {reason}, and is not: {status:?}"
        ));
    }
    let told = conditions::find(&status.conditions, "Suspended");
    let told = told.map(|held| (held.status.as_str(), &*held.reason));
    match job.spec.suspend {
        true => says(key, "Suspended", told, Some(("True", "JobSuspended"))),
        false if told.is_none() => Ok(()),
        false => says(key, "Suspended", told, Some(("False", "JobResumed"))),
    }
}

/// Is one of the rules of the success policy met by these indexes?
fn meets_success_policy(job: &Job, completed: &BTreeSet<u32>) -> bool {
    let Some(policy) = job.spec.success_policy.as_deref() else {
        return false;
    };
    policy.rules.iter().any(|rule| {
        let wanted = rule.succeeded_indexes.as_deref().map(indexes);
        let met = match &wanted {
            Some(wanted) => wanted.intersection(completed).count(),
            None => completed.len(),
        };
        let all = wanted.map_or(usize::MAX, |wanted| wanted.len());
        let least = rule
            .succeeded_count
            .map(|least| usize::try_from(least).unwrap_or(0));
        met > 0 && met >= least.unwrap_or(all)
    })
}

/// Has the job, if it was not suspended, been active for longer than it may be by then?
fn is_past_deadline(job: &Job, at: Option<MicroTime>, slack: Duration) -> bool {
    let (Some(seconds), Some(since)) = (job.spec.active_deadline_seconds, job.status.start_time)
    else {
        return false;
    };
    let allowed = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let due = since.micro().plus(allowed + slack);
    at.is_some_and(|at| at >= due)
}

fn restarts_in_place(job: &Job) -> bool {
    let template = job.spec.template.node();
    let policy = template.get(&["spec", "restartPolicy"]);
    policy.is_some_and(|policy| policy.as_str().as_deref() == Some("OnFailure"))
}

/// The indexes that a text like `1,3-5,7` names.
fn indexes(text: &str) -> BTreeSet<u32> {
    let spans = text.split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    spans.flatten().collect()
}
