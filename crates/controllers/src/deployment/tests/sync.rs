//! The whole controller, together with the ReplicaSet controller, against the embedded API server
//! on a virtual clock.

mod adoption;
mod failures;
mod recreate;
mod rollback;
mod rolling;

use api::Resource;
use api::kinds::{Deployment, ReplicaSet};
use serde_json::{Value, json};
use testkit::World;

use super::super::{controller, converged};
use crate::replicaset;

async fn world() -> World {
    let mut world = World::new().await;
    let context = world.context();
    let sets = replicaset::controller::<ReplicaSet>(&context, 5);
    let deployments = controller(&context, 5);
    for running in [sets, deployments] {
        world.run(running.run(world.stop()));
    }
    world.start().await;
    world
}

fn deployment(replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "nginx:1"}]},
            },
        },
    })
}

fn image(tag: &str) -> Value {
    let container = json!({"name": "c", "image": format!("nginx:{tag}")});
    json!({"spec": {"template": {"spec": {"containers": [container]}}}})
}

/// Lets pods come and go until nothing moves any more.
async fn roll_out(world: &World) {
    loop {
        world.wait_until_idle().await;
        let before = sets(world).await;
        world.make_all_ready().await;
        world.finish_deletions().await;
        world.wait_until_idle().await;
        if sets(world).await == before && !world.pod_names().await.is_empty() {
            return;
        }
    }
}

/// The user changes the Deployment.
async fn edit(world: &World, patch: Value) {
    world.patch(&Deployment::TYPE, "web", patch).await;
}

async fn web(world: &World) -> Value {
    world.get(&Deployment::TYPE, "web").await.unwrap()
}

/// Of each set, oldest revision first: revision, image, pods wanted, pods available.
async fn sets(world: &World) -> String {
    let mut lines: Vec<String> = world
        .list(&ReplicaSet::TYPE)
        .await
        .iter()
        .map(line)
        .collect();
    lines.sort();
    lines.join("\n")
}

fn line(set: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("none").to_string();
    format!(
        "{} {} {}/{}",
        text(&set["metadata"]["annotations"]["deployment.kubernetes.io/revision"]),
        text(&set["spec"]["template"]["spec"]["containers"][0]["image"]),
        set["status"]["availableReplicas"].as_i64().unwrap_or(0),
        set["spec"]["replicas"],
    )
}

/// Type, status, reason and message of each condition.
async fn conditions(world: &World) -> String {
    let deployment = web(world).await;
    let line = |held: &Value| {
        let text = |field: &str| held[field].as_str().unwrap_or_default().to_string();
        let words = ["type", "status", "reason", "message"].map(text);
        words.join(" ")
    };
    let mut lines: Vec<String> = deployment["status"]["conditions"]
        .as_array()
        .map(|all| all.iter().map(line).collect())
        .unwrap_or_default();
    lines.sort();
    lines.join("\n")
}

/// Names that carry a hash say little in an expectation: the hash becomes the image's tag.
async fn without_hashes(world: &World, text: &str) -> String {
    let mut text = text.to_string();
    for set in world.list(&ReplicaSet::TYPE).await {
        let image = set["spec"]["template"]["spec"]["containers"][0]["image"].as_str();
        let tag = image
            .and_then(|image| image.split_once(':'))
            .map_or("", |split| split.1);
        let name = set["metadata"]["name"].as_str().unwrap();
        text = text.replace(name, &format!("web-v{tag}"));
    }
    text
}

/// Events of the Deployment so far, by time and then by text.
async fn events(world: &World) -> String {
    let events = api::ResourceType::namespaced("", "v1", "events", "Event");
    let mut lines: Vec<String> = world
        .list(&events)
        .await
        .iter()
        .filter(|event| event["involvedObject"]["kind"] == "Deployment")
        .map(|event| {
            let text = |field: &str| event[field].as_str().unwrap_or_default().to_string();
            let at = text("firstTimestamp");
            format!(
                "{} {} {} {}",
                &at[14..19],
                text("type"),
                text("reason"),
                text("message")
            )
        })
        .collect();
    lines.sort();
    without_hashes(world, &lines.join("\n")).await
}

/// The invariant that the simulator checks holds for the Deployment as the server has it.
async fn assert_converged(world: &World) {
    let decode = |value: &Value| ReplicaSet::decode(value.to_string().as_bytes()).unwrap();
    let sets = world.list(&ReplicaSet::TYPE).await;
    let sets: Vec<_> = sets.iter().map(decode).map(std::sync::Arc::new).collect();
    let deployment = Deployment::decode(web(world).await.to_string().as_bytes()).unwrap();
    assert_eq!(converged(&deployment, &sets), Ok(()));
}
