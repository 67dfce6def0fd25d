//! What goes wrong between two writes, and caches that are behind.

use api::Resource;
use api::kinds::{CronJob, Job};
use api::{Gates, Key};
use runtime::{Error, Next};
use serde_json::{Value, json};
use testkit::Lagging;

use super::sync::{cron_job, delete_job, finish, name, pass, status, told, world};
use crate::cronjob::controller;

// Upstream: TestControllerV2JobAlreadyExistsButNotInActiveStatus.
#[tokio::test(start_paused = true)]
async fn a_job_whose_status_could_not_be_written_is_not_started_twice() {
    let (world, _) = world().await;
    let forbid = cron_job(json!({"concurrencyPolicy": "Forbid"}));
    world.create(&CronJob::TYPE, forbid).await;
    world.refuse("PUT", "/status", 500, 1);
    pass(65).await;
    assert_eq!(
        world.written(),
        "POST jobs\nPUT cronjobs/hello/status -> 500\nPUT cronjobs/hello/status"
    );
    assert_eq!(
        status(&world).await,
        json!({"active": [{"name": name(1)}], "lastScheduleTime": "2024-01-01T00:01:00Z"})
    );
    assert_eq!(world.list(&Job::TYPE).await.len(), 1);
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

// The same, and the next one is due before anybody could note it.
#[tokio::test(start_paused = true)]
async fn forbid_waits_for_a_job_whose_start_was_never_noted() {
    let (world, _) = world().await;
    let forbid = cron_job(json!({"concurrencyPolicy": "Forbid"}));
    world.create(&CronJob::TYPE, forbid).await;
    // Two minutes' worth of tries.
    world.refuse("PUT", "/status", 500, 13);
    pass(150).await;
    let written = world.written();
    assert_eq!(written.matches("POST jobs").count(), 1, "{written}");
    pass(120).await;
    assert_eq!(
        status(&world).await,
        json!({"active": [{"name": name(1)}], "lastScheduleTime": "2024-01-01T00:01:00Z"})
    );
    finish(&world, &name(1), "Complete").await;
    pass(1).await;
    assert_eq!(status(&world).await["active"], json!([{"name": name(4)}]));
}

// Upstream: TestControllerV2JobAlreadyExistsButNotInActiveStatus, with a cache that has not seen the job either.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_there_already_is_noted_as_started() {
    let build = |context: &_| controller(context, 1);
    let lagging = crate::lagging::<CronJob>(cron_job(json!({})), Gates::default(), build).await;
    pass(65).await;
    lagging.world.refuse("PUT", "/status", 500, 1);
    assert!(lagging.reconcile("hello").await.is_err());
    let fresh = controller(&lagging.world.context(), 1);
    fresh
        .reconcile(&Key::new("default", "hello"))
        .await
        .unwrap();
    assert_eq!(
        lagging.world.written(),
        "POST jobs\nPUT cronjobs/hello/status -> 500\nPOST jobs -> 409\nPUT cronjobs/hello/status"
    );
    assert_eq!(
        status(&lagging.world).await,
        json!({"active": [{"name": name(1)}], "lastScheduleTime": "2024-01-01T00:01:00Z"})
    );
}

// The same, and the job is over before anybody comes back; no history is kept.
#[tokio::test(start_paused = true)]
async fn a_job_that_ended_while_nobody_looked_is_not_started_twice() {
    let (world, _) = world().await;
    let forgetful = cron_job(json!({"successfulJobsHistoryLimit": 0}));
    world.create(&CronJob::TYPE, forgetful).await;
    // Two minutes' worth of tries.
    world.refuse("PUT", "/status", 500, 13);
    pass(61).await;
    finish(&world, &name(1), "Complete").await;
    pass(53).await;
    let written = world.written();
    let created = written.matches("POST jobs\n").count();
    assert_eq!(created, 1, "{written}");
    let noted = written.rfind("PUT cronjobs/hello/status\n");
    let deleted = written.find("DELETE jobs/");
    assert!(
        noted.is_some() && deleted > noted,
        "first noted, then deleted: {written}"
    );
    let status = status(&world).await;
    assert_eq!(status["lastScheduleTime"], "2024-01-01T00:01:00Z");
    assert!(status["lastSuccessfulTime"].is_string());
}

// Upstream: TestControllerV2JobAlreadyExistsButDifferentOwner.
#[tokio::test(start_paused = true)]
async fn a_job_of_somebody_else_with_the_same_name_costs_one_start() {
    let (world, context) = world().await;
    world.create(&CronJob::TYPE, cron_job(json!({}))).await;
    let spec = cron_job(json!({}))["spec"]["jobTemplate"]["spec"].clone();
    let foreign = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name(1)}, "spec": spec});
    world.create(&Job::TYPE, foreign).await;
    pass(65).await;
    assert_eq!(world.written(), "POST jobs -> 409");
    assert_eq!(status(&world).await, json!({}));
    let taken = format!(
        "starts no job this time: a job {} is there that it does not control",
        name(1)
    );
    assert_eq!(told(&context)[0], taken);
    pass(60).await;
    assert_eq!(status(&world).await["active"], json!([{"name": name(2)}]));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_was_deleted_leaves_the_active_list() {
    let (world, _) = world().await;
    let hourly = cron_job(json!({"schedule": "0 * * * *"}));
    world.create(&CronJob::TYPE, hourly).await;
    pass(3601).await;
    world.writes();
    delete_job(&world, &name(60)).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "PUT cronjobs/hello/status");
    assert_eq!(
        status(&world).await,
        json!({"lastScheduleTime": "2024-01-01T01:00:00Z"})
    );
    let missing = format!("Normal MissingJob Active job went missing: {}", name(60));
    assert!(world.events().await.contains(&missing));
}

#[tokio::test(start_paused = true)]
async fn a_job_made_by_hand_is_told_of_and_does_not_count() {
    let (world, _) = world().await;
    let forbid = json!({"schedule": "0 * * * *", "concurrencyPolicy": "Forbid"});
    let made = world.create(&CronJob::TYPE, cron_job(forbid)).await;
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "by-hand", "ownerReferences": [{
            "apiVersion": "batch/v1", "kind": "CronJob", "name": "hello",
            "uid": made["metadata"]["uid"], "controller": true,
        }]},
        "spec": made["spec"]["jobTemplate"]["spec"],
    });
    world.create(&Job::TYPE, job).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
    let message = "Saw a job that the controller did not create or forgot: by-hand";
    assert_eq!(
        world.events().await,
        [format!("Warning UnexpectedJob {message}")]
    );
    pass(3600).await;
    assert_eq!(status(&world).await["active"], json!([{"name": name(60)}]));
}

/// A controller that has seen a CronJob and the job that it started an hour ago, and nothing since.
async fn behind(policy: &str) -> (Lagging, Value) {
    let fields = json!({"schedule": "0 * * * *", "concurrencyPolicy": policy});
    let build = |context: &_| controller(context, 1);
    let lagging = crate::lagging::<CronJob>(cron_job(fields), Gates::default(), build).await;
    pass(3601).await;
    let _ = lagging.reconcile("hello").await;
    let job = lagging.world.get(&Job::TYPE, &name(60)).await.unwrap();
    lagging.world.writes();
    (lagging, job)
}

// Upstream: TestControllerV2SyncCronJob, "is not present in cronjob active list" (3 rows).
#[tokio::test(start_paused = true)]
async fn the_server_is_asked_about_jobs_that_the_cached_status_lacks() {
    let (lagging, _) = behind("Forbid").await;
    // The jobs are newer in the cache than the CronJob.
    lagging.see::<Job>(&name(60)).await;
    let fresh = controller(&lagging.world.context(), 1);
    let key = Key::new("default", "hello");
    let next = fresh.reconcile(&key).await.unwrap();
    assert_eq!(lagging.world.written(), "", "it has started that one");
    assert!(matches!(next, Next::After(_)));
    let events = lagging.world.events().await;
    assert!(
        !events.iter().any(|event| event.contains("UnexpectedJob")),
        "{events:#?}"
    );
}

// Upstream: TestControllerV2SyncCronJob, "went missing" (3 rows): the list has it, the cache of jobs does not.
#[tokio::test(start_paused = true)]
async fn the_server_is_asked_about_jobs_that_the_cache_lacks() {
    let (lagging, job) = behind("Forbid").await;
    lagging.see::<CronJob>("hello").await;
    let fresh = controller(&lagging.world.context(), 1);
    let key = Key::new("default", "hello");
    fresh.reconcile(&key).await.unwrap();
    assert_eq!(lagging.world.written(), "");

    // Another job of that name is not the one that was started.
    delete_job(&lagging.world, &name(60)).await;
    let again = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name(60)},
        "spec": cron_job(json!({}))["spec"]["jobTemplate"]["spec"],
    });
    let again = lagging.world.create(&Job::TYPE, again).await;
    assert_ne!(again["metadata"]["uid"], job["metadata"]["uid"]);
    fresh.reconcile(&key).await.unwrap();
    assert_eq!(lagging.world.written(), "PUT cronjobs/hello/status");
    assert_eq!(status(&lagging.world).await["active"], Value::Null);
}

// Upstream: TestControllerV2SyncCronJob, "still active, is time, get job failed, R".
#[tokio::test(start_paused = true)]
async fn a_job_that_cannot_be_read_is_not_replaced() {
    let (lagging, job) = behind("Replace").await;
    lagging.see::<CronJob>("hello").await;
    lagging.see::<Job>(&name(60)).await;
    delete_job(&lagging.world, &name(60)).await;
    pass(3600).await;
    let fresh = controller(&lagging.world.context(), 1);
    let failure = fresh.reconcile(&Key::new("default", "hello")).await;
    assert!(matches!(failure, Err(Error::Client(_))), "{failure:?}");
    assert_eq!(lagging.world.written(), "");
    pass(1).await;
    let name = job["metadata"]["name"].as_str().unwrap();
    let event = format!("Warning FailedGet Get job: jobs.batch \"{name}\" not found");
    let events = lagging.world.events().await;
    assert!(events.contains(&event), "{events:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_cannot_be_deleted_is_not_replaced() {
    let (world, _) = world().await;
    let replace = cron_job(json!({"concurrencyPolicy": "Replace"}));
    world.create(&CronJob::TYPE, replace).await;
    pass(61).await;
    world.writes();
    world.refuse("DELETE", &name(1), 403, 1);
    pass(60).await;
    let delete = format!("DELETE jobs/{}", name(1));
    assert_eq!(
        world.written(),
        format!("{delete} -> 403\n{delete}\nPOST jobs\nPUT cronjobs/hello/status")
    );
    let failed = "Warning FailedDelete Deleted job: refused by the test: Forbidden";
    assert!(world.events().await.contains(&failed.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_sync_waits_until_its_writes_are_in_the_caches() {
    let (lagging, _) = behind("Allow").await;
    let stale = lagging.reconcile("hello").await;
    assert!(matches!(stale, Err(Error::Stale { .. })), "{stale:?}");
}
