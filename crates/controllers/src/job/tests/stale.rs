//! Caches that lag behind: nothing is created or counted twice.

use api::kinds::{Job, Pod};
use api::{Gate, Gates, Resource};
use serde_json::json;
use testkit::Lagging;

use super::super::controller;
use super::scenario::job;

async fn lagging(consistency: bool) -> Lagging {
    let gates = Gates::default().with(Gate::StaleControllerConsistencyJob, consistency);
    let job = job(json!({"completions": 3, "parallelism": 2}));
    crate::lagging::<Job>(job, gates, |context| controller(context, 1).jobs).await
}

#[tokio::test(start_paused = true)]
async fn a_job_waits_until_the_caches_show_its_writes() {
    let lagging = lagging(true).await;
    lagging.reconcile("j").await.unwrap();
    assert_eq!(lagging.world.written(), "POST pods ×2\nPUT jobs/j/status");
    let error = lagging.reconcile("j").await.unwrap_err();
    assert!(matches!(error, runtime::Error::Stale { .. }), "{error}");
}

// Upstream: TestFinalizersRemovedExpectations, TestSyncJobExpectations.
#[tokio::test(start_paused = true)]
async fn without_the_gate_expectations_keep_it_from_counting_twice() {
    let lagging = lagging(false).await;
    lagging.reconcile("j").await.unwrap();
    lagging.world.writes();
    lagging.see::<Job>("j").await;
    lagging.reconcile("j").await.unwrap();
    assert!(!lagging.world.written().contains("POST pods"));
    let pods = lagging.world.pod_names().await;
    let succeeded = json!({"phase": "Succeeded"});
    lagging.world.pod_status(&pods[0], succeeded).await;
    for pod in &pods {
        lagging.see::<Pod>(pod).await;
    }
    lagging.see::<Job>("j").await;
    lagging.reconcile("j").await.unwrap();
    let pod = &pods[0];
    let counts = format!("PUT jobs/j/status\nPATCH pods/{pod}\nPUT jobs/j/status");
    assert_eq!(lagging.world.written(), counts);
    // The job is seen as it is, the pod is not.
    lagging.see::<Job>("j").await;
    lagging.reconcile("j").await.unwrap();
    assert_eq!(lagging.world.written(), "");
    let job = lagging.world.get(&Job::TYPE, "j").await.unwrap();
    assert_eq!(job["status"]["succeeded"], 1);
}
