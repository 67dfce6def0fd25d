//! What is decided, by upstream's table.

use std::sync::Arc;

use expect_test::expect;

use super::pure::{check, check_all, cleaned, planned, print, snapshot, time};
use crate::cronjob::plan::plan;

// Upstream: TestControllerV2SyncCronJob. Its 74 rows are in the tests of this file, but for those with intervals (58 to
// 70), which are in `intervals`, and those about answers of the API server (22 and 23, create job failed; 35, get job
// failed; 71, namespace is terminating), which are in `sync` and `crash`.

// Rows 1 to 4: never ran, not valid schedule (A, F, R), not valid time zone.
#[test]
fn what_cannot_be_read_is_not_followed() {
    check_all(
        "obvious error schedule | | ",
        "09:59",
        expect![[r#"
        - starts no job: its schedule cannot be read: expected exactly 5 fields, found 3: [obvious error schedule]
          Warning UnparseableSchedule: unparseable schedule: "obvious error schedule" : expected exactly 5 fields, found 3: [obvious error schedule]
        next -"#]],
    );
    check(
        "0 * * * ? | zone=bad",
        "09:59",
        expect![[r#"
        - starts no job: unknown time zone bad
          Warning UnknownTimeZone: invalid timeZone: "bad": unknown time zone bad
        next -"#]],
    );
    check(
        "0 0 30 2 * | ",
        "09:59",
        expect![[r#"
        - starts no job: its schedule 0 0 30 2 * does not come within five years
          Warning InvalidSchedule: invalid schedule: 0 0 30 2 * : time difference between two schedules is less than 1 second
        next -"#]],
    );
}

// Rows 5 to 8: never ran, not time (A, F, R, in zone).
#[test]
fn waits_for_the_next_time() {
    check_all(
        "0 * * * ? | | ",
        "09:59",
        expect![[r#"
            ~ waits for its next run at 2016-05-19T10:00:00Z: its schedule is 0 * * * ? (UTC)
            next 10:00"#]],
    );
    check(
        "0 * * * ? | zone=America/New_York",
        "09:59",
        expect![[r#"
            ~ waits for its next run at 2016-05-19T10:00:00Z: its schedule is 0 * * * ? (America/New_York)
            next 10:00"#]],
    );
    check(
        "0 12 * * ? | zone=America/New_York",
        "09:59",
        expect![[r#"
            ~ waits for its next run at 2016-05-19T16:00:00Z: its schedule is 0 12 * * ? (America/New_York)
            next 16:00"#]],
    );
}

// Rows 9 to 14: never ran, is time (A, F, R, in zone twice, TZ is also set in schedule).
#[test]
fn starts_when_it_is_time() {
    check_all(
        "0 * * * ? | | ",
        "10:01",
        expect![[r#"
            + creates job hello-24394200: it is scheduled for 2016-05-19T10:00:00Z
            ~ waits for its next run at 2016-05-19T11:00:00Z: its schedule is 0 * * * ? (UTC)
            start hello-24394200 of 10:00, replaces []
            next 11:00"#]],
    );
    check(
        "0 * * * ? | zone=America/New_York",
        "14:01",
        expect![[r#"
            + creates job hello-24394440: it is scheduled for 2016-05-19T14:00:00Z
            ~ waits for its next run at 2016-05-19T15:00:00Z: its schedule is 0 * * * ? (America/New_York)
            start hello-24394440 of 14:00, replaces []
            next 15:00"#]],
    );
    check(
        "TZ=UTC 0 * * * ? | zone=America/New_York",
        "14:01",
        expect![[r#"
            - has a time zone in its schedule: that is not officially supported
              Warning UnsupportedSchedule: CRON_TZ or TZ used in schedule "TZ=UTC 0 * * * ?" is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details
            + creates job hello-24394440: it is scheduled for 2016-05-19T14:00:00Z
            ~ waits for its next run at 2016-05-19T15:00:00Z: its schedule is TZ=UTC 0 * * * ?
            start hello-24394440 of 14:00, replaces []
            next 15:00"#]],
    );
}

// Rows 15 to 17, 26 to 28, 36 to 38: suspended, past the deadline, not past it; never ran, done, still active.
#[test]
fn neither_starts_suspended_nor_after_the_deadline() {
    check(
        "0 * * * ? | suspend",
        "10:01",
        expect![[r#"
        - starts no job: it is suspended
        next -"#]],
    );
    check(
        "0 * * * ? | deadline=10",
        "10:12",
        expect![[r#"
            - did not start the job of 2016-05-19T10:00:00Z: that is past startingDeadlineSeconds (10)
            ~ waits for its next run at 2016-05-19T11:00:00Z: its schedule is 0 * * * ? (UTC)
            next 11:00"#]],
    );
    check(
        "0 * * * ? | deadline=1000000",
        "10:01",
        expect![[r#"
            + creates job hello-24394200: it is scheduled for 2016-05-19T10:00:00Z
            ~ waits for its next run at 2016-05-19T11:00:00Z: its schedule is 0 * * * ? (UTC)
            start hello-24394200 of 10:00, replaces []
            next 11:00"#]],
    );
    let ran = |with: &str| format!("0 * * * ? | created=08:59 last=09:01 {with} | 09:01=done");
    check(
        &ran("suspend"),
        "10:01",
        expect![[r#"
            + takes job hello-24394141 off the active list: it is Complete
              Normal SawCompletedJob: Saw completed job: hello-24394141, condition: Complete
            - starts no job: it is suspended
            status: active [], last 09:01, success 09:01:10
            next -"#]],
    );
    check(
        &ran("deadline=10"),
        "10:01",
        expect![[r#"
            + takes job hello-24394141 off the active list: it is Complete
              Normal SawCompletedJob: Saw completed job: hello-24394141, condition: Complete
            - did not start the job of 2016-05-19T10:00:00Z: that is past startingDeadlineSeconds (10)
            ~ waits for its next run at 2016-05-19T11:00:00Z: its schedule is 0 * * * ? (UTC)
            status: active [], last 09:01, success 09:01:10
            next 11:00"#]],
    );
    check(
        &ran("deadline=1000000"),
        "10:01",
        expect![[r#"
            + takes job hello-24394141 off the active list: it is Complete
              Normal SawCompletedJob: Saw completed job: hello-24394141, condition: Complete
            + creates job hello-24394200: it is scheduled for 2016-05-19T10:00:00Z
            ~ waits for its next run at 2016-05-19T11:00:00Z: its schedule is 0 * * * ? (UTC)
            start hello-24394200 of 10:00, replaces []
            status: active [], last 09:01, success 09:01:10
            next 11:00"#]],
    );
    let runs = |with: &str| format!("0 * * * ? | created=08:59 last=09:01 {with} | 09:01=running");
    check(
        &runs("suspend"),
        "10:01",
        expect![[r#"
        - starts no job: it is suspended
        next -"#]],
    );
    check(
        &runs("deadline=10"),
        "10:01",
        expect![[r#"
            - did not start the job of 2016-05-19T10:00:00Z: that is past startingDeadlineSeconds (10)
            ~ waits for its next run at 2016-05-19T11:00:00Z: its schedule is 0 * * * ? (UTC)
            next 11:00"#]],
    );
    check(
        &runs("deadline=1000000"),
        "10:01",
        expect![[r#"
            + creates job hello-24394200: it is scheduled for 2016-05-19T10:00:00Z
            ~ waits for its next run at 2016-05-19T11:00:00Z: its schedule is 0 * * * ? (UTC)
            start hello-24394200 of 10:00, replaces []
            next 11:00"#]],
    );
}

// Rows 18 to 21, 24 and 25: previously ran but done, not time (A, F, R), is time (A, F, R).
#[test]
fn a_job_that_is_over_leaves_the_active_list() {
    let done = "0 * * * ? | created=08:59 last=09:01 | 09:01=done";
    check_all(
        done,
        "09:59",
        expect![[r#"
            + takes job hello-24394141 off the active list: it is Complete
              Normal SawCompletedJob: Saw completed job: hello-24394141, condition: Complete
            ~ waits for its next run at 2016-05-19T10:00:00Z: its schedule is 0 * * * ? (UTC)
            status: active [], last 09:01, success 09:01:10
            next 10:00"#]],
    );
    check_all(
        done,
        "10:01",
        expect![[r#"
            + takes job hello-24394141 off the active list: it is Complete
              Normal SawCompletedJob: Saw completed job: hello-24394141, condition: Complete
            + creates job hello-24394200: it is scheduled for 2016-05-19T10:00:00Z
            ~ waits for its next run at 2016-05-19T11:00:00Z: its schedule is 0 * * * ? (UTC)
            start hello-24394200 of 10:00, replaces []
            status: active [], last 09:01, success 09:01:10
            next 11:00"#]],
    );
    check(
        "0 * * * ? | created=08:59 last=09:01 | 09:01=failed",
        "09:59",
        expect![[r#"
            + takes job hello-24394141 off the active list: it is Failed
              Normal SawCompletedJob: Saw completed job: hello-24394141, condition: Failed
            ~ waits for its next run at 2016-05-19T10:00:00Z: its schedule is 0 * * * ? (UTC)
            status: active [], last 09:01, success -
            next 10:00"#]],
    );
}

// Rows 29 to 34: still active, not time (A, F, R), is time (A, F, R).
#[test]
fn the_policy_decides_while_a_job_is_active() {
    let active = "0 * * * ? | created=08:59 last=09:01 | 09:01=running";
    check_all(
        active,
        "09:59",
        expect![[r#"
            ~ waits for its next run at 2016-05-19T10:00:00Z: its schedule is 0 * * * ? (UTC)
            next 10:00"#]],
    );
    let by = |policy: &str| active.replace("created", &format!("{policy} created"));
    check(
        &by("Allow"),
        "10:01",
        expect![[r#"
            + creates job hello-24394200: it is scheduled for 2016-05-19T10:00:00Z
            ~ waits for its next run at 2016-05-19T11:00:00Z: its schedule is 0 * * * ? (UTC)
            start hello-24394200 of 10:00, replaces []
            next 11:00"#]],
    );
    check(
        &by("Forbid"),
        "10:01",
        expect![[r#"
            ~ waits for its next run at 2016-05-19T11:00:00Z: job hello-24394141 is still active and concurrencyPolicy is Forbid
              Normal JobAlreadyActive: Not starting job because prior execution is running and concurrency policy is Forbid
            next 11:00"#]],
    );
    check(
        &by("Replace"),
        "10:01",
        expect![[r#"
            + deletes job hello-24394141: its successor is due and concurrencyPolicy is Replace
            + creates job hello-24394200: it is scheduled for 2016-05-19T10:00:00Z
            ~ waits for its next run at 2016-05-19T11:00:00Z: its schedule is 0 * * * ? (UTC)
            start hello-24394200 of 10:00, replaces ["hello-24394141"]
            next 11:00"#]],
    );
}

// Rows 39 to 44: long overdue, long deadline or none (A, F, R each).
#[test]
fn of_many_missed_starts_the_last_is_created() {
    let overdue = |with: &str| format!("0 * * * ? | created=08:59 last=09:01 {with} | 09:01=done");
    check_all(
        &overdue("deadline=1000000"),
        "26T10:00",
        expect![[r#"
            + takes job hello-24394141 off the active list: it is Complete
              Normal SawCompletedJob: Saw completed job: hello-24394141, condition: Complete
            - has missed more than 100 starts: only the last one is made up for
              Warning TooManyMissedTimes: too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew
            + creates job hello-24404280: it is scheduled for 2016-05-26T10:00:00Z
            ~ waits for its next run at 2016-05-26T11:00:00Z: its schedule is 0 * * * ? (UTC)
            start hello-24404280 of 26T10:00, replaces []
            status: active [], last 09:01, success 09:01:10
            next 26T11:00"#]],
    );
    check_all(
        &overdue(""),
        "26T10:00",
        expect![[r#"
            + takes job hello-24394141 off the active list: it is Complete
              Normal SawCompletedJob: Saw completed job: hello-24394141, condition: Complete
            - has missed more than 100 starts: only the last one is made up for
              Warning TooManyMissedTimes: too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew
            + creates job hello-24404280: it is scheduled for 2016-05-26T10:00:00Z
            ~ waits for its next run at 2016-05-26T11:00:00Z: its schedule is 0 * * * ? (UTC)
            start hello-24404280 of 26T10:00, replaces []
            status: active [], last 09:01, success 09:01:10
            next 26T11:00"#]],
    );
}

// Rows 45 to 50: long overdue, medium or short deadline (A, F, R each).
#[test]
fn a_deadline_makes_few_missed_starts_of_many() {
    let overdue = |with: &str| format!("0 * * * ? | created=08:59 last=09:01 {with} | 09:01=done");
    check_all(
        &overdue("deadline=7200"),
        "26T10:00",
        expect![[r#"
            + takes job hello-24394141 off the active list: it is Complete
              Normal SawCompletedJob: Saw completed job: hello-24394141, condition: Complete
            + creates job hello-24404280: it is scheduled for 2016-05-26T10:00:00Z
            ~ waits for its next run at 2016-05-26T11:00:00Z: its schedule is 0 * * * ? (UTC)
            start hello-24404280 of 26T10:00, replaces []
            status: active [], last 09:01, success 09:01:10
            next 26T11:00"#]],
    );
    check_all(
        &overdue("deadline=10"),
        "26T10:00",
        expect![[r#"
            + takes job hello-24394141 off the active list: it is Complete
              Normal SawCompletedJob: Saw completed job: hello-24394141, condition: Complete
            + creates job hello-24404280: it is scheduled for 2016-05-26T10:00:00Z
            ~ waits for its next run at 2016-05-26T11:00:00Z: its schedule is 0 * * * ? (UTC)
            start hello-24404280 of 26T10:00, replaces []
            status: active [], last 09:01, success 09:01:10
            next 26T11:00"#]],
    );
}

// Row 51: this ran but done, time drifted back.
#[test]
fn a_clock_that_goes_back_starts_nothing() {
    check(
        "0 * * * ? | Forbid created=08:59 last=09:01 | 10:01=done?",
        "09:59",
        expect![[r#"
            ~ waits for its next run at 2016-05-19T10:00:00Z: its schedule is 0 * * * ? (UTC)
            status: active [], last 09:01, success 10:01:10
            next 10:00"#]],
    );
}

// Rows 52 to 57: this started but went missing (A, F, R); is not present in the active list (A, F, R), where upstream's
// fake API server has it in the list: the snapshot is then of that one.
#[test]
fn a_job_that_only_the_server_knows_is_active() {
    check_all(
        "0 * * * ? | created=08:59 last=09:01 deadline=1000000 | 10:00=running!",
        "10:01",
        expect![[r#"
            - has started the job of 2016-05-19T10:00:00Z
            ~ waits for its next run at 2016-05-19T11:00:00Z: its schedule is 0 * * * ? (UTC)
            next 11:00"#]],
    );
    check_all(
        "0 * * * ? | created=08:59 last=09:01 deadline=1000000 | 10:00=running",
        "10:01",
        expect![[r#"
            - has started the job of 2016-05-19T10:00:00Z
            ~ waits for its next run at 2016-05-19T11:00:00Z: its schedule is 0 * * * ? (UTC)
            next 11:00"#]],
    );
    check(
        "0 * * * ? | created=08:59 last=10:00 | 10:00=runningx",
        "10:01",
        expect![[r#"
            + takes job hello-24394200 off the active list: it does not exist any more
              Normal MissingJob: Active job went missing: hello-24394200
            ~ waits for its next run at 2016-05-19T11:00:00Z: its schedule is 0 * * * ? (UTC)
            status: active [], last 10:00, success -
            next 11:00"#]],
    );
}

// Rows 72 to 74: lastSuccessfulTime, whatever successfulJobsHistoryLimit is: also of jobs that were deleted just now.
#[test]
fn the_last_success_is_noted_also_of_jobs_that_are_cleaned_up() {
    for limit in ["", "keep=10"] {
        let text = format!("0 * * * ? | last=09:00 {limit} | 09:00=done");
        let plan = planned(&text, "09:59");
        assert_eq!(plan.status.last_successful_time, Some(time("09:00:10")));
    }
    let mut cleaned = snapshot("0 * * * ? | last=09:00 keep=0 | 09:00=done");
    cleaned.deleted = vec![cleaned.jobs[0].metadata.uid.clone()];
    let plan = plan(&cleaned, time("09:59").micro());
    expect![[r#"
        ~ waits for its next run at 2016-05-19T10:00:00Z: its schedule is 0 * * * ? (UTC)
        status: active [], last 09:00, success 09:00:10
        next 10:00"#]]
    .assert_eq(&print(&cleaned, &plan));

    let older = planned(
        "0 * * * ? | success=09:30 | 09:00=done? 08:00=done?",
        "09:59",
    );
    assert_eq!(older.status.last_successful_time, Some(time("09:30")));
    let failed = planned("0 * * * ? | | 09:00=failed?", "09:59");
    assert_eq!(failed.status.last_successful_time, None);
}

#[test]
fn a_job_of_somebody_else_s_making_is_told_of_and_not_counted() {
    check(
        "0 * * * ? | Forbid created=08:59 last=09:00 | 09:30=running#",
        "10:01",
        expect![[r#"
            - does not count job by-hand as active: another client created it
              Warning UnexpectedJob: Saw a job that the controller did not create or forgot: by-hand
            + creates job hello-24394200: it is scheduled for 2016-05-19T10:00:00Z
            ~ waits for its next run at 2016-05-19T11:00:00Z: its schedule is 0 * * * ? (UTC)
            start hello-24394200 of 10:00, replaces []
            next 11:00"#]],
    );
}

#[test]
fn a_cronjob_that_is_being_deleted_or_cannot_be_read_starts_nothing() {
    let mut deleted = snapshot("0 * * * ? | last=09:00 | 09:00=done");
    let mut cron_job = (*deleted.cron_job).clone();
    cron_job.metadata.deleted_at = Some(time("10:00"));
    deleted.cron_job = Arc::new(cron_job);
    let plan_of = |snapshot| print(snapshot, &plan(snapshot, time("10:01").micro()));
    expect![[r#"
        + takes job hello-24394140 off the active list: it is Complete
          Normal SawCompletedJob: Saw completed job: hello-24394140, condition: Complete
        - starts no job: it is being deleted
        status: active [], last 09:00, success 09:00:10
        next -"#]]
    .assert_eq(&plan_of(&deleted));

    let mut unread = snapshot("0 * * * ? | last=09:00 | 09:00=done 09:30=running?");
    unread.unread = true;
    expect![[r#"
        + takes job hello-24394140 off the active list: it is Complete
          Normal SawCompletedJob: Saw completed job: hello-24394140, condition: Complete
        ~ starts no job: the API server did not say which jobs are active
        status: active [], last 09:00, success 09:00:10
        next -"#]]
    .assert_eq(&plan_of(&unread));
}

// A crash between creating a job and noting it, and the job still runs when the next one is due.
#[test]
fn a_job_that_runs_and_was_never_noted_counts() {
    let text =
        |policy: &str| format!("0 * * * ? | {policy} created=07:59 last=08:00 | 09:00=running?");
    check(
        &text("Forbid"),
        "10:01",
        expect![[r#"
            + puts job hello-24394140 on the active list: it was started, and a crash or a refused write kept that from being recorded
            ~ waits for its next run at 2016-05-19T11:00:00Z: job hello-24394140 is still active and concurrencyPolicy is Forbid
              Normal JobAlreadyActive: Not starting job because prior execution is running and concurrency policy is Forbid
            status: active ["hello-24394140"], last 09:00, success -
            next 11:00"#]],
    );
    check(
        &text("Replace"),
        "10:01",
        expect![[r#"
            + puts job hello-24394140 on the active list: it was started, and a crash or a refused write kept that from being recorded
            + deletes job hello-24394140: its successor is due and concurrencyPolicy is Replace
            + creates job hello-24394200: it is scheduled for 2016-05-19T10:00:00Z
            ~ waits for its next run at 2016-05-19T11:00:00Z: its schedule is 0 * * * ? (UTC)
            start hello-24394200 of 10:00, replaces ["hello-24394140"]
            status: active ["hello-24394140"], last 09:00, success -
            next 11:00"#]],
    );
}

// A crash between creating a job and noting it, and the job has ended since.
#[test]
fn a_job_that_ended_before_it_was_noted_is_not_started_again() {
    let text = "0 * * * ? | created=08:59 last=09:00 keep=0 | 10:00=done?";
    check(
        text,
        "10:01",
        expect![[r#"
            - has started the job of 2016-05-19T10:00:00Z
            ~ waits for its next run at 2016-05-19T11:00:00Z: its schedule is 0 * * * ? (UTC)
            status: active [], last 10:00, success 10:00:10
            next 11:00"#]],
    );
    assert_eq!(cleaned(text), "", "it is kept until it is noted");
    assert_eq!(cleaned(&text.replace("last=09:00", "last=10:00")), "10:00");
}

#[test]
fn planning_again_changes_nothing() {
    for text in [
        "0 * * * ? | Forbid created=08:59 last=09:00 | 09:00=running",
        "0 * * * ? | created=08:59 last=09:00 | 09:00=done 08:00=failed",
        "0 * * * ? | created=08:59 last=10:00 | 10:00=runningx",
    ] {
        let mut snapshot = snapshot(text);
        let now = time("10:01").micro();
        let first = plan(&snapshot, now);
        let mut cron_job = (*snapshot.cron_job).clone();
        cron_job.status = first.status.clone();
        snapshot.cron_job = Arc::new(cron_job);
        let again = plan(&snapshot, now);
        assert_eq!(again.status, first.status, "{text}");
        assert_eq!(
            (again.start, again.next),
            (first.start, first.next),
            "{text}"
        );
    }
}
