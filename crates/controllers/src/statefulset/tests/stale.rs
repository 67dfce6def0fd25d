//! Caches that lag behind: filled by hand here, and never by a stream.

use testkit::Lagging;

use super::*;

/// A controller that has seen the set and nothing since.
async fn lagging(gates: Gates) -> Lagging {
    let world = World::new().await;
    let tools = Tools {
        gates,
        ..Tools::from(&world)
    };
    let controller = controller(&world.informers, tools, 1, &Options::default());
    let mut set = stateful_set(1);
    set["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.create(&StatefulSet::TYPE, set).await;
    let lagging = Lagging { world, controller };
    lagging.see::<StatefulSet>("web").await;
    lagging
}

// Upstream: TestStatefulPodControlConsistencyStore, TestStatefulSetStatusUpdaterConsistencyStore.
#[tokio::test(start_paused = true)]
async fn a_set_waits_until_the_caches_show_its_own_writes() {
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
