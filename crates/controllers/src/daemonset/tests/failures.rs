//! Pods that fail, and writes that do.

use std::time::Duration;

use api::kinds::{DaemonSet, Pod};
use api::{Resource, ResourceType};
use serde_json::json;

use super::super::backoff::FailedPods;
use super::*;

// Upstream: TestDaemonKillFailedPodsBackoff.
#[test]
fn waits_double_up_to_a_quarter_of_an_hour() {
    let (failed, set) = (FailedPods::default(), set(""));
    assert_eq!(failed.remaining(&set, "n1", now()), None);
    let mut at = now();
    for expected in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900] {
        failed.replaced(&set, "n1", at);
        let wait = Duration::from_secs(expected);
        assert_eq!(failed.remaining(&set, "n1", at), Some(wait));
        at = at.plus(wait);
        assert_eq!(failed.remaining(&set, "n1", at), None);
    }
    assert_eq!(failed.remaining(&set, "n2", now()), None, "nodes are apart");
    let mut changed = (*set).clone();
    changed.status.observed_generation = 9;
    failed.replaced(&set, "n1", at);
    assert_eq!(
        failed.remaining(&changed, "n1", at),
        None,
        "generations too"
    );
    failed.replaced(&changed, "n1", at);
    let first = Some(Duration::from_secs(1));
    assert_eq!(failed.remaining(&changed, "n1", at), first);
    let later = at.plus(Duration::from_secs(1801));
    failed.replaced(&changed, "n1", later);
    assert_eq!(failed.remaining(&changed, "n1", later), first, "forgotten");
}

// Upstream: TestDaemonKillFailedPods.
#[tokio::test(start_paused = true)]
async fn a_failed_pod_is_replaced_and_the_next_one_later() {
    let world = world(&["n1"]).await;
    world.create(&DaemonSet::TYPE, daemon_set()).await;
    world.wait_until_idle().await;
    world.written();
    let name = world.pod_names().await[0].clone();
    world.make_failed(&name).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    world.finish_deletions().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let next = world.pod_names().await;
    assert!(next.len() == 1 && next[0] != name, "{next:?}");
    let events = world.events().await;
    let expected = format!(
        "Warning FailedDaemonPod Found failed daemon pod default/{name} on node n1, will try to kill it"
    );
    assert!(events.contains(&expected), "{events:?}");
    world.written();
    world.make_failed(&next[0]).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let deleted = || world.written().contains("DELETE");
    assert!(!deleted(), "it fails again too soon");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(deleted());
}

// Upstream: TestSimpleDaemonSetPodCreateErrors, TestDaemonSetPodCreateExpectationsError. Batches double until one of them
// meets a refusal; what was not tried is not waited for.
#[tokio::test(start_paused = true)]
async fn creations_that_are_refused_stop_the_slow_start_and_are_tried_again() {
    let nodes: Vec<String> = (0..40).map(|number| format!("n{number}")).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let world = world(&nodes).await;
    let quotas = ResourceType::namespaced("", "v1", "resourcequotas", "ResourceQuota");
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "tight"},
        "spec": {"hard": {"pods": "10"}},
    });
    world.create(&quotas, quota).await;
    let status = json!({"status": {"hard": {"pods": "10"}, "used": {"pods": "0"}}});
    world
        .patch_subresource(&quotas, "tight", Some("status"), status)
        .await;
    world.wait_until_idle().await;
    world.written();
    world.create(&DaemonSet::TYPE, daemon_set()).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    let first: Vec<testkit::Write> = world
        .writes()
        .into_iter()
        .skip_while(|write| !write.path.ends_with("/pods"))
        .take_while(|write| write.method == "POST")
        .collect();
    let refused = first.iter().filter(|write| write.answer == 403).count();
    assert_eq!((first.len(), refused), (1 + 2 + 4 + 8, 5), "of 40");
    world.wait_until_idle().await;
    let set = world.get(&DaemonSet::TYPE, "web").await.unwrap();
    let status = &set["status"];
    assert_eq!(status["desiredNumberScheduled"], 40);
    assert_eq!(status["currentNumberScheduled"], 10);
    assert_eq!(status["updatedNumberScheduled"], 10);
    let events = world.events().await;
    assert!(
        events
            .iter()
            .any(|event| event.starts_with("Warning FailedCreate Error creating:"))
    );
    world.delete(&quotas, "tight").await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(world.pod_names().await.len(), 40);
}

// Upstream: TestSimpleDaemonSetUpdatesStatusError, TestStoreDaemonSetStatus.
#[tokio::test(start_paused = true)]
async fn a_status_that_is_refused_is_written_later() {
    for (code, written) in [
        (
            500,
            "PUT daemonsets/web/status -> 500 ×2\nPUT daemonsets/web/status",
        ),
        (
            409,
            "PUT daemonsets/web/status -> 409 ×2\nPUT daemonsets/web/status",
        ),
    ] {
        let world = world(&["n1"]).await;
        world.refuse("PUT", "/status", code, 2);
        world.create(&DaemonSet::TYPE, daemon_set()).await;
        world.wait_until_idle().await;
        let all = world.written();
        assert!(all.ends_with(written), "{all}");
        let set = world.get(&DaemonSet::TYPE, "web").await.unwrap();
        assert_eq!(set["status"]["currentNumberScheduled"], 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ended_is_replaced() {
    let world = world(&["n1"]).await;
    world.create(&DaemonSet::TYPE, daemon_set()).await;
    world.wait_until_idle().await;
    let name = world.pod_names().await[0].clone();
    world.pod_status(&name, json!({"phase": "Succeeded"})).await;
    world.wait_until_idle().await;
    world.finish_deletions().await;
    world.wait_until_idle().await;
    let events = world.events().await;
    let expected = format!(
        "Normal SucceededDaemonPod Found succeeded daemon pod default/{name} on node n1, will try to delete it"
    );
    assert!(events.contains(&expected), "{events:?}");
    assert!(world.get(&Pod::TYPE, &name).await.is_none());
    assert_eq!(world.pod_names().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_meets_a_conflict_is_tried_again() {
    let world = world(&["n1"]).await;
    world.create(&DaemonSet::TYPE, daemon_set()).await;
    world.wait_until_idle().await;
    world.refuse("DELETE", "/pods/", 409, 1);
    let patch = json!({"spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}});
    world.patch(&DaemonSet::TYPE, "web", patch).await;
    world.wait_until_idle().await;
    world.finish_deletions().await;
    world.wait_until_idle().await;
    assert!(world.pod_names().await.is_empty());
}
