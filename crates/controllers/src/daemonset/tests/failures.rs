//! Pods that fail, and writes that do.

use std::time::Duration;

use api::Resource;
use api::kinds::{DaemonSet, Pod};
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
    world.settle().await;
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

// Upstream: TestSimpleDaemonSetPodCreateErrors, TestDaemonSetPodCreateExpectationsError.
#[tokio::test(start_paused = true)]
async fn creations_that_are_refused_are_tried_again() {
    let world = world(&["n1", "n2", "n3", "n4", "n5"]).await;
    world.refuse("POST", "/pods", 403, 2);
    world.create(&DaemonSet::TYPE, daemon_set()).await;
    world.settle().await;
    assert_eq!(world.pod_names().await.len(), 5);
    let refused = world
        .writes()
        .iter()
        .filter(|write| write.answer == 403)
        .count();
    assert_eq!(refused, 2);
    let events = world.events().await;
    assert!(
        events
            .iter()
            .any(|event| event.starts_with("Warning FailedCreate Error creating:"))
    );
}

// Upstream: TestSimpleDaemonSetUpdatesStatusError.
#[tokio::test(start_paused = true)]
async fn a_status_that_is_refused_is_written_later() {
    let world = world(&["n1"]).await;
    world.refuse("PUT", "/status", 500, 2);
    world.create(&DaemonSet::TYPE, daemon_set()).await;
    world.settle().await;
    let set = world.get(&DaemonSet::TYPE, "web").await.unwrap();
    assert_eq!(set["status"]["currentNumberScheduled"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ended_is_replaced() {
    let world = world(&["n1"]).await;
    world.create(&DaemonSet::TYPE, daemon_set()).await;
    world.settle().await;
    let name = world.pod_names().await[0].clone();
    world.pod_status(&name, json!({"phase": "Succeeded"})).await;
    world.settle().await;
    world.finish_deletions().await;
    world.settle().await;
    let events = world.events().await;
    let expected = format!(
        "Normal SucceededDaemonPod Found succeeded daemon pod default/{name} on node n1, will try to delete it"
    );
    assert!(events.contains(&expected), "{events:?}");
    assert!(world.get(&Pod::TYPE, &name).await.is_none());
    assert_eq!(world.pod_names().await.len(), 1);
}
