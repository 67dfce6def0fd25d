//! What to do for a CronJob, and why. Pure.

use std::cmp::Ordering;
use std::sync::Arc;

use api::conditions::is_true;
use api::decision::{Explain, Line};
use api::kinds::{CRON_JOB_SCHEDULED_TIMESTAMP, CronJob, CronJobStatus, Job, ObjectReference};
use api::{MicroTime, Resource, Time, Uid};

use super::new_job::job_name;
use super::reason::Reason;
use super::schedule::{Missed, NoNextTime, Timing, names_zone, read};
use api::cron::{Schedule, Zone};

/// What caches and API server say.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// From the cache; from the API server if only that knows of starts that there were.
    pub cron_job: Arc<CronJob>,
    /// The jobs that it controls, by name.
    pub jobs: Vec<Arc<Job>>,
    /// Finished jobs that were deleted a moment ago. The caches may not know yet.
    pub deleted: Vec<Uid>,
    /// Jobs of the active list that the API server does not have any more.
    pub missing: Vec<Uid>,
    /// Was the API server asked, and did not answer?
    pub unread: bool,
    /// Where schedules without a time zone are.
    pub local: Zone,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub reasons: Vec<Reason>,
    /// The status, without the job that is to be started.
    pub status: CronJobStatus,
    pub start: Option<Start>,
    /// The time that comes next, if anything is to happen then.
    pub next: Option<Time>,
}

/// A job to be created, once those that it replaces are deleted.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    pub name: Box<str>,
    pub scheduled: Time,
    pub replaces: Vec<ObjectReference>,
}

impl Explain for Plan {
    fn explain(&self) -> Vec<Line> {
        self.reasons.iter().map(Line::from).collect()
    }
}

/// The finished jobs that are too many: those that started first, by success and failure.
pub fn plan_cleanup(cron_job: &CronJob, jobs: &[Arc<Job>]) -> Vec<(Arc<Job>, Reason)> {
    let spec = &cron_job.spec;
    [
        (true, "Complete", spec.successful_jobs_history_limit),
        (false, "Failed", spec.failed_jobs_history_limit),
    ]
    .into_iter()
    .filter_map(|(successful, how, limit)| Some((successful, how, limit?)))
    .flat_map(|(successful, how, limit)| {
        let has_ended = |job: &&Arc<Job>| job.finished().is_some_and(|end| end.type_ == how);
        let mut ended: Vec<&Arc<Job>> = jobs.iter().filter(has_ended).collect();
        ended.sort_by(|one, two| by_start(one, two));
        let kept = usize::try_from(limit).unwrap_or(0);
        ended.truncate(ended.len().saturating_sub(kept));
        // One that is being deleted needs no more than time, and one that the status does not know of yet is all that
        // keeps it from being started again.
        ended.retain(|job| !job.metadata.is_terminating() && is_on_record(cron_job, job));
        ended.into_iter().map(move |job| {
            let reason = Reason::HistoryLimit {
                job: name(job),
                limit,
                successful,
            };
            (job.clone(), reason)
        })
    })
    .collect()
}

/// Does the status say that a job was started for this one's time?
fn is_on_record(cron_job: &CronJob, job: &Job) -> bool {
    scheduled_for(job).is_none_or(|time| Some(time) <= cron_job.status.last_schedule_time)
}

/// The time that a job was started for, if nobody came to note it: a crash, or a write that was refused, came in between.
fn unnoted(cron_job: &CronJob, job: &Job) -> Option<Time> {
    let time = scheduled_for(job)?;
    let is_ours = *job.metadata.name == *job_name(&cron_job.metadata.name, time);
    let is_new = Some(time) > cron_job.status.last_schedule_time;
    (is_ours && is_new && !job.metadata.is_terminating()).then_some(time)
}

/// The time that a CronJob created this job for; none if it did not.
pub fn scheduled_for(job: &Job) -> Option<Time> {
    let annotation = job.metadata.annotation(CRON_JOB_SCHEDULED_TIMESTAMP);
    annotation.and_then(Time::parse)
}

/// Those that have not started come last; names decide between equals.
pub fn by_start(one: &Job, two: &Job) -> Ordering {
    let start = |job: &Job| (job.status.start_time.is_none(), job.status.start_time);
    let names = (&one.metadata.name, &two.metadata.name);
    start(one).cmp(&start(two)).then(names.0.cmp(names.1))
}

pub fn plan(snapshot: &Snapshot, now: MicroTime) -> Plan {
    let mut plan = Plan {
        reasons: Vec::new(),
        status: snapshot.cron_job.status.clone(),
        start: None,
        next: None,
    };
    plan.update_active(snapshot);
    plan.plan_start(snapshot, now);
    plan
}

impl Plan {
    /// Takes jobs that have ended or are gone off the active list, and notes the last success.
    fn update_active(&mut self, snapshot: &Snapshot) {
        let status = &mut self.status;
        status
            .active
            .retain(|job| !snapshot.deleted.contains(&job.uid));
        for job in &snapshot.jobs {
            let is_listed = status.has_active(&job.metadata.uid);
            let job_name = name(job);
            let Some(end) = job.finished() else {
                if is_listed || snapshot.unread {
                    continue;
                }
                match unnoted(&snapshot.cron_job, job) {
                    // UPSTREAM: is told of as any other, and where a later time is due another is started beside it.
                    Some(time) => {
                        let reference = ObjectReference::new(&Job::TYPE, &job.metadata);
                        status.active.push(reference);
                        status.last_schedule_time = status.last_schedule_time.max(Some(time));
                        self.reasons.push(Reason::Unnoted { job: job_name });
                    }
                    // It is not adopted: a user's `kubectl create job --from` must not hold up the schedule.
                    None => self.reasons.push(Reason::Unexpected { job: job_name }),
                }
                continue;
            };
            if is_listed {
                status
                    .active
                    .retain(|listed| listed.uid != job.metadata.uid);
                self.reasons.push(Reason::Finished {
                    job: job_name,
                    condition: (&*end.type_).into(),
                });
            }
            if is_true(&job.status.conditions, "Complete") {
                let completed = job.status.completion_time;
                status.last_successful_time = status.last_successful_time.max(completed);
            }
        }
        let reasons = &mut self.reasons;
        status.active.retain(|listed| {
            let is_missing = snapshot.missing.contains(&listed.uid);
            if is_missing {
                let job = listed.name.clone();
                reasons.push(Reason::Missing { job });
            }
            !is_missing
        });
    }

    /// Is a job due, and may it be started?
    fn plan_start(&mut self, snapshot: &Snapshot, now: MicroTime) {
        let Some(schedule) = self.follow(snapshot) else {
            return;
        };
        let cron_job = &*snapshot.cron_job;
        let timing = Timing::of(cron_job);
        let recent = match timing.due(&schedule, now) {
            Ok(recent) => recent,
            Err(NoNextTime) => {
                let schedule = cron_job.spec.schedule.clone();
                return self.reasons.push(Reason::NoNextTime { schedule });
            }
        };
        self.next = timing.next(&schedule, now);
        let Some(scheduled) = recent.due else {
            self.note_deadline(&timing, &schedule, now);
            return self.note_next(cron_job);
        };
        if recent.missed == Missed::Many {
            self.reasons.push(Reason::TooManyMissed);
        }
        // UPSTREAM: asks here whether the deadline has passed, and has an event `MissSchedule` for it. What is due is
        // never past its deadline, so there is none.
        let name = job_name(&cron_job.metadata.name, scheduled);
        if self.is_started(snapshot, &name, scheduled) {
            self.reasons.push(Reason::AlreadyStarted { scheduled });
            return self.note_next(cron_job);
        }
        let active = &self.status.active;
        let replaces = match &*cron_job.spec.concurrency_policy {
            "Forbid" if !active.is_empty() => {
                let jobs = active.iter().map(|job| job.name.clone()).collect();
                let next = self.next;
                return self.reasons.push(Reason::StillActive { jobs, next });
            }
            "Replace" => active.clone(),
            _ => Vec::new(),
        };
        for job in &replaces {
            let job = job.name.clone();
            self.reasons.push(Reason::Replaces { job });
        }
        let job = name.clone();
        self.reasons.push(Reason::Starts { job, scheduled });
        let after = Timing {
            last: Some(scheduled),
            ..timing
        };
        self.next = after.next(&schedule, now);
        self.note_next(cron_job);
        self.start = Some(Start {
            name,
            scheduled,
            replaces,
        });
    }

    /// Is there a job for this time already, or has there been one?
    fn is_started(&mut self, snapshot: &Snapshot, name: &str, scheduled: Time) -> bool {
        let namespace = &snapshot.cron_job.metadata.namespace;
        let is_listed = |job: &ObjectReference| *job.name == *name && *job.namespace == **namespace;
        if self.status.active.iter().any(is_listed)
            || self.status.last_schedule_time == Some(scheduled)
        {
            return true;
        }
        // It ran and ended before anybody noted that it was started: once it is deleted nothing else tells of it.
        let has_ended = |job: &Arc<Job>| *job.metadata.name == *name && job.finished().is_some();
        let has_ended = snapshot.jobs.iter().any(has_ended);
        if has_ended {
            self.status.last_schedule_time = Some(scheduled);
        }
        has_ended
    }

    /// The schedule, unless something forbids to follow it.
    fn follow(&mut self, snapshot: &Snapshot) -> Option<Schedule> {
        let cron_job = &*snapshot.cron_job;
        let spec = &cron_job.spec;
        let stopped = if snapshot.unread {
            Some(Reason::Unread)
        } else if cron_job.metadata.is_terminating() {
            Some(Reason::BeingDeleted)
        } else if let Some(zone) = &spec.time_zone
            && let Err(error) = Zone::load(zone)
        {
            let zone = zone.clone();
            Some(Reason::UnknownTimeZone { zone, error })
        } else {
            spec.suspend.then_some(Reason::Suspended)
        };
        if let Some(reason) = stopped {
            self.reasons.push(reason);
            return None;
        }
        let schedule = &spec.schedule;
        if names_zone(schedule) {
            let schedule = schedule.clone();
            self.reasons.push(Reason::ZoneInSchedule { schedule });
        }
        match read(cron_job, &snapshot.local) {
            Ok(schedule) => Some(schedule),
            Err(error) => {
                let schedule = schedule.clone();
                self.reasons.push(Reason::Unparseable { schedule, error });
                None
            }
        }
    }

    /// Says so if a job would be due but for the deadline.
    fn note_deadline(&mut self, timing: &Timing, schedule: &Schedule, now: MicroTime) {
        if let Some(seconds) = timing.deadline_seconds
            && let Ok(passed) = timing.passed(schedule, now)
            && let Some(scheduled) = passed.due
        {
            self.reasons
                .push(Reason::PastDeadline { scheduled, seconds });
        }
    }

    fn note_next(&mut self, cron_job: &CronJob) {
        self.reasons.push(next_run(cron_job, self.next));
    }
}

/// When the CronJob will run next.
pub fn next_run(cron_job: &CronJob, at: Option<Time>) -> Reason {
    let spec = &cron_job.spec;
    let is_zoned = !names_zone(&spec.schedule) && !spec.schedule.starts_with("@every");
    let zone = || spec.time_zone.clone().unwrap_or_else(|| "UTC".into());
    Reason::NextRun {
        schedule: spec.schedule.clone(),
        zone: is_zoned.then(zone),
        at,
    }
}

fn name(job: &Job) -> Box<str> {
    (&*job.metadata.name).into()
}
