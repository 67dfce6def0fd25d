//! What a set does when it is refused, deleted, overlapped or recreated.

use std::time::Duration;

use api::Resource;
use api::kinds::{Namespace, Pod, ReplicaSet};
use client::{DeleteOptions, Propagation};
use serde_json::{Value, json};

use super::sync::{orphan, replica_set, world};

fn names(pods: &[Value], owner: &str) -> usize {
    let owned = |pod: &&Value| pod["metadata"]["ownerReferences"][0]["name"] == owner;
    pods.iter().filter(owned).count()
}

// Upstream: TestSyncReplicaSetCreateFailures.
#[tokio::test(start_paused = true)]
async fn a_refused_batch_stops_the_slow_start() {
    let world = world::<ReplicaSet>().await;
    world.refuse("POST", "/pods", 500, 1);
    world.create(&ReplicaSet::TYPE, replica_set(30)).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    let writes: Vec<String> = world
        .writes()
        .iter()
        .take(2)
        .map(ToString::to_string)
        .collect();
    // One refused request, not thirty; then the failure is shown.
    assert_eq!(writes, ["POST pods -> 500", "PUT replicasets/web/status"]);
    world.wait_until_idle().await;
    assert_eq!(
        world.pod_names().await.len(),
        30,
        "tried again, and not one too many"
    );
}

// Upstream: TestControllerUpdateStatusWithFailure.
#[tokio::test(start_paused = true)]
async fn a_failure_shows_in_the_status_until_it_is_over() {
    let world = world::<ReplicaSet>().await;
    world.refuse("POST", "/pods", 403, 3);
    world.create(&ReplicaSet::TYPE, replica_set(1)).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    let set = world.get(&ReplicaSet::TYPE, "web").await.unwrap();
    let condition = &set["status"]["conditions"][0];
    assert_eq!(condition["type"], "ReplicaFailure");
    assert_eq!(condition["reason"], "FailedCreate");
    world.wait_until_idle().await;
    let set = world.get(&ReplicaSet::TYPE, "web").await.unwrap();
    assert_eq!(set["status"]["conditions"], Value::Null);
    assert_eq!(set["status"]["replicas"], 1);
}

// Upstream: TestControllerUpdateRequeue.
#[tokio::test(start_paused = true)]
async fn a_refused_status_is_written_again() {
    for code in [409, 500] {
        let world = world::<ReplicaSet>().await;
        world.refuse("PUT", "/status", code, 3);
        world.create(&ReplicaSet::TYPE, replica_set(2)).await;
        world.wait_until_idle().await;
        let set = world.get(&ReplicaSet::TYPE, "web").await.unwrap();
        assert_eq!(set["status"]["replicas"], 2, "after {code}");
    }
}

// Upstream: TestDoNotAdoptOrCreateIfBeingDeleted.
#[tokio::test(start_paused = true)]
async fn a_set_that_is_being_deleted_neither_creates_nor_adopts() {
    let world = world::<ReplicaSet>().await;
    world.create(&ReplicaSet::TYPE, replica_set(1)).await;
    world.wait_until_idle().await;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    world.patch(&ReplicaSet::TYPE, "web", hold).await;
    let background = DeleteOptions {
        propagation: Some(Propagation::Background),
        ..DeleteOptions::default()
    };
    world
        .delete_with(&ReplicaSet::TYPE, "web", &background)
        .await;
    let first = world.pod_names().await.remove(0);
    world.make_failed(&first).await;
    world.create(&Pod::TYPE, orphan("stray")).await;
    world.wait_until_idle().await;
    let pods = world.list(&Pod::TYPE).await;
    assert_eq!((pods.len(), names(&pods, "web")), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn an_adoption_that_the_server_refuses_is_no_adoption() {
    let world = world::<ReplicaSet>().await;
    world.create(&Pod::TYPE, orphan("stray")).await;
    world.refuse("PATCH", "/pods/stray", 404, 1);
    world.create(&ReplicaSet::TYPE, replica_set(1)).await;
    world.wait_until_idle().await;
    let pods = world.list(&Pod::TYPE).await;
    assert_eq!(
        names(&pods, "web"),
        1,
        "exactly one pod is its own: {pods:?}"
    );
}

// Upstream: TestPatchPodFails.
#[tokio::test(start_paused = true)]
async fn a_failed_adoption_creates_nothing_and_is_tried_again() {
    let world = world::<ReplicaSet>().await;
    world.create(&Pod::TYPE, orphan("stray")).await;
    world.refuse("PATCH", "/pods/stray", 500, 2);
    world.create(&ReplicaSet::TYPE, replica_set(1)).await;
    world.wait_until_idle().await;
    assert_eq!(world.pod_names().await, ["stray"]);
    assert_eq!(names(&world.list(&Pod::TYPE).await, "web"), 1);
}

// Upstream: TestDoNotPatchPodWithOtherControlRef, TestOverlappingRSs.
#[tokio::test(start_paused = true)]
async fn sets_that_overlap_leave_each_others_pods_alone() {
    let world = world::<ReplicaSet>().await;
    let mut other = replica_set(2);
    other["metadata"]["name"] = json!("other");
    world.create(&ReplicaSet::TYPE, replica_set(3)).await;
    world.create(&ReplicaSet::TYPE, other).await;
    world.wait_until_idle().await;
    let pods = world.list(&Pod::TYPE).await;
    assert_eq!((names(&pods, "web"), names(&pods, "other")), (3, 2));
    let patched = world.writes().iter().any(|write| write.method == "PATCH");
    assert!(!patched, "nobody's owner was changed");
}

// Upstream: TestExpectationsOnRecreate, TestDeleteControllerAndExpectations.
#[tokio::test(start_paused = true)]
async fn a_set_made_anew_starts_clean() {
    let world = world::<ReplicaSet>().await;
    world.create(&ReplicaSet::TYPE, replica_set(2)).await;
    world.wait_until_idle().await;
    let orphans = DeleteOptions {
        propagation: Some(Propagation::Background),
        ..DeleteOptions::default()
    };
    world.delete_with(&ReplicaSet::TYPE, "web", &orphans).await;
    world.create(&ReplicaSet::TYPE, replica_set(2)).await;
    world.wait_until_idle().await;
    let set = world.get(&ReplicaSet::TYPE, "web").await.unwrap();
    let uid = &set["metadata"]["uid"];
    let pods = world.list(&Pod::TYPE).await;
    let own = pods
        .iter()
        .filter(|pod| pod["metadata"]["ownerReferences"][0]["uid"] == *uid);
    assert_eq!(own.count(), 2);
}

// Upstream: TestSyncReplicaSetDormancy, TestRSSyncExpectations.
#[tokio::test(start_paused = true)]
async fn nothing_is_created_twice_while_the_caches_lag() {
    let world = world::<ReplicaSet>().await;
    world.create(&ReplicaSet::TYPE, replica_set(5)).await;
    // Enqueue the set repeatedly while its own pods are on their way into the cache.
    for number in 0..20 {
        let label = json!({"metadata": {"labels": {"sync": number.to_string()}}});
        world.patch(&ReplicaSet::TYPE, "web", label).await;
        tokio::task::yield_now().await;
    }
    world.wait_until_idle().await;
    assert_eq!(world.pod_names().await.len(), 5);
    let created = world
        .writes()
        .iter()
        .filter(|write| write.method == "POST")
        .count();
    assert_eq!(created, 5);
}

/// Nothing can be created in such a namespace: one request a look, no failure to show, and an end.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_deleted_is_no_failure() {
    let world = world::<ReplicaSet>().await;
    let doomed = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "doomed"}});
    world.create(&Namespace::TYPE, doomed).await;
    let user = &world.user;
    let empty = replica_set(0).to_string();
    user.create(&ReplicaSet::TYPE, "doomed", empty)
        .await
        .unwrap();
    world.delete(&Namespace::TYPE, "doomed").await;
    world.wait_until_idle().await;
    world.writes();
    let more = client::Patch::Merge(r#"{"spec":{"replicas":30}}"#.into());
    user.patch(&ReplicaSet::TYPE, "doomed", "web", None, &more)
        .await
        .unwrap();
    world.wait_until_idle().await;
    // Its own status makes it look once more.
    assert_eq!(
        world.written(),
        "POST pods -> 403\nPUT replicasets/web/status\nPOST pods -> 403"
    );
    let set = user.get(&ReplicaSet::TYPE, "doomed", "web").await.unwrap();
    let set: Value = serde_json::from_slice(&set).unwrap();
    assert_eq!(set["status"]["conditions"], Value::Null);
    assert_eq!(set["status"]["observedGeneration"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_refused_deletion_is_tried_again() {
    for code in [409, 500] {
        let world = world::<ReplicaSet>().await;
        world.create(&ReplicaSet::TYPE, replica_set(2)).await;
        world.wait_until_idle().await;
        for name in world.pod_names().await {
            world.refuse("DELETE", &format!("/pods/{name}"), code, 1);
        }
        world
            .patch(&ReplicaSet::TYPE, "web", json!({"spec": {"replicas": 0}}))
            .await;
        world.wait_until_idle().await;
        assert!(world.pod_names().await.is_empty(), "{code}");
        let set = world.get(&ReplicaSet::TYPE, "web").await.unwrap();
        assert_eq!(
            set["status"]["conditions"],
            Value::Null,
            "{code}: the failure is over"
        );
    }
}
