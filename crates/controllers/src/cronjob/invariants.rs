//! What must hold: whenever a job is created ([`safe`]), and once nothing changes any more ([`converged`]).

use api::kinds::{CronJob, Job};
use api::{MicroTime, Time};

use super::plan::{by_start, scheduled_for};
use super::times::Times;

/// A job that a CronJob has created is one that it may have created. `cron_job` is as it was then, `before` are all
/// jobs that it ever created, and `running` those of them that neither had ended nor were being deleted.
pub fn safe(
    cron_job: &CronJob,
    before: &[&Job],
    running: &[&Job],
    created: &Job,
    now: MicroTime,
) -> Result<(), String> {
    let fail = |problem: String| Err(format!("job {}: {problem}", created.metadata.key()));
    let meta = &cron_job.metadata;
    if !created.metadata.is_controlled_by(&meta.uid) {
        return fail(format!("CronJob {} does not control it", meta.key()));
    }
    let Some(scheduled) = scheduled_for(created) else {
        return fail("it does not say which time it is for".to_owned());
    };
    if *created.metadata.name != *name_for(cron_job, scheduled) {
        return fail(format!("it is not named after {scheduled}"));
    }
    if scheduled.micro() > now {
        return fail(format!("its time {scheduled} has not come"));
    }
    if Times::of(cron_job).is_some_and(|times| !times.comes_at(scheduled)) {
        return fail(format!("its schedule does not come at {scheduled}"));
    }
    if let Some(seconds) = cron_job.spec.starting_deadline_seconds
        && now.since(scheduled).as_secs() > seconds.unsigned_abs()
    {
        return fail(format!("its time {scheduled} is past the deadline"));
    }
    if cron_job.spec.suspend || meta.is_terminating() {
        return fail("its CronJob is suspended or being deleted".to_owned());
    }
    not_twice(before, created)?;
    // What a user made by hand does not count. What the controller made does, whether or not the status tells of it.
    let counts = |job: &&&Job| {
        cron_job.status.has_active(&job.metadata.uid) || started_for(cron_job, job).is_some()
    };
    match running.iter().find(counts) {
        Some(other) if cron_job.spec.concurrency_policy == "Forbid" => {
            let other = &other.metadata.name;
            fail(format!("{other} still runs, and that is forbidden"))
        }
        _ => Ok(()),
    }
}

/// No scheduled time is run twice, whatever crashed in between and whatever the caches show. `before` are all jobs that
/// the CronJob ever created.
pub fn not_twice(before: &[&Job], created: &Job) -> Result<(), String> {
    let time = scheduled_for(created);
    match before.iter().find(|job| scheduled_for(job) == time) {
        Some(first) => Err(format!(
            "job {}: its time was run before, by job {}",
            created.metadata.key(),
            first.metadata.name
        )),
        None => Ok(()),
    }
}

/// The time that the controller created this job for; none for a job of somebody else's making.
fn started_for(cron_job: &CronJob, job: &Job) -> Option<Time> {
    let time = scheduled_for(job)?;
    (*job.metadata.name == *name_for(cron_job, time)).then_some(time)
}

/// The API server refuses a second job of the same minute.
fn name_for(cron_job: &CronJob, scheduled: Time) -> String {
    format!("{}-{}", cron_job.metadata.name, scheduled.unix() / 60)
}

/// The active list has the jobs that run, no more finished ones are there than may be, and no time is left out.
/// `jobs` are those that the CronJob controls.
pub fn converged(cron_job: &CronJob, jobs: &[&Job], now: MicroTime) -> Result<(), String> {
    let fail = |problem: String| Err(format!("CronJob {}: {problem}", cron_job.metadata.key()));
    for listed in &cron_job.status.active {
        let job = jobs.iter().find(|job| job.metadata.uid == listed.uid);
        if job.is_none_or(|job| job.finished().is_some()) {
            return fail(format!("job {} is not active", listed.name));
        }
    }
    let last = cron_job.status.last_schedule_time;
    let is_unlisted = |job: &&&Job| {
        let is_latest = started_for(cron_job, job).is_some_and(|time| Some(time) >= last);
        let is_running = job.finished().is_none() && !job.metadata.is_terminating();
        is_latest && is_running && !cron_job.status.has_active(&job.metadata.uid)
    };
    if let Some(job) = jobs.iter().find(is_unlisted) {
        return fail(format!("job {} is not listed", job.metadata.name));
    }
    let spec = &cron_job.spec;
    kept(jobs, "Complete", spec.successful_jobs_history_limit)
        .and_then(|()| kept(jobs, "Failed", spec.failed_jobs_history_limit))
        .or_else(fail)?;
    let is_held = spec.suspend
        || cron_job.metadata.is_terminating()
        || (spec.concurrency_policy == "Forbid" && !cron_job.status.active.is_empty());
    if is_held {
        return Ok(());
    }
    // A zone or a schedule that nobody can read asks for nothing.
    match Times::of(cron_job).and_then(|times| times.due(cron_job, now)) {
        Some(due) => fail(format!("no job was started for {due}")),
        None => Ok(()),
    }
}

/// No more jobs that have ended like this than may be kept.
fn kept(jobs: &[&Job], how: &str, limit: Option<i32>) -> Result<(), String> {
    let has_ended = |job: &&&Job| {
        let end = job.finished();
        end.is_some_and(|end| end.type_ == how) && !job.metadata.is_terminating()
    };
    let mut ended: Vec<&Job> = jobs.iter().filter(has_ended).copied().collect();
    ended.sort_by(|one, two| by_start(one, two));
    match limit.and_then(|limit| usize::try_from(limit).ok()) {
        Some(limit) if ended.len() > limit => {
            Err(format!("job {} is one too many", ended[0].metadata.name))
        }
        _ => Ok(()),
    }
}
