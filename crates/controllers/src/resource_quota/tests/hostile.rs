//! Input that nobody means well.

use api::Resource;
use api::kinds::{Pod, ResourceQuota};
use serde_json::json;

use super::*;

#[tokio::test(start_paused = true)]
async fn negative_and_unknown_resources_are_refused_by_the_server() {
    let (world, _) = world().await;
    let quota = |hard: serde_json::Value| json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}});
    for hard in [
        json!({"pods": "-1"}),
        json!({"nonsense": "1"}),
        json!({"pods": "1.5"}),
    ] {
        let refused = world
            .try_create(&ResourceQuota::TYPE, quota(hard.clone()))
            .await;
        assert!(refused.is_err(), "{hard}");
    }
}

#[tokio::test(start_paused = true)]
async fn amounts_at_the_limits_are_counted() {
    let (world, _) = world().await;
    let hard = json!({"requests.cpu": "9223372036854775807", "requests.memory": "1e90", "count/x.y.z": "1",
        "requests.example.com/x": "9e15"});
    create_quota(&world, "q", json!({"hard": hard})).await;
    for name in ["a", "b"] {
        let mut huge = pod(name, "9223372036854775");
        huge["spec"]["containers"][0]["resources"]["requests"]["memory"] = json!("8E");
        world.create(&Pod::TYPE, huge).await;
    }
    world.wait_until_idle().await;
    assert_eq!(
        status(&world, "q").await["used"],
        json!({"requests.cpu": "18446744073709550", "requests.memory": "16E", "requests.example.com/x": "0"})
    );
    world.writes();
    tokio::time::sleep(Duration::from_secs(400)).await;
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn hundreds_of_quotas_in_one_namespace_are_all_kept() {
    let (world, _) = world().await;
    for number in 0..300 {
        let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": {"name": format!("q{number}")}, "spec": {"hard": {"pods": "500"}}});
        world.create(&ResourceQuota::TYPE, quota).await;
    }
    world.wait_until_idle().await;
    world.create(&Pod::TYPE, pod("a", "1m")).await;
    let now = client::DeleteOptions {
        grace_period_seconds: Some(0),
        ..client::DeleteOptions::default()
    };
    world.delete_with(&Pod::TYPE, "a", &now).await;
    world.create(&Pod::TYPE, pod("b", "1m")).await;
    world.wait_until_idle().await;
    for quota in world.list(&ResourceQuota::TYPE).await {
        assert_eq!(
            quota["status"]["used"],
            json!({"pods": "1"}),
            "{}",
            quota["metadata"]["name"]
        );
    }
    world.writes();
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}
