//! Nodes against the embedded API server. Upstream: range_allocator_test.go.

use std::time::Duration;

use api::Resource;
use api::kinds::Node;
use runtime::Metrics;
use serde_json::{Value, json};
use testkit::World;

use crate::config::NodeIpam;
use crate::node_ipam::{Ranges, controller};

async fn start(cluster: &str, mask: i32, nodes: &[Value]) -> (World, Metrics) {
    let mut world = World::new().await;
    for node in nodes {
        world.create(&Node::TYPE, node.clone()).await;
    }
    let context = world.context();
    let config = NodeIpam {
        service_cidr: String::new(),
        secondary_service_cidr: String::new(),
        node_cidr_mask_size: 0,
        node_cidr_mask_size_ipv4: mask,
        node_cidr_mask_size_ipv6: 0,
    };
    let ranges = Ranges::of(cluster, &config).unwrap();
    let metrics = context.metrics.clone();
    let running = controller(&context, ranges, 30).run(world.stop());
    world.run(running);
    world.start().await;
    world.wait_until_idle().await;
    (world, metrics)
}

fn node(name: &str, cidrs: &[&str]) -> Value {
    let mut node =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {}});
    if let Some(first) = cidrs.first() {
        node["spec"] = json!({"podCIDR": first, "podCIDRs": cidrs});
    }
    node
}

async fn ranges(world: &World) -> String {
    let nodes = world.list(&Node::TYPE).await;
    let line = |node: &Value| format!("{} {}", node["metadata"]["name"], node["spec"]["podCIDRs"]);
    let lines: Vec<String> = nodes.iter().map(line).collect();
    lines.join("; ").replace('"', "")
}

// Upstream: TestAllocateOrOccupyCIDRSuccess, TestCIDRSetMetrics, TestCidrSetMetricsHistogram.
#[tokio::test(start_paused = true)]
async fn a_node_gets_its_range_once() {
    let (world, metrics) = start("10.10.0.0/22", 24, &[]).await;
    let made = world.create(&Node::TYPE, node("a", &[])).await;
    world.wait_until_idle().await;
    let writes = world.writes();
    assert_eq!(writes.len(), 1, "{writes:?}");
    assert_eq!(
        writes[0].body,
        json!({
            "metadata": {"uid": made["metadata"]["uid"]},
            "spec": {"podCIDR": "10.10.0.0/24", "podCIDRs": ["10.10.0.0/24"]},
        })
    );
    world
        .patch(
            &Node::TYPE,
            "a",
            json!({"metadata": {"labels": {"x": "y"}}}),
        )
        .await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
    let text = metrics.render();
    for line in [
        r#"node_ipam_controller_cidrset_cidrs_allocations_total{clusterCIDR="10.10.0.0/22"} 1"#,
        r#"node_ipam_controller_cidrset_usage_cidrs{clusterCIDR="10.10.0.0/22"} 0.25"#,
        r#"node_ipam_controller_cirdset_max_cidrs{clusterCIDR="10.10.0.0/22"} 4"#,
        r#"node_ipam_controller_cidrset_allocation_tries_per_request_count{clusterCIDR="10.10.0.0/22"} 1"#,
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
}

// Upstream: TestCidrSetMetricsHistogram.
#[tokio::test(start_paused = true)]
async fn what_was_passed_over_before_a_range_is_measured() {
    let held: Vec<String> = (0..6).map(|at| format!("10.10.{at}.0/24")).collect();
    let held: Vec<Value> = held
        .iter()
        .enumerate()
        .map(|(at, range)| node(&format!("held-{at}"), &[range]))
        .collect();
    let (world, metrics) = start("10.10.0.0/20", 24, &held).await;
    world.create(&Node::TYPE, node("a", &[])).await;
    world.create(&Node::TYPE, node("b", &[])).await;
    world.wait_until_idle().await;
    let text = metrics.render();
    let name = "node_ipam_controller_cidrset_allocation_tries_per_request";
    for (bucket, count) in [
        ("1", 1),
        ("5", 1),
        ("25", 2),
        ("125", 2),
        ("625", 2),
        ("+Inf", 2),
    ] {
        let line = format!(r#"{name}_bucket{{clusterCIDR="10.10.0.0/20",le="{bucket}"}} {count}"#);
        assert!(text.contains(&line), "{line} is not in {text}");
    }
    let sum = format!(r#"{name}_sum{{clusterCIDR="10.10.0.0/20"}} 6"#);
    assert!(text.contains(&sum), "{sum} is not in {text}");
}

// Upstream: TestOccupyPreExistingCIDR.
#[tokio::test(start_paused = true)]
async fn what_nodes_have_at_the_start_is_given_to_nobody_else() {
    let held = [
        node("a", &["10.10.0.0/24"]),
        node("b", &["10.10.2.0/24"]),
        node("c", &[]),
    ];
    let (world, _) = start("10.10.0.0/22", 24, &held).await;
    world.create(&Node::TYPE, node("d", &[])).await;
    world.wait_until_idle().await;
    assert_eq!(
        ranges(&world).await,
        "a [10.10.0.0/24]; b [10.10.2.0/24]; c [10.10.1.0/24]; d [10.10.3.0/24]"
    );
}

// Upstream: TestCidrSetMetricsDual.
#[tokio::test(start_paused = true)]
async fn dual_stack_nodes_get_one_range_of_each_family() {
    let (world, metrics) = start("10.10.0.0/22,fd00::/56", 24, &[node("a", &[])]).await;
    assert_eq!(ranges(&world).await, "a [10.10.0.0/24,fd00::/64]");
    world.delete(&Node::TYPE, "a").await;
    world.wait_until_idle().await;
    let text = metrics.render();
    for (name, v4, v6) in [
        ("cidrset_cidrs_allocations_total", 1, 1),
        ("cidrset_cidrs_releases_total", 1, 1),
        ("cirdset_max_cidrs", 4, 256),
        ("cidrset_usage_cidrs", 0, 0),
    ] {
        for (cluster, count) in [("10.10.0.0/22", v4), ("fd00::/56", v6)] {
            let line = format!(r#"node_ipam_controller_{name}{{clusterCIDR="{cluster}"}} {count}"#);
            assert!(text.contains(&line), "{line} is not in {text}");
        }
    }
}

// Upstream: TestReleaseCIDRSuccess, TestNodeDeletionReleaseCIDR, TestAllocateOrOccupyCIDRFailure.
#[tokio::test(start_paused = true)]
async fn a_node_for_which_nothing_is_left_waits_until_another_goes() {
    let (world, metrics) = start("10.10.0.0/24", 25, &[node("a", &[]), node("b", &[])]).await;
    world.create(&Node::TYPE, node("c", &[])).await;
    world.wait_until_idle().await;
    let events = world.events().await;
    let told = "Normal CIDRNotAvailable Node c status is now: CIDRNotAvailable";
    assert!(events.iter().any(|event| event == told), "{events:?}");
    world.delete(&Node::TYPE, "a").await;
    world.wait_until_idle().await;
    assert_eq!(ranges(&world).await, "b [10.10.0.128/25]; c [10.10.0.0/25]");
    let released =
        r#"node_ipam_controller_cidrset_cidrs_releases_total{clusterCIDR="10.10.0.0/24"} 1"#;
    assert!(metrics.render().contains(released));
}

#[tokio::test(start_paused = true)]
async fn a_range_that_was_meant_for_a_node_that_is_gone_is_not_its_namesakes() {
    let (world, _) = start("10.10.0.0/24", 24, &[]).await;
    world.slow_down(Duration::from_secs(1));
    world.create(&Node::TYPE, node("a", &[])).await;
    // The write is on its way.
    tokio::time::sleep(Duration::from_millis(500)).await;
    world.delete(&Node::TYPE, "a").await;
    world.create(&Node::TYPE, node("b", &[])).await;
    world.create(&Node::TYPE, node("a", &[])).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let held = ranges(&world).await;
    assert_eq!(held.matches("10.10.0.0/24").count(), 1, "{held}");
}

#[tokio::test(start_paused = true)]
async fn a_write_is_tried_three_times_and_then_its_range_is_free_again() {
    let (world, _) = start("10.10.0.0/24", 24, &[]).await;
    world.refuse("PATCH", "/nodes/a", 500, 3);
    world.create(&Node::TYPE, node("a", &[])).await;
    world.wait_until_idle().await;
    assert_eq!(
        ranges(&world).await,
        "a [10.10.0.0/24]",
        "there was only this one"
    );
    let events = world.events().await;
    let told = "Normal CIDRAssignmentFailed Node a status is now: CIDRAssignmentFailed";
    assert!(events.iter().any(|event| event == told), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn nodes_with_foreign_ranges_block_no_other_node() {
    let odd = [
        node("far", &["192.168.0.0/24"]),
        node("two", &["10.10.0.0/24", "fd00::/64"]),
        node("ok", &[]),
    ];
    let (world, _) = start("10.10.0.0/22", 24, &odd).await;
    assert_eq!(
        ranges(&world).await,
        "far [192.168.0.0/24]; ok [10.10.1.0/24]; two [10.10.0.0/24,fd00::/64]"
    );
    world.writes();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.written(), "");
    world.delete(&Node::TYPE, "far").await;
    world.delete(&Node::TYPE, "two").await;
    world.wait_until_idle().await;
}
