//! CronJobs.

use super::{check, check_verdict};
use expect_test::expect;

const CRON_JOB: &str = "
kind: CronJob
metadata: {name: backup, namespace: shop, uid: c}
spec: {schedule: '*/5 * * * *', concurrencyPolicy: Forbid, jobTemplate: {spec: {template: {spec: {containers: [{name: main, image: 'dump:1'}]}}}}}";

fn decided(lines: &str) -> String {
    format!(
        "---
controller: cronjob-controller
object: {{group: batch, kind: CronJob, namespace: shop, name: backup, uid: c}}
lines: {lines}"
    )
}

fn job(name: &str, created: &str, status: &str) -> String {
    format!(
        "---
kind: Job
metadata: {{name: {name}, namespace: shop, creationTimestamp: '{created}', ownerReferences: [{{uid: c, controller: true}}]}}
status: {status}"
    )
}

#[test]
fn says_when_it_runs_next_and_how_it_ran_last() {
    check(
        &format!(
            "{CRON_JOB}
status: {{lastScheduleTime: '2026-01-01T11:55:00Z', lastSuccessfulTime: '2026-01-01T11:55:20Z'}}
{}
{}",
            job(
                "backup-2",
                "2026-01-01T11:55:00Z",
                "{conditions: [{type: Complete, status: 'True'}]}"
            ),
            decided(
                "[{class: waits, reason: NextRun, what: waits for its next run, why: its schedule is */5 * * * * (UTC), until: '2026-01-01T12:05:00Z'}]"
            )
        ),
        expect![[r#"
            cronjob/backup in shop: the next run is in 5m (12:05:00Z)

            wants       a job of dump:1 at */5 * * * *
                        no job as long as one is active (Forbid)

            sees        job/backup-2 is complete
                        ran last 5m ago (11:55:00Z), and succeeded last 4m40s ago (11:55:20Z)

            Source: the controllers themselves, at https://here.
        "#]],
    );
}

#[test]
fn a_last_job_that_failed_is_named() {
    check_verdict(
        &format!(
            "{CRON_JOB}
status: {{lastScheduleTime: '2026-01-01T11:55:00Z'}}
{}
{}
{}",
            job(
                "backup-1",
                "2026-01-01T11:50:00Z",
                "{conditions: [{type: Complete, status: 'True'}]}"
            ),
            job(
                "backup-2",
                "2026-01-01T11:55:00Z",
                "{conditions: [{type: Failed, status: 'True', message: Job has reached the specified backoff limit}]}"
            ),
            decided(
                "[{class: waits, reason: NextRun, what: waits for its next run, why: its schedule is */5 * * * * (UTC), until: '2026-01-01T12:05:00Z'}]"
            )
        ),
        expect![[r#"
            its last job/backup-2 has failed; the next run is in 5m (12:05:00Z)
            steersman why job/backup-2 -n shop"#]],
    );
}

#[test]
fn a_job_that_is_still_active_is_why_none_was_started() {
    check(
        &format!(
            "{CRON_JOB}
status: {{lastScheduleTime: '2026-01-01T11:55:00Z', active: [{{name: backup-2}}]}}
{}
{}",
            job(
                "backup-2",
                "2026-01-01T11:55:00Z",
                "{startTime: '2026-01-01T11:55:00Z', active: 1}"
            ),
            decided(
                "[{class: waits, reason: StillActive, what: waits for its next run, why: job backup-2 is still active and concurrencyPolicy is Forbid, until: '2026-01-01T12:05:00Z'}]"
            )
        ),
        expect![[r#"
            cronjob/backup in shop: did not run: job backup-2 is still active and concurrencyPolicy is Forbid; the next run is in 5m (12:05:00Z)

            wants       a job of dump:1 at */5 * * * *
                        no job as long as one is active (Forbid)

            sees        job/backup-2 is active since 2026-01-01T11:55:00Z
                        ran last 5m ago (11:55:00Z), and never successfully

            Source: the controllers themselves, at https://here.
        "#]],
    );
}

#[test]
fn a_suspended_one_says_what_resumes_it() {
    check(
        &format!(
            "{CRON_JOB}
{}",
            decided(
                "[{class: states, reason: Suspended, what: starts no job, why: it is suspended, hint: set .spec.suspend to false}]"
            )
        ),
        expect![[r#"
            cronjob/backup in shop: does not run: it is suspended; its schedule comes next in 5m (12:05:00Z)

            wants       a job of dump:1 at */5 * * * *
                        no job as long as one is active (Forbid)

            sees        has not run by its schedule yet

            would help  kubectl patch cronjob backup --type=merge -p '{"spec":{"suspend":false}}' -n shop
                        resumes it

            Source: the controllers themselves, at https://here.
        "#]],
    );
}

#[test]
fn a_schedule_that_never_comes_never_runs() {
    check_verdict(
        &format!(
            "{CRON_JOB}
{}",
            decided(
                "[{class: states, reason: InvalidSchedule, what: starts no job, why: its schedule 0 0 30 2 * does not come within five years, hint: fix .spec.schedule}]"
            )
        ),
        expect![[r#"
            never runs: its schedule 0 0 30 2 * does not come within five years
        "#]],
    );
}

#[test]
fn a_start_past_its_deadline_is_not_made() {
    check_verdict(
        &format!(
            "{CRON_JOB}
{}",
            decided(
                "[{class: states, reason: PastDeadline, what: 'did not start the job of 2026-01-01T11:55:00Z', why: that is past startingDeadlineSeconds (10)}, {class: waits, reason: NextRun, what: waits for its next run, why: its schedule, until: '2026-01-01T12:05:00Z'}]"
            )
        ),
        expect![
            "did not start the job of 2026-01-01T11:55:00Z: that is past startingDeadlineSeconds (10); the next run is in 5m (12:05:00Z)"
        ],
    );
}

#[test]
fn a_job_that_is_refused_is_why_none_was_started() {
    check_verdict(
        &format!(
            "{CRON_JOB}
{}
failure: 'jobs.batch \"backup-2\" is forbidden: exceeded quota'",
            decided(
                "[{class: acts, reason: Starts, what: creates job backup-2, why: 'it is scheduled for 2026-01-01T12:00:00Z'}]"
            )
        ),
        expect![[r#"
            cannot start its job: jobs.batch "backup-2" is forbidden: exceeded quota
            kubectl describe cronjob/backup -n shop"#]],
    );
}

#[test]
fn without_a_controller_the_schedule_says_when_it_comes() {
    check_verdict(
        CRON_JOB,
        expect!["by its schedule the next run is in 5m (12:05:00Z)"],
    );
    check_verdict(
        &CRON_JOB.replace("*/5 * * * *', ", "0 9 * * *', timeZone: Asia/Tokyo, "),
        expect!["by its schedule the next run is in 12h (2026-01-02T00:00:00Z)"],
    );
    check_verdict(
        &CRON_JOB.replace("*/5 * * * *", "61 * * * *"),
        expect![[r#"
        does not run: its schedule cannot be read: end of range (61) above maximum (59): 61
        kubectl describe cronjob/backup -n shop"#]],
    );
}

/// What comes every so often counts from the last time.
#[test]
fn a_schedule_of_intervals_comes_when_the_next_one_is_over() {
    let every = |interval: &str| {
        CRON_JOB
            .replace("*/5 * * * *", &format!("@every {interval}"))
            .replace(
                "uid: c",
                "uid: c, creationTimestamp: '2026-01-01T11:00:07Z'",
            )
    };
    check_verdict(
        &every("10m"),
        expect!["by its schedule the next run is in 7s (12:00:07Z)"],
    );
    let ran = "
status: {lastScheduleTime: '2026-01-01T11:52:30Z'}";
    check_verdict(
        &format!("{}{ran}", every("10m")),
        expect!["by its schedule the next run is in 2m30s (12:02:30Z)"],
    );
    // The second that was next when it was decided is over when it is told.
    let decided = decided(
        "[{class: waits, reason: NextRun, what: waits for its next run, why: its schedule is @every 1s, until: '2026-01-01T11:59:59Z'}]",
    );
    check(
        &format!(
            "{}
{decided}",
            every("1s")
        ),
        expect![[r#"
            cronjob/backup in shop: the next run is in 1s (12:00:01Z)

            wants       a job of dump:1 every 1s
                        no job as long as one is active (Forbid)

            sees        starts no more than one job a minute, because the minute is in its name
                        has not run by its schedule yet

            Source: the controllers themselves, at https://here.
        "#]],
    );
    // 11:59 and 12:00 have their jobs already.
    let now = job("backup-29454480", "2026-01-01T12:00:00Z", "{active: 1}");
    check_verdict(
        &format!("{}\n{now}\n{decided}", every("1s")),
        expect!["the next run is in 60s (12:01:00Z)"],
    );
    check_verdict(
        &format!("{}\n{now}", every("7s")),
        expect!["by its schedule the next run is in 61s (12:01:01Z)"],
    );
}
