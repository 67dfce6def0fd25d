//! Caches that lag behind, or are filled by hand.

use std::sync::Arc;

use api::kinds::{Pod, ReplicaSet};
use api::{Gate, Gates, Resource};
use runtime::Store;
use runtime::triggers::by_controller;
use serde_json::json;
use testkit::{Lagging, World};

use super::super::{controller, snapshot};
use super::sync::{orphan, replica_set};
use runtime::Context;

async fn lagging() -> Lagging {
    lagging_with(Gates::default()).await
}

async fn lagging_with(gates: Gates) -> Lagging {
    lagging_of(2, gates).await
}

async fn lagging_of(replicas: i32, gates: Gates) -> Lagging {
    let build = |context: &Context| controller::<ReplicaSet>(context, 1);
    crate::lagging::<ReplicaSet>(replica_set(replicas), gates, build).await
}

#[tokio::test(start_paused = true)]
async fn a_set_waits_until_the_caches_show_its_writes() {
    let lagging = lagging().await;
    lagging.reconcile("web").await.unwrap();
    assert_eq!(lagging.world.written(), "POST pods ×2");
    let error = lagging.reconcile("web").await.unwrap_err();
    assert!(matches!(error, runtime::Error::Stale { .. }), "{error}");
    assert_eq!(lagging.world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_expectations_keep_it_from_more_pods() {
    let gate = Gate::StaleControllerConsistencyReplicaSet;
    let lagging = lagging_with(Gates::default().with(gate, false)).await;
    lagging.reconcile("web").await.unwrap();
    assert_eq!(lagging.world.written(), "POST pods ×2");
    lagging.reconcile("web").await.unwrap();
    let written = lagging.world.written();
    assert!(!written.contains("POST pods"), "{written}");
}

// Upstream: TestControllerUpdateStatusWithFailure. The generation is the one that was acted on, not the one that the
// server has by now.
#[tokio::test(start_paused = true)]
async fn a_status_goes_on_top_of_what_others_wrote_meanwhile_and_claims_to_have_seen_no_more() {
    let lagging = lagging_of(0, Gates::default()).await;
    let world = &lagging.world;
    let resized = json!({"spec": {"replicas": 3}});
    world.patch(&ReplicaSet::TYPE, "web", resized).await;
    lagging.reconcile("web").await.unwrap();
    assert_eq!(
        world.written(),
        "PUT replicasets/web/status -> 409\nPUT replicasets/web/status"
    );
    let set = world.get(&ReplicaSet::TYPE, "web").await.unwrap();
    assert_eq!(set["metadata"]["generation"], 2);
    assert_eq!(set["status"]["observedGeneration"], 1);
    assert_eq!(set["spec"]["replicas"], 3, "and changes nothing else");
}

// Upstream: TestControllerBurstReplicas. The second sync waits until all of the first was seen.
#[tokio::test(start_paused = true)]
async fn more_than_500_pods_come_and_go_in_two_rounds() {
    let gate = Gate::StaleControllerConsistencyReplicaSet;
    let lagging = lagging_of(510, Gates::default().with(gate, false)).await;
    let world = &lagging.world;
    lagging.reconcile("web").await.unwrap();
    assert_eq!(world.written(), "POST pods ×500");
    lagging.reconcile("web").await.unwrap();
    let written = world.written();
    assert!(!written.contains("POST"), "none was seen yet: {written}");
    world.start().await;
    lagging.reconcile("web").await.unwrap();
    assert_eq!(world.written(), "POST pods ×10");

    let none = json!({"spec": {"replicas": 0}});
    world.patch(&ReplicaSet::TYPE, "web", none).await;
    for left in [10, 0] {
        world.wait_until_idle().await;
        lagging.reconcile("web").await.unwrap();
        assert_eq!(world.pod_names().await.len(), left);
    }
}

// Upstream: TestPatchPodCallbacks.
#[tokio::test(start_paused = true)]
async fn an_adoption_is_waited_for_like_a_creation() {
    let lagging = lagging().await;
    for name in ["one", "two"] {
        lagging.world.create(&Pod::TYPE, orphan(name)).await;
        lagging.see::<Pod>(name).await;
    }
    lagging.reconcile("web").await.unwrap();
    let adopted = lagging.world.written();
    assert!(
        adopted.starts_with("PATCH pods/one\nPATCH pods/two"),
        "{adopted}"
    );
    lagging.see::<ReplicaSet>("web").await;
    let error = lagging.reconcile("web").await.unwrap_err();
    assert!(matches!(error, runtime::Error::Stale { .. }), "{error}");
    for name in ["one", "two"] {
        lagging.see::<Pod>(name).await;
    }
    lagging.reconcile("web").await.unwrap();
    assert_eq!(lagging.world.written(), "");
}

// Upstream: TestDeletePodsAllowsMissing.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_already_counts_as_deleted() {
    let lagging = lagging().await;
    let world = &lagging.world;
    for name in ["one", "two", "three"] {
        world.create(&Pod::TYPE, orphan(name)).await;
        lagging.see::<Pod>(name).await;
        world.refuse("DELETE", &format!("/pods/{name}"), 404, 1);
    }
    lagging.reconcile("web").await.unwrap();
    let written = world.written();
    assert!(
        written.contains("DELETE pods/") && written.contains("-> 404"),
        "{written}"
    );
    world.wait_until_idle().await;
    let events = world.events().await;
    assert!(events.is_empty(), "{events:?}");
}

// Upstream: TestDoNotAdoptOrCreateIfBeingDeletedRace.
#[tokio::test(start_paused = true)]
async fn a_set_that_was_deleted_meanwhile_neither_adopts_nor_creates() {
    let lagging = lagging().await;
    lagging.world.create(&Pod::TYPE, orphan("stray")).await;
    lagging.see::<Pod>("stray").await;
    lagging.world.delete(&ReplicaSet::TYPE, "web").await;
    let error = lagging.reconcile("web").await.unwrap_err().to_string();
    assert!(error.contains("has just been deleted at"), "{error}");
    assert_eq!(lagging.world.written(), "");
}

// Upstream: TestExpectationsOnRecreate, TestDeleteControllerAndExpectations.
#[tokio::test(start_paused = true)]
async fn nothing_is_expected_of_a_recreated_set() {
    let lagging = lagging().await;
    lagging.reconcile("web").await.unwrap();
    let world = &lagging.world;
    assert_eq!(world.written(), "POST pods ×2");
    let free = json!({"metadata": {"finalizers": null}});
    world.patch(&ReplicaSet::TYPE, "web", free).await;
    world.delete(&ReplicaSet::TYPE, "web").await;
    world.create(&ReplicaSet::TYPE, replica_set(2)).await;
    // The caches see the old set go and the new one come, and the pods of the old one.
    world.start().await;
    lagging.reconcile("web").await.unwrap();
    assert_eq!(world.written(), "POST pods ×2", "its own, at once");
}

#[tokio::test(start_paused = true)]
async fn terminating_pods_are_counted_behind_their_gate() {
    for (on, expected) in [(true, json!(1)), (false, json!(null))] {
        let mut world = World::new().await;
        let gate = Gate::DeploymentReplicaSetTerminatingReplicas;
        let context = Context {
            gates: Gates::default().with(gate, on),
            ..world.context()
        };
        let running = controller::<ReplicaSet>(&context, 1).run(world.stop());
        world.run(running);
        world.start().await;
        world.create(&ReplicaSet::TYPE, replica_set(1)).await;
        world.wait_until_idle().await;
        let pod = world.pod_names().await.remove(0);
        let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
        world.patch(&Pod::TYPE, &pod, hold).await;
        world.delete(&Pod::TYPE, &pod).await;
        world.wait_until_idle().await;
        let set = world.get(&ReplicaSet::TYPE, "web").await.unwrap();
        assert_eq!(set["status"]["terminatingReplicas"], expected, "gate {on}");
    }
}

/// `name owner [deleted]`, and which of the pods `name owner app` are related to a set.
fn check_related(sets: &[&str], pods: &[&str], set: &str, expected: &[&str]) {
    let (held_sets, held_pods) = (Store::<ReplicaSet>::new(), Store::<Pod>::new());
    held_sets.add_index(&by_controller());
    held_pods.add_index(&by_controller());
    let owners = |uid: &str| match uid {
        "-" => json!([]),
        uid => json!([{"uid": uid, "kind": "K", "name": uid, "controller": true}]),
    };
    for text in sets {
        let words: Vec<&str> = text.split(' ').collect();
        let mut set = json!({
            "metadata": {"name": words[0], "namespace": "default", "uid": words[0], "ownerReferences": owners(words[1])},
            "spec": {"selector": {"matchLabels": {"app": words[0]}}},
        });
        if words.get(2) == Some(&"deleted") {
            set["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
        }
        let set = ReplicaSet::decode(set.to_string().as_bytes()).unwrap();
        held_sets.put(Arc::new(set));
    }
    for text in pods {
        let words: Vec<&str> = text.split(' ').collect();
        let pod = json!({"metadata": {
            "name": words[0], "namespace": words.get(3).unwrap_or(&"default"), "uid": words[0],
            "labels": {"app": words[2]}, "ownerReferences": owners(words[1]),
        }});
        let pod = Pod::decode(pod.to_string().as_bytes()).unwrap();
        held_pods.put(Arc::new(pod));
    }
    let set = held_sets.find("default", set).unwrap();
    let related = snapshot::related(&*set, &held_sets, &held_pods);
    let names: Vec<&str> = related.iter().map(|pod| &*pod.metadata.name).collect();
    assert_eq!(names, expected);
}

// Upstream: TestGetReplicaSetsWithSameController, TestRelatedPodsLookup.
#[test]
fn pods_of_the_same_workload_are_related() {
    check_related(
        &["dying d3 deleted", "other d2"],
        &["p dying dying"],
        "dying",
        &["p"],
    );
    let pods = ["p1 a a", "p2 a a", "p3 b b", "p4 other other"];
    check_related(&["a d1", "other d2"], &pods, "a", &["p1", "p2"]);
    check_related(
        &["a d1", "b d1", "other d2"],
        &pods,
        "a",
        &["p1", "p2", "p3"],
    );
    check_related(&["a -", "b -"], &pods, "a", &[]);
}

// Upstream: TestFilterPodsByOwner, and TestClaimedPodFiltering for what a selector leaves of them.
#[test]
fn candidates_are_own_pods_and_orphans_of_the_namespace() {
    let pods = [
        "own a a",
        "own-unselected a x",
        "orphan - a",
        "orphan-elsewhere - a shop",
        "of-another b a",
    ];
    check_related(&["a d1"], &pods, "a", &["orphan", "own"]);
}
