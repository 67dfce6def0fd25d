//! Caches that lag behind: filled by hand here, and never by a stream.

use testkit::Lagging;

use super::*;

/// A controller that has seen the set and nothing since.
async fn lagging(gates: Gates) -> Lagging {
    lagging_with(stateful_set(1), gates).await
}

async fn lagging_with(set: Value, gates: Gates) -> Lagging {
    let build = |context: &Context| controller(context, 1, &Options::default());
    crate::lagging::<StatefulSet>(set, gates, build).await
}

// Upstream: TestStatefulPodControlConsistencyStore, TestStatefulSetStatusUpdaterConsistencyStore.
#[tokio::test(start_paused = true)]
async fn a_set_waits_until_the_caches_show_its_writes() {
    let lagging = lagging(Gates::default()).await;
    lagging.reconcile("web").await.unwrap();
    assert_eq!(
        lagging.world.written(),
        "POST controllerrevisions\nPOST pods\nPUT statefulsets/web/status"
    );
    let error = lagging.reconcile("web").await.unwrap_err();
    assert!(matches!(error, runtime::Error::Stale { .. }), "{error}");
    assert_eq!(lagging.world.written(), "");
}

// Upstream: TestStatefulPodControlConsistencyStore: of each kind that it writes.
#[tokio::test(start_paused = true)]
async fn every_kind_that_it_wrote_is_waited_for() {
    let lagging = lagging_with(
        with_claims(stateful_set(1), "Retain", "Delete"),
        Gates::default(),
    )
    .await;
    lagging.reconcile("web").await.unwrap();
    lagging.world.written();
    let revisions = lagging.world.list(&ControllerRevision::TYPE).await;
    let revision = revisions[0]["metadata"]["name"].as_str().unwrap();
    let behind = async || match lagging.reconcile("web").await {
        Err(runtime::Error::Stale { resource }) => resource,
        other => format!("{other:?}"),
    };
    assert_eq!(behind().await, "statefulsets");
    lagging.see::<StatefulSet>("web").await;
    assert_eq!(behind().await, "pods");
    lagging.see::<Pod>("web-0").await;
    assert_eq!(behind().await, "persistentvolumeclaims");
    lagging.see::<PersistentVolumeClaim>("data-web-0").await;
    assert_eq!(behind().await, "controllerrevisions");
    lagging.see::<ControllerRevision>(revision).await;
    lagging.reconcile("web").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_it_runs_into_its_own_pod() {
    let gate = Gate::StaleControllerConsistencyStatefulSet;
    let lagging = lagging(Gates::default().with(gate, false)).await;
    lagging.reconcile("web").await.unwrap();
    lagging.world.written();
    assert!(lagging.reconcile("web").await.is_err());
    let written = lagging.world.written();
    assert!(written.contains("POST pods -> 409"), "{written}");
}

// Upstream: TestStatefulSetControllerDeletionTimestampRace, TestGetPodsForStatefulSetAdopt.
#[tokio::test(start_paused = true)]
async fn a_set_that_was_deleted_meanwhile_adopts_nothing() {
    let lagging = lagging(Gates::default()).await;
    let orphan = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-0", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "nginx:1"}]},
    });
    lagging.world.create(&Pod::TYPE, orphan).await;
    lagging.see::<Pod>("web-0").await;
    lagging.world.delete(&StatefulSet::TYPE, "web").await;
    let error = lagging.reconcile("web").await.unwrap_err().to_string();
    assert!(error.contains("has just been deleted at"), "{error}");
    assert_eq!(lagging.world.written(), "");
}

// The watch of sets stands still, and what is created for one that is gone would be garbage.
#[tokio::test(start_paused = true)]
async fn a_set_that_is_gone_though_the_cache_has_it_gets_no_more_pods() {
    let gate = Gate::StaleControllerConsistencyStatefulSet;
    let lagging = lagging(Gates::default().with(gate, false)).await;
    let at_once = client::DeleteOptions {
        propagation: Some(client::Propagation::Background),
        ..client::DeleteOptions::default()
    };
    let (world, sets) = (&lagging.world, &StatefulSet::TYPE);
    let free = json!({"metadata": {"finalizers": null}});
    world.patch(sets, "web", free).await;
    world.delete_with(sets, "web", &at_once).await;
    assert!(lagging.reconcile("web").await.is_err());
    let written = lagging.world.written();
    assert!(
        written.contains("PUT statefulsets/web/status -> 404"),
        "{written}"
    );
    for _ in 0..3 {
        let error = lagging.reconcile("web").await.unwrap_err().to_string();
        assert_eq!(
            error,
            "StatefulSet default/web is gone, but its watch has not said so yet"
        );
        assert_eq!(lagging.world.written(), "");
    }
    // Another one of that name is not the one in the cache, and nothing is done for that one.
    lagging
        .world
        .create(&StatefulSet::TYPE, stateful_set(1))
        .await;
    assert!(lagging.reconcile("web").await.is_err());
    assert_eq!(lagging.world.written(), "");
    lagging.see::<StatefulSet>("web").await;
    lagging.see::<Pod>("web-0").await;
    let _ = lagging.reconcile("web").await;
    assert_ne!(lagging.world.written(), "", "the new one is looked after");
}
