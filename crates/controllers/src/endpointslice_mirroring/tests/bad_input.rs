//! What nobody should send, and somebody does: never a panic, never a hot loop, and the right slices at rest.

use std::time::Duration;

use api::Resource;
use api::kinds::{EndpointSlice, Endpoints};
use serde_json::json;

use super::super::plan::plan;
use super::plan::snapshot;
use super::sync::{annotated, running, service};

#[test]
fn a_hundred_ports_are_one_slice_and_a_hundred_subsets_a_hundred() {
    let ports: Vec<String> = (1..=100).map(|port| port.to_string()).collect();
    let together = format!("10.0.0.1 -10.0.0.2 @{}", ports.join(","));
    let together = snapshot(&together, json!({}));
    let found = plan(&together);
    let [only] = found.create.as_slice() else {
        panic!("{} slices", found.create.len());
    };
    assert_eq!((only.ports.len(), only.endpoints.len()), (100, 2));
    let apart: Vec<String> = ports
        .iter()
        .map(|port| format!("10.0.0.{port} @{port}"))
        .collect();
    let apart = snapshot(&apart.join(" | "), json!({}));
    assert_eq!(plan(&apart).create.len(), 100);
}

#[tokio::test(start_paused = true)]
async fn annotations_are_mirrored_up_to_what_the_server_takes() {
    let world = running().await;
    service(&world, json!(null)).await;
    let million = annotated(&["10.0.0.1"], &"x".repeat(1_000_000));
    let refused = world.try_create(&Endpoints::TYPE, million).await;
    assert!(refused.unwrap_err().is_invalid());
    let filled = "x".repeat((256 << 10) - "also".len());
    let object = annotated(&["10.0.0.1"], &filled);
    world.create(&Endpoints::TYPE, object).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "POST endpointslices");
    let slices = world.list(&EndpointSlice::TYPE).await;
    assert_eq!(slices[0]["metadata"]["annotations"]["also"], filled);
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn a_slice_that_no_server_takes_is_no_hot_loop() {
    let world = running().await;
    service(&world, json!(null)).await;
    world.refuse("POST", "default/endpointslices", 422, 100);
    let object = annotated(&["10.0.0.1"], "y");
    world.create(&Endpoints::TYPE, object).await;
    tokio::time::sleep(Duration::from_secs(3 * 3600)).await;
    assert_eq!(world.written(), "POST endpointslices -> 422 ×16");
}
