//! How schedules are read.

use super::schedule;
use crate::cron::{Schedule, Zone};

// robfig/cron: TestStandardSpecSchedule (4 rows), TestParseSchedule (12 rows; seconds left out), TestParseScheduleErrors
// (5 rows), TestErrors (4 rows); upstream's TestParseCronScheduleWithPanicRecovery and TestParseCronSchedulePanicRecovery.
// Each message is what Go's parser said.
#[test]
fn says_what_is_wrong_with_a_schedule() {
    let panicked =
        "invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned();
    let unreadable = |text: &str| {
        format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")
    };
    let duration = |text: &str, problem: &str| {
        format!("failed to parse duration @every {text}: time: {problem} {text:?}")
    };
    for (text, problem) in [
        ("", "empty spec string".to_owned()),
        ("   ", "expected exactly 5 fields, found 0: []".to_owned()),
        (
            "* * * *",
            "expected exactly 5 fields, found 4: [* * * *]".to_owned(),
        ),
        (
            "* * * * * *",
            "expected exactly 5 fields, found 6: [* * * * * *]".to_owned(),
        ),
        (
            "xyz",
            "expected exactly 5 fields, found 1: [xyz]".to_owned(),
        ),
        ("5 j * * *", unreadable("j")),
        ("TZ=UTC 5 j * * *", unreadable("j")),
        ("0 0 * * XYZ", unreadable("XYZ")),
        (
            "60 0 * * *",
            "end of range (60) above maximum (59): 60".to_owned(),
        ),
        (
            "0 60 * * *",
            "end of range (60) above maximum (23): 60".to_owned(),
        ),
        (
            "* * * * 7",
            "end of range (7) above maximum (6): 7".to_owned(),
        ),
        (
            "0 0 0 * *",
            "beginning of range (0) below minimum (1): 0".to_owned(),
        ),
        (
            "TZ=America/New_York 15/0 * * * *",
            "step of range should be a positive number: 15/0".to_owned(),
        ),
        (
            "@unrecognized",
            "unrecognized descriptor: @unrecognized".to_owned(),
        ),
        ("@Hourly", "unrecognized descriptor: @Hourly".to_owned()),
        ("@every", "unrecognized descriptor: @every".to_owned()),
        ("@every Xm", duration("Xm", "invalid duration")),
        ("@every 5", duration("5", "missing unit in duration")),
        ("@every 1h5", duration("1h5", "missing unit in duration")),
        (
            "@every 1d",
            duration("1d", "unknown unit \"d\" in duration"),
        ),
        ("@every  5s", duration(" 5s", "invalid duration")),
        ("@every .s", duration(".s", "invalid duration")),
        ("@every 9999999h", duration("9999999h", "invalid duration")),
        ("TZ=0", panicked.clone()),
        ("TZ=", panicked.clone()),
        ("CRON_TZ=UTC", panicked.clone()),
        ("TZ=Invalid/Timezone", panicked),
        (
            "TZ=UTC ",
            "expected exactly 5 fields, found 0: []".to_owned(),
        ),
        (
            "TZ=Mars/Base 0 * * * *",
            "provided bad location Mars/Base: unknown time zone Mars/Base".to_owned(),
        ),
        (
            "CRON_TZ=../x 0 * * * *",
            "provided bad location ../x: time: invalid location name".to_owned(),
        ),
    ] {
        let parsed = Schedule::parse(text, &Zone::UTC);
        assert_eq!(parsed.unwrap_err().to_string(), problem, "{text:?}");
    }
}

// robfig/cron: TestParseSchedule, TestStandardSpecSchedule.
#[test]
fn a_zone_in_front_of_a_schedule_counts() {
    let five = |zone| schedule("5 * * * *", zone);
    assert_eq!(
        schedule("CRON_TZ=UTC  5 * * * *", "Asia/Tokyo"),
        five("UTC")
    );
    assert_eq!(
        schedule("CRON_TZ=Asia/Tokyo 5 * * * *", ""),
        five("Asia/Tokyo")
    );
    assert_eq!(schedule("TZ= 5 * * * *", "Asia/Tokyo"), five("UTC"));
    assert_eq!(schedule("\t5\t*  * * * ", "UTC"), five("UTC"));
    let midnight = |zone| schedule("0 0 * * *", zone);
    assert_eq!(schedule("@midnight", "UTC"), midnight("UTC"));
    assert_eq!(
        schedule("TZ=Asia/Tokyo @midnight", "UTC"),
        midnight("Asia/Tokyo")
    );
    assert_eq!(schedule("@daily", "UTC"), midnight("UTC"));
    assert_eq!(schedule("@hourly", "UTC"), schedule("0 * * * *", "UTC"));
    assert_eq!(schedule("@weekly", "UTC"), schedule("0 0 * * 0", "UTC"));
    assert_eq!(schedule("@monthly", "UTC"), schedule("0 0 1 * ?", "UTC"));
    for yearly in ["@yearly", "@annually"] {
        assert_eq!(schedule(yearly, "UTC"), schedule("0 0 1 1 *", "UTC"));
    }
    assert_eq!(schedule("@every 5m", "UTC"), Schedule::Every(300));
    assert_eq!(schedule("@every 1h30m", "UTC"), Schedule::Every(5400));
}
