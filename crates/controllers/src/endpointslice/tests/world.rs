//! A cluster with a node, a service and some pods.

use std::time::Duration;

use api::Resource;
use api::kinds::{EndpointSlice, Node, Pod, Service};
use runtime::Context;
use serde_json::{Value, json};
use testkit::World;

use super::super::{Settings, controller};

pub(super) const SETTINGS: Settings = Settings {
    workers: 2,
    max_endpoints: 100,
    batch: Duration::ZERO,
};

/// A world in which the controller runs, with the node `n1`.
pub(super) async fn running() -> World {
    running_with(SETTINGS).await.0
}

pub(super) async fn running_with(settings: Settings) -> (World, Context) {
    let mut world = World::new().await;
    let context = world.context();
    let loops = controller(&context, settings);
    let (services, nodes) = (
        loops.services.run(world.stop()),
        loops.nodes.run(world.stop()),
    );
    world.run(services);
    world.run(nodes);
    world.start().await;
    node(&world, "n1", "").await;
    (world, context)
}

pub(super) async fn node(world: &World, name: &str, zone: &str) {
    let mut labels = json!({"kubernetes.io/hostname": name});
    if !zone.is_empty() {
        labels["topology.kubernetes.io/zone"] = json!(zone);
    }
    let object =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
    world.create(&Node::TYPE, object).await;
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let status = json!({"allocatable": {"cpu": "4"}, "conditions": ready});
    world
        .patch_subresource(&Node::TYPE, name, Some("status"), json!({"status": status}))
        .await;
}

pub(super) async fn service(world: &World, patch: Value) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "labels": {"team": "a"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
    });
    super::case::merge(&mut object, &patch);
    world.create(&Service::TYPE, object).await
}

/// A pod on `n1` that is ready, with this address.
pub(super) async fn pod(world: &World, name: &str, ip: &str) {
    let object = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    });
    world.create(&Pod::TYPE, object).await;
    set_ready(world, name, ip, "True").await;
}

pub(super) async fn set_ready(world: &World, name: &str, ip: &str, ready: &str) {
    let at = world.clock.now().time();
    let condition = json!({"type": "Ready", "status": ready, "lastTransitionTime": at});
    let status =
        json!({"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [condition]});
    world.pod_status(name, status).await;
}

/// `10.0.0.1 -10.0.0.2` for each slice: what is published.
pub(super) async fn published(world: &World) -> String {
    let slices = world.list(&EndpointSlice::TYPE).await;
    let mut texts: Vec<String> = slices.iter().map(slice_text).collect();
    texts.sort();
    texts.join(" | ")
}

fn slice_text(slice: &Value) -> String {
    let mut endpoints: Vec<String> = slice["endpoints"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|endpoint| {
            let mark = if endpoint["conditions"]["ready"] == true {
                ""
            } else {
                "-"
            };
            format!("{mark}{}", endpoint["addresses"][0].as_str().unwrap_or("?"))
        })
        .collect();
    endpoints.sort();
    endpoints.join(" ")
}

/// The only slice.
pub(super) async fn slice(world: &World) -> Value {
    let mut slices = world.list(&EndpointSlice::TYPE).await;
    assert_eq!(slices.len(), 1, "{slices:?}");
    slices.remove(0)
}
