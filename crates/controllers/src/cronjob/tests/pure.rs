//! CronJobs and their jobs in one line, and plans in a few.
//!
//! `0 * * * ? | Forbid last=09:01 deadline=10 | 09:01=done 10:00=running?`: the schedule, the CronJob, and its jobs by the
//! time they are for. `Complete` jobs are `done`, others `failed` or `running`; `?` is one that the active list lacks, `!`
//! one that is listed and not in the cache, `x` one that is listed and that the API server does not have either, `#` one
//! that a user made by hand.
//! Times are of 19 May 2016, a Thursday; `26T10:00` is a week later.

use std::fmt::Write;
use std::sync::Arc;

use api::decision::{Class, Explain};
use api::kinds::{CronJob, Job};
use api::{LabelSet, MicroTime, Resource, Time};
use expect_test::Expect;
use serde_json::{Value, json};

use crate::cronjob::new_job::job_name;
use crate::cronjob::plan::{Plan, Snapshot, plan, plan_cleanup};
use crate::cronjob::reason::Reason;
use api::cron::Zone;

pub(super) fn time(text: &str) -> Time {
    let (day, clock) = text.split_once('T').unwrap_or(("19", text));
    let seconds = if clock.len() == 5 { ":00" } else { "" };
    let full = format!("2016-05-{day}T{clock}{seconds}Z");
    Time::parse(&full).unwrap_or_else(|| panic!("{full} is no time"))
}

fn clock(at: Time) -> String {
    let text = at.to_string();
    let text = text.strip_prefix("2016-05-").unwrap_or(&text);
    let text = text.trim_end_matches('Z').trim_start_matches("19T");
    text.strip_suffix(":00").unwrap_or(text).to_owned()
}

pub(super) fn cron_job(spec: Value, status: Value, created: &str) -> CronJob {
    let json = json!({
        "metadata": {
            "name": "hello", "namespace": "default", "uid": "1a2b3c", "resourceVersion": "7",
            "creationTimestamp": time(created),
        },
        "spec": spec,
        "status": status,
    });
    CronJob::decode(json.to_string().as_bytes()).unwrap()
}

/// A job that the CronJob created for this time; it has taken ten seconds if it is over.
pub(super) fn job(scheduled: &str, state: &str) -> Job {
    let scheduled = time(scheduled);
    let name = job_name("hello", scheduled);
    let ended = Time::from_unix(scheduled.unix() + 10);
    let type_ = match state {
        "done" => "Complete",
        "failed" => "Failed",
        "running" => "FailureTarget",
        other => panic!("{other} is no state of a job"),
    };
    let json = json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-of-{name}"), "resourceVersion": "8",
            "creationTimestamp": scheduled,
            "annotations": {"batch.kubernetes.io/cronjob-scheduled-timestamp": scheduled},
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "CronJob", "name": "hello", "uid": "1a2b3c", "controller": true,
            }],
        },
        "status": {
            "startTime": scheduled,
            "completionTime": (state == "done").then_some(ended),
            "conditions": [{"type": type_, "status": "True", "lastTransitionTime": ended}],
        },
    });
    Job::decode(json.to_string().as_bytes()).unwrap()
}

pub(super) fn snapshot(text: &str) -> Snapshot {
    let mut parts = text.split('|').map(str::trim);
    let mut spec = json!({"schedule": parts.next().unwrap(), "concurrencyPolicy": "Allow"});
    let (mut status, mut created) = (json!({"active": []}), "09:59");
    for word in parts.next().unwrap_or_default().split_whitespace() {
        match word.split_once('=').unwrap_or((word, "")) {
            ("created", at) => created = at,
            ("last", at) => status["lastScheduleTime"] = json!(time(at)),
            ("success", at) => status["lastSuccessfulTime"] = json!(time(at)),
            ("deadline", seconds) => {
                spec["startingDeadlineSeconds"] = seconds.parse().unwrap();
            }
            ("zone", name) => spec["timeZone"] = name.into(),
            ("keep", limit) => spec["successfulJobsHistoryLimit"] = limit.parse().unwrap(),
            ("keep-failed", limit) => spec["failedJobsHistoryLimit"] = limit.parse().unwrap(),
            ("suspend", _) => spec["suspend"] = true.into(),
            (policy, _) => spec["concurrencyPolicy"] = policy.into(),
        }
    }
    let (mut jobs, mut missing) = (Vec::new(), Vec::new());
    for word in parts.next().unwrap_or_default().split_whitespace() {
        let (at, state) = word.split_once('=').unwrap();
        let mut job = job(at, state.trim_end_matches(['?', '!', 'x', '#']));
        if state.ends_with('#') {
            job.metadata.name = "by-hand".into();
            job.metadata.annotations = LabelSet::default();
        }
        let meta = &job.metadata;
        if !state.ends_with(['?', '#']) {
            let reference = json!({
                "kind": "Job", "apiVersion": "batch/v1", "namespace": meta.namespace,
                "name": meta.name, "uid": meta.uid,
            });
            status["active"].as_array_mut().unwrap().push(reference);
        }
        if state.ends_with('x') {
            missing.push(meta.uid.clone());
        }
        if !state.ends_with(['!', 'x']) {
            jobs.push(Arc::new(job));
        }
    }
    Snapshot {
        cron_job: Arc::new(cron_job(spec, status, created)),
        jobs,
        deleted: Vec::new(),
        missing,
        unread: false,
        local: Zone::UTC,
    }
}

/// Lines (acts `+`, waits `~`, states `-`), events, what is to be written, and when to look again.
pub(super) fn print(snapshot: &Snapshot, plan: &Plan) -> String {
    let mut text = String::new();
    for (line, reason) in plan.explain().iter().zip(&plan.reasons) {
        let class = match line.class {
            Class::Acts => '+',
            Class::Waits => '~',
            Class::States => '-',
        };
        let _ = writeln!(text, "{class} {line}");
        if let Some(event) = reason.event() {
            let kind = event.event_type.as_str();
            let _ = writeln!(text, "  {kind} {}: {}", event.reason, event.message);
        }
    }
    if let Some(start) = &plan.start {
        let replaces: Vec<&str> = start.replaces.iter().map(|job| &*job.name).collect();
        let scheduled = clock(start.scheduled);
        let _ = writeln!(
            text,
            "start {} of {scheduled}, replaces {replaces:?}",
            start.name
        );
    }
    if plan.status != snapshot.cron_job.status {
        let status = &plan.status;
        let active: Vec<&str> = status.active.iter().map(|job| &*job.name).collect();
        let at = |time: Option<Time>| time.map_or("-".to_owned(), clock);
        let (last, success) = (
            at(status.last_schedule_time),
            at(status.last_successful_time),
        );
        let _ = writeln!(
            text,
            "status: active {active:?}, last {last}, success {success}"
        );
    }
    let next = plan.next.map_or("-".to_owned(), clock);
    let _ = write!(text, "next {next}");
    text
}

pub(super) fn planned(text: &str, now: &str) -> Plan {
    plan(&snapshot(text), time(now).micro())
}

pub(super) fn check(text: &str, now: &str, expected: Expect) {
    let snapshot = snapshot(text);
    expected.assert_eq(&print(&snapshot, &plan(&snapshot, time(now).micro())));
}

/// The same for every policy.
pub(super) fn check_all(text: &str, now: &str, expected: Expect) {
    let plans: Vec<String> = ["Allow", "Forbid", "Replace"]
        .into_iter()
        .map(|policy| {
            let mut parts: Vec<String> = text.split('|').map(str::to_owned).collect();
            parts[1] = format!(" {policy}{}", parts[1]);
            let snapshot = snapshot(&parts.join("|"));
            print(&snapshot, &plan(&snapshot, time(now).micro()))
        })
        .collect();
    assert_eq!(plans[0], plans[1], "Forbid");
    assert_eq!(plans[0], plans[2], "Replace");
    expected.assert_eq(&plans[0]);
}

/// The times of the jobs that cleaning up deletes.
pub(super) fn cleaned(text: &str) -> String {
    let snapshot = snapshot(text);
    let surplus = plan_cleanup(&snapshot.cron_job, &snapshot.jobs);
    let names = surplus.iter().map(|(job, reason)| {
        let Reason::HistoryLimit { successful, .. } = reason else {
            panic!("{reason:?}");
        };
        let start = job.status.start_time.map_or("-".to_owned(), clock);
        format!("{}{start}", if *successful { "" } else { "failed " })
    });
    names.collect::<Vec<_>>().join(", ")
}

pub(super) fn micro(text: &str) -> MicroTime {
    time(text).micro()
}
