//! The controller against the embedded API server, under virtual time. Worlds begin at midnight of New Year 2024.

use std::collections::BTreeSet;
use std::time::Duration;

use api::Resource;
use api::kinds::{CronJob, Job};
use client::{DeleteOptions, Propagation};
use runtime::Context;
use serde_json::{Value, json};
use testkit::World;

use crate::cronjob::controller;

/// A world in which the controller runs.
pub(super) async fn world() -> (World, Context) {
    let mut world = World::new().await;
    let context = world.context();
    let running = controller(&context, 5).run(world.stop());
    world.run(running);
    world.start().await;
    (world, context)
}

/// A CronJob `hello` with these fields of its spec, and a template that every API server takes.
pub(super) fn cron_job(fields: Value) -> Value {
    let mut spec = json!({
        "schedule": "* * * * *",
        "jobTemplate": {
            "metadata": {"labels": {"app": "hello"}, "annotations": {"note": "x"}},
            "spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}],
            }}},
        },
    });
    for (name, value) in fields.as_object().unwrap() {
        spec[name] = value.clone();
    }
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "hello"}, "spec": spec})
}

/// The minute of New Year 2024 in which a job is created, as it stands in its name.
pub(super) const MIDNIGHT: i64 = 1_704_067_200 / 60;

pub(super) fn name(minute: i64) -> String {
    format!("hello-{}", MIDNIGHT + minute)
}

/// What the job controller would write at the end of a job.
pub(super) async fn finish(world: &World, job: &str, how: &str) {
    let now = world.clock.now().time();
    let target = match how {
        "Complete" => "SuccessCriteriaMet",
        _ => "FailureTarget",
    };
    let condition =
        |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": now});
    let mut status = json!({"status": {
        "startTime": now,
        "conditions": [condition(target), condition(how)],
    }});
    if how == "Complete" {
        status["status"]["completionTime"] = json!(now);
    }
    world
        .patch_subresource(&Job::TYPE, job, Some("status"), status)
        .await;
}

/// Deletes a job and all that belongs to it; without options a Job is deleted alone, when a garbage collector says so.
pub(super) async fn delete_job(world: &World, job: &str) {
    let options = DeleteOptions {
        propagation: Some(Propagation::Background),
        ..DeleteOptions::default()
    };
    world.delete_with(&Job::TYPE, job, &options).await;
}

pub(super) async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

pub(super) async fn status(world: &World) -> Value {
    let cron_job = world.get(&CronJob::TYPE, "hello").await;
    let mut status = cron_job.map_or(Value::Null, |found| found["status"].clone());
    // What differs from run to run, or is only the API server's.
    let active = status.get_mut("active").and_then(Value::as_array_mut);
    for job in active.into_iter().flatten() {
        let job = job.as_object_mut().unwrap();
        job.retain(|field, _| field == "name");
    }
    status
}

/// The last decision, line by line.
pub(super) fn told(context: &Context) -> Vec<String> {
    let key = api::Key::new("default", "hello");
    let last = context.decisions.get(context.controller, &key).pop();
    let lines = last.map(|decision| decision.lines).into_iter();
    lines
        .flat_map(|lines| lines.iter().map(ToString::to_string).collect::<Vec<_>>())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_job_is_created_for_each_time_and_the_status_tells_of_it() {
    let (world, context) = world().await;
    world.create(&CronJob::TYPE, cron_job(json!({}))).await;
    pass(59).await;
    assert_eq!(world.written(), "");
    let waits = "waits for its next run at 2024-01-01T00:01:00Z: its schedule is * * * * * (UTC)";
    assert_eq!(told(&context), [waits]);

    pass(2).await;
    let cron_job = world.get(&CronJob::TYPE, "hello").await.unwrap();
    let job = world.get(&Job::TYPE, &name(1)).await.unwrap();
    let writes = world.writes();
    let lines: Vec<String> = writes.iter().map(ToString::to_string).collect();
    assert_eq!(lines, ["POST jobs", "PUT cronjobs/hello/status"]);
    assert_eq!(
        writes[0].body,
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {
                "name": name(1), "namespace": "default",
                "labels": {"app": "hello"},
                "annotations": {
                    "note": "x",
                    "batch.kubernetes.io/cronjob-scheduled-timestamp": "2024-01-01T00:01:00Z",
                },
                "ownerReferences": [{
                    "apiVersion": "batch/v1", "kind": "CronJob", "name": "hello",
                    "uid": cron_job["metadata"]["uid"],
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": cron_job["spec"]["jobTemplate"]["spec"],
        })
    );
    assert_eq!(writes[1].body["spec"], json!({}));
    assert_eq!(
        writes[1].body["status"],
        json!({
            "active": [{
                "kind": "Job", "namespace": "default", "name": name(1), "uid": job["metadata"]["uid"],
                "apiVersion": "batch/v1", "resourceVersion": job["metadata"]["resourceVersion"],
            }],
            "lastScheduleTime": "2024-01-01T00:01:00Z",
        })
    );
    assert_eq!(cron_job["status"], writes[1].body["status"]);
    world.wait_until_idle().await;
    assert_eq!(world.written(), "", "a second look writes nothing");

    finish(&world, &name(1), "Complete").await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "PUT cronjobs/hello/status");
    let ended = status(&world).await;
    assert_eq!(
        (&ended["active"], &ended["lastScheduleTime"]),
        (&Value::Null, &json!("2024-01-01T00:01:00Z"))
    );
    assert!(ended["lastSuccessfulTime"].is_string());
    pass(60).await;
    assert_eq!(world.list(&Job::TYPE).await.len(), 2);
    assert_eq!(
        world.events().await,
        [
            format!("Normal SuccessfulCreate Created job {}", name(1)),
            format!(
                "Normal SawCompletedJob Saw completed job: {}, condition: Complete",
                name(1)
            ),
            format!("Normal SuccessfulCreate Created job {}", name(2)),
        ]
    );
    let skew = "cronjob_controller_job_creation_skew_duration_seconds_count 2";
    assert!(context.metrics.render().contains(skew));
}

#[tokio::test(start_paused = true)]
async fn a_time_zone_moves_the_times_and_stands_in_the_annotation() {
    let (world, context) = world().await;
    // Kolkata is half an hour off everybody else's hours.
    let zoned = cron_job(json!({"schedule": "0 6 * * *", "timeZone": "Asia/Kolkata"}));
    world.create(&CronJob::TYPE, zoned).await;
    pass(1800).await;
    assert!(told(&context)[0].ends_with("(Asia/Kolkata)"));
    assert!(told(&context)[0].contains(" at 2024-01-01T00:30:00Z: "));
    pass(5).await;
    let writes = world.writes();
    let annotations = &writes[0].body["metadata"]["annotations"];
    assert_eq!(writes[0].body["metadata"]["name"], name(30));
    assert_eq!(
        annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"],
        "2024-01-01T06:00:00+05:30"
    );
    assert_eq!(
        status(&world).await["lastScheduleTime"],
        "2024-01-01T00:30:00Z"
    );
}

// Upstream: TestControllerV2CleanupFinishedJobs, first row: deleted also if no job can be created.
#[tokio::test(start_paused = true)]
async fn history_limits_are_kept_also_when_nothing_can_be_created() {
    let (world, _) = world().await;
    let limited = cron_job(json!({"successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 0}));
    world.create(&CronJob::TYPE, limited).await;
    pass(1).await;
    for (minute, how) in [(1, "Complete"), (2, "Failed"), (3, "Complete")] {
        pass(60).await;
        finish(&world, &name(minute), how).await;
    }
    world.refuse("POST", "/jobs", 403, 100);
    world.writes();
    pass(50).await;
    let left: Vec<Value> = world.list(&Job::TYPE).await;
    let left: Vec<&Value> = left.iter().map(|job| &job["metadata"]["name"]).collect();
    assert_eq!(left, [&json!(name(3))]);
    let writes = world.writes();
    let deletes: Vec<_> = writes
        .iter()
        .filter(|write| write.method == "DELETE")
        .collect();
    assert_eq!(deletes.len(), 1);
    assert_eq!(deletes[0].body["propagationPolicy"], "Background");
    assert!(deletes[0].body["preconditions"]["uid"].is_string());
    pass(10).await;
    let events = world.events().await;
    for (kind, reason, message) in [
        (
            "Normal",
            "SuccessfulDelete",
            format!("Deleted job {}", name(1)),
        ),
        (
            "Normal",
            "SuccessfulDelete",
            format!("Deleted job {}", name(2)),
        ),
        (
            "Warning",
            "FailedCreate",
            "Error creating job: refused by the test: Forbidden".to_owned(),
        ),
    ] {
        let event = format!("{kind} {reason} {message}");
        assert!(events.contains(&event), "{event} in {events:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_never_comes_is_told_once_and_left_alone() {
    let (world, context) = world().await;
    world
        .create(&CronJob::TYPE, cron_job(json!({"schedule": "0 0 30 2 *"})))
        .await;
    pass(86_400).await;
    assert_eq!(world.written(), "");
    assert_eq!(
        told(&context),
        ["starts no job: its schedule 0 0 30 2 * does not come within five years"]
    );
    let key = api::Key::new("default", "hello");
    let decisions = context.decisions.get(context.controller, &key);
    assert_eq!(
        decisions.iter().map(|one| one.count).sum::<u64>(),
        1,
        "no busy loop"
    );
    let message = "invalid schedule: 0 0 30 2 * : time difference between two schedules is less than 1 second";
    assert_eq!(
        world.events().await,
        [format!("Warning InvalidSchedule {message}")]
    );
}

// UPSTREAM: a job is named after a minute, so there is one in each.
#[tokio::test(start_paused = true)]
async fn a_schedule_of_every_second_starts_a_job_each_minute() {
    let (world, _) = world().await;
    let every_second = cron_job(json!({"schedule": "@every 1s"}));
    world.create(&CronJob::TYPE, every_second).await;
    pass(150).await;
    let jobs = world.list(&Job::TYPE).await;
    let names: BTreeSet<String> = jobs
        .iter()
        .map(|job| job["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, BTreeSet::from([name(0), name(1), name(2)]));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_forward_makes_up_for_one_start() {
    let (world, _) = world().await;
    world.create(&CronJob::TYPE, cron_job(json!({}))).await;
    pass(61).await;
    world.jump(86_400);
    world.writes();
    pass(60).await;
    let writes = world.writes();
    assert_eq!(writes[0].body["metadata"]["name"], name(24 * 60 + 2));
    assert_eq!(world.list(&Job::TYPE).await.len(), 2, "not 1441");
    let reason = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
    let events = world.events().await;
    assert!(events.contains(&format!("Warning TooManyMissedTimes {reason}")));

    // Back again: nothing is due before it is later than the last start.
    world.jump(-86_400);
    world.writes();
    pass(3600).await;
    assert_eq!(world.written(), "");
    pass(86_400).await;
    assert!(
        world
            .written()
            .starts_with("POST jobs\nPUT cronjobs/hello/status")
    );
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_goes_away_is_no_news() {
    let (world, _) = world().await;
    let namespaces = api::kinds::Namespace::TYPE;
    let doomed = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "doomed"}});
    world.create(&namespaces, doomed).await;
    let body = cron_job(json!({})).to_string();
    world
        .user
        .create(&CronJob::TYPE, "doomed", body)
        .await
        .unwrap();
    world.delete(&namespaces, "doomed").await;
    pass(62).await;
    let written = world.written();
    assert!(written.starts_with("POST jobs -> 403"), "{written}");
    assert!(!written.contains("PUT"), "{written}");
    let events = api::ResourceType::namespaced("", "v1", "events", "Event");
    let told = world
        .user
        .list(&events, "doomed", &Default::default())
        .await;
    assert!(told.unwrap().items.is_empty());
}
