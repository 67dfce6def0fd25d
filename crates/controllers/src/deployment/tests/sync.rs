//! The whole controller, together with the ReplicaSet controller, against the embedded API server
//! on a virtual clock.

use api::Resource;
use api::kinds::{Deployment, ReplicaSet};
use expect_test::expect;
use runtime::decisions::Decisions;
use serde_json::{Value, json};
use testkit::World;

use super::super::controller;
use crate::{Tools, replicaset};

async fn world() -> World {
    let mut world = World::new().await;
    let tools = Tools {
        client: world.client.clone(),
        recorder: world.recorder.clone(),
        clock: world.clock.clone(),
        gates: api::Gates::default(),
        decisions: Decisions::new(),
    };
    let sets = replicaset::controller::<ReplicaSet>(&world.informers, tools.clone(), 5);
    let deployments = controller(&world.informers, tools, 5);
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
    for _ in 0..50 {
        world.settle().await;
        world.make_all_ready().await;
        world.finish_deletions().await;
    }
    world.settle().await;
}

#[tokio::test(start_paused = true)]
async fn rolls_from_one_template_to_the_next() {
    let world = world().await;
    world.create(&Deployment::TYPE, deployment(4)).await;
    roll_out(&world).await;
    world.written();
    world.patch(&Deployment::TYPE, "web", image("2")).await;
    roll_out(&world).await;
    let sets: Vec<String> = world
        .list(&ReplicaSet::TYPE)
        .await
        .iter()
        .map(|set| {
            format!(
                "{} {}",
                set["spec"]["template"]["spec"]["containers"][0]["image"], set["spec"]["replicas"]
            )
        })
        .collect();
    expect![[r#"
        "nginx:1" 0
        "nginx:2" 4"#]]
    .assert_eq(&sets.join("\n"));
    expect![[r#"
        POST replicasets
        PATCH replicasets/web-78f75f4bc6
        PUT deployments/web/status
        POST pods
        DELETE pods/web-78f75f4bc6-8xv9k
        PATCH replicasets/web-b6d7864df
        PUT replicasets/web-b6d7864df/status -> 409
        PUT replicasets/web-b6d7864df/status
        PUT replicasets/web-78f75f4bc6/status
        PUT deployments/web/status
        POST pods
        PUT replicasets/web-b6d7864df/status
        PUT deployments/web/status
        PUT replicasets/web-b6d7864df/status
        PATCH replicasets/web-78f75f4bc6
        PUT deployments/web/status
        DELETE pods/web-78f75f4bc6-rrsfc
        DELETE pods/web-78f75f4bc6-s6dk5
        PATCH replicasets/web-b6d7864df
        PUT replicasets/web-78f75f4bc6/status
        POST pods ×2
        PUT replicasets/web-b6d7864df/status
        PUT deployments/web/status
        PUT replicasets/web-b6d7864df/status
        PATCH replicasets/web-78f75f4bc6
        PUT deployments/web/status
        DELETE pods/web-78f75f4bc6-qsbs9
        PUT replicasets/web-78f75f4bc6/status
        PUT deployments/web/status"#]]
    .assert_eq(&world.written());
    world.settle().await;
    assert_eq!(world.written(), "", "a settled Deployment writes nothing");
}
