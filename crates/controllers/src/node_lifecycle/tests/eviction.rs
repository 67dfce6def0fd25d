//! Rates and zones, against the embedded API server under virtual time.

use std::time::Duration;

use api::Resource;
use api::kinds::Node;
use serde_json::json;
use testkit::World;

use super::{
    Settings, beat, conditions, make_node, pass, report, settings, taints, world, world_with,
};

/// Which of these nodes are driving their pods away.
async fn driving(world: &World, names: &[&str]) -> String {
    let mut found = Vec::new();
    for name in names {
        if taints(world, name).await.contains("NoExecute") {
            found.push(*name);
        }
    }
    found.join(" ")
}

// Upstream: TestApplyNoExecuteTaintsToNodesEnqueueTwice, TestMonitorNodeHealth.
#[tokio::test(start_paused = true)]
async fn nodes_of_a_zone_are_tainted_one_after_the_other() {
    let world = world().await;
    let (alive, dead) = (["a", "b", "c"], ["x", "y", "z"]);
    for name in alive.iter().chain(&dead) {
        make_node(&world, name, json!({})).await;
    }
    // One short of what makes a zone partly down.
    pass(&world, 10, &["a", "b", "c", "x", "y", "z"]).await;
    let mut seen = Vec::new();
    for _ in 0..20 {
        pass(&world, 5, &alive).await;
        let now = driving(&world, &dead).await;
        if seen.last() != Some(&now) {
            seen.push(now);
        }
    }
    assert_eq!(seen, ["", "x", "x y", "x y z"]);
    assert_eq!(driving(&world, &alive).await, "");
    report(&world, "y", "True").await;
    pass(&world, 10, &["a", "b", "c", "y"]).await;
    assert_eq!(driving(&world, &dead).await, "x z");
    // Once more, and it waits again.
    pass(&world, 60, &alive).await;
    assert_eq!(driving(&world, &dead).await, "x y z");
}

#[tokio::test(start_paused = true)]
async fn a_small_zone_that_is_partly_down_keeps_its_pods() {
    let world = world().await;
    let dead = ["x", "y", "z"];
    for name in ["a", "x", "y", "z"] {
        make_node(&world, name, json!({})).await;
    }
    pass(&world, 200, &["a"]).await;
    assert_eq!(driving(&world, &dead).await, "");
    for name in dead {
        assert!(
            conditions(&world, name)
                .await
                .ends_with("Ready=Unknown(NodeStatusUnknown)")
        );
    }
    // With a second one alive it is two that are down, and that is normal.
    report(&world, "x", "True").await;
    pass(&world, 30, &["a", "x"]).await;
    assert_eq!(driving(&world, &dead).await, "y z");
}

#[tokio::test(start_paused = true)]
async fn a_large_zone_that_is_partly_down_is_slow() {
    let rates = super::Rates {
        large_zone: 3,
        secondary: 0.02,
        ..settings().rates
    };
    let world = world_with(Settings {
        rates,
        ..settings()
    })
    .await;
    for name in ["a", "x", "y", "z"] {
        make_node(&world, name, json!({})).await;
    }
    pass(&world, 75, &["a"]).await;
    assert_eq!(driving(&world, &["x", "y", "z"]).await, "x");
    pass(&world, 45, &["a"]).await;
    assert_eq!(driving(&world, &["x", "y", "z"]).await, "x y");
}

// Upstream: TestMonitorNodeHealth (all zones down).
#[tokio::test(start_paused = true)]
async fn when_no_kubelet_posts_status_no_pod_is_evicted() {
    let world = world().await;
    for name in ["a", "b"] {
        make_node(&world, name, json!({"topology.kubernetes.io/zone": name})).await;
    }
    pass(&world, 20, &["a", "b"]).await;
    pass(&world, 70, &["a"]).await;
    assert_eq!(driving(&world, &["a", "b"]).await, "b");
    pass(&world, 70, &[]).await;
    assert_eq!(
        driving(&world, &["a", "b"]).await,
        "",
        "it may be we who are cut off"
    );
    assert_eq!(taints(&world, "b").await, "unreachable:NoSchedule");
    pass(&world, 300, &[]).await;
    assert_eq!(driving(&world, &["a", "b"]).await, "");
    world.writes();
    report(&world, "a", "True").await;
    pass(&world, 30, &["a"]).await;
    assert_eq!(driving(&world, &["a", "b"]).await, "b");
    world.writes();
    pass(&world, 100, &["a"]).await;
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn the_only_node_keeps_its_pods() {
    let world = world().await;
    make_node(&world, "a", json!({})).await;
    pass(&world, 5, &["a"]).await;
    pass(&world, 300, &[]).await;
    assert_eq!(taints(&world, "a").await, "unreachable:NoSchedule");
}

// Upstream: Test_isNodeExcludedFromDisruptionChecks.
#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_count_is_tainted_like_others() {
    let world = world().await;
    let excluded =
        json!({"node.kubernetes.io/exclude-disruption": "", "topology.kubernetes.io/zone": "z"});
    make_node(&world, "a", json!({})).await;
    make_node(&world, "odd", excluded).await;
    pass(&world, 20, &["a", "odd"]).await;
    pass(&world, 70, &["a"]).await;
    assert_eq!(driving(&world, &["a", "odd"]).await, "odd");
    // UPSTREAM: when nobody who counts is ready, its zone is not stopped like the others.
    pass(&world, 70, &[]).await;
    assert_eq!(driving(&world, &["a", "odd"]).await, "odd");
}

#[tokio::test(start_paused = true)]
async fn a_taint_that_somebody_takes_off_comes_back_as_the_rate_limit_allows() {
    let world = world().await;
    for name in ["a", "b"] {
        make_node(&world, name, json!({})).await;
    }
    pass(&world, 20, &["a", "b"]).await;
    pass(&world, 70, &["a"]).await;
    assert_eq!(driving(&world, &["b"]).await, "b");
    world
        .patch(&Node::TYPE, "b", json!({"spec": {"taints": null}}))
        .await;
    pass(&world, 15, &["a"]).await;
    assert_eq!(
        taints(&world, "b").await,
        "unreachable:NoExecute unreachable:NoSchedule"
    );
    beat(&world, "b").await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(
        driving(&world, &["b"]).await,
        "b",
        "only its report makes a node ready"
    );
}

// Upstream: TestMonitorNodeHealth (the only available node is excluded from the checks).
#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_count_does_not_keep_evictions_going() {
    let excluded = json!({"node.kubernetes.io/exclude-disruption": ""});
    for (labels, expected) in [(excluded, ""), (json!({}), "x")] {
        let world = world().await;
        make_node(&world, "x", json!({})).await;
        make_node(&world, "master", labels).await;
        pass(&world, 20, &["x", "master"]).await;
        pass(&world, 100, &["master"]).await;
        assert_eq!(driving(&world, &["x", "master"]).await, expected);
    }
}

// Upstream: TestMonitorNodeHealth (nodes without a Ready condition), TestApplyNoExecuteTaints (a status
// that was replaced).
#[tokio::test(start_paused = true)]
async fn a_node_without_a_ready_condition_is_not_ready_and_drives_nobody_away() {
    for (loses, expected) in [(true, ""), (false, "x")] {
        let world = world().await;
        for name in ["a", "x"] {
            make_node(&world, name, json!({})).await;
        }
        pass(&world, 20, &["a", "x"]).await;
        if loses {
            let patch = json!({"status": {"conditions": null}}).to_string();
            let patch = client::Patch::Merge(patch.into());
            let client = &world.user;
            client
                .patch(&Node::TYPE, "", "a", Some("status"), &patch)
                .await
                .unwrap();
        }
        pass(&world, 100, &["a"]).await;
        assert_eq!(driving(&world, &["a", "x"]).await, expected);
        assert_eq!(taints(&world, "a").await, "");
    }
}
