//! What enqueues a set.

use runtime::Queue;

use super::super::triggers::may_change_placement;
use super::*;

// Upstream: TestShouldIgnoreNodeUpdate.
#[test]
fn only_labels_and_taints_of_a_node_matter() {
    let check = |old: &str, new: &str| may_change_placement(&node(old), &node(new));
    assert!(!check("n1", "n1"));
    assert!(check("n1", "n1:disk=ssd"));
    assert!(check("n1:taint=k/NoSchedule", "n1"));
    let mut busy = (*node("n1")).clone();
    busy.spec.unschedulable = true;
    assert!(!may_change_placement(&node("n1"), &busy));
}

/// A controller whose workers rest: what would enqueue them stays in the queue.
struct Watching {
    world: World,
    queue: Arc<Queue>,
    uid: Value,
}

impl Watching {
    async fn new() -> Watching {
        let world = World::new().await;
        let queue = controller(&world.context(), 1).queue;
        world.start().await;
        let mut set = daemon_set();
        set["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "ssd"});
        let uid = world.create(&DaemonSet::TYPE, set).await["metadata"]["uid"].clone();
        let watching = Watching { world, queue, uid };
        assert_eq!(watching.enqueued().await, "web");
        watching
    }

    /// Who was enqueued since the last call.
    async fn enqueued(&self) -> String {
        testkit::enqueued(&self.queue).await
    }

    fn owner(&self) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "web", "uid": self.uid, "controller": true})
    }

    async fn pod(&self, name: &str, app: &str, owners: &[Value]) {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": app}, "ownerReferences": owners},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "nginx:1"}]},
        });
        self.world.create(&Pod::TYPE, pod).await;
    }

    async fn patch<K: Resource>(&self, name: &str, patch: Value) -> String {
        self.world.patch(&K::TYPE, name, patch).await;
        self.enqueued().await
    }
}

fn labels(labels: Value) -> Value {
    json!({"metadata": {"labels": labels}})
}

fn taints(taints: &[(&str, &str)]) -> Value {
    let taint = |(key, effect): &(&str, &str)| json!({"key": key, "effect": effect});
    json!({"spec": {"taints": taints.iter().map(taint).collect::<Vec<_>>()}})
}

// Upstream: TestAddNode, TestUpdateNode.
#[tokio::test(start_paused = true)]
async fn nodes_enqueue_a_set_that_would_act() {
    let watching = Watching::new().await;
    add_node(&watching.world, "n1").await;
    assert_eq!(watching.enqueued().await, "", "not for this set");
    let patched = watching.patch::<Node>("n1", labels(json!({"disk": "ssd"})));
    assert_eq!(patched.await, "web", "now it is");
    let note = json!({"metadata": {"annotations": {"a": "b"}}});
    assert_eq!(watching.patch::<Node>("n1", note).await, "");
    add_node(&watching.world, "n2:disk=ssd").await;
    assert_eq!(watching.enqueued().await, "web");

    watching.pod("a", "web", &[watching.owner()]).await;
    assert_eq!(watching.enqueued().await, "web");
    let patched = watching.patch::<Node>("n1", labels(json!({"other": "1"})));
    assert_eq!(patched.await, "", "it has its pod");
    let patched = watching.patch::<Node>("n1", taints(&[("k", "NoSchedule")]));
    assert_eq!(
        patched.await,
        "web",
        "the pod may stay, and is misscheduled"
    );
    let more = [("k", "NoSchedule"), ("j", "NoSchedule")];
    let patched = watching.patch::<Node>("n1", taints(&more));
    assert_eq!(patched.await, "", "no count changes");
    let patched = watching.patch::<Node>("n1", taints(&[("k", "NoExecute")]));
    assert_eq!(patched.await, "web", "the pod must go");
    let status = json!({"status": {"numberMisscheduled": 1, "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0}});
    let world = &watching.world;
    world
        .patch_subresource(&DaemonSet::TYPE, "web", Some("status"), status)
        .await;
    assert_eq!(watching.enqueued().await, "web");
    let patched = watching.patch::<Node>("n1", taints(&[]));
    assert_eq!(patched.await, "web", "one pod less is misplaced");
    let patched = watching.patch::<Node>("n2", taints(&[("k", "NoSchedule")]));
    assert_eq!(patched.await, "web", "one pod less is desired");
    watching.world.delete(&Node::TYPE, "n2").await;
    assert_eq!(watching.enqueued().await, "", "it did not count");
    watching
        .patch::<Node>("n1", taints(&[("k", "NoSchedule")]))
        .await;
    watching.world.delete(&Node::TYPE, "n1").await;
    assert_eq!(watching.enqueued().await, "web", "a misscheduled pod less");
}

// Upstream: TestAddPod, TestUpdatePod, TestDeletePod, TestUpdatePodChangeControllerRef,
// TestUpdatePodControllerRefRemoved.
#[tokio::test(start_paused = true)]
async fn its_own_pods_enqueue_a_set_also_when_it_loses_them() {
    let watching = Watching::new().await;
    for name in ["a", "b", "c"] {
        watching.pod(name, "web", &[watching.owner()]).await;
        assert_eq!(watching.enqueued().await, "web");
    }
    watching.world.make_ready("a").await;
    assert_eq!(watching.enqueued().await, "web");
    watching.world.delete(&Pod::TYPE, "a").await;
    assert_eq!(watching.enqueued().await, "web");

    let mut other = daemon_set();
    other["metadata"]["name"] = json!("other");
    let other = watching.world.create(&DaemonSet::TYPE, other).await;
    assert_eq!(watching.enqueued().await, "other");
    let mut owner = watching.owner();
    owner["name"] = json!("other");
    owner["uid"] = other["metadata"]["uid"].clone();
    let owned = |owners: Value| json!({"metadata": {"ownerReferences": owners}});
    let patched = watching.patch::<Pod>("b", owned(json!([owner])));
    assert_eq!(patched.await, "other web");
    let patched = watching.patch::<Pod>("c", owned(Value::Null));
    assert_eq!(patched.await, "other web", "both select it");
}

// Upstream: TestAddPodOrphan, TestUpdatePodOrphanSameLabels, TestUpdatePodOrphanWithNewLabels,
// TestDeletePodOrphan.
#[tokio::test(start_paused = true)]
async fn orphans_enqueue_the_sets_that_select_them() {
    let watching = Watching::new().await;
    watching.pod("a", "web", &[]).await;
    assert_eq!(watching.enqueued().await, "web");
    watching.pod("b", "db", &[]).await;
    assert_eq!(watching.enqueued().await, "");
    let note = json!({"metadata": {"annotations": {"a": "b"}}});
    assert_eq!(watching.patch::<Pod>("a", note).await, "");
    let patched = watching.patch::<Pod>("b", labels(json!({"app": "web"})));
    assert_eq!(patched.await, "web");
    let now = client::DeleteOptions {
        grace_period_seconds: Some(0),
        ..client::DeleteOptions::default()
    };
    watching.world.delete_with(&Pod::TYPE, "a", &now).await;
    assert_eq!(watching.enqueued().await, "");
}

// Upstream: TestDeleteNoDaemonPod.
#[tokio::test(start_paused = true)]
async fn pods_of_other_owners_enqueue_nothing() {
    let watching = Watching::new().await;
    let mut owner = watching.owner();
    owner["kind"] = json!("ReplicaSet");
    watching.pod("a", "web", &[owner]).await;
    let mut owner = watching.owner();
    owner["uid"] = json!("00000000-0000-0000-0000-000000000001");
    watching.pod("b", "web", &[owner]).await;
    assert_eq!(watching.enqueued().await, "");
    for name in ["a", "b"] {
        watching.world.make_ready(name).await;
        watching.world.delete(&Pod::TYPE, name).await;
    }
    watching.world.finish_deletions().await;
    assert_eq!(watching.enqueued().await, "");
}

#[tokio::test(start_paused = true)]
async fn a_set_that_goes_is_forgotten() {
    let watching = Watching::new().await;
    watching.world.delete(&DaemonSet::TYPE, "web").await;
    assert_eq!(watching.enqueued().await, "web");
}
