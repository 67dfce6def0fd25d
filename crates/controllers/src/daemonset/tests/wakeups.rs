//! What wakes a set, and caches that lag behind: filled by hand here, and never by a stream.

use api::{Gate, Key};
use runtime::Error;

use super::super::triggers::is_worth_a_look;
use super::*;

// Upstream: TestShouldIgnoreNodeUpdate.
#[test]
fn only_labels_and_taints_of_a_node_matter() {
    let check = |old: &str, new: &str| is_worth_a_look(&node(old), &node(new));
    assert!(!check("n1", "n1"));
    assert!(check("n1", "n1:disk=ssd"));
    assert!(check("n1:taint=k/NoSchedule", "n1"));
    let mut busy = (*node("n1")).clone();
    busy.spec.unschedulable = true;
    assert!(!is_worth_a_look(&node("n1"), &busy));
}

struct Lagging {
    world: World,
    controller: runtime::controller::Controller,
}

impl Lagging {
    /// A controller that has seen the set and one node, and nothing since.
    async fn new(gates: Gates) -> Lagging {
        let world = World::new().await;
        let tools = Tools {
            gates,
            ..tools(&world)
        };
        let controller = controller(&world.informers, tools, 1, None);
        let mut set = daemon_set();
        set["metadata"]["finalizers"] = json!(["example.com/hold"]);
        world.create(&DaemonSet::TYPE, set).await;
        add_node(&world, "n1").await;
        let lagging = Lagging { world, controller };
        lagging.see::<DaemonSet>("web").await;
        lagging.see::<Node>("n1").await;
        lagging
    }

    async fn see<K: Resource>(&self, name: &str) {
        let object = self.world.get(&K::TYPE, name).await.unwrap();
        let object = K::decode(object.to_string().as_bytes()).unwrap();
        let informer = self.world.informers.of::<K>();
        informer.store().put(Arc::new(object));
    }

    async fn reconcile(&self) -> Result<runtime::Next, Error> {
        let key = Key::new("default", "web");
        self.controller.reconciler.reconcile(&key).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_waits_until_the_caches_show_its_own_writes() {
    let lagging = Lagging::new(Gates::default()).await;
    lagging.reconcile().await.unwrap();
    assert_eq!(
        lagging.world.written(),
        "POST controllerrevisions\nPOST pods"
    );
    let error = lagging.reconcile().await.unwrap_err();
    assert!(matches!(error, Error::Stale { .. }), "{error}");
    assert_eq!(lagging.world.written(), "");
}

// Upstream: TestDaemonSetPodCreateExpectationsError, TestExpectationsOnRecreate.
#[tokio::test(start_paused = true)]
async fn without_the_gate_expectations_keep_it_from_a_second_pod() {
    let gate = Gate::StaleControllerConsistencyDaemonSet;
    let lagging = Lagging::new(Gates::default().with(gate, false)).await;
    lagging.reconcile().await.unwrap();
    lagging.world.written();
    lagging.reconcile().await.unwrap();
    let written = lagging.world.written();
    assert!(!written.contains("POST pods"), "{written}");
}

// Upstream: TestDontDoAnythingIfBeingDeletedRace.
#[tokio::test(start_paused = true)]
async fn a_set_that_was_deleted_meanwhile_adopts_nothing() {
    let lagging = Lagging::new(Gates::default()).await;
    let orphan = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "stray", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "nginx:1"}]},
    });
    lagging.world.create(&Pod::TYPE, orphan).await;
    lagging.see::<Pod>("stray").await;
    lagging.world.delete(&DaemonSet::TYPE, "web").await;
    let error = lagging.reconcile().await.unwrap_err().to_string();
    assert!(error.contains("has just been deleted at"), "{error}");
    assert_eq!(lagging.world.written(), "");
}
