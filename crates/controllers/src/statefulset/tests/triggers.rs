//! Which changes of pods a set answers to.

use super::super::{StatusThrottle, new_pod_waits};
use super::*;

fn bare_pod(name: &str, labels: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "nginx:1"}]},
    })
}

async fn idle_world() -> World {
    let world = world().await;
    world.create(&StatefulSet::TYPE, stateful_set(1)).await;
    roll_out(&world).await;
    world.written();
    world
}

// Upstream: TestStatefulSetControllerAddPodOrphan, TestStatefulSetControllerGetStatefulSetsForPod.
#[tokio::test(start_paused = true)]
async fn a_new_orphan_that_is_selected() {
    let world = idle_world().await;
    let orphan = bare_pod("web-7", json!({"app": "web"}));
    world.create(&Pod::TYPE, orphan).await;
    world.wait_until_idle().await;
    let written = world.written();
    assert!(
        written.starts_with("PATCH pods/web-7\nDELETE pods/web-7"),
        "adopted, and then too many: {written}"
    );
}

// Upstream: TestStatefulSetControllerGetStatefulSetsForPod, TestStatefulSetControllerAddPodOrphan,
// TestStatefulSetControllerUpdatePodOrphanWithNewLabels, TestStatefulSetControllerUpdatePodRelease,
// TestStatefulSetControllerDeletePodOrphan.
#[tokio::test(start_paused = true)]
async fn an_orphan_enqueues_every_set_that_selects_it() {
    let world = World::new().await;
    let options = Options {
        recover_stuck_rollouts: false,
    };
    let queue = controller(&world.context(), 1, &options).queue;
    world.start().await;
    let mut sets = Vec::new();
    for (name, app) in [("web", "web"), ("web2", "web"), ("db", "db")] {
        let mut set = stateful_set(3);
        set["metadata"]["name"] = json!(name);
        set["spec"]["selector"] = json!({"matchLabels": {"app": app}});
        set["spec"]["template"]["metadata"]["labels"] = json!({"app": app});
        sets.push(world.create(&StatefulSet::TYPE, set).await);
    }
    assert_eq!(testkit::enqueued(&queue).await, "db web web2");
    let patch = async |metadata: Value| {
        let patch = json!({"metadata": metadata});
        world.patch(&Pod::TYPE, "web-0", patch).await;
        testkit::enqueued(&queue).await
    };
    let orphan = bare_pod("web-0", json!({"app": "web"}));
    world.create(&Pod::TYPE, orphan).await;
    assert_eq!(testkit::enqueued(&queue).await, "web web2");
    assert_eq!(patch(json!({"labels": {"app": "db"}})).await, "db");
    assert_eq!(patch(json!({"labels": {"app": "web"}})).await, "web web2");
    let owner = |set: &Value| {
        let meta = &set["metadata"];
        json!([{
            "apiVersion": "apps/v1", "kind": "StatefulSet", "name": meta["name"],
            "uid": meta["uid"], "controller": true,
        }])
    };
    let owned = json!({"ownerReferences": owner(&sets[0])});
    assert_eq!(patch(owned).await, "web");
    let owned = json!({"ownerReferences": owner(&sets[1])});
    assert_eq!(patch(owned).await, "web web2", "both owners");
    let released = json!({"ownerReferences": null});
    assert_eq!(patch(released).await, "web web2");
    world.delete(&Pod::TYPE, "web-0").await;
    world.finish_deletions().await;
    assert_eq!(testkit::enqueued(&queue).await, "", "it was nobody's");
}

// Upstream: TestStatefulSetControllerAddPodNoSet, TestStatefulSetControllerUpdatePodWithNoSet,
// TestStatefulSetControllerDeletePodOrphan.
#[tokio::test(start_paused = true)]
async fn unselected_pods_are_ignored() {
    let world = idle_world().await;
    world
        .create(&Pod::TYPE, bare_pod("web-7", json!({"app": "db"})))
        .await;
    world.wait_until_idle().await;
    world.make_ready("web-7").await;
    world.delete(&Pod::TYPE, "web-7").await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

// Upstream: TestStatefulSetControllerUpdatePodOrphanWithNewLabels.
#[tokio::test(start_paused = true)]
async fn an_orphan_that_gets_the_right_labels() {
    let world = idle_world().await;
    world.create(&Pod::TYPE, bare_pod("web-7", json!({}))).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
    let labels = json!({"metadata": {"labels": {"app": "web"}}});
    world.patch(&Pod::TYPE, "web-7", labels).await;
    world.wait_until_idle().await;
    assert!(world.written().starts_with("PATCH pods/web-7"));
}

// Upstream: TestStatefulSetControllerUpdatePodChangeControllerRef, TestStatefulSetControllerUpdatePodRelease,
// TestStatefulPodControlCreatePodExists.
#[tokio::test(start_paused = true)]
async fn a_pod_that_goes_to_another_owner_and_then_goes() {
    let world = idle_world().await;
    let other = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "other",
        "uid": "00000000-0000-0000-0000-000000000001", "controller": true,
    });
    let events = world.events().await.len();
    let patch = json!({"metadata": {"ownerReferences": [other]}});
    world.patch(&Pod::TYPE, "web-0", patch).await;
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let set = world.get(&StatefulSet::TYPE, "web").await.unwrap();
    assert_eq!(set["status"]["replicas"], 0, "it counts no more");
    let written = world.written();
    assert!(
        written.contains("POST pods -> 409"),
        "its name is taken: {written}"
    );
    assert_eq!(world.events().await.len(), events, "no news to anyone");
    world.delete(&Pod::TYPE, "web-0").await;
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    let pod = world.get(&Pod::TYPE, "web-0").await.unwrap();
    assert_eq!(pod["metadata"]["ownerReferences"][0]["name"], "web");
}

// Upstream: TestStatefulSetControllerUpdatePod, TestStatefulSetControllerDeletePod, TestStatefulSetControllerCreates.
#[tokio::test(start_paused = true)]
async fn changes_of_its_own_pods() {
    let world = idle_world().await;
    world.make_unready("web-0").await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "PUT statefulsets/web/status");
    world.delete(&Pod::TYPE, "web-0").await;
    world.wait_until_idle().await;
    assert!(world.written().contains("POST pods"));
}

#[tokio::test(start_paused = true)]
async fn a_new_pod_that_others_wait_for_is_only_counted_and_that_can_wait() {
    let world = world().await;
    world.create(&StatefulSet::TYPE, stateful_set(2)).await;
    tokio::time::sleep(StatusThrottle::LENGTH / 2).await;
    let set = world.get(&StatefulSet::TYPE, "web").await.unwrap();
    assert_eq!(world.pod_names().await, ["web-0"]);
    assert_eq!(set["status"]["replicas"], 0);
    tokio::time::sleep(StatusThrottle::LENGTH).await;
    let set = world.get(&StatefulSet::TYPE, "web").await.unwrap();
    assert_eq!(set["status"]["replicas"], 1);
    world.make_ready("web-0").await;
    tokio::time::sleep(StatusThrottle::LENGTH / 2).await;
    assert_eq!(world.pod_names().await, ["web-0", "web-1"], "not a wait");
}

#[test]
fn which_controllers_sync_a_new_pod_at_once() {
    let waits = |policy: &str, strategy: Value, phase: &str| {
        let mut set = stateful_set(2);
        set["spec"]["podManagementPolicy"] = json!(policy);
        set["spec"]["updateStrategy"] = strategy;
        let mut pod = bare_pod("web-0", json!({}));
        pod["status"] = json!({"phase": phase});
        let set = StatefulSet::decode(set.to_string().as_bytes()).unwrap();
        let pod = Pod::decode(pod.to_string().as_bytes()).unwrap();
        new_pod_waits(&set, &pod).is_some()
    };
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}});
    assert!(waits("OrderedReady", rolling.clone(), "Pending"));
    assert!(!waits("OrderedReady", rolling.clone(), "Running"));
    assert!(!waits("Parallel", rolling, "Pending"));
    let bare = json!({"type": "RollingUpdate"});
    assert!(!waits("OrderedReady", bare, "Pending"), "a count decides");
}
