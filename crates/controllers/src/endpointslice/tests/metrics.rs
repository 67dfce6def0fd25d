//! Upstream's figures. Upstream: metrics/cache_test.go, TestReconcile…metrics (expectMetrics).

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

// Upstream: TestNumEndpointsAndSlices, TestPlaceHolderSlice, TestUpdateTrafficDistributionForService? , TestReconcileMaxEndpointsPerSlice (metrics), trackSync.
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
    world.settle().await;
    for number in 1..=3 {
        pod(&world, &format!("p{number}"), &format!("10.0.0.{number}")).await;
    }
    world.settle().await;
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
    world.settle().await;
    let gone = r#"services_count_by_traffic_distribution{traffic_distribution="PreferClose"} 0"#;
    assert!(
        figures(&context.metrics.render())
            .iter()
            .any(|line| line == gone)
    );
    world.delete(&Service::TYPE, "web").await;
    world.settle().await;
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
