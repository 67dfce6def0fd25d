//! What holds for all schedules, and at the ends of time.

use crate::{MicroTime, Time};
use proptest::prelude::*;

use super::{check, schedule, time};
use crate::cron::Schedule;

#[test]
fn answers_as_robfigs_code_does_in_zones_that_change_their_clocks() {
    let cases = include_str!("next.txt").lines().skip(1);
    let mut count = 0;
    for case in cases {
        let [zone, text, after, expected] = case.split('|').collect::<Vec<_>>()[..] else {
            panic!("{case} has four parts");
        };
        let schedule = schedule(text, zone);
        let mut at = time(after).micro();
        for expected in expected.split(' ') {
            let found = schedule.next(at).map(|next| next.to_string());
            assert_eq!(found.as_deref().unwrap_or("-"), expected, "{case}");
            at = time(expected).micro();
        }
        count += 1;
    }
    assert_eq!(count, 600);
}

#[test]
fn what_never_comes_is_known_at_once_and_nothing_panics_at_the_ends_of_time() {
    for text in [
        "0 0 30 2 *",
        "0 0 31 2,4,6,9,11 *",
        ", * * * *",
        "0 0 , * *",
    ] {
        check(text, "America/New_York", "2024-01-01T00:00:00Z", "never");
    }
    // 2100 is no leap year, and eight years are too long.
    check("0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", "never");
    for zone in ["UTC", "Asia/Tokyo", "America/New_York"] {
        check("* * * * *", zone, "9999-12-31T23:59:00Z", "never");
        check("@yearly", zone, "9999-12-31T23:00:00Z", "never");
    }
    check("@every 1h", "UTC", "9999-12-31T23:30:00Z", "never");
    check("@every 2000000h", "UTC", "9999-12-31T00:00:00Z", "never");
    check(
        "0 0 1 1 *",
        "UTC",
        "1900-06-01T00:00:00Z",
        "1901-01-01T00:00:00Z",
    );
    check(
        "0 0 1 1 *",
        "UTC",
        "0001-01-01T00:00:00Z",
        "0002-01-01T00:00:00Z",
    );
    for micros in [i64::MIN, i64::MAX] {
        for text in ["* * * * *", "@every 1s"] {
            let at = MicroTime::from_unix_micros(micros);
            assert!(
                schedule(text, "UTC")
                    .next(at)
                    .is_none_or(|next| next.micro() > at)
            );
        }
    }
}

#[test]
fn a_day_that_a_zone_skipped_does_not_stop_the_search() {
    let after = "2011-12-28T12:00:00Z";
    check(
        "0 0 31 12 *",
        "Pacific/Apia",
        after,
        "2011-12-31T00:00:00+14:00",
    );
    check(
        "0 0 30 12 *",
        "Pacific/Apia",
        after,
        "2012-12-30T00:00:00+14:00",
    );
    check(
        "0 0 1 2 *",
        "Pacific/Apia",
        after,
        "2012-02-01T00:00:00+14:00",
    );
}

/// What upstream does: one by one.
fn last_one_by_one(schedule: &Schedule, after: Time, until: MicroTime) -> Option<Time> {
    let mut found = None;
    let mut at = after;
    while let Some(next) = schedule.next(at.micro()) {
        if next.micro() > until {
            break;
        }
        (found, at) = (Some(next), next);
    }
    found
}

const TEXTS: [&str; 14] = [
    "* * * * *",
    "0 * * * *",
    "30 1 * * *",
    "30 2 * * *",
    "0 0 * * *",
    "*/7 0-3 * * *",
    "0 0 1 * *",
    "30 6-16/4 * * 1-5",
    "0 0 1,15 * 5",
    "* * * 3 *",
    "0 0 29 2 *",
    "@every 7m",
    "@every 25h",
    "0 0 30 2 *",
];

const ZONES: [&str; 7] = [
    "UTC",
    "America/New_York",
    "Europe/London",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "America/Havana",
    "Asia/Kolkata",
];

proptest! {
    #[test]
    fn the_last_time_is_the_one_that_going_one_by_one_finds(
        text in prop::sample::select(&TEXTS[..]),
        zone in prop::sample::select(&ZONES[..]),
        after in 1_262_304_000_i64..1_700_000_000,
        hours in prop::sample::select(&[1_i64, 30, 200, 2000][..]),
        part in 0.0..1.0_f64,
    ) {
        let schedule = schedule(text, zone);
        let until = after + (hours as f64 * 3600.0 * part) as i64;
        let (after, until) = (Time::from_unix(after), Time::from_unix(until).micro());
        let expected = last_one_by_one(&schedule, after, until);
        prop_assert_eq!(schedule.last(after, until), expected);
        // Where clocks change by half an hour, going one by one may miss a time that searching finds.
        let searches = matches!(schedule, Schedule::Fields(_)) && zone != "Australia/Lord_Howe";
        if let Some(first) = schedule.next(after.micro()).filter(|_| searches && expected.is_some()) {
            prop_assert_eq!(Some(schedule.search_last(first, until)), expected);
        }
    }

    #[test]
    fn the_next_time_is_later_and_nothing_that_fits_lies_between(
        text in prop::sample::select(&TEXTS[..]),
        zone in prop::sample::select(&ZONES[..]),
        after in 1_262_304_000_i64..1_700_000_000,
    ) {
        let schedule = schedule(text, zone);
        if let Some(next) = schedule.next(Time::from_unix(after).micro()) {
            prop_assert!(next.unix() > after);
            if matches!(schedule, Schedule::Fields(_)) {
                let middle = after + (next.unix() - after - 1) / 2;
                prop_assert_eq!(schedule.next(Time::from_unix(middle).micro()), Some(next));
            }
        }
    }
}
