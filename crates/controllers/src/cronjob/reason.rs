//! Why a CronJob does what it does: typed, with the line that `why` shows and the event that upstream emits.

use api::Time;
use api::decision::{Line, reasons};
use api::syntax::go_quote;
use runtime::events::EventType;

use super::schedule::NoNextTime;
use api::cron::{ScheduleError, ZoneError};

#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// A finished job is one too many.
    HistoryLimit {
        job: Box<str>,
        limit: i32,
        successful: bool,
    },
    Finished {
        job: Box<str>,
        condition: Box<str>,
    },
    Missing {
        job: Box<str>,
    },
    Unexpected {
        job: Box<str>,
    },
    /// It was started, and the status does not tell of it.
    Unnoted {
        job: Box<str>,
    },
    /// The API server did not say which jobs are there.
    Unread,
    BeingDeleted,
    UnknownTimeZone {
        zone: Box<str>,
        error: ZoneError,
    },
    Suspended,
    ZoneInSchedule {
        schedule: Box<str>,
    },
    Unparseable {
        schedule: Box<str>,
        error: ScheduleError,
    },
    NoNextTime {
        schedule: Box<str>,
    },
    TooManyMissed,
    PastDeadline {
        scheduled: Time,
        seconds: i64,
    },
    AlreadyStarted {
        scheduled: Time,
    },
    StillActive {
        jobs: Vec<Box<str>>,
        next: Option<Time>,
    },
    Replaces {
        job: Box<str>,
    },
    Starts {
        job: Box<str>,
        scheduled: Time,
    },
    /// Somebody else has a job of the name that ours would have.
    NameTaken {
        job: Box<str>,
    },
    NextRun {
        schedule: Box<str>,
        /// None where the schedule does not depend on one, or names it itself.
        zone: Option<Box<str>>,
        at: Option<Time>,
    },
}

/// What users read with `kubectl describe`: type, reason and message are upstream's.
pub struct Event {
    pub event_type: EventType,
    pub reason: &'static str,
    pub message: String,
}

impl Event {
    pub fn normal(reason: &'static str, message: String) -> Event {
        Event {
            event_type: EventType::Normal,
            reason,
            message,
        }
    }

    pub fn warning(reason: &'static str, message: String) -> Event {
        Event {
            event_type: EventType::Warning,
            reason,
            message,
        }
    }
}

impl Reason {
    /// The event that goes with it. What is written has events of its own, by how that went.
    pub fn event(&self) -> Option<Event> {
        Some(match self {
            Reason::Finished { job, condition } => Event::normal(
                "SawCompletedJob",
                format!("Saw completed job: {job}, condition: {condition}"),
            ),
            Reason::Missing { job } => {
                Event::normal("MissingJob", format!("Active job went missing: {job}"))
            }
            Reason::Unexpected { job } => Event::warning(
                "UnexpectedJob",
                format!("Saw a job that the controller did not create or forgot: {job}"),
            ),
            Reason::UnknownTimeZone { zone, error } => Event::warning(
                "UnknownTimeZone",
                format!("invalid timeZone: {}: {error}", go_quote(zone)),
            ),
            Reason::ZoneInSchedule { schedule } => Event::warning(
                "UnsupportedSchedule",
                format!(
                    "CRON_TZ or TZ used in schedule {} is not officially supported, see \
                     https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details",
                    go_quote(schedule)
                ),
            ),
            Reason::Unparseable { schedule, error } => Event::warning(
                "UnparseableSchedule",
                format!("unparseable schedule: {} : {error}", go_quote(schedule)),
            ),
            Reason::NoNextTime { schedule } => Event::warning(
                "InvalidSchedule",
                format!("invalid schedule: {schedule} : {NoNextTime}"),
            ),
            Reason::TooManyMissed => Event::warning(
                "TooManyMissedTimes",
                "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check \
                 clock skew"
                    .to_owned(),
            ),
            Reason::StillActive { .. } => Event::normal(
                "JobAlreadyActive",
                "Not starting job because prior execution is running and concurrency policy is Forbid"
                    .to_owned(),
            ),
            Reason::HistoryLimit { .. }
            | Reason::Unnoted { .. }
            | Reason::Unread
            | Reason::BeingDeleted
            | Reason::Suspended
            | Reason::PastDeadline { .. }
            | Reason::AlreadyStarted { .. }
            | Reason::Replaces { .. }
            | Reason::Starts { .. }
            | Reason::NameTaken { .. }
            | Reason::NextRun { .. } => return None,
        })
    }
}

impl From<&Reason> for Line {
    fn from(reason: &Reason) -> Line {
        match reason {
            Reason::HistoryLimit {
                job,
                limit,
                successful,
            } => {
                let field = match successful {
                    true => "successfulJobsHistoryLimit",
                    false => "failedJobsHistoryLimit",
                };
                Line::acts("HistoryLimit", format!("deletes job {job}"))
                    .because(format!("it is finished and {field} is {limit}"))
            }
            Reason::Finished { job, condition } => Line::acts(
                "JobFinished",
                format!("takes job {job} off the active list"),
            )
            .because(format!("it is {condition}")),
            Reason::Missing { job } => {
                Line::acts("MissingJob", format!("takes job {job} off the active list"))
                    .because("it does not exist any more")
            }
            Reason::Unexpected { job } => Line::states(
                "UnexpectedJob",
                format!("does not count job {job} as active"),
            )
            .because("another client created it"),
            Reason::Unnoted { job } => {
                Line::acts("Unnoted", format!("puts job {job} on the active list")).because(
                    "it was started, and a crash or a refused write kept that from being recorded",
                )
            }
            Reason::Unread => Line::waits("Unread", "starts no job")
                .because("the API server did not say which jobs are active"),
            Reason::BeingDeleted => {
                Line::states(reasons::BEING_DELETED, "starts no job").because("it is being deleted")
            }
            Reason::UnknownTimeZone { error, .. } => {
                Line::states(reasons::UNKNOWN_TIME_ZONE, "starts no job")
                    .because(error.to_string())
                    .hint("set .spec.timeZone to a name of the IANA time zone database")
            }
            Reason::Suspended => Line::states(reasons::SUSPENDED, "starts no job")
                .because("it is suspended")
                .hint("set .spec.suspend to false"),
            Reason::ZoneInSchedule { .. } => {
                Line::states("UnsupportedSchedule", "has a time zone in its schedule")
                    .because("that is not officially supported")
                    .hint("set .spec.timeZone instead")
            }
            Reason::Unparseable { error, .. } => {
                Line::states(reasons::UNPARSEABLE_SCHEDULE, "starts no job")
                    .because(format!("its schedule cannot be read: {error}"))
                    .hint("fix .spec.schedule")
            }
            Reason::NoNextTime { schedule } => {
                Line::states(reasons::INVALID_SCHEDULE, "starts no job")
                    .because(format!(
                        "its schedule {schedule} does not come within five years"
                    ))
                    .hint("fix .spec.schedule")
            }
            Reason::TooManyMissed => Line::states(
                reasons::TOO_MANY_MISSED_TIMES,
                "has missed more than 100 starts",
            )
            .because("only the last one is made up for")
            .hint("set or decrease .spec.startingDeadlineSeconds, or check the clocks"),
            Reason::PastDeadline { scheduled, seconds } => Line::states(
                reasons::PAST_DEADLINE,
                format!("did not start the job of {scheduled}"),
            )
            .because(format!("that is past startingDeadlineSeconds ({seconds})")),
            Reason::AlreadyStarted { scheduled } => Line::states(
                "AlreadyStarted",
                format!("has started the job of {scheduled}"),
            ),
            Reason::StillActive { jobs, next } => {
                let (noun, verb) = match jobs.len() {
                    1 => ("job", "is"),
                    _ => ("jobs", "are"),
                };
                let names = jobs.join(", ");
                Line::waits(reasons::STILL_ACTIVE, "waits for its next run")
                    .because(format!(
                        "{noun} {names} {verb} still active and concurrencyPolicy is Forbid"
                    ))
                    .until(*next)
            }
            Reason::Replaces { job } => Line::acts(reasons::REPLACES, format!("deletes job {job}"))
                .because("its successor is due and concurrencyPolicy is Replace"),
            Reason::Starts { job, scheduled } => {
                Line::acts(reasons::STARTS, format!("creates job {job}"))
                    .because(format!("it is scheduled for {scheduled}"))
            }
            Reason::NameTaken { job } => {
                Line::states(reasons::NAME_TAKEN, "starts no job this time")
                    .because(format!("a job {job} is there that it does not control"))
                    .hint("delete or rename that job")
            }
            Reason::NextRun { schedule, zone, at } => {
                let zone = zone.as_ref().map(|zone| format!(" ({zone})"));
                let zone = zone.unwrap_or_default();
                Line::waits(reasons::NEXT_RUN, "waits for its next run")
                    .because(format!("its schedule is {schedule}{zone}"))
                    .until(*at)
            }
        }
    }
}
