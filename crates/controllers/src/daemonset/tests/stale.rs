//! Caches that lag behind: filled by hand here, and never by a stream.

use api::Gate;
use testkit::Lagging;

use super::*;

/// A controller that has seen the set and one node, and nothing since.
async fn lagging(gates: Gates) -> Lagging {
    let build = |context: &Context| controller(context, 1);
    let lagging = crate::lagging::<DaemonSet>(daemon_set(), gates, build).await;
    add_node(&lagging.world, "n1").await;
    lagging.see::<Node>("n1").await;
    lagging
}

#[tokio::test(start_paused = true)]
async fn a_set_waits_until_the_caches_show_its_writes() {
    let lagging = lagging(Gates::default()).await;
    lagging.reconcile("web").await.unwrap();
    assert_eq!(
        lagging.world.written(),
        "POST controllerrevisions\nPOST pods"
    );
    let error = lagging.reconcile("web").await.unwrap_err();
    assert!(matches!(error, runtime::Error::Stale { .. }), "{error}");
    assert_eq!(lagging.world.written(), "");
}

// Upstream: TestDaemonSetPodCreateExpectationsError.
#[tokio::test(start_paused = true)]
async fn without_the_gate_expectations_keep_it_from_a_second_pod() {
    let gate = Gate::StaleControllerConsistencyDaemonSet;
    let lagging = lagging(Gates::default().with(gate, false)).await;
    lagging.reconcile("web").await.unwrap();
    lagging.world.written();
    lagging.reconcile("web").await.unwrap();
    let written = lagging.world.written();
    assert!(!written.contains("POST pods"), "{written}");
}

// Upstream: TestDontDoAnythingIfBeingDeletedRace.
#[tokio::test(start_paused = true)]
async fn a_set_that_was_deleted_meanwhile_adopts_nothing() {
    let lagging = lagging(Gates::default()).await;
    let orphan = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "stray", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "nginx:1"}]},
    });
    lagging.world.create(&Pod::TYPE, orphan).await;
    lagging.see::<Pod>("stray").await;
    lagging.world.delete(&DaemonSet::TYPE, "web").await;
    let error = lagging.reconcile("web").await.unwrap_err().to_string();
    assert!(error.contains("has just been deleted at"), "{error}");
    assert_eq!(lagging.world.written(), "");
}

// Upstream: TestPodIsNotDeletedByDaemonsetWithEmptyLabelSelector.
#[tokio::test(start_paused = true)]
async fn a_set_that_selects_everything_does_nothing_but_say_so() {
    let lagging = lagging(Gates::default()).await;
    let mut set = (*set("selector=disk/ssd")).clone();
    set.spec.selector = api::LabelSelector::default();
    lagging.put(set);
    let pods = lagging.world.informers.of::<Pod>();
    pods.store().put(pod("a@n1:ready"));
    lagging.reconcile("web").await.unwrap();
    assert_eq!(lagging.world.written(), "");
    lagging.world.wait_until_idle().await;
    assert_eq!(
        lagging.world.events().await,
        [
            "Warning SelectingAll This daemon set is selecting all pods. A non-empty selector is required."
        ]
    );
}

// Upstream: TestObservedGeneration.
#[tokio::test(start_paused = true)]
async fn a_generation_is_not_observed_while_pods_are_awaited() {
    let gate = Gate::StaleControllerConsistencyDaemonSet;
    let lagging = lagging(Gates::default().with(gate, false)).await;
    lagging.reconcile("web").await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    lagging.reconcile("web").await.unwrap();
    let observed = async || {
        let set = lagging.world.get(&DaemonSet::TYPE, "web").await.unwrap();
        set["status"]["observedGeneration"].clone()
    };
    assert_eq!(observed().await, Value::Null);
    let expired = runtime::expectations::EXPIRY + std::time::Duration::from_secs(1);
    tokio::time::sleep(expired).await;
    for made in lagging.world.pod_names().await {
        lagging.see::<Pod>(&made).await;
    }
    lagging.see::<DaemonSet>("web").await;
    lagging.reconcile("web").await.unwrap();
    assert_eq!(observed().await, 1);
}

/// The write on top of what the server has, after a conflict with the own one before that the cache does not show yet.
#[tokio::test(start_paused = true)]
async fn a_generation_that_was_observed_stays_so() {
    let gate = Gate::StaleControllerConsistencyDaemonSet;
    let lagging = lagging(Gates::default().with(gate, false)).await;
    lagging.reconcile("web").await.unwrap();
    let observed = json!({"status": {"observedGeneration": 1, "currentNumberScheduled": 0,
        "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0}});
    let world = &lagging.world;
    world
        .patch_subresource(&DaemonSet::TYPE, "web", Some("status"), observed)
        .await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    lagging.reconcile("web").await.unwrap();
    let set = world.get(&DaemonSet::TYPE, "web").await.unwrap();
    assert_eq!(set["status"]["observedGeneration"], 1, "{set}");
    assert_eq!(set["status"]["desiredNumberScheduled"], 1, "{set}");
}

// Upstream: TestExpectationsOnRecreate.
#[tokio::test(start_paused = true)]
async fn nothing_is_expected_of_a_recreated_set() {
    let gate = Gate::StaleControllerConsistencyDaemonSet;
    let lagging = lagging(Gates::default().with(gate, false)).await;
    lagging.reconcile("web").await.unwrap();
    let world = &lagging.world;
    let free = json!({"metadata": {"finalizers": null}});
    world.patch(&DaemonSet::TYPE, "web", free).await;
    world.delete(&DaemonSet::TYPE, "web").await;
    world.create(&DaemonSet::TYPE, daemon_set()).await;
    world.written();
    world.start().await;
    lagging.reconcile("web").await.unwrap();
    let written = world.written();
    assert!(written.contains("POST pods"), "{written}");
}
