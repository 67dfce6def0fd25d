//! Caches that are behind our own writes. Upstream: endpointslice_tracker_test.go, TestSyncServiceStaleInformer.

use api::Resource;
use api::kinds::{EndpointSlice, Node, Pod, Service};
use runtime::{Change, Error, Next};
use serde_json::json;
use std::sync::Arc;
use testkit::{Lagging, World};

use super::super::controller;
use super::case::slice_of;
use super::world::{SETTINGS, node, pod, service};
use crate::service_endpoints::WriteTracker;
use crate::service_endpoints::slices::concerned_by_slice;

async fn lagging() -> Lagging {
    let world = World::new().await;
    let loops = controller(&world.context(), SETTINGS);
    node(&world, "n1", "").await;
    service(&world, json!({})).await;
    pod(&world, "a", "10.0.0.1").await;
    let lagging = Lagging {
        world,
        controller: loops.services,
    };
    lagging.see::<Node>("n1").await;
    lagging.see::<Service>("web").await;
    lagging.see::<Pod>("a").await;
    lagging
}

fn is_stale(result: &Result<Next, Error>) -> bool {
    matches!(result, Err(Error::Stale { .. }))
}

// Upstream: TestEndpointSliceTrackerStaleSlices, TestSyncServiceStaleInformer.
#[tokio::test(start_paused = true)]
async fn what_was_written_is_waited_for() {
    let lagging = lagging().await;
    lagging.reconcile("web").await.unwrap();
    assert_eq!(lagging.world.written(), "POST endpointslices");
    assert!(
        is_stale(&lagging.reconcile("web").await),
        "a second slice would be made"
    );
    assert_eq!(lagging.world.written(), "");
    let slices = lagging.world.list(&EndpointSlice::TYPE).await;
    let name = slices[0]["metadata"]["name"].as_str().unwrap();
    lagging.see::<EndpointSlice>(name).await;
    lagging.reconcile("web").await.unwrap();
    assert_eq!(lagging.world.written(), "");
}

// Upstream: TestEndpointSliceTrackerStaleSlices (deletion expected).
#[tokio::test(start_paused = true)]
async fn a_slice_that_was_deleted_is_not_counted_on() {
    let lagging = lagging().await;
    lagging.reconcile("web").await.unwrap();
    let slices = lagging.world.list(&EndpointSlice::TYPE).await;
    let mut again = slices[0].clone();
    let name = slices[0]["metadata"]["name"].as_str().unwrap();
    lagging.see::<EndpointSlice>(name).await;
    again["metadata"]["name"] = json!("web-twin");
    again["metadata"]["uid"] = json!(null);
    again["metadata"]["resourceVersion"] = json!(null);
    lagging.world.create(&EndpointSlice::TYPE, again).await;
    lagging.see::<EndpointSlice>("web-twin").await;
    lagging.world.written();
    lagging.reconcile("web").await.unwrap();
    assert!(
        lagging
            .world
            .written()
            .starts_with("DELETE endpointslices/web-")
    );
    assert!(is_stale(&lagging.reconcile("web").await));
    assert_eq!(lagging.world.written(), "");
}

// Upstream: TestSyncServiceEndpointSlicePendingDeletion, Test_dropEndpointSlicesPendingDeletion.
#[tokio::test(start_paused = true)]
async fn a_slice_that_is_on_its_way_out_does_not_count() {
    let lagging = lagging().await;
    lagging.reconcile("web").await.unwrap();
    let slices = lagging.world.list(&EndpointSlice::TYPE).await;
    let name = slices[0]["metadata"]["name"].as_str().unwrap();
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    lagging.world.patch(&EndpointSlice::TYPE, name, held).await;
    lagging.world.delete(&EndpointSlice::TYPE, name).await;
    lagging.see::<EndpointSlice>(name).await;
    lagging.world.written();
    lagging.reconcile("web").await.unwrap();
    assert_eq!(lagging.world.written(), "POST endpointslices");
}

fn slice(uid: &str, revision: u64, service: &str, manager: &str) -> Arc<EndpointSlice> {
    let labels = json!({"kubernetes.io/service-name": service, "endpointslice.kubernetes.io/managed-by": manager});
    let revision = revision.to_string();
    let metadata = json!({"name": "s", "namespace": "ns", "uid": uid, "resourceVersion": revision, "labels": labels});
    Arc::new(slice_of(&json!({"metadata": metadata})))
}

// Upstream: TestEndpointSliceTrackerUpdate, TestEndpointSliceTrackerDeletion, TestEndpointSliceTrackerDeleteService,
// TestOnEndpointSliceUpdate.
#[tokio::test(start_paused = true)]
async fn only_external_writes_to_a_slice_enqueue_its_service() {
    const OURS: &str = "endpointslice-controller.k8s.io";
    let write_tracker = WriteTracker::default();
    let enqueued = |change: Change<'_, EndpointSlice>| {
        let keys = concerned_by_slice(OURS, &write_tracker, &change);
        keys.iter()
            .map(ToString::to_string)
            .collect::<Vec<String>>()
            .join(" ")
    };
    let (one, two) = (slice("u", 1, "web", OURS), slice("u", 2, "web", OURS));
    assert_eq!(enqueued(Change::Added(&one)), "ns/web", "nobody knows it");
    write_tracker.written(one.metadata.uid.clone(), 1);
    assert_eq!(enqueued(Change::Added(&one)), "");
    assert_eq!(
        enqueued(Change::Updated {
            old: &one,
            new: &two
        }),
        "ns/web"
    );
    write_tracker.written(one.metadata.uid.clone(), 2);
    assert_eq!(
        enqueued(Change::Updated {
            old: &one,
            new: &two
        }),
        ""
    );
    let moved = slice("u", 2, "db", OURS);
    assert_eq!(
        enqueued(Change::Updated {
            old: &one,
            new: &moved
        }),
        "ns/web ns/db"
    );
    let given = slice("u", 2, "web", "somebody");
    assert_eq!(
        enqueued(Change::Updated {
            old: &one,
            new: &given
        }),
        "ns/web"
    );
    assert_eq!(
        enqueued(Change::Updated {
            old: &given,
            new: &one
        }),
        "ns/web"
    );
    let theirs = slice("v", 9, "web", "somebody");
    assert_eq!(enqueued(Change::Added(&theirs)), "");
    assert_eq!(enqueued(Change::Deleted(&theirs)), "");
    assert_eq!(
        enqueued(Change::Deleted(&two)),
        "ns/web",
        "we did not delete it"
    );
    write_tracker.deleting(&two.metadata.uid);
    assert!(write_tracker.is_deleted(&two.metadata) && write_tracker.is_own(&two.metadata));
    assert_eq!(enqueued(Change::Deleted(&two)), "");
    write_tracker.deleting(&two.metadata.uid);
    write_tracker.not_deleted(&two.metadata.uid);
    assert_eq!(
        enqueued(Change::Deleted(&two)),
        "ns/web",
        "it was not deleted by us after all"
    );
    write_tracker.deleting(&two.metadata.uid);
    tokio::time::sleep(std::time::Duration::from_secs(301)).await;
    assert!(
        !write_tracker.is_deleted(&two.metadata),
        "the news was lost"
    );
    let nameless = slice("w", 1, "", OURS);
    assert_eq!(enqueued(Change::Added(&nameless)), "");
}
