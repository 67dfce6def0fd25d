//! Upstream's figures. Upstream: metrics/cache_test.go.

use api::Resource;
use api::kinds::Service;
use serde_json::json;

use super::world::{SETTINGS, pod, running_with, service};

fn figures(text: &str) -> Vec<String> {
    let lines = text
        .lines()
        .filter(|line| line.starts_with("endpoint_slice_controller_"));
    let lines = lines.filter(|line| !line.contains("_bucket") && !line.contains("_sum"));
    lines
        .map(|line| line["endpoint_slice_controller_".len()..].to_owned())
        .collect()
}

// Upstream: TestNumEndpointsAndSlices, TestPlaceHolderSlice, TestCache_ServicesByTrafficDistribution,
// TestReconcileEndpointSlicesMetrics and those below it.
#[tokio::test(start_paused = true)]
async fn what_there_is_and_what_was_done_is_counted() {
    let settings = super::super::Settings {
        max_endpoints: 2,
        ..SETTINGS
    };
    let (world, context) = running_with(settings).await;
    service(
        &world,
        json!({"spec": {"trafficDistribution": "PreferClose"}}),
    )
    .await;
    world.wait_until_idle().await;
    for number in 1..=3 {
        pod(&world, &format!("p{number}"), &format!("10.0.0.{number}")).await;
    }
    world.wait_until_idle().await;
    let found = figures(&context.metrics.render());
    for expected in [
        "endpoints_desired 3",
        "num_endpoint_slices 2",
        "desired_endpoint_slices 2",
        r#"changes{operation="create"} 2"#,
        r#"services_count_by_traffic_distribution{traffic_distribution="PreferClose"} 1"#,
    ] {
        assert!(
            found.iter().any(|line| line == expected),
            "{expected}: {found:#?}"
        );
    }
    assert!(
        found
            .iter()
            .any(|line| line.starts_with(r#"syncs{result="success"}"#)),
        "{found:#?}"
    );
    let changed = r#"endpointslices_changed_per_sync_count{topology="Disabled",traffic_distribution="PreferClose"}"#;
    assert!(
        found.iter().any(|line| line.starts_with(changed)),
        "{found:#?}"
    );
    world
        .patch(
            &Service::TYPE,
            "web",
            json!({"spec": {"trafficDistribution": null}}),
        )
        .await;
    world.wait_until_idle().await;
    let gone = r#"services_count_by_traffic_distribution{traffic_distribution="PreferClose"} 0"#;
    assert!(
        figures(&context.metrics.render())
            .iter()
            .any(|line| line == gone)
    );
    world.delete(&Service::TYPE, "web").await;
    world.wait_until_idle().await;
    let found = figures(&context.metrics.render());
    for expected in [
        "endpoints_desired 0",
        "num_endpoint_slices 0",
        "desired_endpoint_slices 0",
    ] {
        assert!(
            found.iter().any(|line| line == expected),
            "{expected}: {found:#?}"
        );
    }
}

// Upstream: TestPlaceHolderSlice.
#[tokio::test(start_paused = true)]
async fn a_placeholder_is_a_slice_and_the_only_one_that_is_needed() {
    let (world, context) = running_with(SETTINGS).await;
    service(&world, json!({})).await;
    world.wait_until_idle().await;
    let found = figures(&context.metrics.render());
    for expected in [
        "endpoints_desired 0",
        "num_endpoint_slices 1",
        "desired_endpoint_slices 1",
    ] {
        assert!(
            found.iter().any(|line| line == expected),
            "{expected}: {found:#?}"
        );
    }
}

// Upstream: TestReconcileEndpointSlicesMetrics_EndpointsAddedPerSync_CollectAndCompare and …RemovedPerSync….
#[tokio::test(start_paused = true)]
async fn endpoints_that_come_and_go_are_counted_for_each_sync() {
    let (world, context) = running_with(SETTINGS).await;
    for number in 1..=3 {
        pod(&world, &format!("p{number}"), &format!("10.0.0.{number}")).await;
    }
    service(&world, json!({})).await;
    world.wait_until_idle().await;
    let now = api::kinds::Pod::TYPE;
    let gone = client::DeleteOptions {
        grace_period_seconds: Some(0),
        ..client::DeleteOptions::default()
    };
    world.delete_with(&now, "p1", &gone).await;
    world.wait_until_idle().await;
    let text = context.metrics.render();
    for expected in [
        "endpoints_added_per_sync_sum 3",
        "endpoints_removed_per_sync_sum 1",
    ] {
        assert!(
            text.contains(&format!("endpoint_slice_controller_{expected}")),
            "{text}"
        );
    }
}
