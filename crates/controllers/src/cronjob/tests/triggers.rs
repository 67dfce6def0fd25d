//! Who enqueues a CronJob, and when.

use api::kinds::{CronJob, Job};
use api::{Key, Resource};
use runtime::rate_limit::Backoff;
use runtime::{Change, Queue, Report};
use serde_json::{Value, json};
use testkit::World;

use super::pure;
use super::sync::{cron_job, name, pass, status, told, world};
use crate::cronjob::CronJobs;

/// How many seconds after a change of `before` to `after` the CronJob is looked at; none for not at all. It is one second
/// before the hour, and the last start was a minute before it.
async fn requeue_after(world: &World, before: Value, after: Value) -> Option<f64> {
    let start = pure::micro("09:59:59");
    let context = runtime::Context {
        clock: api::Clock::new(move || start),
        ..world.context()
    };
    let cron_jobs = CronJobs::new(&context);
    let status = json!({"lastScheduleTime": pure::time("09:59")});
    let cron_job = |spec| pure::cron_job(spec, status.clone(), "09:00").into();
    let queue = Queue::new(Backoff::DEFAULT);
    cron_jobs.enqueue(
        Change::Updated {
            old: &cron_job(before),
            new: &cron_job(after),
        },
        &queue,
        &Report::new("test", &context.decisions, start),
    );
    let start = tokio::time::Instant::now();
    let found = tokio::time::timeout(std::time::Duration::from_secs(3600), queue.get()).await;
    found.ok().map(|_| start.elapsed().as_secs_f64())
}

// Upstream: TestControllerV2UpdateCronJob (6 rows, in their order). Its last one changes the time zone of a CronJob without
// a schedule, which is not looked at at all.
#[tokio::test(start_paused = true)]
async fn a_new_schedule_enqueues_when_it_comes_and_any_other_change_at_once() {
    let world = World::new().await;
    let labelled = |label: &str| json!({"metadata": {"labels": {"a": label}}});
    let with = |schedule: &str, zone: Option<&str>, label: &str| {
        let template = labelled(label);
        json!({"schedule": schedule, "timeZone": zone, "jobTemplate": template})
    };
    let new_york = Some("America/New_York");
    for (before, after, expected) in [
        (with("", None, "b"), with("", None, "foo"), Some(0.0)),
        (
            with("30 * * * *", None, "b"),
            with("*/1 * * * *", None, "foo"),
            Some(1.1),
        ),
        (
            with("@every 1m", None, "b"),
            with("@every 3m", None, "foo"),
            Some(121.1),
        ),
        (
            with("@every 3m", None, "b"),
            with("@every 1m", None, "foo"),
            Some(1.1),
        ),
        (
            with("", new_york, "b"),
            with("", new_york, "foo"),
            Some(0.0),
        ),
        (with("", new_york, "b"), with("", None, "foo"), None),
        (
            with("0 * * * *", new_york, "b"),
            with("0 * * * *", None, "b"),
            Some(1.1),
        ),
        (
            with("0 * * * *", None, "b"),
            with("0 0 30 2 *", None, "b"),
            Some(0.0),
        ),
    ] {
        let found = requeue_after(&world, before.clone(), after.clone()).await;
        // The queue's timer counts in milliseconds.
        let found = found.map(|seconds| (seconds * 100.0).floor() / 100.0);
        assert_eq!(found, expected, "{before} {after}");
    }
    pass(1).await;
    // The API server would not have taken it.
    let bad = (with("0 * * * *", None, "b"), with("bad", None, "b"));
    assert_eq!(requeue_after(&world, bad.0, bad.1).await, None);
    pass(1).await;
    let events = world.events().await;
    let event = "Warning UnParseableCronJobSchedule unparseable schedule for cronjob: bad";
    assert!(events.contains(&event.to_owned()), "{events:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_new_schedule_does_not_make_up_for_what_it_would_have_missed() {
    let (world, context) = world().await;
    world
        .create(&CronJob::TYPE, cron_job(json!({"schedule": "0 12 * * *"})))
        .await;
    pass(630).await;
    let changed = json!({"spec": {"schedule": "*/5 * * * *"}});
    world.patch(&CronJob::TYPE, "hello", changed).await;
    pass(60).await;
    assert_eq!(world.written(), "");
    assert_eq!(
        told(&context),
        ["waits for its next run at 2024-01-01T00:15:00Z: its schedule is */5 * * * * (UTC)"]
    );
    pass(240).await;
    assert_eq!(status(&world).await["active"], json!([{"name": name(15)}]));
}

// Upstream: TestControllerV2GetJobsToBeReconciled (4 rows): jobs without an owner, of the CronJob, of another namespace,
// and with other labels; here also one of a namesake.
#[tokio::test(start_paused = true)]
async fn jobs_belong_to_whom_they_name_as_their_controller() {
    let (world, _) = world().await;
    let fields = json!({"schedule": "0 12 * * *", "successfulJobsHistoryLimit": 0});
    let made = world.create(&CronJob::TYPE, cron_job(fields)).await;
    let uid = made["metadata"]["uid"].clone();
    let owner = |uid: Value| json!([{"apiVersion": "batch/v1", "kind": "CronJob", "name": "hello", "uid": uid, "controller": true}]);
    let job = |name: &str, owners: Value| {
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": name, "labels": {"app": "other"}, "ownerReferences": owners},
            "spec": made["spec"]["jobTemplate"]["spec"],
        })
    };
    world.create(&Job::TYPE, job("alone", json!([]))).await;
    world.create(&Job::TYPE, job("ours", owner(uid))).await;
    world
        .create(&Job::TYPE, job("of-a-namesake", owner(json!("gone"))))
        .await;
    for name in ["alone", "ours", "of-a-namesake"] {
        super::sync::finish(&world, name, "Complete").await;
    }
    world.wait_until_idle().await;
    assert_eq!(
        world.written(),
        "DELETE jobs/ours\nPUT cronjobs/hello/status"
    );
    let key = Key::new("default", "hello");
    assert!(world.informers.store::<CronJob>().get(&key).is_some());
}
