//! Jobs whose pods fail.

use std::time::Duration;

use api::Resource;
use api::kinds::Pod;
use expect_test::expect;
use serde_json::json;

use super::scenario::Scenario;

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

// Upstream: TestJobBackoff, TestJobBackoffReset.
#[tokio::test(start_paused = true)]
async fn a_failed_pod_is_replaced_later_each_time() {
    let mut scenario = Scenario::begin().await;
    scenario.create(json!({"backoffLimit": 2})).await;
    scenario.exit(1, 1).await;
    expect![[r#"
        PUT jobs/j/status ready=0 start=00:00 terminating=0 uncounted={failed:[p1]}
        PATCH pods/p1 lets go
        PUT jobs/j/status failed=1 ready=0 start=00:00 terminating=0"#]]
    .assert_eq(&scenario.tell().await);
    seconds(10).await;
    expect![[r#"
        POST pods
        PUT jobs/j/status active=1 failed=1 ready=0 start=00:00 terminating=0"#]]
    .assert_eq(&scenario.tell().await);
    scenario.exit(2, 1).await;
    seconds(10).await;
    expect![[r#"
        PUT jobs/j/status failed=1 ready=0 start=00:00 terminating=0 uncounted={failed:[p2]}
        PATCH pods/p2 lets go
        PUT jobs/j/status failed=2 ready=0 start=00:00 terminating=0"#]]
    .assert_eq(&scenario.tell().await);
    seconds(10).await;
    expect![[r#"
        POST pods
        PUT jobs/j/status active=1 failed=2 ready=0 start=00:00 terminating=0"#]]
    .assert_eq(&scenario.tell().await);
    scenario.exit(3, 1).await;
    expect![[r#"
        PUT jobs/j/status FailureTarget(BackoffLimitExceeded) failed=2 ready=0 start=00:00 terminating=0 uncounted={failed:[p3]}
        PATCH pods/p3 lets go
        PUT jobs/j/status Failed(BackoffLimitExceeded) FailureTarget(BackoffLimitExceeded) failed=3 ready=0 start=00:00 terminating=0"#]].assert_eq(&scenario.tell().await);
    expect![[r#"
        Normal SuccessfulCreate Created pod: p1
        Normal SuccessfulCreate Created pod: p2
        Normal SuccessfulCreate Created pod: p3
        Warning BackoffLimitExceeded Job has reached the specified backoff limit"#]]
    .assert_eq(&scenario.events().await);
    assert_eq!(scenario.tell().await, "");
}

#[tokio::test(start_paused = true)]
async fn running_pods_are_deleted_when_the_job_fails() {
    let mut scenario = Scenario::begin().await;
    let spec = json!({"completions": 3, "parallelism": 3, "backoffLimit": 0});
    scenario.create(spec).await;
    scenario.world.make_ready(&scenario.pod(2)).await;
    scenario.tell().await;
    scenario.exit(1, 1).await;
    expect![[r#"
        DELETE pods/p2
        DELETE pods/p3
        PUT jobs/j/status FailureTarget(BackoffLimitExceeded) ready=0 start=00:00 terminating=2 uncounted={failed:[p1,p2,p3]}
        PATCH pods/p1 lets go
        PATCH pods/p2 lets go
        PATCH pods/p3 lets go
        PUT jobs/j/status FailureTarget(BackoffLimitExceeded) failed=3 ready=0 start=00:00 terminating=2
        PUT jobs/j/status FailureTarget(BackoffLimitExceeded) failed=3 ready=0 start=00:00 terminating=0
        PUT jobs/j/status Failed(BackoffLimitExceeded) FailureTarget(BackoffLimitExceeded) failed=3 ready=0 start=00:00 terminating=0"#]].assert_eq(&scenario.tell().await);
    expect!["p1 Failed"].assert_eq(&scenario.pods().await);
    scenario.world.finish_deletions().await;
    expect![[""]].assert_eq(&scenario.tell().await);
    expect![[r#"
        Normal SuccessfulCreate Created pod: p1
        Normal SuccessfulCreate Created pod: p2
        Normal SuccessfulCreate Created pod: p3
        Normal SuccessfulDelete Deleted pod: p2
        Normal SuccessfulDelete Deleted pod: p3
        Warning BackoffLimitExceeded Job has reached the specified backoff limit"#]]
    .assert_eq(&scenario.events().await);
}

// Upstream: TestSyncJobPastDeadline, TestSyncPastDeadlineJobFinished.
#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_job_by_itself() {
    let mut scenario = Scenario::begin().await;
    scenario.create(json!({"activeDeadlineSeconds": 30})).await;
    seconds(15).await;
    assert_eq!(scenario.tell().await, "");
    expect![[r#"
        DELETE pods/p1
        PUT jobs/j/status FailureTarget(DeadlineExceeded) ready=0 start=00:00 terminating=1 uncounted={failed:[p1]}
        PATCH pods/p1 lets go
        PUT jobs/j/status FailureTarget(DeadlineExceeded) failed=1 ready=0 start=00:00 terminating=1
        PUT jobs/j/status FailureTarget(DeadlineExceeded) failed=1 ready=0 start=00:00 terminating=0
        PUT jobs/j/status Failed(DeadlineExceeded) FailureTarget(DeadlineExceeded) failed=1 ready=0 start=00:00 terminating=0"#]].assert_eq(&scenario.tell().await);
}

#[tokio::test(start_paused = true)]
async fn a_policy_fails_the_job_by_exit_code() {
    let mut scenario = Scenario::begin().await;
    let policy = json!({"rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    ]});
    let spec = json!({"podFailurePolicy": policy, "backoffLimit": 6});
    scenario.create(spec).await;
    scenario.exit(1, 42).await;
    expect![[r#"
        PUT jobs/j/status FailureTarget(PodFailurePolicy) ready=0 start=00:00 terminating=0 uncounted={failed:[p1]}
        PATCH pods/p1 lets go
        PUT jobs/j/status Failed(PodFailurePolicy) FailureTarget(PodFailurePolicy) failed=1 ready=0 start=00:00 terminating=0"#]].assert_eq(&scenario.tell().await);
    expect![[r#"
        Normal SuccessfulCreate Created pod: p1
        Warning PodFailurePolicy Container main for pod default/p1 failed with exit code 42 matching FailJob rule at index 1"#]].assert_eq(&scenario.events().await);
}

#[tokio::test(start_paused = true)]
async fn an_ignored_failure_does_not_count() {
    let mut scenario = Scenario::begin().await;
    let policy = json!({"rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
    ]});
    let spec = json!({"podFailurePolicy": policy, "backoffLimit": 0});
    scenario.create(spec).await;
    let now = scenario.world.clock.now().time();
    let disrupted =
        json!({"type": "DisruptionTarget", "status": "True", "lastTransitionTime": now});
    let status = json!({"phase": "Failed", "conditions": [disrupted]});
    scenario.world.pod_status(&scenario.pod(1), status).await;
    seconds(10).await;
    expect![[r#"
        POST pods
        PATCH pods/p1 lets go"#]]
    .assert_eq(&scenario.tell().await);
}

/// Restarts in place count where the template allows them.
#[tokio::test(start_paused = true)]
async fn too_many_restarts_in_place() {
    let mut scenario = Scenario::begin().await;
    let template = json!({"spec": {
        "restartPolicy": "OnFailure", "containers": [{"name": "main", "image": "x"}],
    }});
    let spec = json!({"template": template, "backoffLimit": 2});
    scenario.create(spec).await;
    let restarted = |count: i32| json!({"phase": "Running", "containerStatuses": [{"name": "main", "restartCount": count}]});
    scenario
        .world
        .pod_status(&scenario.pod(1), restarted(1))
        .await;
    assert_eq!(scenario.tell().await, "");
    scenario
        .world
        .pod_status(&scenario.pod(1), restarted(2))
        .await;
    expect![[r#"
        DELETE pods/p1
        PUT jobs/j/status FailureTarget(BackoffLimitExceeded) ready=0 start=00:00 terminating=1 uncounted={failed:[p1]}
        PATCH pods/p1 lets go
        PUT jobs/j/status FailureTarget(BackoffLimitExceeded) failed=1 ready=0 start=00:00 terminating=1
        PUT jobs/j/status FailureTarget(BackoffLimitExceeded) failed=1 ready=0 start=00:00 terminating=0
        PUT jobs/j/status Failed(BackoffLimitExceeded) FailureTarget(BackoffLimitExceeded) failed=1 ready=0 start=00:00 terminating=0"#]].assert_eq(&scenario.tell().await);
}

// Upstream: TestSyncJobExpectations, TestControllerSyncJob (failures).
#[tokio::test(start_paused = true)]
async fn refused_pods_are_tried_again_slowly() {
    let mut scenario = Scenario::begin().await;
    scenario.world.refuse("POST", "/pods", 403, 2);
    let told = scenario
        .create(json!({"completions": 5, "parallelism": 5}))
        .await;
    expect![[r#"
        POST pods -> 403
        PUT jobs/j/status ready=0 start=00:00 terminating=0
        POST pods -> 403
        POST pods
        POST pods
        POST pods
        POST pods
        POST pods
        PUT jobs/j/status active=5 ready=0 start=00:00 terminating=0"#]]
    .assert_eq(&told);
    expect!["active=5 ready=0 start=00:00 terminating=0"].assert_eq(&scenario.status().await);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_is_replaced_at_once() {
    let mut scenario = Scenario::begin().await;
    scenario.create(json!({})).await;
    scenario.world.make_ready(&scenario.pod(1)).await;
    scenario.tell().await;
    scenario.world.delete(&Pod::TYPE, &scenario.pod(1)).await;
    expect![[r#"
        PUT jobs/j/status ready=0 start=00:00 terminating=1 uncounted={failed:[p1]}
        PATCH pods/p1 lets go
        PUT jobs/j/status failed=1 ready=0 start=00:00 terminating=1
        PUT jobs/j/status failed=1 ready=0 start=00:00 terminating=0"#]]
    .assert_eq(&scenario.tell().await);
    seconds(10).await;
    expect![[r#"
        POST pods
        PUT jobs/j/status active=1 failed=1 ready=0 start=00:00 terminating=0"#]]
    .assert_eq(&scenario.tell().await);
}

#[tokio::test(start_paused = true)]
async fn a_job_may_wait_until_a_deleted_pod_has_failed() {
    let mut scenario = Scenario::begin().await;
    scenario
        .create(json!({"podReplacementPolicy": "Failed"}))
        .await;
    scenario.world.make_ready(&scenario.pod(1)).await;
    scenario.tell().await;
    scenario.world.delete(&Pod::TYPE, &scenario.pod(1)).await;
    seconds(60).await;
    expect!["PUT jobs/j/status ready=0 start=00:00 terminating=1"]
        .assert_eq(&scenario.tell().await);
    scenario.exit(1, 143).await;
    seconds(60).await;
    expect![[r#"
        PUT jobs/j/status ready=0 start=00:00 terminating=0 uncounted={failed:[p1]}
        PATCH pods/p1 lets go
        PUT jobs/j/status failed=1 ready=0 start=00:00 terminating=0
        POST pods
        PUT jobs/j/status active=1 failed=1 ready=0 start=00:00 terminating=0"#]]
    .assert_eq(&scenario.tell().await);
}
