//! Whose pods they are.

use api::Resource;
use api::kinds::{Job, Pod};
use client::{DeleteOptions, Propagation};
use expect_test::expect;
use serde_json::{Value, json};

use super::scenario::Scenario;

/// A pod with the labels of the job, and no owner.
async fn stray(scenario: &Scenario, more: Value) -> Value {
    let labels = scenario.job().await["spec"]["template"]["metadata"]["labels"].clone();
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stray", "labels": labels},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]},
    });
    for (field, value) in more.as_object().unwrap() {
        pod["metadata"][field] = value.clone();
    }
    scenario.world.create(&Pod::TYPE, pod).await
}

// Upstream: TestGetPodsForJob.
#[tokio::test(start_paused = true)]
async fn adopts_what_it_selects_and_releases_what_it_does_not() {
    let mut scenario = Scenario::begin().await;
    scenario
        .create(json!({"completions": 5, "parallelism": 2}))
        .await;
    let stray = stray(&scenario, json!({})).await;
    scenario.world.wait_until_idle().await;
    let uid = scenario.job().await["metadata"]["uid"].clone();
    let finalizer = "batch.kubernetes.io/job-tracking";
    let owner = json!({
        "apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    });
    let of_stray = |body: Value| {
        let mut meta = body;
        meta["uid"] = stray["metadata"]["uid"].clone();
        json!({"metadata": meta})
    };
    let writes = scenario.world.writes();
    let adopts = json!({"ownerReferences": [owner], "finalizers": [finalizer]});
    assert_eq!(writes[0].body, of_stray(adopts));
    let unlabel = json!({"metadata": {"labels": {"job-name": null, "batch.kubernetes.io/controller-uid": null}}});
    let kept = scenario.pod(1);
    scenario.world.patch(&Pod::TYPE, &kept, unlabel).await;
    expect![[r#"
        PATCH pods/p1 {"metadata":{"$deleteFromPrimitiveList/finalizers":["batch.kubernetes.io/job-tracking"],"ownerReferences":[{"$patch":"delete","uid":"job"}],"uid":"p1"}}
        POST pods"#]].assert_eq(&scenario.tell().await.replace(uid.as_str().unwrap(), "job"));
}

// Upstream: TestSyncOrphanPod, TestOrphanPodsFinalizersClearedWithGC (integration).
#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_job_lose_their_finalizer() {
    let mut scenario = Scenario::begin().await;
    scenario
        .create(json!({"parallelism": 2, "completions": 2}))
        .await;
    let options = DeleteOptions {
        propagation: Some(Propagation::Background),
        ..DeleteOptions::default()
    };
    scenario.world.delete_with(&Job::TYPE, "j", &options).await;
    expect![[r#"
        PATCH pods/p1 lets go
        PATCH pods/p2 lets go"#]]
    .assert_eq(&scenario.tell().await);
    assert_eq!(scenario.tell().await, "");
}

#[tokio::test(start_paused = true)]
async fn an_orphan_that_no_job_wants_loses_its_finalizer() {
    let mut scenario = Scenario::begin().await;
    scenario.create(json!({})).await;
    scenario.tell().await;
    let finalizers = json!(["example.com/hold", "batch.kubernetes.io/job-tracking"]);
    stray(
        &scenario,
        json!({"labels": {"a": "b"}, "finalizers": finalizers}),
    )
    .await;
    expect![[r#"PATCH pods/p2 lets go"#]].assert_eq(&scenario.tell().await);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_being_deleted_lets_its_pods_go_and_makes_none() {
    let mut scenario = Scenario::begin().await;
    scenario
        .create(json!({"parallelism": 2, "completions": 4}))
        .await;
    scenario.exit(1, 0).await;
    let options = DeleteOptions {
        propagation: Some(Propagation::Foreground),
        ..DeleteOptions::default()
    };
    scenario.world.delete_with(&Job::TYPE, "j", &options).await;
    expect![[r#"
        PUT jobs/j/status active=1 ready=0 start=00:00 terminating=0 uncounted={succeeded:[p1]}
        PATCH pods/p1 lets go
        PATCH pods/p2 lets go
        PUT jobs/j/status active=1 ready=0 start=00:00 succeeded=1 terminating=0"#]]
    .assert_eq(&scenario.tell().await);
    expect![[r#"
        p1 Succeeded
        p2 Pending"#]]
    .assert_eq(&scenario.pods().await);
}
