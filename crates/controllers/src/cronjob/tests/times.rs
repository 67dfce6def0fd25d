//! Two ways to reckon when a schedule comes give the same.

use api::Time;
use api::cron::{Schedule, Zone};
use proptest::prelude::*;

use super::pure::{snapshot, time};
use crate::cronjob::schedule::Timing;
use crate::cronjob::times::Times;

const TEXTS: [&str; 16] = [
    "* * * * *",
    "0 * * * *",
    "30 1 * * *",
    "30 2 * * *",
    "0 0 * * *",
    "*/7 0-3 * * *",
    "59/2 23 * * sat",
    "30 6-16/4 * * 1-5",
    "0 0 1,15 * FRI",
    "0 12 ? jan-mar,Nov ?",
    "1-8 0 1 1 *",
    "0 0 */2 * 1",
    "@every 7m",
    "@every 1h30m1s",
    "@daily",
    "@weekly",
];

const ZONES: [&str; 6] = [
    "UTC",
    "America/New_York",
    "Europe/London",
    "America/Sao_Paulo",
    "America/Havana",
    "Asia/Kolkata",
];

proptest! {
    #[test]
    fn the_next_and_the_last_time_are_those_that_the_parser_finds(
        text in prop::sample::select(&TEXTS[..]),
        zone in prop::sample::select(&ZONES[..]),
        // Around the days on which clocks change, as often as not.
        year in 2010_i64..2030,
        day in prop::sample::select(&[66_i64, 70, 84, 86, 290, 298, 304, 308, 1, 59, 180][..]),
        second in 0_i64..5 * 86_400,
        hours in 1_i64..60,
    ) {
        let zone = Zone::load(zone).unwrap();
        let times = Times::read(text, zone.clone()).unwrap();
        let schedule = Schedule::parse(text, &zone).unwrap();
        let after = (year - 1970) * 31_556_952 + day * 86_400 + second;
        let (after, until) = (Time::from_unix(after), Time::from_unix(after + hours * 3600));
        let next = schedule.next(after.micro()).filter(|next| *next <= until);
        prop_assert_eq!(times.next(after, until), next);
        prop_assert_eq!(times.last(after, until), schedule.last(after, until.micro()));
    }

    #[test]
    fn the_time_that_is_due_is_the_same(
        text in prop::sample::select(&TEXTS[..]),
        last in 0_i64..3 * 86_400,
        elapsed in 1_i64..3 * 86_400,
        deadline in prop::option::of(0_i64..4000),
    ) {
        let mut cron_job = (*snapshot(&format!("{text} | ")).cron_job).clone();
        let last = Time::from_unix(time("00:00").unix() + last);
        cron_job.status.last_schedule_time = Some(last);
        cron_job.spec.starting_deadline_seconds = deadline;
        let now = Time::from_unix(last.unix() + elapsed).micro();
        let schedule = Schedule::parse(text, &Zone::UTC).unwrap();
        let due = Timing::of(&cron_job).due(&schedule, now).map_or(None, |recent| recent.due);
        let times = Times::of(&cron_job).unwrap();
        prop_assert_eq!(times.due(&cron_job, now), due);
    }
}

#[test]
fn what_nobody_can_read_has_no_times() {
    for text in [
        "",
        "x",
        "* * * *",
        "60 * * * *",
        "*/0 * * * *",
        "5-3 * * * *",
        "@reboot",
        "TZ=UTC 0 0 * * *",
    ] {
        assert!(Times::read(text, Zone::UTC).is_none(), "{text}");
    }
}
