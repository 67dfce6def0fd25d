//! What must hold: whenever a job is created ([`safe`]), and once nothing changes any more ([`converged`]).

use api::MicroTime;
use api::kinds::{CronJob, Job};

use super::new_job::job_name;
use super::plan::{plan_cleanup, scheduled_for};
use super::schedule::{Timing, read};
use api::cron::Zone;

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
    if *created.metadata.name != *job_name(&meta.name, scheduled) {
        return fail(format!("it is not named after {scheduled}"));
    }
    if scheduled.micro() > now {
        return fail(format!("its time {scheduled} has not come"));
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
    let is_listed = |job: &&&Job| cron_job.status.has_active(&job.metadata.uid);
    match running.iter().find(is_listed) {
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
        let is_current = scheduled_for(job).is_some_and(|time| Some(time) == last);
        let is_running = job.finished().is_none() && !job.metadata.is_terminating();
        is_current && is_running && !cron_job.status.has_active(&job.metadata.uid)
    };
    if let Some(job) = jobs.iter().find(is_unlisted) {
        return fail(format!("job {} is not listed", job.metadata.name));
    }
    let jobs: Vec<_> = jobs.iter().map(|job| (*job).clone().into()).collect();
    if let Some((job, _)) = plan_cleanup(cron_job, &jobs).first() {
        return fail(format!("job {} is one too many", job.metadata.name));
    }
    let spec = &cron_job.spec;
    let is_held = spec.suspend
        || cron_job.metadata.is_terminating()
        || (spec.concurrency_policy == "Forbid" && !cron_job.status.active.is_empty());
    if is_held {
        return Ok(());
    }
    // A zone or a schedule that nobody can read asks for nothing.
    let zone = spec.time_zone.as_deref().map(Zone::load);
    let (Ok(schedule), None | Some(Ok(_))) = (read(cron_job, &Zone::UTC), zone) else {
        return Ok(());
    };
    match Timing::of(cron_job).due(&schedule, now) {
        Ok(recent) if recent.due.is_some() => {
            let due = recent.due.unwrap_or_default();
            fail(format!("no job was started for {due}"))
        }
        _ => Ok(()),
    }
}
