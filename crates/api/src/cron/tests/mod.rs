//! What robfig/cron's tests expect, what its code answers, and what neither says.

mod next;
mod properties;
mod reading;

use crate::{MicroTime, Time};

use super::{Schedule, Zone};

fn time(text: &str) -> Time {
    Time::parse(text).unwrap_or_else(|| panic!("{text} is no time"))
}

fn schedule(text: &str, zone: &str) -> Schedule {
    Schedule::parse(text, &Zone::load(zone).unwrap())
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn next(schedule: &Schedule, after: &str) -> String {
    let next = schedule.next(MicroTime::parse(after).unwrap());
    next.map_or("never".to_owned(), |at| at.to_string())
}

/// `schedule` in `zone` comes after `after` at `expected`; times are written with any offset.
fn check(text: &str, zone: &str, after: &str, expected: &str) {
    let expected = match expected {
        "never" => "never".to_owned(),
        at => time(at).to_string(),
    };
    assert_eq!(
        next(&schedule(text, zone), after),
        expected,
        "{text} in {zone} after {after}"
    );
}
