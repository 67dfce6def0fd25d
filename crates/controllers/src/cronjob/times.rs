//! When a schedule comes, reckoned apart from `api::cron`, which the controller goes by: minute by minute, by what the wall
//! clock shows then. For checks alone: it takes a step for each minute.

use std::collections::BTreeSet;

use api::cron::Zone;
use api::kinds::CronJob;
use api::{GoDuration, MicroTime, Time};

const MINUTE: i64 = 60;

const MONTHS: &str = "jan feb mar apr may jun jul aug sep oct nov dec";
const WEEKDAYS: &str = "sun mon tue wed thu fri sat";

pub(super) enum Times {
    Fields {
        /// Minute, hour, day of the month, month, day of the week.
        fields: [Field; 5],
        zone: Zone,
    },
    Every(i64),
}

#[derive(Default)]
pub(super) struct Field {
    numbers: BTreeSet<i64>,
    is_star: bool,
}

impl Times {
    /// None where the schedule cannot be read, or names a zone itself.
    pub(super) fn of(cron_job: &CronJob) -> Option<Times> {
        let spec = &cron_job.spec;
        let zone = match &spec.time_zone {
            Some(name) => Zone::load(name).ok()?,
            None => Zone::UTC,
        };
        Times::read(&spec.schedule, zone)
    }

    pub(super) fn read(schedule: &str, zone: Zone) -> Option<Times> {
        if let Some(every) = schedule.strip_prefix("@every ") {
            let seconds = GoDuration::parse(every).ok()?.as_nanos() / 1_000_000_000;
            return Some(Times::Every(seconds.max(1)));
        }
        let schedule = match schedule {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" | "@annually" => "0 0 1 1 *",
            fields => fields,
        };
        let mut fields = schedule.split_whitespace();
        let mut field = |least, most, names| Field::read(fields.next()?, least, most, names);
        let all = [
            field(0, 59, "")?,
            field(0, 23, "")?,
            field(1, 31, "")?,
            field(1, 12, MONTHS)?,
            field(0, 6, WEEKDAYS)?,
        ];
        fields
            .next()
            .is_none()
            .then_some(Times::Fields { fields: all, zone })
    }

    /// Can it come at this time? What comes every so often depends on when it came before.
    pub(super) fn comes_at(&self, at: Time) -> bool {
        let Times::Fields { fields, zone } = self else {
            return true;
        };
        let Some(wall) = zone.wall(at.unix()) else {
            return false;
        };
        let [minute, hour, day, month, weekday] = fields;
        let is_day = day.has(wall.day());
        let is_weekday = weekday.has(wall.weekday().to_sunday_zero_offset());
        let fits_day = match day.is_star || weekday.is_star {
            true => is_day && is_weekday,
            // Both are restricted: either will do.
            false => is_day || is_weekday,
        };
        let is_whole = at.unix().rem_euclid(MINUTE) == 0;
        is_whole
            && minute.has(wall.minute())
            && hour.has(wall.hour())
            && month.has(wall.month())
            && fits_day
    }

    /// The first time after `after` and not after `until`.
    pub(super) fn next(&self, after: Time, until: Time) -> Option<Time> {
        let mut at = match self {
            Times::Every(seconds) => Time::from_unix(after.unix() + seconds),
            Times::Fields { .. } => minute_after(after),
        };
        while at <= until {
            if self.comes_at(at) {
                return Some(at);
            }
            at = minute_after(at);
        }
        None
    }

    /// The last time after `after` and not after `until`.
    pub(super) fn last(&self, after: Time, until: Time) -> Option<Time> {
        let mut found = None;
        while let Some(next) = self.next(found.unwrap_or(after), until) {
            found = Some(next);
        }
        found
    }

    /// The time that a job is to be started for now.
    pub(super) fn due(&self, cron_job: &CronJob, now: MicroTime) -> Option<Time> {
        let created_at = cron_job.metadata.created_at;
        let since = cron_job.status.last_schedule_time.unwrap_or(created_at);
        let until = now.time();
        let since = match cron_job.spec.starting_deadline_seconds {
            Some(seconds) => since.max(Time::from_unix(until.unix().saturating_sub(seconds))),
            None => since,
        };
        let first = self.next(since, until)?;
        let Some(second) = self.next(first, until) else {
            return Some(first);
        };
        // UPSTREAM: takes all for as far apart as the first two, and looks from two steps before now on. Where the steps
        // grow nothing may have come since, and what came before is passed over.
        let step = second.unix() - first.unix();
        let steps = (until.unix() - first.unix()) / step;
        let from = Time::from_unix(first.unix() + (steps - 1) * step);
        self.last(from, until)
    }
}

impl Field {
    fn read(text: &str, least: i64, most: i64, names: &str) -> Option<Field> {
        let number = |text: &str| {
            let named = names
                .split(' ')
                .position(|name| name.eq_ignore_ascii_case(text));
            match named.filter(|_| !names.is_empty()) {
                Some(at) => i64::try_from(at).ok().map(|at| least + at),
                None => text.parse().ok(),
            }
        };
        let mut field = Field::default();
        for term in text.split(',').filter(|term| !term.is_empty()) {
            let (span, step) = match term.split_once('/') {
                Some((span, step)) => (span, Some(step.parse().ok()?)),
                None => (term, None),
            };
            let (from, to) = span.split_once('-').unwrap_or((span, ""));
            let is_all = matches!(from, "*" | "?");
            let (from, to) = match (from, to) {
                _ if is_all => (least, most),
                (from, "") if step.is_some() => (number(from)?, most),
                (from, "") => (number(from)?, number(from)?),
                (from, to) => (number(from)?, number(to)?),
            };
            let step: i64 = step.unwrap_or(1);
            if from < least || to > most || from > to || step < 1 {
                return None;
            }
            field.is_star |= is_all && step == 1;
            let fits = |number: &i64| (number - from) % step == 0;
            field.numbers.extend((from..=to).filter(fits));
        }
        Some(field)
    }

    fn has(&self, number: i8) -> bool {
        self.numbers.contains(&number.into())
    }
}

fn minute_after(at: Time) -> Time {
    Time::from_unix((at.unix().div_euclid(MINUTE) + 1) * MINUTE)
}
