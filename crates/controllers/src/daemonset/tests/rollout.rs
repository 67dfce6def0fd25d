//! Updates from one revision to the next.

use api::Resource;
use api::kinds::{ControllerRevision, DaemonSet, Pod};
use serde_json::json;

use super::super::{converged, history_bounded, safe};
use super::*;

/// Plays kubelet until nothing changes any more; gives the fewest pods that were ready and not on
/// their way out, and the most pods of a node, at any time.
async fn roll_out(world: &World) -> (usize, usize) {
    let (mut fewest, mut most) = (usize::MAX, 0);
    loop {
        world.wait_until_idle().await;
        let before = world.list(&Pod::TYPE).await;
        let live = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null();
        let ready = |pod: &&Value| pod["status"]["phase"] == "Running";
        fewest = fewest.min(before.iter().filter(live).filter(ready).count());
        let mut counts = std::collections::BTreeMap::new();
        for pod in before.iter().filter(live) {
            *counts.entry(target(pod)).or_insert(0) += 1;
        }
        most = most.max(counts.into_values().max().unwrap_or(0));
        check_invariants(world, false).await;
        world.finish_deletions().await;
        world.wait_until_idle().await;
        world.make_all_ready().await;
        world.wait_until_idle().await;
        if world.list(&Pod::TYPE).await == before {
            check_invariants(world, true).await;
            return (fewest, most);
        }
    }
}

/// What must hold at all times, and when nothing is left to do.
async fn check_invariants(world: &World, settled: bool) {
    let set = world.informers.store::<DaemonSet>().find("default", "web");
    let set = set.unwrap();
    let pods = world.informers.store::<Pod>().list();
    safe(&set, &pods).unwrap();
    if settled {
        let nodes = world.informers.store::<Node>().list();
        let revisions = world.informers.store::<ControllerRevision>().list();
        let newest = revisions.iter().max_by_key(|held| held.revision).unwrap();
        let hash = newest.metadata.labels.get("controller-revision-hash");
        let (gates, now) = (Gates::default(), world.clock.now());
        converged(&set, &nodes, &pods, hash.unwrap(), gates, now).unwrap();
        history_bounded(&set, &pods, &revisions).unwrap();
        let mut forgetful = (*set).clone();
        forgetful.spec.revision_history_limit = Some(0);
        let kept = history_bounded(&forgetful, &pods, &revisions);
        let expected = usize::from(revisions.len() > 1 && !set.spec.update_strategy.on_delete);
        assert_eq!(usize::from(kept.is_err()), expected, "{kept:?}");
    }
}

async fn ready_world(strategy: Value) -> World {
    let world = world(&["n1", "n2", "n3"]).await;
    let mut set = daemon_set();
    set["spec"]["updateStrategy"] = strategy;
    set["spec"]["revisionHistoryLimit"] = json!(1);
    world.create(&DaemonSet::TYPE, set).await;
    world.wait_until_idle().await;
    world.make_all_ready().await;
    world.wait_until_idle().await;
    world.written();
    world
}

#[tokio::test(start_paused = true)]
async fn rolls_out_one_node_at_a_time() {
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
    let world = ready_world(rolling).await;
    set_image(&world, "nginx:2").await;
    assert_eq!(roll_out(&world).await, (2, 1));
    assert_eq!(images(&world).await, "n1=nginx:2 n2=nginx:2 n3=nginx:2");
    world.written();
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
    let set = world.get(&DaemonSet::TYPE, "web").await.unwrap();
    assert_eq!(set["status"]["updatedNumberScheduled"], 3);
    assert_eq!(set["status"]["observedGeneration"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_surge_loses_no_pod() {
    let surge =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}});
    let world = ready_world(surge).await;
    set_image(&world, "nginx:2").await;
    assert_eq!(roll_out(&world).await, (3, 2));
    assert_eq!(images(&world).await, "n1=nginx:2 n2=nginx:2 n3=nginx:2");
}

#[tokio::test(start_paused = true)]
async fn on_delete_updates_what_the_user_deletes() {
    let world = ready_world(json!({"type": "OnDelete"})).await;
    set_image(&world, "nginx:2").await;
    roll_out(&world).await;
    assert_eq!(images(&world).await, "n1=nginx:1 n2=nginx:1 n3=nginx:1");
    let name = world.pod_names().await[0].clone();
    world.delete(&Pod::TYPE, &name).await;
    roll_out(&world).await;
    let images = images(&world).await;
    assert_eq!(images.matches("nginx:2").count(), 1, "{images}");
}

#[tokio::test(start_paused = true)]
async fn history_is_bounded_and_a_return_renumbers() {
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 3}});
    let world = ready_world(rolling).await;
    for image in ["nginx:2", "nginx:3"] {
        set_image(&world, image).await;
        roll_out(&world).await;
    }
    let numbers = async || {
        let mut numbers: Vec<i64> = world
            .list(&ControllerRevision::TYPE)
            .await
            .iter()
            .map(|held| held["revision"].as_i64().unwrap())
            .collect();
        numbers.sort();
        numbers
    };
    assert_eq!(numbers().await, [2, 3]);
    set_image(&world, "nginx:2").await;
    roll_out(&world).await;
    assert_eq!(numbers().await, [3, 4]);
    assert_eq!(images(&world).await, "n1=nginx:2 n2=nginx:2 n3=nginx:2");
}

// Upstream: TestDaemonSetUpdatesWhenNewPodIsNotReady, TestDaemonSetUpdatesSaveOldHealthyPods.
#[tokio::test(start_paused = true)]
async fn an_update_that_never_gets_ready_spares_the_other_pods() {
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
    let world = ready_world(rolling).await;
    for image in ["nginx:2", "nginx:3"] {
        set_image(&world, image).await;
        for _ in 0..3 {
            world.wait_until_idle().await;
            world.finish_deletions().await;
        }
        let images = images(&world).await;
        assert_eq!(images.matches("nginx:1").count(), 2, "{images}");
        assert_eq!(images.matches(image).count(), 1, "{images}");
    }
}
