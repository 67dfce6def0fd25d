//! CronJobs: when the next job starts, why the last one did not, and how those before it ended.

use api::Resource;
use api::Time;
use api::cron::{Schedule, Zone};
use api::decision::{Class, Line, counted, reasons};
use api::kinds::{CronJob, Job};
use serde_json::Value;

use crate::facts::Facts;
use crate::json::{condition, list, text, time};
use crate::kinds::{Kind, Need};
use crate::time::{sentence, when};
use crate::{Draft, Help, State, help};

pub(crate) const KIND: Kind = Kind {
    resource: CronJob::TYPE,
    inputs: &[],
    needs: &[Need::Controlled(Job::TYPE)],
    explain,
    tells_deletion: false,
};

pub(crate) fn explain(facts: &Facts, draft: &mut Draft<'_>) {
    let cron_job = &facts.object;
    draft.wants(wants(cron_job));
    draft.wants(policy(cron_job));
    let jobs = facts.controlled("Job", cron_job);
    if is_denser_than_names(cron_job) {
        draft.sees("starts no more than one job a minute, because the minute is in its name");
    }
    note_jobs(facts, &jobs, draft);
    note_last_times(facts, draft);
    let lines = last_lines(facts);
    if let Some(failure) = failure(facts) {
        let what = match lines.iter().any(|line| line.reason == reasons::STARTS) {
            true => "cannot start its job",
            false => "reconcile keeps failing",
        };
        return draft.conclude(State::Stuck, format!("{what}: {failure}"));
    }
    if let Some(line) = lines.iter().find(|line| STOPS.contains(&&*line.reason)) {
        return conclude_stopped(facts, line, draft);
    }
    let wait = lines.iter().find(|line| line.class == Class::Waits);
    match (wait, next_run(cron_job, &jobs, facts.now)) {
        (Some(wait), _) if wait.reason == reasons::STILL_ACTIVE => {
            let verdict = format!("did not run: {}; {}", wait.why, next(facts, &jobs, wait));
            draft.explanation.waits.clear();
            draft.conclude(State::Progressing, verdict);
        }
        (Some(wait), _) if wait.reason == reasons::NEXT_RUN => {
            draft.explanation.waits.clear();
            conclude_next(facts, &jobs, next(facts, &jobs, wait), draft);
        }
        (Some(wait), _) => draft.conclude(State::Progressing, sentence(wait, facts.now)),
        (None, Ok(Some(at))) => {
            let next = format!("by its schedule the next run is {}", when(at, facts.now));
            conclude_next(facts, &jobs, next, draft);
        }
        (None, Ok(None)) => draft.conclude(State::Stuck, "never runs: its schedule never comes"),
        (None, Err(why)) => draft.conclude(State::Stuck, format!("does not run: {why}")),
    }
}

/// What keeps the controller from starting any job, until somebody does something.
const STOPS: [&str; 6] = [
    reasons::SUSPENDED,
    reasons::UNKNOWN_TIME_ZONE,
    reasons::UNPARSEABLE_SCHEDULE,
    reasons::INVALID_SCHEDULE,
    reasons::NAME_TAKEN,
    reasons::BEING_DELETED,
];

fn conclude_stopped(facts: &Facts, line: &Line, draft: &mut Draft<'_>) {
    let cron_job = &facts.object;
    // The verdict says it.
    let said = sentence(line, facts.now);
    draft.explanation.sees.retain(|seen| *seen != said);
    match &*line.reason {
        reasons::SUSPENDED => {
            let name = text(cron_job, "/metadata/name");
            let command = format!(
                "patch cronjob {name} --type=merge -p '{{\"spec\":{{\"suspend\":false}}}}'"
            );
            draft.offer(help::on(facts, &command, "resumes it"));
            let next = match next_run(cron_job, &[], facts.now) {
                Ok(Some(at)) => format!("; its schedule comes next {}", when(at, facts.now)),
                _ => String::new(),
            };
            let verdict = format!("does not run: it is suspended{next}");
            draft.conclude(State::Stuck, verdict);
        }
        // Its deletion is explained as that of any object.
        reasons::BEING_DELETED => {}
        reasons::INVALID_SCHEDULE => {
            draft.conclude(State::Stuck, format!("never runs: {}", line.why))
        }
        _ => draft.conclude(State::Stuck, format!("does not run: {}", line.why)),
    }
}

/// `the next run is in 45s (11:55:00Z)`
fn next(facts: &Facts, jobs: &[&Value], wait: &Line) -> String {
    let decided = wait.until.map(|at| {
        // By the time that it is told of, the next second is over.
        let holds = at > facts.now && !has_job_of(&facts.object, jobs, at);
        match next_run(&facts.object, jobs, facts.now) {
            Ok(Some(next)) if !holds => next,
            _ => at,
        }
    });
    match decided {
        Some(at) => format!("the next run is {}", when(at, facts.now)),
        None => "there is no next run".to_owned(),
    }
}

/// A job is named after its minute.
const MINUTE: i64 = 60;

/// Is there a job of the minute that this time is in? Then no other is started for it.
fn has_job_of(cron_job: &Value, jobs: &[&Value], at: Time) -> bool {
    let own = text(cron_job, "/metadata/name");
    let name = format!("{own}-{}", at.unix().div_euclid(MINUTE));
    jobs.iter().any(|job| text(job, "/metadata/name") == name)
}

/// Does it come more often than jobs can be named?
fn is_denser_than_names(cron_job: &Value) -> bool {
    matches!(read(cron_job), Ok(Schedule::Every(seconds)) if seconds < MINUTE)
}

fn conclude_next(facts: &Facts, jobs: &[&Value], next: String, draft: &mut Draft<'_>) {
    let missed = last_lines(facts)
        .into_iter()
        .find(|line| line.reason == reasons::PAST_DEADLINE);
    if let Some(missed) = missed {
        let verdict = format!("{}; {next}", sentence(&missed, facts.now));
        return draft.conclude(State::Progressing, verdict);
    }
    let last = jobs
        .iter()
        .max_by_key(|job| time(job, "/metadata/creationTimestamp"));
    let failed = last.filter(|job| held(job, "Failed").is_some());
    let Some(failed) = failed else {
        return draft.conclude(State::Settled, next);
    };
    let name = facts.name_of(failed);
    draft.offer(Some(Help {
        command: format!("steersman why {name} -n {}", facts.namespace()),
        why: "says which pod failed, and how".into(),
    }));
    draft.conclude(State::Stuck, format!("its last {name} has failed; {next}"));
}

fn wants(cron_job: &Value) -> String {
    let images = list(cron_job, "/spec/jobTemplate/spec/template/spec/containers").iter();
    let images: Vec<&str> = images.map(|one| text(one, "/image")).collect();
    let zone = match text(cron_job, "/spec/timeZone") {
        "" => String::new(),
        zone => format!(" ({zone})"),
    };
    let schedule = match text(cron_job, "/spec/schedule") {
        schedule if schedule.starts_with("@every ") => schedule[1..].to_owned(),
        schedule => format!("at {schedule}{zone}"),
    };
    format!("a job of {} {schedule}", images.join(", "))
}

fn policy(cron_job: &Value) -> String {
    let policy = match text(cron_job, "/spec/concurrencyPolicy") {
        "Forbid" => "no job as long as one is active (Forbid)",
        "Replace" => "each job to take the place of one that is active (Replace)",
        _ => "jobs beside those that are active (Allow)",
    };
    match cron_job.pointer("/spec/startingDeadlineSeconds") {
        Some(seconds) => format!("{policy}, and none that is {seconds}s late"),
        None => policy.to_owned(),
    }
}

/// More jobs than these are history.
const JOBS_MAX: usize = 5;

/// The latest jobs, and how they ended.
fn note_jobs(facts: &Facts, jobs: &[&Value], draft: &mut Draft<'_>) {
    let mut latest = jobs.to_vec();
    latest.sort_by_key(|job| std::cmp::Reverse(time(job, "/metadata/creationTimestamp")));
    for job in latest.iter().take(JOBS_MAX) {
        let name = facts.name_of(job);
        let line = if held(job, "Complete").is_some() {
            format!("{name} is complete")
        } else if let Some(failed) = held(job, "Failed") {
            format!("{name} has failed: {}", text(failed, "/message"))
        } else {
            let since = time(job, "/status/startTime");
            let since = since.map(|at| format!(" since {at}")).unwrap_or_default();
            format!("{name} is active{since}")
        };
        draft.sees(line);
    }
    if latest.len() > JOBS_MAX {
        let more = counted(latest.len() - JOBS_MAX, "older job");
        draft.sees(format!("and {more}"));
    }
}

fn note_last_times(facts: &Facts, draft: &mut Draft<'_>) {
    let at = |field: &str| time(&facts.object, &format!("/status/{field}"));
    let line = match (at("lastScheduleTime"), at("lastSuccessfulTime")) {
        (None, _) => "has not run by its schedule yet".to_owned(),
        (Some(ran), None) => format!("ran last {}, and never successfully", when(ran, facts.now)),
        (Some(ran), Some(done)) => format!(
            "ran last {}, and succeeded last {}",
            when(ran, facts.now),
            when(done, facts.now)
        ),
    };
    draft.sees(line);
}

/// Why the last attempt to start a job failed, if it did: a quota, a template that is refused.
fn failure(facts: &Facts) -> Option<String> {
    let decided = facts.decisions_about(&facts.object);
    let mut last = decided
        .iter()
        .filter_map(|decided| decided.decisions.last());
    let failure = last.find_map(|decision| decision.failure.as_deref());
    failure.map(str::to_owned)
}

fn last_lines(facts: &Facts) -> Vec<Line> {
    let decided = facts.decisions_about(&facts.object);
    let last = decided
        .iter()
        .filter_map(|decided| decided.decisions.last());
    let lines = last.flat_map(|decision| decision.lines.iter().cloned());
    lines.collect()
}

/// When its schedule comes next and there is no job yet, whether or not anybody follows it.
fn next_run(cron_job: &Value, jobs: &[&Value], now: Time) -> Result<Option<Time>, String> {
    let schedule = read(cron_job)?;
    let last = time(cron_job, "/status/lastScheduleTime");
    let last = last.or_else(|| time(cron_job, "/metadata/creationTimestamp"));
    let after = |at: Time| match last {
        Some(last) => schedule.next_since(last, at.micro()),
        None => schedule.next(at.micro()),
    };
    let next = after(now);
    Ok(match next.filter(|at| has_job_of(cron_job, jobs, *at)) {
        Some(taken) => {
            let minute = taken.unix().div_euclid(MINUTE) * MINUTE;
            after(Time::from_unix(minute + MINUTE - 1))
        }
        None => next,
    })
}

/// A schedule without a zone is taken to be in UTC: where its manager runs is not known.
fn read(cron_job: &Value) -> Result<Schedule, String> {
    let zone = Zone::load(text(cron_job, "/spec/timeZone")).map_err(|error| error.to_string())?;
    Schedule::parse(text(cron_job, "/spec/schedule"), &zone)
        .map_err(|error| format!("its schedule cannot be read: {error}"))
}

fn held<'a>(job: &'a Value, type_: &str) -> Option<&'a Value> {
    condition(job, type_).filter(|held| text(held, "/status") == "True")
}
