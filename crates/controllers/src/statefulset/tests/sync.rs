//! The whole controller against the embedded API server, on a virtual clock.

use std::time::Duration;

use api::kinds::ControllerRevision;
use expect_test::expect;

use super::*;
use crate::workload::StatusThrottle;

// Upstream: TestStatefulSetControl (CreatesPods, ScalesUp, ScalesDown), TestStatefulSetControlScaleDownDeleteError.
#[tokio::test(start_paused = true)]
async fn an_ordered_set_is_created_one_by_one_and_then_unchanged() {
    let world = world().await;
    world.create(&StatefulSet::TYPE, stateful_set(3)).await;
    world.wait_until_idle().await;
    expect![[r#"
        POST controllerrevisions
        POST pods
        PUT statefulsets/web/status ×2"#]]
    .assert_eq(&world.written());
    assert_eq!(world.pod_names().await, ["web-0"], "waits for the first");

    world.make_ready("web-0").await;
    world.wait_until_idle().await;
    assert_eq!(world.pod_names().await, ["web-0", "web-1"]);
    roll_out(&world).await;
    assert_eq!(world.pod_names().await, ["web-0", "web-1", "web-2"]);
    let set = world.get(&StatefulSet::TYPE, "web").await.unwrap();
    expect![[r#"{"availableReplicas":3,"collisionCount":0,"currentReplicas":3,"currentRevision":"web-HASH","observedGeneration":1,"readyReplicas":3,"replicas":3,"updateRevision":"web-HASH","updatedReplicas":3}"#]]
        .assert_eq(&without_hash(&set["status"]));
    world.written();

    scale(&world, 1).await;
    world.wait_until_idle().await;
    expect![[r#"
        DELETE pods/web-2
        PUT statefulsets/web/status
        DELETE pods/web-1
        PUT statefulsets/web/status ×2"#]]
    .assert_eq(&world.written());
    roll_out(&world).await;
    world.written();
    world.wait_until_idle().await;
    assert_eq!(
        world.written(),
        "",
        "a set that has converged writes nothing"
    );
}

/// Revision names with their hashes made readable.
fn without_hash(value: &Value) -> String {
    let text = value.to_string();
    let name = value["updateRevision"].as_str().unwrap();
    text.replace(name, "web-HASH")
}

#[tokio::test(start_paused = true)]
async fn a_pod_has_its_identity() {
    let world = world().await;
    let mut set = stateful_set(1);
    set["spec"]["ordinals"] = json!({"start": 5});
    set["metadata"]["annotations"] = json!({"note": "kept"});
    world.create(&StatefulSet::TYPE, set).await;
    world.wait_until_idle().await;
    let writes = world.writes();
    let set = world.get(&StatefulSet::TYPE, "web").await.unwrap();
    let revision = &writes[0].body;
    assert_eq!(revision["metadata"]["annotations"], json!({"note": "kept"}));
    assert_eq!(revision["revision"], 1);
    assert_eq!(
        revision["data"]["spec"]["template"]["spec"],
        set["spec"]["template"]["spec"]
    );
    let revision = revision["metadata"]["name"].as_str().unwrap();
    let mut expected_spec = set["spec"]["template"]["spec"].clone();
    expected_spec["hostname"] = json!("web-5");
    expected_spec["subdomain"] = json!("web");
    assert_eq!(
        writes[1].body,
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "web-5", "generateName": "web-", "namespace": "default",
                "labels": {
                    "app": "web",
                    "apps.kubernetes.io/pod-index": "5",
                    "controller-revision-hash": revision,
                    "statefulset.kubernetes.io/pod-name": "web-5",
                },
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web",
                    "uid": set["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": expected_spec,
        })
    );
    assert_eq!(
        world.events().await,
        ["Normal SuccessfulCreate Create Pod web-5 in StatefulSet web successful"]
    );
}

// Upstream: TestStatefulSetControl with burst.
#[tokio::test(start_paused = true)]
async fn a_parallel_set_does_not_wait() {
    let world = world().await;
    world
        .create(&StatefulSet::TYPE, parallel(stateful_set(5)))
        .await;
    world.wait_until_idle().await;
    assert_eq!(world.pod_names().await.len(), 5);
    roll_out(&world).await;
    scale(&world, 1).await;
    world.wait_until_idle().await;
    let deleted = world
        .writes()
        .iter()
        .filter(|write| write.method == "DELETE")
        .count();
    assert_eq!(deleted, 4);
    roll_out(&world).await;
    world.written();
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

// Upstream: TestStatefulSetControl (RecreatesFailedPod, RecreatesSucceededPod).
#[tokio::test(start_paused = true)]
async fn pods_that_ended_are_replaced_under_the_same_name() {
    let world = world().await;
    world.create(&StatefulSet::TYPE, stateful_set(1)).await;
    roll_out(&world).await;
    for phase in ["Failed", "Succeeded"] {
        let before = world.get(&Pod::TYPE, "web-0").await.unwrap();
        world.pod_status("web-0", json!({"phase": phase})).await;
        roll_out(&world).await;
        let after = world.get(&Pod::TYPE, "web-0").await.unwrap();
        assert_ne!(before["metadata"]["uid"], after["metadata"]["uid"]);
        assert_eq!(after["status"]["phase"], "Running");
    }
    assert!(world.events().await.contains(
        &"Normal SuccessfulDelete Delete Pod web-0 in StatefulSet web successful".into()
    ));
}

// Upstream: TestStatefulSetControllerAddPod, TestGetPodsForStatefulSetAdopt, TestAdoptOrphanRevisions.
#[tokio::test(start_paused = true)]
async fn adopts_by_name_and_labels_and_releases() {
    let world = world().await;
    let orphan = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "nginx"}]},
        })
    };
    for name in ["web-0", "other-0", "web-x"] {
        world.create(&Pod::TYPE, orphan(name)).await;
    }
    world.create(&StatefulSet::TYPE, stateful_set(1)).await;
    world.wait_until_idle().await;
    let owned = |pod: Value| !pod["metadata"]["ownerReferences"].is_null();
    for (name, adopted) in [("web-0", true), ("other-0", false), ("web-x", false)] {
        let pod = world.get(&Pod::TYPE, name).await.unwrap();
        assert_eq!(owned(pod), adopted, "{name}");
    }
    let adopted = world.get(&Pod::TYPE, "web-0").await.unwrap();
    world.make_ready("web-0").await;
    world.wait_until_idle().await;
    let replaced = world.get(&Pod::TYPE, "web-0").await.unwrap();
    assert_ne!(
        replaced["metadata"]["uid"], adopted["metadata"]["uid"],
        "an adopted pod has no revision: it is replaced"
    );
    roll_out(&world).await;
    let relabel = json!({"metadata": {"labels": {"app": "mine"}}});
    world.patch(&Pod::TYPE, "web-0", relabel).await;
    world.wait_until_idle().await;
    assert!(!owned(world.get(&Pod::TYPE, "web-0").await.unwrap()));
}

// Upstream: TestStatefulPodControlUpdatesIdentity, TestUpdateIdentity.
#[tokio::test(start_paused = true)]
async fn a_lost_label_comes_back() {
    let world = world().await;
    world.create(&StatefulSet::TYPE, stateful_set(1)).await;
    roll_out(&world).await;
    world.written();
    let label = "statefulset.kubernetes.io/pod-name";
    let patch = json!({"metadata": {"labels": {label: null}}});
    world.patch(&Pod::TYPE, "web-0", patch).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "PATCH pods/web-0");
    let pod = world.get(&Pod::TYPE, "web-0").await.unwrap();
    assert_eq!(pod["metadata"]["labels"][label], "web-0");
    assert!(world.events().await.contains(
        &"Normal SuccessfulUpdate Update Pod web-0 in StatefulSet web successful".into()
    ));
}

// Upstream: TestStatefulSetAvailability, TestStatefulSetAvailabilityCheck: time alone moves the set on.
#[tokio::test(start_paused = true)]
async fn the_next_pod_comes_when_the_last_has_been_ready_long_enough() {
    let world = world().await;
    let mut set = stateful_set(2);
    set["spec"]["minReadySeconds"] = json!(60);
    world.create(&StatefulSet::TYPE, set).await;
    world.wait_until_idle().await;
    world.make_ready("web-0").await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    let set = world.get(&StatefulSet::TYPE, "web").await.unwrap();
    assert_eq!(set["status"]["readyReplicas"], 1);
    assert_eq!(set["status"]["availableReplicas"], 0);
    assert_eq!(world.pod_names().await, ["web-0"]);
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(world.pod_names().await, ["web-0", "web-1"]);
    let set = world.get(&StatefulSet::TYPE, "web").await.unwrap();
    assert_eq!(set["status"]["availableReplicas"], 1);
}

// Upstream: TestStatefulSetControllerBlocksScaling, TestStatefulSetControllerRespectsTermination: a name is free only when its pod is gone.
#[tokio::test(start_paused = true)]
async fn waits_for_a_pod_that_is_being_deleted() {
    let world = world().await;
    world.create(&StatefulSet::TYPE, stateful_set(2)).await;
    roll_out(&world).await;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    world.patch(&Pod::TYPE, "web-0", hold).await;
    world.delete(&Pod::TYPE, "web-0").await;
    world.wait_until_idle().await;
    scale(&world, 3).await;
    world.written();
    world.wait_until_idle().await;
    assert_eq!(world.pod_names().await, ["web-0", "web-1"], "no web-2 yet");
    let free = json!({"metadata": {"finalizers": null}});
    world.patch(&Pod::TYPE, "web-0", free).await;
    roll_out(&world).await;
    assert_eq!(world.pod_names().await, ["web-0", "web-1", "web-2"]);
}

// Upstream: TestStatefulSetControllerDeletionTimestamp (the set is on its way out: only its status is kept up to date).
#[tokio::test(start_paused = true)]
async fn a_set_that_is_being_deleted_touches_no_pods() {
    let world = world().await;
    let mut set = stateful_set(2);
    set["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.create(&StatefulSet::TYPE, set).await;
    roll_out(&world).await;
    world.delete(&StatefulSet::TYPE, "web").await;
    world.delete(&Pod::TYPE, "web-1").await;
    world.written();
    world.wait_until_idle().await;
    world.finish_deletions().await;
    world.wait_until_idle().await;
    let written = world.written();
    assert!(
        !written.contains("pods"),
        "neither created nor deleted: {written}"
    );
    let set = world.get(&StatefulSet::TYPE, "web").await.unwrap();
    assert_eq!(set["status"]["replicas"], 1);
}

#[tokio::test(start_paused = true)]
async fn invariants_hold_for_a_settled_set() {
    let world = world().await;
    world.create(&StatefulSet::TYPE, stateful_set(2)).await;
    world.wait_until_idle().await;
    let look = || {
        let pods = world.informers.of::<Pod>().store().in_namespace("default");
        let revisions = world.informers.of::<ControllerRevision>();
        let sets = world.informers.of::<StatefulSet>();
        let set = sets.store().find("default", "web").unwrap();
        let revisions = revisions.store().in_namespace("default");
        super::super::safe(&set, &pods).unwrap();
        super::super::in_order(&set, &pods).unwrap();
        super::super::converged(&set, &pods, &revisions, world.clock.now())
    };
    expect!["default/web has pods {0} and wants 0..2"].assert_eq(&look().unwrap_err());
    roll_out(&world).await;
    look().unwrap();
}

#[tokio::test(start_paused = true)]
async fn counts_that_change_together_are_written_together() {
    let world = world().await;
    world
        .create(&StatefulSet::TYPE, parallel(stateful_set(20)))
        .await;
    world.wait_until_idle().await;
    world.written();
    for ordinal in 0..20 {
        world.make_ready(&format!("web-{ordinal}")).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    world.wait_until_idle().await;
    let writes = world.writes();
    assert!(
        (2..=4).contains(&writes.len()),
        "one in 100 ms, for 200 ms: {}",
        writes.len()
    );
    let set = world.get(&StatefulSet::TYPE, "web").await.unwrap();
    assert_eq!(set["status"]["readyReplicas"], 20);
}

/// A pod that is gone is replaced when it is the turn of the counts; a smaller set, or one that waits for each of its
/// pods, does so at once.
#[tokio::test(start_paused = true)]
async fn a_large_parallel_set_rests_after_its_counts_were_written() {
    let large = StatusThrottle::LARGE;
    for (size, at_once) in [
        (large, ""),
        (large - 1, "POST pods\nPUT statefulsets/web/status"),
    ] {
        let world = world().await;
        let set = parallel(stateful_set(size));
        world.create(&StatefulSet::TYPE, set).await;
        world.wait_until_idle().await;
        world.make_ready("web-7").await;
        let moment = Duration::from_millis(20);
        tokio::time::sleep(moment).await;
        world.written();

        world.delete(&Pod::TYPE, "web-7").await;
        tokio::time::sleep(moment).await;
        assert_eq!(world.written(), at_once);
        tokio::time::sleep(StatusThrottle::LENGTH).await;
        let pods = world.pod_names().await;
        assert_eq!(i32::try_from(pods.len()), Ok(size));
    }
}
