//! The whole controller against the embedded API server, on a virtual clock.

use std::time::Duration;

use api::Resource;
use api::kinds::{Pod, ReplicaSet, ReplicationController};
use expect_test::expect;
use runtime::Stop;
use runtime::informer::StreamOptions;
use serde_json::{Value, json};
use testkit::World;

use super::super::{ReplicaOwner, controller};
use crate::workload::StatusThrottle;

pub(super) async fn world<K: ReplicaOwner>() -> World {
    let mut world = World::new().await;
    start::<K>(&mut world).await;
    world
}

async fn start<K: ReplicaOwner>(world: &mut World) {
    let running = controller::<K>(&world.context(), 5).run(world.stop());
    world.run(running);
    world.start().await;
}

pub(super) fn replica_set(replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    })
}

pub(super) fn orphan(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "nginx"}]},
    })
}

#[tokio::test(start_paused = true)]
async fn scales_up_and_down_and_then_rests() {
    let world = world::<ReplicaSet>().await;
    world.create(&ReplicaSet::TYPE, replica_set(3)).await;
    world.wait_until_idle().await;
    expect![[r#"
        POST pods ×3
        PUT replicasets/web/status"#]]
    .assert_eq(&world.written());

    world.make_all_ready().await;
    world.wait_until_idle().await;
    let set = world.get(&ReplicaSet::TYPE, "web").await.unwrap();
    expect![[r#"{"availableReplicas":3,"fullyLabeledReplicas":3,"observedGeneration":1,"readyReplicas":3,"replicas":3,"terminatingReplicas":0}"#]]
        .assert_eq(&set["status"].to_string());
    world.written();

    world
        .patch(&ReplicaSet::TYPE, "web", json!({"spec": {"replicas": 1}}))
        .await;
    world.wait_until_idle().await;
    let deleted = world
        .writes()
        .iter()
        .filter(|write| write.method == "DELETE")
        .count();
    assert_eq!(deleted, 2);

    world.wait_until_idle().await;
    assert_eq!(
        world.written(),
        "",
        "a set that has converged writes nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_created_as_the_template_says() {
    let world = world::<ReplicaSet>().await;
    world.create(&ReplicaSet::TYPE, replica_set(1)).await;
    world.wait_until_idle().await;
    let writes = world.writes();
    let body = &writes[0].body;
    assert_eq!(body["metadata"]["generateName"], "web-");
    assert_eq!(body["metadata"]["labels"], json!({"app": "web"}));
    let owner = &body["metadata"]["ownerReferences"][0];
    assert_eq!(owner["kind"], "ReplicaSet");
    assert_eq!(owner["controller"], true);
    let set = world.get(&ReplicaSet::TYPE, "web").await.unwrap();
    assert_eq!(
        body["spec"], set["spec"]["template"]["spec"],
        "the spec passes through"
    );
    let pods = world.pod_names().await;
    assert_eq!(
        world.events().await,
        [format!("Normal SuccessfulCreate Created pod: {}", pods[0])]
    );
}

// Upstream: TestUpdatePods, TestPodControllerLookup.
#[tokio::test(start_paused = true)]
async fn adopts_orphans_and_releases_what_it_no_longer_selects() {
    let world = world::<ReplicaSet>().await;
    world.create(&Pod::TYPE, orphan("stray")).await;
    world.create(&ReplicaSet::TYPE, replica_set(1)).await;
    world.wait_until_idle().await;
    let set = world.get(&ReplicaSet::TYPE, "web").await.unwrap();
    let stray = world.get(&Pod::TYPE, "stray").await.unwrap();
    let (set, stray) = (&set["metadata"]["uid"], &stray["metadata"]["uid"]);
    let writes = world.writes();
    assert_eq!(writes[0].to_string(), "PATCH pods/stray");
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": set,
        "controller": true, "blockOwnerDeletion": true,
    });
    let adopts = json!({"metadata": {"uid": stray, "ownerReferences": [owner]}});
    assert_eq!(writes[0].body, adopts);
    assert_eq!(writes[1].to_string(), "PUT replicasets/web/status");
    assert_eq!(writes.len(), 2);

    world
        .patch(
            &Pod::TYPE,
            "stray",
            json!({"metadata": {"labels": {"app": "other"}}}),
        )
        .await;
    world.wait_until_idle().await;
    let owner = json!({"$patch": "delete", "uid": set});
    let releases = json!({"metadata": {"uid": stray, "ownerReferences": [owner]}});
    assert_eq!(world.writes()[0].body, releases);
    let stray = world.get(&Pod::TYPE, "stray").await.unwrap();
    assert_eq!(stray["metadata"]["ownerReferences"], Value::Null);
    assert_eq!(
        world.pod_names().await.len(),
        2,
        "one of its own in place of the released one"
    );
}

// Upstream: TestDeletionTimestamp.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_being_deleted_is_replaced_at_once() {
    let world = world::<ReplicaSet>().await;
    world.create(&ReplicaSet::TYPE, replica_set(1)).await;
    world.wait_until_idle().await;
    let first = world.pod_names().await.remove(0);
    world
        .patch(
            &Pod::TYPE,
            &first,
            json!({"metadata": {"finalizers": ["example.com/hold"]}}),
        )
        .await;
    world.delete(&Pod::TYPE, &first).await;
    world.wait_until_idle().await;
    assert_eq!(world.pod_names().await.len(), 2);
    let set = world.get(&ReplicaSet::TYPE, "web").await.unwrap();
    assert_eq!(set["status"]["replicas"], 1);
    assert_eq!(set["status"]["terminatingReplicas"], 1);
}

/// Both wait for the turn of the counts; a small one would replace the pod at once.
#[tokio::test(start_paused = true)]
async fn a_large_set_rests_after_its_counts_were_written_unless_it_is_asked_for_more() {
    let world = world::<ReplicaSet>().await;
    world
        .create(&ReplicaSet::TYPE, replica_set(StatusThrottle::LARGE))
        .await;
    world.wait_until_idle().await;
    let first = world.pod_names().await.remove(0);
    world.make_ready(&first).await;
    let moment = Duration::from_millis(20);
    tokio::time::sleep(moment).await;
    assert_eq!(
        world.written(),
        "POST pods ×200\nPUT replicasets/web/status ×2"
    );

    world.delete(&Pod::TYPE, &first).await;
    tokio::time::sleep(moment).await;
    assert_eq!(world.written(), "", "it rests");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(world.written(), "POST pods\nPUT replicasets/web/status");

    world
        .patch(&ReplicaSet::TYPE, "web", json!({"spec": {"replicas": 201}}))
        .await;
    tokio::time::sleep(moment).await;
    assert!(world.written().starts_with("POST pods"), "asked for more");
}

#[tokio::test(start_paused = true)]
async fn a_failed_pod_is_replaced() {
    let world = world::<ReplicaSet>().await;
    world.create(&ReplicaSet::TYPE, replica_set(1)).await;
    world.wait_until_idle().await;
    let first = world.pod_names().await.remove(0);
    world.make_failed(&first).await;
    world.wait_until_idle().await;
    assert_eq!(world.pod_names().await.len(), 2);
}

// Upstream: TestReplicaSetAvailabilityCheck and the min-ready cases of TestUpdatePods.
#[tokio::test(start_paused = true)]
async fn availability_comes_with_time_alone() {
    let world = world::<ReplicaSet>().await;
    let mut set = replica_set(1);
    set["spec"]["minReadySeconds"] = json!(60);
    world.create(&ReplicaSet::TYPE, set).await;
    world.wait_until_idle().await;
    world.make_all_ready().await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let status = |set: Value| {
        (
            set["status"]["readyReplicas"].clone(),
            set["status"]["availableReplicas"].clone(),
        )
    };
    assert_eq!(
        status(world.get(&ReplicaSet::TYPE, "web").await.unwrap()),
        (json!(1), Value::Null)
    );
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(
        status(world.get(&ReplicaSet::TYPE, "web").await.unwrap()),
        (json!(1), json!(1))
    );
}

/// A new process knows nothing but what the API server tells it.
#[tokio::test(start_paused = true)]
async fn a_restarted_controller_makes_up_for_what_is_missing_and_no_more() {
    let mut world = world::<ReplicaSet>().await;
    world.create(&ReplicaSet::TYPE, replica_set(20)).await;
    world.wait_until_idle().await;
    world.shut_down();
    for name in world.pod_names().await.iter().take(5) {
        world.delete(&Pod::TYPE, name).await;
    }
    world.finish_deletions().await;
    world.writes();

    let stream = StreamOptions {
        rng: world.rng.fork(),
        resync: None,
    };
    let informers = std::sync::Arc::new(runtime::Informers::new(world.client.clone(), stream));
    let (_stopper, stop) = Stop::new();
    let restarted = controller::<ReplicaSet>(
        &runtime::Context {
            informers: informers.clone(),
            ..world.context()
        },
        5,
    );
    let _running = runtime::spawn(restarted.run(stop.clone()));
    informers.start(&stop);
    world.wait_until_idle().await;
    let created = world
        .writes()
        .iter()
        .filter(|write| write.method == "POST")
        .count();
    assert_eq!((created, world.pod_names().await.len()), (5, 20));
}

// Upstream: TestRSSyncExpectations, TestWatchControllers of the replication package.
#[tokio::test(start_paused = true)]
async fn replication_controllers_work_the_same_way() {
    let world = world::<ReplicationController>().await;
    let rc = json!({
        "apiVersion": "v1", "kind": "ReplicationController",
        "metadata": {"name": "old"},
        "spec": {
            "replicas": 2, "selector": {"app": "old"},
            "template": {
                "metadata": {"labels": {"app": "old"}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    });
    world.create(&ReplicationController::TYPE, rc).await;
    world.wait_until_idle().await;
    expect![[r#"
        POST pods ×2
        PUT replicationcontrollers/old/status"#]]
    .assert_eq(&world.written());
    let rc = world
        .get(&ReplicationController::TYPE, "old")
        .await
        .unwrap();
    assert_eq!(rc["status"]["replicas"], 2);
    assert_eq!(rc["status"]["terminatingReplicas"], Value::Null);
}
