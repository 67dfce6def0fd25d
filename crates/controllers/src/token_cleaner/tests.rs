//! Against the embedded API server.

use std::time::Duration;

use api::Resource;
use api::kinds::Secret;
use serde_json::Value;
use testkit::World;

use super::controller;
use crate::bootstrap_token::test_secret;

async fn world() -> World {
    let mut world = World::new().await;
    let context = world.context();
    let running = controller(&context).run(world.stop());
    world.run(running);
    world.start().await;
    world
}

async fn create(world: &World, expiration: &str) -> Value {
    let data = format!("token-id=abc123 token-secret=s expiration={expiration}");
    let token = test_secret("bootstrap-token-abc123", &data).to_string();
    let created = world.user.create(&Secret::TYPE, "kube-system", token).await;
    serde_json::from_slice(&created.unwrap()).unwrap()
}

const DELETED: &str = "DELETE secrets/bootstrap-token-abc123";

// Upstream: TestCleanerExpired.
#[tokio::test(start_paused = true)]
async fn an_expired_token_is_deleted_by_its_uid() {
    for expiration in ["2023-12-31T23:59:59Z", "2024-01-01T00:00:00Z", "nonsense"] {
        let world = world().await;
        let made = create(&world, expiration).await;
        world.wait_until_idle().await;
        let writes = world.writes();
        assert_eq!(writes.len(), 1, "{expiration}");
        let preconditions = &writes[0].body["preconditions"];
        assert_eq!(preconditions["uid"], made["metadata"]["uid"]);
    }
}

// Upstream: TestCleanerNoExpiration, TestCleanerNotExpired.
#[tokio::test(start_paused = true)]
async fn a_token_that_has_not_expired_stays() {
    for expiration in ["", "2024-01-02T00:00:00Z"] {
        let world = world().await;
        create(&world, expiration).await;
        world.wait_until_idle().await;
        assert_eq!(world.written(), "", "{expiration}");
    }
}

// Upstream: TestCleanerExpiredAt.
#[tokio::test(start_paused = true)]
async fn a_token_is_deleted_when_it_expires() {
    let world = world().await;
    create(&world, "2024-01-01T00:02:00Z").await;
    tokio::time::sleep(Duration::from_secs(119)).await;
    assert_eq!(world.written(), "");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.written(), DELETED);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_is_tried_again() {
    for code in [409, 500] {
        let world = world().await;
        world.refuse("DELETE", "secrets/bootstrap-token-abc123", code, 1);
        create(&world, "2023-01-01T00:00:00Z").await;
        world.wait_until_idle().await;
        assert_eq!(world.written(), format!("{DELETED} -> {code}\n{DELETED}"));
    }
}

#[tokio::test(start_paused = true)]
async fn secrets_of_other_types_and_namespaces_are_left_alone() {
    let world = world().await;
    let expired = "expiration=2023-01-01T00:00:00Z";
    let mut other = test_secret("bootstrap-token-abc123", expired);
    other["type"] = "Opaque".into();
    let mut elsewhere = test_secret("bootstrap-token-abc123", expired);
    elsewhere["metadata"]["namespace"] = "default".into();
    for (namespace, object) in [("kube-system", other), ("default", elsewhere)] {
        let body = object.to_string();
        let created = world.user.create(&Secret::TYPE, namespace, body).await;
        created.unwrap();
    }
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}
