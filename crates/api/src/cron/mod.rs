//! Schedules as crontabs write them, and when they come next.
//!
//! What robfig/cron v3's `ParseStandard` reads and its `Next` finds, which upstream uses: five fields (minute, hour,
//! day of month, month, day of week), the descriptors `@yearly`, `@annually`, `@monthly`, `@weekly`, `@daily`,
//! `@midnight`, `@hourly` and `@every <duration>`, and `TZ=` or `CRON_TZ=` in front of either. Pure.

mod fields;
mod search;
mod zone;

#[cfg(test)]
mod tests;

use crate::syntax::go_quote;
use crate::{GoDuration, MicroTime, Time};

use self::fields::{DAYS, HOURS, MINUTES, MONTHS, Set, WEEKDAYS};

pub use zone::{Zone, ZoneError};

/// When something is to happen, repeatedly.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    Fields(Fields),
    /// Every so many seconds from the last time on.
    Every(i64),
}

/// The seconds are always zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Fields {
    minute: Set,
    hour: Set,
    day: Set,
    month: Set,
    weekday: Set,
    zone: Zone,
}

/// What is wrong with a schedule, in the words of the parser that upstream uses: events and API errors carry them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ScheduleError(String);

/// So many times are gone through one by one, as upstream does; a schedule that is dense and was not followed for long
/// has hundreds of thousands. Where clocks change by half an hour the next time depends on where one comes from, so
/// that jumping ahead is for those alone.
const STEPS_MAX: usize = 1000;

/// The last second that the API can write.
const LAST: i64 = 253_402_300_799;

impl Schedule {
    /// Reads a schedule; one that names no time zone is in `zone`.
    pub fn parse(text: &str, zone: &Zone) -> Result<Schedule, ScheduleError> {
        if text.is_empty() {
            return Err(ScheduleError("empty spec string".to_owned()));
        }
        if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
            let (assignment, rest) = text.split_once(' ').ok_or_else(|| {
                // UPSTREAM: its parser panics, and the panic's words are what users see.
                let panic = "runtime error: slice bounds out of range [:-1]";
                ScheduleError(format!("invalid schedule format: {panic}"))
            })?;
            let name = assignment.split_once('=').map_or("", |(_, name)| name);
            let zone = Zone::load(name)
                .map_err(|error| ScheduleError(format!("provided bad location {name}: {error}")))?;
            return parse_without_zone(rest.trim(), zone);
        }
        parse_without_zone(text, zone.clone())
    }

    /// The first time after this one; none where that is more than five years away, or after the year 9999.
    pub fn next(&self, after: MicroTime) -> Option<Time> {
        let second = after.unix_micros().div_euclid(1_000_000);
        let next = match self {
            Schedule::Fields(fields) => fields.next(second)?,
            Schedule::Every(delay) => second.checked_add(*delay)?,
        };
        (next <= LAST).then(|| Time::from_unix(next))
    }

    /// The first time after `after` of a schedule whose last time was `last`: what comes every so often counts from that.
    pub fn next_since(&self, last: Time, after: MicroTime) -> Option<Time> {
        let Schedule::Every(delay) = self else {
            return self.next(after);
        };
        let second = after.unix_micros().div_euclid(1_000_000);
        let elapsed = (second - last.unix()).rem_euclid(*delay);
        self.next(Time::from_unix(second - elapsed).micro())
    }

    /// The last time after `after` and not after `until`.
    pub fn last(&self, after: Time, until: MicroTime) -> Option<Time> {
        if let Schedule::Every(delay) = self {
            let first = self.next_within(after, until)?;
            let elapsed = until.time().unix() - first.unix();
            return Some(Time::from_unix(first.unix() + elapsed / delay * delay));
        }
        let mut found = None;
        for _ in 0..STEPS_MAX {
            let from = found.unwrap_or(after);
            match self.next_within(from, until) {
                Some(next) => found = Some(next),
                None => return found,
            }
        }
        found.map(|from| self.search_last(from, until))
    }

    /// The same without a step for each: the latest second from which the next time is not after `until`. `from` is one.
    fn search_last(&self, from: Time, until: MicroTime) -> Time {
        let (mut low, mut high) = (from.unix(), until.time().unix());
        let mut found = from;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match self.next_within(Time::from_unix(middle), until) {
                Some(next) => (low, found) = (middle, next),
                None => high = middle,
            }
        }
        found
    }

    fn next_within(&self, after: Time, until: MicroTime) -> Option<Time> {
        self.next(after.micro()).filter(|at| at.micro() <= until)
    }
}

fn parse_without_zone(text: &str, zone: Zone) -> Result<Schedule, ScheduleError> {
    if text.starts_with('@') {
        return parse_descriptor(text, zone);
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields[..] else {
        return Err(ScheduleError(format!(
            "expected exactly 5 fields, found {}: [{}]",
            fields.len(),
            fields.join(" ")
        )));
    };
    Ok(Schedule::Fields(Fields {
        minute: Set::parse(minute, &MINUTES)?,
        hour: Set::parse(hour, &HOURS)?,
        day: Set::parse(day, &DAYS)?,
        month: Set::parse(month, &MONTHS)?,
        weekday: Set::parse(weekday, &WEEKDAYS)?,
        zone,
    }))
}

fn parse_descriptor(text: &str, zone: Zone) -> Result<Schedule, ScheduleError> {
    let hourly = Fields {
        minute: Set::first(&MINUTES),
        hour: Set::all(&HOURS),
        day: Set::all(&DAYS),
        month: Set::all(&MONTHS),
        weekday: Set::all(&WEEKDAYS),
        zone,
    };
    let daily = |of: Fields| Fields {
        hour: Set::first(&HOURS),
        ..of
    };
    let monthly = |of: Fields| Fields {
        day: Set::first(&DAYS),
        ..daily(of)
    };
    Ok(Schedule::Fields(match text {
        "@hourly" => hourly,
        "@daily" | "@midnight" => daily(hourly),
        "@weekly" => Fields {
            weekday: Set::first(&WEEKDAYS),
            ..daily(hourly)
        },
        "@monthly" => monthly(hourly),
        "@yearly" | "@annually" => Fields {
            month: Set::first(&MONTHS),
            ..monthly(hourly)
        },
        _ => return parse_every(text),
    }))
}

fn parse_every(text: &str) -> Result<Schedule, ScheduleError> {
    let Some(duration) = text.strip_prefix("@every ") else {
        return Err(ScheduleError(format!("unrecognized descriptor: {text}")));
    };
    match GoDuration::parse(duration) {
        // Parts of a second do not count, and nothing comes more often than once a second.
        Ok(every) => Ok(Schedule::Every((every.as_nanos() / 1_000_000_000).max(1))),
        Err(_) => Err(ScheduleError(format!(
            "failed to parse duration {text}: time: {} {}",
            duration_problem(duration),
            go_quote(duration)
        ))),
    }
}

/// What Go says about a duration that it cannot read.
fn duration_problem(text: &str) -> String {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_number = |c: char| c == '.' || c.is_ascii_digit();
    while rest.starts_with(is_number) && !rest.starts_with("..") {
        let number = rest.find(|c| !is_number(c)).unwrap_or(rest.len());
        let (amount, after) = rest.split_at(number);
        if !amount.contains(|c: char| c.is_ascii_digit()) {
            break;
        }
        let end = after.find(is_number).unwrap_or(after.len());
        match &after[..end] {
            "" => return "missing unit in duration".to_owned(),
            "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h" => rest = &after[end..],
            unit => return format!("unknown unit {} in duration", go_quote(unit)),
        }
    }
    "invalid duration".to_owned()
}
