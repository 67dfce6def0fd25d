//! What is decided where the schedule is an interval.

use expect_test::expect;

use super::pure::check;

// Upstream: TestControllerV2SyncCronJob, rows 58 to 64: with @every schedule.
#[test]
fn an_interval_counts_from_the_last_start() {
    // never ran: not time, is time, past deadline, not past deadline
    check(
        "@every 1h | created=09:59",
        "10:00",
        expect![[r#"
            ~ waits for its next run at 2016-05-19T10:59:00Z: its schedule is @every 1h
            next 10:59"#]],
    );
    check(
        "@every 1h | created=08:59",
        "09:59",
        expect![[r#"
            + creates job hello-24394199: it is scheduled for 2016-05-19T09:59:00Z
            ~ waits for its next run at 2016-05-19T10:59:00Z: its schedule is @every 1h
            start hello-24394199 of 09:59, replaces []
            next 10:59"#]],
    );
    check(
        "@every 1h | created=08:59 deadline=10",
        "09:59:11",
        expect![[r#"
            - did not start the job of 2016-05-19T09:59:00Z: that is past startingDeadlineSeconds (10)
            ~ waits for its next run at 2016-05-19T10:59:00Z: its schedule is @every 1h
            next 10:59"#]],
    );
    check(
        "@every 1h | created=08:59 deadline=1000000",
        "09:59:09",
        expect![[r#"
            + creates job hello-24394199: it is scheduled for 2016-05-19T09:59:00Z
            ~ waits for its next run at 2016-05-19T10:59:00Z: its schedule is @every 1h
            start hello-24394199 of 09:59, replaces []
            next 10:59"#]],
    );
    // previously ran but done: not time, is time, past deadline
    let done = |with: &str| format!("@every 1h | created=08:59 last=09:59 {with} | 08:59=done");
    check(
        &done(""),
        "10:00",
        expect![[r#"
            + takes job hello-24394139 off the active list: it is Complete
              Normal SawCompletedJob: Saw completed job: hello-24394139, condition: Complete
            ~ waits for its next run at 2016-05-19T10:59:00Z: its schedule is @every 1h
            status: active [], last 09:59, success 08:59:10
            next 10:59"#]],
    );
    check(
        &done(""),
        "11:00",
        expect![[r#"
            + takes job hello-24394139 off the active list: it is Complete
              Normal SawCompletedJob: Saw completed job: hello-24394139, condition: Complete
            + creates job hello-24394259: it is scheduled for 2016-05-19T10:59:00Z
            ~ waits for its next run at 2016-05-19T11:59:00Z: its schedule is @every 1h
            start hello-24394259 of 10:59, replaces []
            status: active [], last 09:59, success 08:59:10
            next 11:59"#]],
    );
    check(
        &done("deadline=10"),
        "10:59:11",
        expect![[r#"
            + takes job hello-24394139 off the active list: it is Complete
              Normal SawCompletedJob: Saw completed job: hello-24394139, condition: Complete
            - did not start the job of 2016-05-19T10:59:00Z: that is past startingDeadlineSeconds (10)
            ~ waits for its next run at 2016-05-19T11:59:00Z: its schedule is @every 1h
            status: active [], last 09:59, success 08:59:10
            next 11:59"#]],
    );
}

// Upstream: TestControllerV2SyncCronJob, rows 65 to 70: with @every schedule.
#[test]
fn an_interval_continues_while_a_job_is_active() {
    // still active: not time, is time, past deadline, not past deadline
    let active = |last: &str, with: &str| {
        format!("@every 1h | created=08:59 last={last} {with} | {last}=running")
    };
    check(
        &active("09:59", ""),
        "10:00",
        expect![[r#"
            ~ waits for its next run at 2016-05-19T10:59:00Z: its schedule is @every 1h
            next 10:59"#]],
    );
    check(
        &active("08:59", ""),
        "10:01",
        expect![[r#"
            + creates job hello-24394199: it is scheduled for 2016-05-19T09:59:00Z
            ~ waits for its next run at 2016-05-19T10:59:00Z: its schedule is @every 1h
            start hello-24394199 of 09:59, replaces []
            next 10:59"#]],
    );
    check(
        &active("09:59", "deadline=10"),
        "10:59:11",
        expect![[r#"
            - did not start the job of 2016-05-19T10:59:00Z: that is past startingDeadlineSeconds (10)
            ~ waits for its next run at 2016-05-19T11:59:00Z: its schedule is @every 1h
            next 11:59"#]],
    );
    check(
        &active("09:59", "deadline=1000000"),
        "10:59:09",
        expect![[r#"
            + creates job hello-24394259: it is scheduled for 2016-05-19T10:59:00Z
            ~ waits for its next run at 2016-05-19T11:59:00Z: its schedule is @every 1h
            start hello-24394259 of 10:59, replaces []
            next 11:59"#]],
    );
    // long overdue: no deadline, past deadline
    let done = |with: &str| format!("@every 1h | created=09:01 last=10:01 {with} | 09:01=done");
    check(
        &done(""),
        "26T10:00",
        expect![[r#"
            + takes job hello-24394141 off the active list: it is Complete
              Normal SawCompletedJob: Saw completed job: hello-24394141, condition: Complete
            - has missed more than 100 starts: only the last one is made up for
              Warning TooManyMissedTimes: too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew
            + creates job hello-24404221: it is scheduled for 2016-05-26T09:01:00Z
            ~ waits for its next run at 2016-05-26T10:01:00Z: its schedule is @every 1h
            start hello-24404221 of 26T09:01, replaces []
            status: active [], last 10:01, success 09:01:10
            next 26T10:01"#]],
    );
    check(
        &done("deadline=10"),
        "26T10:01:11",
        expect![[r#"
            + takes job hello-24394141 off the active list: it is Complete
              Normal SawCompletedJob: Saw completed job: hello-24394141, condition: Complete
            - did not start the job of 2016-05-26T10:01:00Z: that is past startingDeadlineSeconds (10)
            ~ waits for its next run at 2016-05-26T11:01:00Z: its schedule is @every 1h
            status: active [], last 10:01, success 09:01:10
            next 26T11:01"#]],
    );
}
