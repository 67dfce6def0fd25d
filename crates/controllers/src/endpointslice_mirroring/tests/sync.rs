//! Against the embedded API server. Upstream: TestSyncEndpoints, TestEndpointSlicesMirroredForService.

use std::time::Duration;

use api::Resource;
use api::kinds::{EndpointSlice, Endpoints, Service};
use runtime::Context;
use serde_json::{Value, json};
use testkit::World;

use super::super::{Settings, controller};

pub(super) async fn running() -> World {
    running_with_metrics().await.0
}

async fn running_with_metrics() -> (World, Context) {
    let mut world = World::new().await;
    let settings = Settings {
        workers: 2,
        max_addresses: 3,
        batch: Duration::ZERO,
    };
    let context = world.context();
    let running = controller(&context, settings).run(world.stop());
    world.run(running);
    world.start().await;
    (world, context)
}

pub(super) async fn service(world: &World, selector: Value) {
    let object = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": selector, "ports": [{"name": "http", "port": 80}]},
    });
    world.create(&Service::TYPE, object).await;
}

async fn endpoints(world: &World, addresses: &[&str]) -> Value {
    let object = annotated(addresses, "y");
    world.create(&Endpoints::TYPE, object).await
}

pub(super) fn annotated(addresses: &[&str], annotation: &str) -> Value {
    let addresses: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
    json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": "web", "labels": {"mine": "x"}, "annotations": {"also": annotation}},
        "subsets": [{"addresses": addresses, "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}],
    })
}

#[tokio::test(start_paused = true)]
async fn endpoints_of_a_service_without_selector_are_mirrored() {
    let world = running().await;
    service(&world, json!(null)).await;
    let object = endpoints(&world, &["10.0.0.1"]).await;
    world.wait_until_idle().await;
    let writes = world.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(
        writes[0].body,
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "generateName": "web-", "namespace": "default", "annotations": {"also": "y"},
                "labels": {
                    "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
                    "kubernetes.io/service-name": "web", "mine": "x",
                },
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Endpoints", "name": "web", "uid": object["metadata"]["uid"],
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true}}],
            "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
        })
    );
    world.wait_until_idle().await;
    assert_eq!(world.written(), "", "a second sync writes nothing");
    let slices = world.list(&EndpointSlice::TYPE).await;
    let name = slices[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let more = json!([{"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}], "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}]);
    world
        .patch(&Endpoints::TYPE, "web", json!({"subsets": more}))
        .await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), format!("PUT endpointslices/{name}"));
    // Somebody deletes or edits the slice.
    world.delete(&EndpointSlice::TYPE, &name).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "POST endpointslices");
    world.delete(&Endpoints::TYPE, "web").await;
    world.wait_until_idle().await;
    assert!(world.written().starts_with("DELETE endpointslices/web-"));
    assert!(world.list(&EndpointSlice::TYPE).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_mirrored_without_a_service_or_with_a_selector() {
    let world = running().await;
    endpoints(&world, &["10.0.0.1"]).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
    service(&world, json!(null)).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "POST endpointslices");
    world
        .patch(
            &Service::TYPE,
            "web",
            json!({"spec": {"selector": {"app": "web"}}}),
        )
        .await;
    world.wait_until_idle().await;
    assert!(world.written().starts_with("DELETE endpointslices/web-"));
    world
        .patch(&Service::TYPE, "web", json!({"spec": {"selector": null}}))
        .await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "POST endpointslices");
    let skip = json!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}});
    world.patch(&Endpoints::TYPE, "web", skip).await;
    world.wait_until_idle().await;
    assert!(world.written().starts_with("DELETE endpointslices/web-"));
    world.delete(&Service::TYPE, "web").await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_were_written_from_pods_are_read_in_full_once_their_selector_is_gone() {
    let world = running().await;
    endpoints(&world, &["10.0.0.1"]).await;
    let managed = json!({"metadata": {"labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}}});
    world.patch(&Endpoints::TYPE, "web", managed).await;
    service(&world, json!(null)).await;
    world.wait_until_idle().await;
    let slices = world.list(&EndpointSlice::TYPE).await;
    assert_eq!(slices[0]["endpoints"][0]["addresses"][0], "10.0.0.1");
}

#[tokio::test(start_paused = true)]
async fn skipped_addresses_are_reported() {
    let world = running().await;
    service(&world, json!(null)).await;
    endpoints(&world, &["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]).await;
    world.wait_until_idle().await;
    let slices = world.list(&EndpointSlice::TYPE).await;
    assert_eq!(slices[0]["endpoints"].as_array().unwrap().len(), 3);
    assert_eq!(
        world.events().await,
        [
            "Warning TooManyAddressesToMirror A max of 3 addresses can be mirrored to EndpointSlices per Endpoints subset. 1 addresses were skipped"
        ]
    );
    world.refuse("PUT", "endpointslices", 500, 1);
    world.wait_until_idle().await;
    assert_eq!(world.written(), "POST endpointslices");
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_tried_again_after_a_second() {
    let world = running().await;
    service(&world, json!(null)).await;
    world.refuse("POST", "default/endpointslices", 500, 2);
    endpoints(&world, &["10.0.0.1"]).await;
    tokio::time::sleep(Duration::from_millis(2900)).await;
    assert_eq!(world.written(), "POST endpointslices -> 500 ×2");
    world.wait_until_idle().await;
    assert_eq!(world.written(), "POST endpointslices");
}

// Upstream: TestReconcile (metrics), TestNumEndpointsAndSlices.
#[tokio::test(start_paused = true)]
async fn what_is_mirrored_is_counted() {
    let (world, context) = running_with_metrics().await;
    service(&world, json!(null)).await;
    endpoints(&world, &["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]).await;
    world.wait_until_idle().await;
    let has = |lines: &[&str]| {
        let text = context.metrics.render();
        for line in lines {
            let line = format!("endpoint_slice_mirroring_controller_{line}\n");
            assert!(text.contains(&line), "{line}{text}");
        }
    };
    has(&[
        "endpoints_desired 3",
        "num_endpoint_slices 1",
        "desired_endpoint_slices 1",
        r#"changes{operation="create"} 1"#,
        "endpoints_added_per_sync_sum 3",
        "addresses_skipped_per_sync_sum 1",
        "endpoints_sync_duration_count 2",
    ]);
    world.delete(&Endpoints::TYPE, "web").await;
    world.wait_until_idle().await;
    has(&[
        "endpoints_desired 0",
        "num_endpoint_slices 0",
        "desired_endpoint_slices 0",
        r#"changes{operation="delete"} 1"#,
    ]);
}
