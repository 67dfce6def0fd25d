//! When a CronJob is due: upstream's tables, what its code answers, and the ends of time.

use std::time::Duration;

use api::{MicroTime, Time};

use crate::cronjob::schedule::{Missed, NoNextTime, Recent, Timing};
use api::cron::{Schedule, Zone};

fn time(text: &str) -> Time {
    Time::parse(text).unwrap_or_else(|| panic!("{text} is no time"))
}

fn schedule(text: &str, zone: &str) -> Schedule {
    Schedule::parse(text, &Zone::load(zone).unwrap()).unwrap()
}

/// So long after the top of the hour that upstream's tables begin with, a Thursday: `1h30m`, `-10s`, `24h31m`.
fn top(after: &str) -> Time {
    let nanos = api::GoDuration::parse(after).unwrap().as_nanos();
    Time::from_unix(time("2016-05-19T10:00:00Z").unix() + nanos / 1_000_000_000)
}

/// Since creation, last start, deadline: what is due at `now`, how many were missed, and the next time.
fn check(
    text: &str,
    (created, last, deadline): (&str, &str, Option<i64>),
    now: &str,
    expected: &str,
) {
    let timing = Timing {
        created_at: top(created),
        last: (!last.is_empty()).then(|| top(last)),
        deadline_seconds: deadline,
    };
    let (schedule, now) = (schedule(text, "UTC"), top(now).micro());
    let offset = |at: MicroTime| {
        let seconds = at.time().unix() - top("0s").unix();
        api::GoDuration::from_secs(seconds).to_string()
    };
    let due = match timing.due(&schedule, now) {
        Err(error) => error.to_string(),
        Ok(Recent {
            earliest,
            due,
            missed,
        }) => format!(
            "since {} due {} missed {missed:?}",
            offset(earliest),
            due.map_or("-".to_owned(), |at| offset(at.micro()))
        ),
    };
    let next = timing.next(&schedule, now);
    let next = next.map_or("-".to_owned(), |at| offset(at.micro()));
    assert_eq!(format!("{due}, next {next}"), expected, "{text}");
}

// Upstream: TestNextScheduleTime (8 cases, in their order).
#[test]
fn one_start_is_due_however_many_were_missed() {
    let hourly = "0 * * * ?";
    let created = ("-10m", "", None);
    check(
        hourly,
        created,
        "-7m",
        "since -10m0s due - missed None, next 0s",
    );
    check(
        hourly,
        created,
        "2s",
        "since -10m0s due 0s missed None, next 1h0m0s",
    );
    let last = ("-10m", "0s", None);
    check(
        hourly,
        last,
        "2m",
        "since 0s due - missed None, next 1h0m0s",
    );
    check(
        hourly,
        last,
        "1h5m",
        "since 0s due 1h0m0s missed None, next 2h0m0s",
    );
    let two = ("-2h", "-1h", None);
    check(
        hourly,
        two,
        "1h5m",
        "since -1h0m0s due 1h0m0s missed Few, next 2h0m0s",
    );
    check(
        hourly,
        two,
        "241h",
        "since -1h0m0s due 241h0m0s missed Many, next 242h0m0s",
    );
    let short = ("-2h", "-1h", Some(7200));
    check(
        hourly,
        short,
        "241h",
        "since 239h0m0s due 241h0m0s missed Few, next 242h0m0s",
    );
    check(
        "59 23 31 2 *",
        ("10s", "", None),
        "1h",
        "time difference between two schedules is less than 1 second, next -",
    );
}

// Upstream: TestMostRecentScheduleTime (13 rows, in their order), TestNextScheduleTimeDuration (4 rows; the delta of
// 100 ms is added where the key is put back).
#[test]
fn uneven_schedules_are_due_at_their_last_time() {
    let hourly = "0 * * * *";
    check(
        hourly,
        ("0s", "", None),
        "30s",
        "since 0s due - missed None, next 1h0m0s",
    );
    check(
        hourly,
        ("0s", "", None),
        "61m",
        "since 0s due 1h0m0s missed None, next 2h0m0s",
    );
    check(
        hourly,
        ("10s", "", None),
        "301m",
        "since 10s due 5h0m0s missed Few, next 6h0m0s",
    );
    let office = "30 6-16/4 * * 1-5";
    let half_past = ("0s", "30m", None);
    check(
        office,
        half_past,
        "24h31m",
        "since 30m0s due 24h30m0s missed Few, next 28h30m0s",
    );
    let noon = "30 10,11,12 * * 1-5";
    check(
        noon,
        half_past,
        "30h30m",
        "since 30m0s due - missed Few, next 96h30m0s",
    );
    check(
        office,
        half_past,
        "96h31m",
        "since 30m0s due 96h30m0s missed Few, next 100h30m0s",
    );
    check(
        office,
        ("0s", "", None),
        "24h31m",
        "since 0s due 24h30m0s missed Few, next 28h30m0s",
    );
    // Without the deadline, which is upstream's row; with it, an interval is counted from the deadline on.
    check(
        "@every 1h",
        ("-59m", "1m", None),
        "168h",
        "since 1m0s due 167h1m0s missed Many, next 168h1m0s",
    );
    check(
        "@every 1h",
        ("-59m", "1m", Some(10)),
        "168h",
        "since 167h59m50s due - missed None, next 168h1m0s",
    );
    check(
        "59 23 31 2 *",
        ("10s", "", None),
        "1h",
        "time difference between two schedules is less than 1 second, next -",
    );
    check(
        hourly,
        ("0s", "0s", None),
        "30s",
        "since 0s due - missed None, next 1h0m0s",
    );
    let five = "*/5 * * * *";
    check(
        five,
        half_past,
        "31m",
        "since 30m0s due - missed None, next 35m0s",
    );
    let minute = ("0s", "30m", Some(60));
    check(
        five,
        minute,
        "31m",
        "since 30m0s due - missed None, next 35m0s",
    );
    check(
        five,
        minute,
        "32m",
        "since 31m0s due - missed None, next 35m0s",
    );

    check(
        "0 12 * * 4",
        ("0s", "2h", None),
        "457h30m",
        "since 2h0m0s due 338h0m0s missed Few, next 506h0m0s",
    );
    check(
        "0 12 * * 5",
        ("0s", "", None),
        "6h",
        "since 0s due - missed None, next 26h0m0s",
    );
}

#[test]
fn answers_as_upstreams_code_does() {
    let cases = include_str!("../testdata/due.txt").lines().skip(1);
    let mut count = 0;
    for case in cases {
        let [zone, text, last, deadline, now, due, next] = case.split('|').collect::<Vec<_>>()[..]
        else {
            panic!("{case} has seven parts");
        };
        let timing = Timing {
            created_at: Time::default(),
            last: Some(time(last)),
            deadline_seconds: deadline.parse().ok(),
        };
        let (schedule, now) = (schedule(text, zone), time(now).micro());
        let print = |at: Option<Time>| at.map_or("-".to_owned(), |at| at.to_string());
        let found = match timing.due(&schedule, now) {
            Err(NoNextTime) => "- error".to_owned(),
            Ok(recent) => format!("{} {}", print(recent.due), recent.missed as u8),
        };
        assert_eq!(found, due, "{case}");
        assert_eq!(print(timing.next(&schedule, now)), next, "{case}");
        count += 1;
    }
    assert_eq!(count, 600);
}

#[test]
fn a_century_of_missed_minutes_takes_no_longer_than_one() {
    let now = time("2024-05-01T12:00:30Z").micro();
    for last in [
        "0001-01-01T00:00:00Z",
        "1900-01-01T00:00:00Z",
        "2024-05-01T11:00:00Z",
    ] {
        // In the second one half of the year is dense: one by one these would be hundreds of thousands.
        for text in ["* * * * *", "* * * 1-6 *"] {
            let timing = Timing {
                created_at: time("0001-01-01T00:00:00Z"),
                last: Some(time(last)),
                deadline_seconds: None,
            };
            let schedule = schedule(text, "America/New_York");
            let due = timing.due(&schedule, now).unwrap().due;
            assert_eq!(
                due,
                Some(time("2024-05-01T12:00:00Z")),
                "{text} since {last}"
            );
            let next = timing.next(&schedule, now);
            assert_eq!(
                next,
                Some(time("2024-05-01T12:01:00Z")),
                "{text} since {last}"
            );
        }
    }
}

#[test]
fn a_clock_that_was_set_back_waits_until_it_is_later_than_the_last_start() {
    let timing = Timing {
        created_at: time("2024-01-01T00:00:00Z"),
        last: Some(time("2024-01-10T00:00:00Z")),
        deadline_seconds: None,
    };
    let (schedule, now) = (
        schedule("0 * * * *", "UTC"),
        time("2024-01-09T00:30:00Z").micro(),
    );
    let recent = timing.due(&schedule, now).unwrap();
    assert_eq!((recent.due, recent.missed), (None, Missed::None));
    assert_eq!(
        timing.next(&schedule, now),
        Some(time("2024-01-10T01:00:00Z"))
    );
}

#[test]
fn a_deadline_of_any_length_is_a_deadline() {
    let now = top("1m").micro().plus(Duration::from_micros(1));
    for (seconds, is_due) in [
        (0, false),
        (59, false),
        (60, false),
        (61, true),
        (i64::MAX, true),
        // The API server refuses it.
        (-1, false),
    ] {
        let timing = Timing {
            created_at: top("-10m"),
            last: None,
            deadline_seconds: Some(seconds),
        };
        let due = timing.due(&schedule("0 * * * *", "UTC"), now).unwrap().due;
        assert_eq!(due.is_some(), is_due, "{seconds}");
        assert!(due.is_none_or(|at| at == top("0s")));
    }
}

#[test]
fn nothing_panics_at_the_ends_of_time() {
    let ends = [
        "0001-01-01T00:00:00Z",
        "1900-02-28T23:59:59Z",
        "9999-12-31T23:59:59Z",
    ];
    for text in [
        "* * * * *",
        "0 0 30 2 *",
        "0 0 29 2 *",
        "@every 1s",
        "@every 2000000h",
        "@yearly",
    ] {
        for (created, now) in ends.iter().flat_map(|one| ends.map(|two| (*one, two))) {
            let timing = Timing {
                created_at: time(created),
                last: None,
                deadline_seconds: None,
            };
            let (schedule, now) = (schedule(text, "Asia/Tokyo"), time(now).micro());
            let _ = timing.due(&schedule, now);
            assert!(
                timing
                    .next(&schedule, now)
                    .is_none_or(|next| next.micro() > now)
            );
        }
    }
}
