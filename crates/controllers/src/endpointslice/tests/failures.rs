//! Requests that fail, nodes that are missing, slices that somebody edits.

use std::time::Duration;

use api::Resource;
use api::kinds::{EndpointSlice, Node, Pod, Service};
use serde_json::json;

use super::world::{node, pod, published, running, service, slice};

#[tokio::test(start_paused = true)]
async fn what_fails_is_an_event_and_is_tried_again_after_a_second() {
    let world = running().await;
    world.refuse("POST", "default/endpointslices", 500, 2);
    let began = world.clock.now();
    service(&world, json!({})).await;
    tokio::time::sleep(Duration::from_millis(2900)).await;
    assert_eq!(world.written(), "POST endpointslices -> 500 ×2");
    world.wait_until_idle().await;
    assert_eq!(world.written(), "POST endpointslices");
    assert!(world.clock.now().since(began) > Duration::from_secs(3));
    let events = world.events().await;
    let expected = "Warning FailedToUpdateEndpointSlices Error updating Endpoint Slices for Service default/web: failed to create EndpointSlice for Service default/web: refused by the test: InternalError";
    assert_eq!(events, [expected]);
}

#[tokio::test(start_paused = true)]
async fn it_gives_up_after_fifteen_retries_until_something_changes() {
    let world = running().await;
    world.refuse("POST", "default/endpointslices", 500, 100);
    service(&world, json!({})).await;
    tokio::time::sleep(Duration::from_secs(3 * 3600)).await;
    assert_eq!(world.written(), "POST endpointslices -> 500 ×16");
}

// Upstream: TestReconcilerPodMissingNode.
#[tokio::test(start_paused = true)]
async fn a_pod_on_a_node_that_is_not_there_comes_with_the_node() {
    let world = running().await;
    service(&world, json!({})).await;
    pod(&world, "a", "10.0.0.1").await;
    world.wait_until_idle().await;
    world.delete(&Node::TYPE, "n1").await;
    pod(&world, "b", "10.0.0.2").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(published(&world).await, "");
    let events = world.events().await;
    let start = "Warning FailedToUpdateEndpointSlices Error updating Endpoint Slices for Service default/web: ";
    let both = "[skipping Pod a for Service default/web: Node n1 Not Found, skipping Pod b for Service default/web: Node n1 Not Found]";
    assert!(events.contains(&format!("{start}{both}")), "{events:?}");
    node(&world, "n1", "z1").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(published(&world).await, "10.0.0.1 10.0.0.2");
    assert_eq!(slice(&world).await["endpoints"][0]["zone"], "z1");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_deleted_is_no_failure() {
    let mut world = running().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going"}, "spec": {"finalizers": ["kubernetes"]}});
    world.create(&api::kinds::Namespace::TYPE, namespace).await;
    world.refuse("POST", "going/endpointslices", 500, 1);
    let object = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    });
    world
        .user
        .create(&Service::TYPE, "going", object.to_string())
        .await
        .unwrap();
    world.delete(&api::kinds::Namespace::TYPE, "going").await;
    world.wait_until_idle().await;
    let written = world.written();
    assert!(written.ends_with("POST endpointslices -> 403"), "{written}");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(world.written(), "", "it is not tried again");
    world.shut_down();
}

// Upstream: TestOnEndpointSliceUpdate; ours: slices that were edited or deleted by hand.
#[tokio::test(start_paused = true)]
async fn edited_and_deleted_slices_are_repaired() {
    let world = running().await;
    service(&world, json!({})).await;
    pod(&world, "a", "10.0.0.1").await;
    world.wait_until_idle().await;
    let name = slice(&world).await["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    world
        .patch(
            &EndpointSlice::TYPE,
            &name,
            json!({"endpoints": [{"addresses": ["10.9.9.9"]}]}),
        )
        .await;
    world.wait_until_idle().await;
    assert_eq!(published(&world).await, "10.0.0.1");
    world.delete(&EndpointSlice::TYPE, &name).await;
    world.wait_until_idle().await;
    assert_eq!(published(&world).await, "10.0.0.1");
    let name = slice(&world).await["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let mine = json!({"metadata": {"annotations": {"mine": "stays"}, "labels": {"mine": "goes"}}});
    world.patch(&EndpointSlice::TYPE, &name, mine).await;
    world.wait_until_idle().await;
    let held = slice(&world).await;
    assert_eq!(held["metadata"]["annotations"]["mine"], "stays");
    assert!(held["metadata"]["labels"]["mine"].is_null());
    let given = json!({"metadata": {"labels": {"endpointslice.kubernetes.io/managed-by": "me"}}});
    world.patch(&EndpointSlice::TYPE, &name, given).await;
    world.wait_until_idle().await;
    assert_eq!(
        published(&world).await,
        "10.0.0.1 | 10.0.0.1",
        "theirs, and a new one of ours"
    );
    world.written();
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn slices_that_were_there_before_us_are_looked_at_when_they_go() {
    let mut world = running().await;
    service(&world, json!({})).await;
    pod(&world, "a", "10.0.0.1").await;
    world.wait_until_idle().await;
    let name = slice(&world).await["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    // Another manager takes over, with caches of its own.
    world.informers.of::<EndpointSlice>().clear_listeners();
    world.informers.of::<Pod>().clear_listeners();
    world.informers.of::<Service>().clear_listeners();
    let loops = super::super::controller(&world.context(), super::world::SETTINGS);
    let running = loops.services.run(world.stop());
    world.run(running);
    world.wait_until_idle().await;
    world.written();
    world.delete(&EndpointSlice::TYPE, &name).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "POST endpointslices");
}

#[tokio::test(start_paused = true)]
async fn many_pods_are_written_in_few_requests() {
    let world = running().await;
    for number in 0..2500 {
        let object = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{number}"), "labels": {"app": "web"}},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
        });
        world.create(&Pod::TYPE, object).await;
        let ip = format!("10.0.{}.{}", number / 250, number % 250 + 1);
        super::world::set_ready(&world, &format!("p{number}"), &ip, "True").await;
    }
    service(&world, json!({})).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "POST endpointslices ×25");
    super::world::set_ready(&world, "p1234", "10.0.4.235", "False").await;
    world.wait_until_idle().await;
    let writes = world.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].body["endpoints"].as_array().unwrap().len(), 100);
}

// Upstream: TestSyncServiceEndpointSliceLabelSelection.
#[tokio::test(start_paused = true)]
async fn slices_of_others_are_left_alone() {
    let world = running().await;
    let theirs = |name: &str, service: &str, manager: &str| {
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "ports": [],
            "metadata": {"name": name, "labels": {
                "kubernetes.io/service-name": service, "endpointslice.kubernetes.io/managed-by": manager,
            }},
            "endpoints": [{"addresses": ["10.9.9.9"]}],
        })
    };
    let ours = "endpointslice-controller.k8s.io";
    for object in [
        theirs("mesh", "web", "mesh.example"),
        theirs("mirror", "web", "endpointslicemirroring-controller.k8s.io"),
        theirs("other", "db", ours),
    ] {
        world.create(&EndpointSlice::TYPE, object).await;
    }
    service(&world, json!({})).await;
    pod(&world, "a", "10.0.0.1").await;
    world.wait_until_idle().await;
    let written = world.written();
    assert!(
        !written.contains("DELETE") && !written.contains("mesh"),
        "{written}"
    );
    assert_eq!(
        published(&world).await,
        "-10.9.9.9 | -10.9.9.9 | -10.9.9.9 | 10.0.0.1"
    );
}
