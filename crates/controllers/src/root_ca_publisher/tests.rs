//! Against the embedded API server. Upstream: TestConfigMapCreation, TestConfigMapUpdateNoHotLoop.

use api::kinds::{ConfigMap, Namespace, ROOT_CA_CONFIG_MAP};
use api::{Key, Resource};
use runtime::Metrics;
use serde_json::{Value, json};
use testkit::World;

use super::controller;

async fn world() -> (World, Metrics) {
    let mut world = World::new().await;
    let context = world.context();
    let metrics = context.metrics.clone();
    let running = controller(&context, "the root", 1).run(world.stop());
    world.run(running);
    world.start().await;
    world.wait_until_idle().await;
    world.written();
    (world, metrics)
}

async fn held(world: &World) -> Value {
    world
        .get(&ConfigMap::TYPE, ROOT_CA_CONFIG_MAP)
        .await
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_namespace_has_it() {
    let (world, metrics) = world().await;
    assert_eq!(held(&world).await["data"], json!({"ca.crt": "the root"}));
    let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    world.create(&Namespace::TYPE, shop).await;
    world.wait_until_idle().await;
    let writes = world.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].path, "/api/v1/namespaces/shop/configmaps");
    assert_eq!(writes[0].body["data"], json!({"ca.crt": "the root"}));
    let text = metrics.render();
    assert!(
        text.contains(r#"root_ca_cert_publisher_sync_total{code="200"}"#),
        "{text}"
    );
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn external_changes_are_reverted() {
    let (world, _) = world().await;
    let changed = json!({
        "metadata": {"labels": {"mine": "stays"}, "annotations": null},
        "data": {"ca.crt": "forged", "more": "x"}, "binaryData": {"b": "AA=="},
    });
    world
        .patch(&ConfigMap::TYPE, ROOT_CA_CONFIG_MAP, changed)
        .await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "PUT configmaps/kube-root-ca.crt");
    let map = held(&world).await;
    assert_eq!(map["data"], json!({"ca.crt": "the root"}));
    assert_eq!(map["binaryData"], json!({"b": "AA=="}));
    assert_eq!(map["metadata"]["labels"]["mine"], "stays");
    let annotations = &map["metadata"]["annotations"];
    assert!(annotations["kubernetes.io/description"].is_string());

    let own = json!({"metadata": {"annotations": {"kubernetes.io/description": "my words"}}});
    world.patch(&ConfigMap::TYPE, ROOT_CA_CONFIG_MAP, own).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "", "another description is fine");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_one_comes_back() {
    let (world, _) = world().await;
    world.delete(&ConfigMap::TYPE, ROOT_CA_CONFIG_MAP).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "POST configmaps");
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}});
    world.create(&ConfigMap::TYPE, other).await;
    world.delete(&ConfigMap::TYPE, "other").await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "", "others are none of our business");
}

// Upstream: TestSyncCounter.
#[tokio::test(start_paused = true)]
async fn failures_are_counted_by_their_code_and_tried_again() {
    let (world, metrics) = world().await;
    world.refuse("POST", "default/configmaps", 403, 2);
    world.delete(&ConfigMap::TYPE, ROOT_CA_CONFIG_MAP).await;
    world.wait_until_idle().await;
    assert_eq!(
        world.written(),
        "POST configmaps -> 403 ×2\nPOST configmaps"
    );
    let text = metrics.render();
    let line = r#"root_ca_cert_publisher_sync_total{code="403"} 2"#;
    assert!(text.contains(line), "{text}");
}

/// Its map may go before the cache has seen it come: there is nothing yet to decide about.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_not_in_the_cache_has_no_decision() {
    let world = World::new().await;
    let context = world.context();
    let publisher = controller(&context, "the root", 1);
    let default = Key::new("", "default");
    publisher.reconcile(&default).await.unwrap();
    assert_eq!(world.written(), "POST configmaps");
    assert_eq!(context.decisions.controllers(), [""; 0]);
}
