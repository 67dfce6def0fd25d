//! Signatures first, then the whole against the embedded API server.

use std::time::Duration;

use api::kinds::{ConfigMap, Secret};
use api::{Resource, Time};
use serde_json::{Value, json};
use testkit::World;

use super::controller;
use super::plan::detached_signature;
use crate::bootstrap_token::Token;
use crate::bootstrap_token::test_secret;

/// Of the content `payload` by the token `abc123` with the secret `tokenSecret`; upstream's tests have the same.
const SIGNATURE: &str =
    "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiYzEyMyJ9..QSxpUG7Q542CirTI2ECPSZjvBOJURUW5a7XqFpNI958";

const TOKEN: &str = "token-id=abc123 token-secret=tokenSecret usage-bootstrap-signing=true";

#[test]
fn a_signature_is_the_one_that_kubeadm_expects() {
    let token = Token {
        id: "abc123".into(),
        secret: b"tokenSecret".to_vec(),
        expires_at: None,
    };
    assert_eq!(detached_signature("payload", &token), SIGNATURE);
}

async fn world() -> World {
    let mut world = World::new().await;
    let context = world.context();
    let running = controller(&context).run(world.stop());
    world.run(running);
    world.start().await;
    world
}

async fn create(world: &World, namespace: &str, resource: &api::ResourceType, object: &Value) {
    let created = world.user.create(resource, namespace, object.to_string());
    created.await.unwrap();
}

async fn create_token(world: &World, data: &str) {
    let token = test_secret("bootstrap-token-abc123", data);
    create(world, "kube-system", &Secret::TYPE, &token).await;
}

async fn create_info(world: &World, data: Value) {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {"name": "cluster-info", "namespace": "kube-public", "annotations": {"a": "b"}},
    });
    create(world, "kube-public", &ConfigMap::TYPE, &map).await;
}

async fn data(world: &World) -> Value {
    let map = world
        .user
        .get(&ConfigMap::TYPE, "kube-public", "cluster-info")
        .await;
    let map: Value = serde_json::from_slice(&map.unwrap()).unwrap();
    assert_eq!(map["metadata"]["annotations"], json!({"a": "b"}));
    map["data"].clone()
}

// Upstream: TestSimpleSign, TestNoSignNeeded.
#[tokio::test(start_paused = true)]
async fn each_token_signs_once() {
    let world = world().await;
    create_info(&world, json!({"kubeconfig": "payload", "other": "stays"})).await;
    create_token(&world, TOKEN).await;
    world.wait_until_idle().await;
    let expected =
        json!({"kubeconfig": "payload", "other": "stays", "jws-kubeconfig-abc123": SIGNATURE});
    let writes = world.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].body["data"], expected);
    assert_eq!(data(&world).await, expected);
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

// Upstream: TestUpdateSignature.
#[tokio::test(start_paused = true)]
async fn an_old_or_forged_signature_is_replaced() {
    let world = world().await;
    create_token(&world, TOKEN).await;
    create_info(&world, json!({"kubeconfig": "payload", "jws-kubeconfig-abc123": "old", "jws-kubeconfig-ghost0": "forged"})).await;
    world.wait_until_idle().await;
    let expected = json!({"kubeconfig": "payload", "jws-kubeconfig-abc123": SIGNATURE});
    assert_eq!(data(&world).await, expected);
}

// Upstream: TestRemoveSignature, TestNoConfigMap.
#[tokio::test(start_paused = true)]
async fn a_signature_goes_with_its_token_and_without_a_map_nothing_happens() {
    let world = world().await;
    create_token(&world, TOKEN).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
    create_info(&world, json!({"kubeconfig": "payload"})).await;
    world.wait_until_idle().await;
    let deleted = world
        .user
        .delete(
            &Secret::TYPE,
            "kube-system",
            "bootstrap-token-abc123",
            &client::DeleteOptions::default(),
        )
        .await;
    deleted.unwrap();
    world.wait_until_idle().await;
    assert_eq!(data(&world).await, json!({"kubeconfig": "payload"}));
}

#[tokio::test(start_paused = true)]
async fn a_signature_goes_when_its_token_expires() {
    let world = world().await;
    create_info(&world, json!({"kubeconfig": "payload"})).await;
    let expiration = Time::from_unix(1_704_067_200 + 600);
    create_token(&world, &format!("{TOKEN} expiration={expiration}")).await;
    world.wait_until_idle().await;
    assert_eq!(data(&world).await["jws-kubeconfig-abc123"], SIGNATURE);
    tokio::time::sleep(Duration::from_secs(601)).await;
    assert_eq!(data(&world).await, json!({"kubeconfig": "payload"}));
}

#[tokio::test(start_paused = true)]
async fn a_map_without_kubeconfig_is_left_alone() {
    let world = world().await;
    create_token(&world, TOKEN).await;
    create_info(&world, json!({"jws-kubeconfig-abc123": "old"})).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}
