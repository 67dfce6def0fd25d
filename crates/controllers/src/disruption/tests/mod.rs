//! Behaviour of the controller, weakest test that suffices first.

mod evictions;
mod owners;
mod plan;
mod stale;
mod sync;

use api::Resource;
use api::kinds::{Pod, PodDisruptionBudget, ReplicaSet};
use serde_json::{Value, json};
use testkit::World;

use super::controller;

/// A world in which the controller runs.
async fn running() -> World {
    let mut world = World::new().await;
    let running = controller(&world.context()).run(world.stop());
    world.run(running);
    world.start().await;
    world
}

/// A budget called `b` over pods with the label `app: web`.
async fn budget(world: &World, mut spec: Value) {
    if spec["selector"].is_null() {
        spec["selector"] = json!({"matchLabels": {"app": "web"}});
    }
    let object = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec,
    });
    world.create(&PodDisruptionBudget::TYPE, object).await;
}

/// A ready pod with the label `app: web`, which this object controls.
async fn pod(world: &World, name: &str, owner: Option<&Value>) {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    });
    if let Some(owner) = owner {
        pod["metadata"]["ownerReferences"] = json!([reference(owner)]);
    }
    world.create(&Pod::TYPE, pod).await;
    world.make_ready(name).await;
}

fn reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "controller": true,
    })
}

async fn replica_set(world: &World, name: &str, replicas: i32) -> Value {
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template()},
    });
    world.create(&ReplicaSet::TYPE, set).await
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

/// `1 allowed, 3 healthy of 2, 3 expected`, and why not where the condition has something to say.
async fn status(world: &World) -> String {
    world.wait_until_idle().await;
    let budget = world.get(&PodDisruptionBudget::TYPE, "b").await.unwrap();
    let status = &budget["status"];
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    let mut text = format!(
        "{} allowed, {} healthy of {}, {} expected",
        number("disruptionsAllowed"),
        number("currentHealthy"),
        number("desiredHealthy"),
        number("expectedPods"),
    );
    let message = status["conditions"][0]["message"].as_str();
    if let Some(message) = message.filter(|message| !message.is_empty()) {
        let reason = status["conditions"][0]["reason"].as_str().unwrap();
        text.push_str(&format!(" ({reason}: {message})"));
    }
    text
}
