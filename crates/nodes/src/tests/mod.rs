//! The whole simulated cluster against the embedded API server, under virtual time.

mod containers;
mod devices;
mod identity;
mod life;
mod load_balancers;
mod scheduling;
mod sources;
mod storage;
mod termination;

use std::time::Duration;

use api::{Resource, ResourceType};
use serde_json::{Value, json};
use testkit::World;

use crate::{Cluster, Config};

const PODS: ResourceType = crate::pod::Pod::TYPE;
const NODES: ResourceType = crate::node::Node::TYPE;

async fn world(config: Config) -> World {
    let mut world = World::new().await;
    let cluster = Cluster::new(
        world.client.clone(),
        config,
        world.clock.clone(),
        world.rng.fork(),
    );
    let stop = world.stop();
    world.run(cluster.run(stop));
    pass(&world, 5).await;
    world
}

async fn pass(_world: &World, seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn pod(name: &str, more: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "web", "image": "nginx"}]},
    });
    merge(&mut pod, more);
    pod
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let all = object["status"]["conditions"]
        .as_array()
        .expect("conditions");
    all.iter()
        .find(|one| one["type"] == kind)
        .unwrap_or(&Value::Null)
}
