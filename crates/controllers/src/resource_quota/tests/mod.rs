//! Plans first, then the whole against the embedded API server.

mod hostile;
mod kinds;
mod plan;
mod sync;

use api::kinds::ResourceQuota;
use api::{Resource, ResourceType};
use runtime::informer::{MetadataStreams, StreamOptions};
use serde_json::{Value, json};
use testkit::World;

use super::controller;
use std::time::Duration;

const CONFIG_MAPS: ResourceType = ResourceType::namespaced("", "v1", "configmaps", "ConfigMap");

/// A world with a quota controller that recounts everything every five minutes.
async fn world() -> (World, MetadataStreams) {
    let mut world = World::new().await;
    let options = StreamOptions {
        rng: world.rng.fork(),
        resync: None,
    };
    let streams = MetadataStreams::new(world.client.clone(), options);
    let context = world.context();
    let running = controller(&context, &streams, 5, Duration::from_secs(300)).run(world.stop());
    world.run(running);
    world.start().await;
    world.wait_until_idle().await;
    (world, streams)
}

async fn create_quota(world: &World, name: &str, spec: Value) {
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": spec});
    world.create(&ResourceQuota::TYPE, quota).await;
    world.wait_until_idle().await;
}

async fn status(world: &World, name: &str) -> Value {
    world.get(&ResourceQuota::TYPE, name).await.unwrap()["status"].clone()
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn pod(name: &str, cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}]}})
}
