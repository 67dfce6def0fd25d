//! Invariants that can be broken are broken here.

use api::kinds::Job;

use super::pure::{job, micro, snapshot};
use crate::cronjob::invariants::{converged, safe};

/// Is creating the job of this time safe, after those, of which some run?
fn created(text: &str, scheduled: &str, now: &str) -> String {
    let snapshot = snapshot(text);
    let before: Vec<&Job> = snapshot.jobs.iter().map(|job| &**job).collect();
    let runs = |job: &&&Job| job.finished().is_none();
    let running: Vec<&Job> = before.iter().filter(runs).copied().collect();
    let created = job(scheduled, "running");
    match safe(&snapshot.cron_job, &before, &running, &created, micro(now)) {
        Ok(()) => "safe".to_owned(),
        Err(problem) => problem.trim_start_matches("job default/hello-").to_owned(),
    }
}

#[test]
fn a_job_is_created_for_a_time_that_has_come_and_once() {
    let text = "0 * * * ? | deadline=60 | 09:00=done";
    assert_eq!(created(text, "10:00", "10:01"), "safe");
    assert_eq!(
        created(text, "10:00", "09:59"),
        "24394200: its time 2016-05-19T10:00:00Z has not come"
    );
    assert_eq!(
        created(text, "10:00", "10:02"),
        "24394200: its time 2016-05-19T10:00:00Z is past the deadline"
    );
    assert_eq!(
        created("0 * * * ? | | 09:00=done", "09:00", "09:01"),
        "24394140: its time was run before, by job hello-24394140"
    );
    assert_eq!(
        created("30 * * * ? | ", "10:00", "10:31"),
        "24394200: its schedule does not come at 2016-05-19T10:00:00Z"
    );
    assert_eq!(
        created("0 * * * ? | suspend", "10:00", "10:01"),
        "24394200: its CronJob is suspended or being deleted"
    );
}

#[test]
fn forbid_never_runs_two() {
    let text = |policy: &str| format!("0 * * * ? | {policy} | 09:00=running 08:00=done");
    assert_eq!(created(&text("Allow"), "10:00", "10:01"), "safe");
    assert_eq!(
        created(&text("Forbid"), "10:00", "10:01"),
        "24394200: hello-24394140 still runs, and that is forbidden"
    );
    let never_noted = "0 * * * ? | Forbid | 09:00=running?";
    assert_eq!(
        created(never_noted, "10:00", "10:01"),
        "24394200: hello-24394140 still runs, and that is forbidden"
    );
    let by_hand = "0 * * * ? | Forbid | 09:00=running#";
    assert_eq!(created(by_hand, "10:00", "10:01"), "safe");
}

#[test]
fn a_job_says_whose_and_for_when_it_is() {
    let snapshot = snapshot("0 * * * ? | ");
    let check = |change: fn(&mut Job)| {
        let mut created = job("10:00", "running");
        change(&mut created);
        safe(&snapshot.cron_job, &[], &[], &created, micro("10:01")).unwrap_err()
    };
    let problem = check(|job| job.metadata.owners = [].into());
    assert!(problem.ends_with("CronJob default/hello does not control it"));
    let problem = check(|job| job.metadata.annotations = api::LabelSet::default());
    assert!(problem.ends_with("it does not say which time it is for"));
    let problem = check(|job| job.metadata.name = "hello-1".into());
    assert!(problem.ends_with("it is not named after 2016-05-19T10:00:00Z"));
}

fn at_rest(text: &str, now: &str) -> String {
    let snapshot = snapshot(text);
    let jobs: Vec<&Job> = snapshot.jobs.iter().map(|job| &**job).collect();
    match converged(&snapshot.cron_job, &jobs, micro(now)) {
        Ok(()) => "converged".to_owned(),
        Err(problem) => problem
            .trim_start_matches("CronJob default/hello: ")
            .to_owned(),
    }
}

#[test]
fn the_active_list_matches_the_jobs() {
    let hourly = |rest: &str| format!("0 * * * ? | {rest}");
    let check = |rest: &str| at_rest(&hourly(rest), "10:01");
    assert_eq!(check("last=10:00 | 10:00=running"), "converged");
    assert_eq!(
        check("last=10:00 | 10:00=done"),
        "job hello-24394200 is not active"
    );
    assert_eq!(
        check("last=10:00 | 10:00=runningx"),
        "job hello-24394200 is not active"
    );
    assert_eq!(
        check("last=10:00 | 10:00=running?"),
        "job hello-24394200 is not listed"
    );
    assert_eq!(
        check("last=09:00 | 10:00=running?"),
        "job hello-24394200 is not listed"
    );
    assert_eq!(check("last=10:00 | 09:00=running?"), "converged");
}

#[test]
fn history_limits_hold_and_no_time_is_left_out() {
    let hourly = |rest: &str| format!("0 * * * ? | created=08:59 {rest}");
    let check = |rest: &str| at_rest(&hourly(rest), "10:01");
    assert_eq!(check("last=10:00 keep=1 | 10:00=done?"), "converged");
    assert_eq!(
        check("last=10:00 keep=1 | 10:00=done? 09:00=done?"),
        "job hello-24394140 is one too many"
    );
    assert_eq!(check(""), "no job was started for 2016-05-19T10:00:00Z");
    assert_eq!(
        check("zone=Asia/Kolkata"),
        "no job was started for 2016-05-19T09:30:00Z"
    );
    assert_eq!(check("suspend"), "converged");
    assert_eq!(check("deadline=10"), "converged");
    assert_eq!(check("zone=Mars/Base"), "converged");
    assert_eq!(check("Forbid last=09:00 | 09:00=running"), "converged");
    assert_eq!(at_rest("x | ", "10:01"), "converged");
}
