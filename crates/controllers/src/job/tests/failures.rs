//! Servers that refuse, jobs that are gone or strange, and what the figures say afterwards.

use api::Resource;
use api::kinds::Job;
use expect_test::expect;
use runtime::Next;
use serde_json::json;
use testkit::{Lagging, World};

use super::super::controller;
use super::scenario::Scenario;

// Upstream: TestSyncJobUpdateRequeue, TestJobApiBackoffReset.
#[tokio::test(start_paused = true)]
async fn a_status_that_was_refused_is_written_again() {
    let mut scenario = Scenario::begin().await;
    scenario.world.refuse("PUT", "jobs/j/status", 409, 1);
    scenario.world.refuse("PUT", "jobs/j/status", 500, 1);
    let told = scenario
        .create(json!({"parallelism": 2, "completions": 2}))
        .await;
    expect![[r#"
        POST pods
        POST pods
        PUT jobs/j/status -> 409 active=2 ready=0 start=00:00 terminating=0
        PUT jobs/j/status -> 500 active=2 ready=0 start=00:01 terminating=0
        PUT jobs/j/status active=2 ready=0 start=00:03 terminating=0"#]]
    .assert_eq(&told);
    assert_eq!(scenario.tell().await, "");
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_finalizer_cannot_go_is_counted_when_it_can() {
    let mut scenario = Scenario::begin().await;
    scenario
        .create(json!({"parallelism": 2, "completions": 2}))
        .await;
    scenario
        .world
        .refuse("PATCH", &format!("pods/{}", scenario.pod(2)), 500, 1);
    scenario.exit(1, 0).await;
    scenario.exit(2, 0).await;
    expect![[r#"
        PUT jobs/j/status SuccessCriteriaMet(CompletionsReached) ready=0 start=00:00 terminating=0 uncounted={succeeded:[p1,p2]}
        PATCH pods/p1 lets go
        PATCH pods/p2 -> 500 lets go
        PUT jobs/j/status SuccessCriteriaMet(CompletionsReached) ready=0 start=00:00 succeeded=1 terminating=0 uncounted={succeeded:[p2]}
        PATCH pods/p2 lets go
        PUT jobs/j/status Complete(CompletionsReached) SuccessCriteriaMet(CompletionsReached) completion=00:12 ready=0 start=00:00 succeeded=2 terminating=0"#]].assert_eq(&scenario.tell().await);
}

#[tokio::test(start_paused = true)]
async fn pods_that_cannot_be_deleted_keep_the_job_from_its_end() {
    let mut scenario = Scenario::begin().await;
    scenario
        .create(json!({"parallelism": 2, "completions": 2, "backoffLimit": 0}))
        .await;
    scenario
        .world
        .refuse("DELETE", &format!("pods/{}", scenario.pod(2)), 500, 1);
    scenario.exit(1, 1).await;
    expect![[r#"
        DELETE pods/p2 -> 500
        PUT jobs/j/status active=1 ready=0 start=00:00 terminating=0 uncounted={failed:[p1]}
        PATCH pods/p1 lets go
        PUT jobs/j/status active=1 failed=1 ready=0 start=00:00 terminating=0
        DELETE pods/p2
        PUT jobs/j/status FailureTarget(BackoffLimitExceeded) failed=1 ready=0 start=00:00 terminating=1 uncounted={failed:[p2]}
        PATCH pods/p2 lets go
        PUT jobs/j/status FailureTarget(BackoffLimitExceeded) failed=2 ready=0 start=00:00 terminating=1
        PUT jobs/j/status FailureTarget(BackoffLimitExceeded) failed=2 ready=0 start=00:00 terminating=0
        PUT jobs/j/status Failed(BackoffLimitExceeded) FailureTarget(BackoffLimitExceeded) failed=2 ready=0 start=00:00 terminating=0"#]].assert_eq(&scenario.tell().await);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_meets_a_conflict_is_tried_again() {
    let mut scenario = Scenario::begin().await;
    scenario
        .create(json!({"parallelism": 2, "completions": 2}))
        .await;
    scenario
        .world
        .refuse("DELETE", &format!("pods/{}", scenario.pod(2)), 409, 1);
    let told = scenario.change(json!({"suspend": true})).await;
    let deletions = told.lines().filter(|line| line.contains("DELETE pods/p2"));
    let deletions: Vec<&str> = deletions.map(str::trim).collect();
    assert_eq!(
        deletions,
        ["DELETE pods/p2 -> 409", "DELETE pods/p2"],
        "{told}"
    );
}

async fn alone() -> Lagging {
    let world = World::new().await;
    let controller = controller(&world.context(), 1).jobs;
    Lagging { world, controller }
}

// Upstream: TestSyncJobDeleted.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_gone_is_forgotten() {
    let lagging = alone().await;
    assert_eq!(lagging.reconcile("gone").await.unwrap(), Next::AwaitChange);
    assert_eq!(lagging.world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn a_mode_that_nobody_knows_is_left_alone() {
    let lagging = alone().await;
    let strange = json!({
        "metadata": {"name": "j", "namespace": "default", "uid": "u"},
        "spec": {"completionMode": "Strange", "template": {}},
    });
    lagging.put(Job::decode(strange.to_string().as_bytes()).unwrap());
    lagging.reconcile("j").await.unwrap();
    lagging.world.wait_until_idle().await;
    assert_eq!(lagging.world.written(), "");
    expect!["Warning UnknownCompletionMode Skipped Job sync because completion mode is unknown"]
        .assert_eq(&lagging.world.events().await.join("\n"));
}

// Upstream: TestRecordFinishedPodWithTrackingFinalizer, TestRecordJobPodFailurePolicyActions.
#[tokio::test(start_paused = true)]
async fn figures_add_up() {
    let mut scenario = Scenario::begin().await;
    let rule = json!({"action": "Count", "onExitCodes": {"operator": "In", "values": [7]}});
    let policy = json!({"rules": [rule]});
    let spec =
        json!({"parallelism": 3, "completions": 3, "backoffLimit": 1, "podFailurePolicy": policy});
    scenario.create(spec).await;
    scenario.exit(1, 0).await;
    scenario.exit(2, 7).await;
    scenario.tell().await;
    scenario.exit(3, 1).await;
    scenario.tell().await;
    let text = scenario.metrics.render();
    let told: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("job_controller_") && !line.contains("duration_seconds"))
        .collect();
    expect![[r#"
        job_controller_job_pods_creation_total{reason="new",status="succeeded"} 3
        job_controller_job_pods_creation_total{reason="recreate_failed",status="succeeded"} 1
        job_controller_job_pods_finished_total{completion_mode="NonIndexed",result="failed"} 3
        job_controller_job_pods_finished_total{completion_mode="NonIndexed",result="succeeded"} 1
        job_controller_job_syncs_total{action="pods_created",completion_mode="NonIndexed",result="success"} 2
        job_controller_job_syncs_total{action="reconciling",completion_mode="NonIndexed",result="success"} 2
        job_controller_job_syncs_total{action="tracking",completion_mode="NonIndexed",result="success"} 2
        job_controller_jobs_finished_total{completion_mode="NonIndexed",reason="BackoffLimitExceeded",result="failed"} 1
        job_controller_pod_failures_handled_by_failure_policy_total{action="Count"} 1
        job_controller_terminated_pods_tracking_finalizer_total{event="add"} 3
        job_controller_terminated_pods_tracking_finalizer_total{event="delete"} 3"#]].assert_eq(&told.join("\n"));
}
