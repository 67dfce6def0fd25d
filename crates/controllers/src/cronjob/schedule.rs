//! When a CronJob was due last, and when it is due next. Pure; upstream's `utils.go`.

use std::time::Duration;

use api::kinds::CronJob;
use api::{MicroTime, Time};

use api::cron::{Schedule, ScheduleError, Zone};

/// What of a CronJob decides when it is due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    pub created_at: Time,
    pub last: Option<Time>,
    pub deadline_seconds: Option<i64>,
}

/// How many starts were not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    None,
    Few,
    Many,
}

/// What the past asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recent {
    /// From where on starts count.
    pub earliest: MicroTime,
    /// The last time that has come since.
    pub due: Option<Time>,
    pub missed: Missed,
}

/// A schedule that can be read and does not come: 30 February.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("time difference between two schedules is less than 1 second")]
pub struct NoNextTime;

/// From so many on, starts that were missed are many: a clock may be wrong, and a user should know. Upstream's number.
const MANY: i64 = 100;

/// A sync is due so long after a scheduled time, for the clocks of machines are not quite the same. Upstream's number.
pub const DELTA: Duration = Duration::from_millis(100);

/// The schedule of a CronJob, in its time zone.
///
/// A zone that is written into the schedule itself counts alone. One that does not exist counts as none: whoever asks
/// has found that out before.
pub fn read(cron_job: &CronJob, local: &Zone) -> Result<Schedule, ScheduleError> {
    let spec = &cron_job.spec;
    match &spec.time_zone {
        Some(zone) if !names_zone(&spec.schedule) && Zone::load(zone).is_ok() => {
            Schedule::parse(&format!("TZ={zone} {}", spec.schedule), local)
        }
        _ => Schedule::parse(&spec.schedule, local),
    }
}

/// UPSTREAM: whatever contains these two letters is taken for a schedule with a zone.
pub fn names_zone(schedule: &str) -> bool {
    schedule.contains("TZ")
}

impl Timing {
    pub fn of(cron_job: &CronJob) -> Timing {
        Timing {
            created_at: cron_job.metadata.created_at,
            last: cron_job.status.last_schedule_time,
            deadline_seconds: cron_job.spec.starting_deadline_seconds,
        }
    }

    /// The time that a job should be started for, if one has come and is not past its deadline.
    pub fn due(&self, schedule: &Schedule, now: MicroTime) -> Result<Recent, NoNextTime> {
        let deadline = self.deadline_seconds.map(|seconds| {
            // UPSTREAM: more than 292 years overflow there, and nothing is ever started.
            let seconds = u64::try_from(seconds).unwrap_or(0);
            now.minus(Duration::from_secs(seconds))
        });
        self.recent(schedule, now, deadline)
    }

    /// The last time that has come, whether or not a job can still be started for it.
    pub fn passed(&self, schedule: &Schedule, now: MicroTime) -> Result<Recent, NoNextTime> {
        self.recent(schedule, now, None)
    }

    /// The time that comes next.
    pub fn next(&self, schedule: &Schedule, now: MicroTime) -> Option<Time> {
        let after = match self.passed(schedule, now) {
            Err(NoNextTime) => now,
            Ok(Recent { due: Some(due), .. }) => due.micro(),
            Ok(recent) if recent.missed == Missed::None => recent.earliest,
            Ok(_) => now,
        };
        schedule.next(after)
    }

    fn recent(
        &self,
        schedule: &Schedule,
        now: MicroTime,
        deadline: Option<MicroTime>,
    ) -> Result<Recent, NoNextTime> {
        let since = self.last.unwrap_or(self.created_at).micro();
        let earliest = deadline.map_or(since, |deadline| deadline.max(since));
        let recent = |due, missed| {
            Ok(Recent {
                earliest,
                due,
                missed,
            })
        };
        let first = schedule.next(earliest).ok_or(NoNextTime)?;
        if now < first.micro() {
            return recent(None, Missed::None);
        }
        let second = schedule.next(first.micro()).ok_or(NoNextTime)?;
        if now < second.micro() {
            return recent(Some(first), Missed::None);
        }
        // How many fit in between if all are as far apart as the first two. A schedule need not be even, so the last
        // one is looked for from two steps back on.
        let step = second.unix() - first.unix();
        let elapsed = now.time().unix() - first.unix();
        let count = elapsed / step + 1;
        let from = Time::from_unix(first.unix() + (count - 2) * step);
        let missed = if count > MANY {
            Missed::Many
        } else {
            Missed::Few
        };
        // UPSTREAM: where the steps grow, nothing may have come since, and what came before is passed over.
        recent(schedule.last(from, now), missed)
    }
}
