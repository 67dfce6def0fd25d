//! Behaviour of the controller, weakest test that suffices first.

mod eviction;
mod health;
mod invariants;
mod scheduling;
mod sync;
mod waiting;
mod zones;

use std::time::Duration;

use api::kinds::{Lease, Node, Pod};
use api::{MicroTime, Resource, ResourceType, Time};
use serde_json::{Value, json};
use testkit::World;

use super::{Patience, Rates, Settings, controller};

/// Upstream's defaults.
fn settings() -> Settings {
    Settings {
        period: Duration::from_secs(5),
        patience: Patience {
            monitor: Duration::from_secs(50),
            startup: Duration::from_secs(60),
        },
        rates: Rates {
            usual: 0.1,
            secondary: 0.01,
            large_zone: 50,
            unhealthy_share: 0.55,
        },
    }
}

fn at(second: u64) -> MicroTime {
    MicroTime::default().plus(Duration::from_secs(second))
}

/// `a Ready=True MemoryPressure=False hb=5 born=2 cordoned taint=key:Effect label=key=value uid=u`
fn node(text: &str) -> Node {
    let mut words = text.split_whitespace();
    let name = words.next().unwrap();
    let mut object = json!({
        "metadata": {"name": name, "uid": name, "labels": {}},
        "spec": {"taints": []}, "status": {"conditions": []},
    });
    for word in words {
        let (what, value) = word.split_once('=').unwrap_or((word, ""));
        let time = || json!(Time::from_unix(value.parse().unwrap()));
        match what {
            "cordoned" => object["spec"]["unschedulable"] = json!(true),
            "uid" => object["metadata"]["uid"] = json!(value),
            "born" => object["metadata"]["creationTimestamp"] = time(),
            "hb" => object["status"]["conditions"][0]["lastHeartbeatTime"] = time(),
            "taint" => {
                let (key, effect) = value.split_once(':').unwrap();
                push(
                    &mut object["spec"]["taints"],
                    json!({"key": key, "effect": effect}),
                );
            }
            "label" => {
                let (key, value) = value.split_once('=').unwrap();
                object["metadata"]["labels"][key] = json!(value);
            }
            type_ => push(
                &mut object["status"]["conditions"],
                json!({"type": type_, "status": value}),
            ),
        }
    }
    Node::decode(object.to_string().as_bytes()).unwrap()
}

fn push(list: &mut Value, item: Value) {
    list.as_array_mut().unwrap().push(item);
}

/// A world in which the controller runs.
async fn world_with(settings: Settings) -> World {
    let mut world = World::new().await;
    make_namespace(&world).await;
    start(&mut world, settings);
    world.start().await;
    world
}

async fn world() -> World {
    world_with(settings()).await
}

fn start(world: &mut World, settings: Settings) {
    let loops = controller(&world.context(), settings);
    for part in loops.into_runnables() {
        let running = part.run(world.stop());
        world.run(running);
    }
}

/// Where leases are.
async fn make_namespace(world: &World) {
    let namespaces = ResourceType::cluster("", "v1", "namespaces", "Namespace");
    let object = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": super::LEASES},
    });
    let _ = world.try_create(&namespaces, object).await;
}

/// Registers a node whose kubelet says that it is ready.
async fn make_node(world: &World, name: &str, labels: Value) {
    let now = world.clock.now().time();
    let condition = |type_: &str, status: &str| {
        json!({
            "type": type_, "status": status, "reason": "Kubelet", "message": "said so",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        })
    };
    let conditions = json!([
        condition("MemoryPressure", "False"),
        condition("DiskPressure", "False"),
        condition("PIDPressure", "False"),
        condition("Ready", "True"),
    ]);
    world
        .create(
            &Node::TYPE,
            json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
                "spec": {}, "status": {"conditions": conditions},
            }),
        )
        .await;
    beat(world, name).await;
}

/// A kubelet's heartbeat: renews the lease.
async fn beat(world: &World, name: &str) {
    let now = world.clock.now();
    let spec = json!({"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now});
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "namespace": super::LEASES}, "spec": spec,
    });
    let client = &world.user;
    let made = client
        .create(&Lease::TYPE, super::LEASES, lease.to_string())
        .await;
    if made.is_err_and(|error| error.is_already_exists()) {
        let patch = client::Patch::Merge(json!({"spec": spec}).to_string().into());
        client
            .patch(&Lease::TYPE, super::LEASES, name, None, &patch)
            .await
            .unwrap();
    }
}

/// What a kubelet says about the readiness of its node.
async fn report(world: &World, name: &str, status: &str) {
    let now = world.clock.now().time();
    let ready = json!({
        "type": "Ready", "status": status, "reason": "Kubelet", "message": "said so",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    });
    let patch = json!({"status": {"conditions": [ready]}}).to_string();
    let patch = client::Patch::Strategic(patch.into());
    world
        .user
        .patch(&Node::TYPE, "", name, Some("status"), &patch)
        .await
        .unwrap();
}

/// Lets time pass, during which these nodes renew their leases.
async fn pass(world: &World, seconds: u64, alive: &[&str]) {
    for _ in 0..seconds / 5 {
        for name in alive {
            beat(world, name).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}

async fn make_pod(world: &World, name: &str, node: &str) {
    world
        .create(
            &Pod::TYPE,
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                "spec": {"nodeName": node, "containers": [{"name": "c", "image": "nginx"}]},
            }),
        )
        .await;
    world.make_ready(name).await;
}

/// `Ready=Unknown(NodeStatusUnknown), …` in the order of the object.
async fn conditions(world: &World, name: &str) -> String {
    let node = world.get(&Node::TYPE, name).await.unwrap();
    let all = node["status"]["conditions"].as_array().unwrap().clone();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let one = |held: &Value| {
        let (type_, status) = (text(&held["type"]), text(&held["status"]));
        format!("{type_}={status}({})", text(&held["reason"]))
    };
    all.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// `key:Effect`, without the common part of the key.
async fn taints(world: &World, name: &str) -> String {
    let node = world.get(&Node::TYPE, name).await.unwrap();
    let all = node["spec"]["taints"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let one = |held: &Value| {
        let key = held["key"].as_str().unwrap_or_default();
        let key = key.trim_start_matches("node.kubernetes.io/");
        format!("{key}:{}", held["effect"].as_str().unwrap_or_default())
    };
    let mut all: Vec<String> = all.iter().map(one).collect();
    all.sort();
    all.join(" ")
}
