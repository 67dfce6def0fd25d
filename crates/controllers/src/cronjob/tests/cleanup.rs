//! Which finished jobs are deleted.

use std::sync::Arc;

use super::pure::{cleaned, job, snapshot, time};
use crate::cronjob::plan::{by_start, plan_cleanup};

// Upstream: TestControllerV2CleanupFinishedJobs (2 rows).
#[test]
fn the_jobs_that_started_first_are_deleted() {
    let text = |limits: &str, jobs: &str| format!("0 * * * ? | last=10:00 {limits} | {jobs}");
    assert_eq!(cleaned(&text("keep=1", "08:59=done 09:59=done")), "08:59");
    assert_eq!(cleaned(&text("keep=2", "08:59=done")), "");
    assert_eq!(cleaned(&text("", "07:00=done 08:00=failed")), "");
    assert_eq!(
        cleaned(&text(
            "keep=1 keep-failed=0",
            "09:00=done 07:00=done? 08:00=done 06:00=failed 05:00=running"
        )),
        "07:00, 08:00, failed 06:00"
    );
    assert_eq!(
        cleaned(&text("keep=0", "07:00=done 08:00=running")),
        "07:00"
    );

    let mut going = snapshot(&text("keep=1", "07:00=done 08:00=done 09:00=done"));
    let first = Arc::make_mut(&mut going.jobs[0]);
    first.metadata.deleted_at = Some(time("10:00"));
    let surplus = plan_cleanup(&going.cron_job, &going.jobs);
    assert_eq!(surplus.len(), 1, "one of the two is on its way already");
}

// Upstream: TestByJobStartTime (5 rows).
#[test]
fn jobs_are_ordered_by_start_and_then_by_name() {
    let job = |name: &str, start: Option<&str>| {
        let mut job = job("09:00", "done");
        job.metadata.name = name.into();
        job.status.start_time = start.map(time);
        job
    };
    for (first, second) in [
        (job("a", None), job("b", None)),
        (job("b", Some("09:00")), job("a", None)),
        (job("a", Some("09:00")), job("b", None)),
        (job("a", Some("09:00")), job("b", Some("09:00"))),
        (job("b", Some("09:00")), job("a", Some("10:00"))),
    ] {
        let mut jobs = [second.clone(), first.clone()];
        jobs.sort_by(by_start);
        assert_eq!(jobs, [first, second]);
    }
}
