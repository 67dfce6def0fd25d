//! Jobs that get on.

use api::kinds::Job;
use api::{Gate, Gates, Resource};
use expect_test::expect;
use serde_json::json;

use super::scenario::Scenario;

// Upstream: TestControllerSyncJob, TestSyncJobComplete.
#[tokio::test(start_paused = true)]
async fn a_job_runs_its_pods_and_completes() {
    let mut scenario = Scenario::begin().await;
    let told = scenario
        .create(json!({"completions": 2, "parallelism": 2}))
        .await;
    expect![[r#"
        POST pods
        POST pods
        PUT jobs/j/status active=2 ready=0 start=00:00 terminating=0"#]]
    .assert_eq(&told);
    scenario.exit(1, 0).await;
    expect![[r#"
        PUT jobs/j/status active=1 ready=0 start=00:00 terminating=0 uncounted={succeeded:[p1]}
        PATCH pods/p1 lets go
        PUT jobs/j/status active=1 ready=0 start=00:00 succeeded=1 terminating=0"#]]
    .assert_eq(&scenario.tell().await);
    scenario.exit(2, 0).await;
    expect![[r#"
        PUT jobs/j/status SuccessCriteriaMet(CompletionsReached) ready=0 start=00:00 succeeded=1 terminating=0 uncounted={succeeded:[p2]}
        PATCH pods/p2 lets go
        PUT jobs/j/status Complete(CompletionsReached) SuccessCriteriaMet(CompletionsReached) completion=00:21 ready=0 start=00:00 succeeded=2 terminating=0"#]].assert_eq(&scenario.tell().await);
    expect![[r#"
        Normal Completed Job completed
        Normal SuccessfulCreate Created pod: p1
        Normal SuccessfulCreate Created pod: p2"#]]
    .assert_eq(&scenario.events().await);
    expect![[r#"
        p1 Succeeded
        p2 Succeeded"#]]
    .assert_eq(&scenario.pods().await);
    assert_eq!(scenario.tell().await, "");
    let status = scenario.job().await["status"].clone();
    let (started, ended) = ("2024-01-01T00:00:00Z", "2024-01-01T00:00:21Z");
    let condition = |type_| {
        json!({
            "type": type_, "status": "True", "lastProbeTime": ended, "lastTransitionTime": ended,
            "reason": "CompletionsReached", "message": "Reached expected number of succeeded pods",
        })
    };
    assert_eq!(
        status,
        json!({
            "startTime": started, "completionTime": ended, "succeeded": 2, "ready": 0, "terminating": 0,
            "uncountedTerminatedPods": {},
            "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
        })
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_what_the_template_says_held_by_a_finalizer() {
    let scenario = Scenario::begin().await;
    scenario
        .world
        .create(&Job::TYPE, super::scenario::job(json!({})))
        .await;
    scenario.world.wait_until_idle().await;
    let writes = scenario.world.writes();
    let uid = scenario.job().await["metadata"]["uid"].clone();
    let labels = json!({
        "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": "j",
        "controller-uid": uid, "job-name": "j",
    });
    let body = &writes[0].body;
    assert_eq!(
        body["metadata"],
        json!({
            "generateName": "j-", "labels": labels, "finalizers": ["batch.kubernetes.io/job-tracking"],
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": uid,
                "controller": true, "blockOwnerDeletion": true,
            }],
        })
    );
    assert_eq!(
        body["spec"],
        scenario.job().await["spec"]["template"]["spec"]
    );
}

/// Without a number of completions one success is enough, and what runs may finish.
#[tokio::test(start_paused = true)]
async fn a_work_queue_job_ends_when_its_pods_do() {
    let mut scenario = Scenario::begin().await;
    scenario.create(json!({"parallelism": 3})).await;
    scenario.exit(1, 0).await;
    expect![[r#"
        PUT jobs/j/status active=2 ready=0 start=00:00 terminating=0 uncounted={succeeded:[p1]}
        PATCH pods/p1 lets go
        PUT jobs/j/status active=2 ready=0 start=00:00 succeeded=1 terminating=0"#]]
    .assert_eq(&scenario.tell().await);
    scenario.exit(2, 1).await;
    expect![[r#"
        PUT jobs/j/status active=1 ready=0 start=00:00 succeeded=1 terminating=0 uncounted={failed:[p2]}
        PATCH pods/p2 lets go
        PUT jobs/j/status active=1 failed=1 ready=0 start=00:00 succeeded=1 terminating=0"#]].assert_eq(&scenario.tell().await);
    scenario.exit(3, 0).await;
    expect![[r#"
        PUT jobs/j/status SuccessCriteriaMet(CompletionsReached) failed=1 ready=0 start=00:00 succeeded=1 terminating=0 uncounted={succeeded:[p3]}
        PATCH pods/p3 lets go
        PUT jobs/j/status Complete(CompletionsReached) SuccessCriteriaMet(CompletionsReached) completion=00:31 failed=1 ready=0 start=00:00 succeeded=2 terminating=0"#]].assert_eq(&scenario.tell().await);
}

#[tokio::test(start_paused = true)]
async fn more_and_less_parallelism() {
    let mut scenario = Scenario::begin().await;
    scenario
        .create(json!({"completions": 5, "parallelism": 1}))
        .await;
    let told = scenario.change(json!({"parallelism": 3})).await;
    expect![[r#"
        POST pods
        POST pods
        PUT jobs/j/status active=3 ready=0 start=00:00 terminating=0"#]]
    .assert_eq(&told);
    scenario.world.make_ready(&scenario.pod(1)).await;
    scenario.tell().await;
    let told = scenario.change(json!({"parallelism": 1})).await;
    expect![[r#"
        PATCH pods/p2 lets go
        DELETE pods/p2
        PATCH pods/p3 lets go
        DELETE pods/p3
        PUT jobs/j/status active=1 ready=1 start=00:00 terminating=2
        PUT jobs/j/status active=1 ready=1 start=00:00 terminating=0"#]]
    .assert_eq(&told);
    expect!["p1 Running held"].assert_eq(&scenario.pods().await);
}

// Upstream: TestSyncJobWhenManagedBy.
#[tokio::test(start_paused = true)]
async fn a_job_of_another_controller_is_left_alone() {
    let mut scenario = Scenario::begin().await;
    let told = scenario
        .create(json!({"managedBy": "example.com/other"}))
        .await;
    assert_eq!(told, "");
}

#[tokio::test(start_paused = true)]
async fn suspended_from_birth_then_resumed_then_suspended_again() {
    let mut scenario = Scenario::begin().await;
    let told = scenario
        .create(json!({"suspend": true, "parallelism": 2}))
        .await;
    expect!["PUT jobs/j/status Suspended(JobSuspended) ready=0 terminating=0"].assert_eq(&told);
    let told = scenario.change(json!({"suspend": false})).await;
    expect![[r#"
        POST pods
        POST pods
        PUT jobs/j/status active=2 not Suspended(JobResumed) ready=0 start=00:10 terminating=0"#]]
    .assert_eq(&told);
    let told = scenario.change(json!({"suspend": true})).await;
    expect![[r#"
        PATCH pods/p1 lets go
        DELETE pods/p1
        PATCH pods/p2 lets go
        DELETE pods/p2
        PUT jobs/j/status Suspended(JobSuspended) ready=0 terminating=2
        PUT jobs/j/status Suspended(JobSuspended) ready=0 terminating=0"#]]
    .assert_eq(&told);
    expect![[r#"
        Normal Resumed Job resumed
        Normal SuccessfulCreate Created pod: p1
        Normal SuccessfulCreate Created pod: p2
        Normal SuccessfulDelete Deleted pod: p1
        Normal SuccessfulDelete Deleted pod: p2
        Normal Suspended Job suspended"#]]
    .assert_eq(&scenario.events().await);
    scenario.world.finish_deletions().await;
    expect![[""]].assert_eq(&scenario.tell().await);
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_a_suspended_job_keeps_its_start_time() {
    let gate = Gate::MutableSchedulingDirectivesForSuspendedJobs;
    let mut scenario = Scenario::with(Gates::default().with(gate, false)).await;
    scenario.create(json!({})).await;
    let told = scenario.change(json!({"suspend": true})).await;
    expect![[r#"
        PATCH pods/p1 lets go
        DELETE pods/p1
        PUT jobs/j/status Suspended(JobSuspended) ready=0 start=00:00 terminating=1
        PUT jobs/j/status Suspended(JobSuspended) ready=0 start=00:00 terminating=0"#]]
    .assert_eq(&told);
}

/// A new process finds what the old one left half done.
#[tokio::test(start_paused = true)]
async fn what_a_crash_left_uncounted_is_counted_once() {
    let mut scenario = Scenario::begin().await;
    scenario
        .create(json!({"completions": 2, "parallelism": 2}))
        .await;
    // The status is written, and no finalizer goes.
    scenario
        .world
        .refuse("PATCH", &format!("pods/{}", scenario.pod(1)), 500, 2);
    scenario.exit(1, 0).await;
    expect![[r#"
        PUT jobs/j/status active=1 ready=0 start=00:00 terminating=0 uncounted={succeeded:[p1]}
        PATCH pods/p1 -> 500 lets go
        PATCH pods/p1 -> 500 lets go
        PATCH pods/p1 lets go
        PUT jobs/j/status active=1 ready=0 start=00:00 succeeded=1 terminating=0"#]]
    .assert_eq(&scenario.tell().await);
    let status = "active=1 ready=0 start=00:00 succeeded=1 terminating=0";
    assert_eq!(scenario.status().await, status);
    assert_eq!(scenario.tell().await, "");
}
