//! The whole controller against the embedded API server, on a virtual clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::kinds::{Namespace, Pod};
use api::{Gate, Gates, Resource, ResourceType};
use client::DeleteOptions;
use serde_json::{Value, json};
use testkit::World;

use super::super::controller;
use runtime::Context;

const CONFIG_MAP: ResourceType = ResourceType::namespaced("", "v1", "configmaps", "ConfigMap");

async fn world() -> World {
    world_with(Gates::default()).await
}

async fn world_with(gates: Gates) -> World {
    let mut world = World::new().await;
    let context = Context {
        gates,
        ..world.context()
    };
    let running = controller(&context, 5).run(world.stop());
    world.run(running);
    world.start().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    world.create(&Namespace::TYPE, namespace).await;
    world
}

async fn put(world: &World, resource: &ResourceType, object: Value) {
    let made = world
        .user
        .create(resource, "shop", object.to_string())
        .await;
    made.unwrap();
}

fn config_map(finalizers: &[&str]) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "finalizers": finalizers}})
}

fn condition(namespace: &Value, type_: &str) -> String {
    let all = namespace["status"]["conditions"].as_array().unwrap();
    let one = all.iter().find(|one| one["type"] == type_).unwrap();
    format!(
        "{} {}",
        one["status"].as_str().unwrap(),
        one["message"].as_str().unwrap()
    )
}

#[tokio::test(start_paused = true)]
async fn a_namespace_goes_with_all_that_is_in_it() {
    let world = world().await;
    put(&world, &CONFIG_MAP, config_map(&[])).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.written(), "", "it is alive");
    world.delete(&Namespace::TYPE, "shop").await;
    tokio::time::sleep(Duration::from_millis(1900)).await;
    assert!(
        world.written().is_empty(),
        "two seconds for all to hear of it"
    );
    world.wait_until_idle().await;
    world.wait_until_idle().await;
    assert!(world.get(&Namespace::TYPE, "shop").await.is_none());
    assert_eq!(
        world.written(),
        "DELETE configmaps\nPUT status\nPUT finalize",
        "nothing is deleted of which there is none"
    );
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn what_is_held_is_named_and_waited_for() {
    let world = world().await;
    put(&world, &CONFIG_MAP, config_map(&["example.com/hold"])).await;
    world.delete(&Namespace::TYPE, "shop").await;
    tokio::time::sleep(Duration::from_secs(12)).await;
    let namespace = world.get(&Namespace::TYPE, "shop").await.unwrap();
    assert_eq!(namespace["status"]["phase"], "Terminating");
    assert_eq!(
        condition(&namespace, "NamespaceContentRemaining"),
        "True Some resources are remaining: configmaps. has 1 resource instances"
    );
    assert_eq!(
        condition(&namespace, "NamespaceFinalizersRemaining"),
        "True Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
    );
    let free = client::Patch::Merge(r#"{"metadata":{"finalizers":null}}"#.into());
    let freed = world
        .user
        .patch(&CONFIG_MAP, "shop", "c", None, &free)
        .await;
    freed.unwrap();
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(world.get(&Namespace::TYPE, "shop").await.is_none());
}

// Upstream: TestSyncNamespaceThatIsTerminating, TestDeleteEncounters404 and the pods-first cases.
#[tokio::test(start_paused = true)]
async fn pods_go_first_behind_their_gate() {
    for first in [true, false] {
        let gate = Gate::OrderedNamespaceDeletion;
        check_pods_first(Gates::default().with(gate, first), first).await;
    }
}

async fn check_pods_first(gates: Gates, first: bool) {
    let world = world_with(gates).await;
    put(&world, &CONFIG_MAP, config_map(&[])).await;
    let accounts = ResourceType::namespaced("", "v1", "serviceaccounts", "ServiceAccount");
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    put(&world, &accounts, account).await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 30, "containers": [{"name": "c", "image": "nginx"}]},
    });
    put(&world, &Pod::TYPE, pod).await;
    world.delete(&Namespace::TYPE, "shop").await;
    tokio::time::sleep(Duration::from_secs(12)).await;
    let kept = world.user.get(&CONFIG_MAP, "shop", "c").await;
    assert_eq!(
        kept.is_ok(),
        first,
        "a pod that shuts down may need its configuration"
    );
    let now = DeleteOptions {
        grace_period_seconds: Some(0),
        ..DeleteOptions::default()
    };
    world
        .user
        .delete(&Pod::TYPE, "shop", "p", &now)
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(world.get(&Namespace::TYPE, "shop").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_of_somebody_else_is_left() {
    let world = world().await;
    let both = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "shared"}, "spec": {"finalizers": ["kubernetes", "example.com/other"]},
    });
    world.create(&Namespace::TYPE, both).await;
    world.delete(&Namespace::TYPE, "shared").await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let namespace = world.get(&Namespace::TYPE, "shared").await.unwrap();
    assert_eq!(
        namespace["spec"]["finalizers"],
        json!(["example.com/other"])
    );
    world.written();
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(!world.written().contains("finalize"), "our part is done");
}

// Upstream: TestRetryOnConflictError.
#[tokio::test(start_paused = true)]
async fn a_conflict_is_met_with_a_fresh_read() {
    let world = world().await;
    world.refuse("PUT", "namespaces/shop/finalize", 409, 2);
    world.delete(&Namespace::TYPE, "shop").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(
        world.written(),
        "PUT status\nPUT finalize -> 409 ×2\nPUT finalize"
    );
    assert!(world.get(&Namespace::TYPE, "shop").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_deleted_is_said_and_tried_again() {
    let world = world().await;
    put(&world, &CONFIG_MAP, config_map(&[])).await;
    world.refuse("DELETE", "shop/configmaps", 403, 12);
    world.delete(&Namespace::TYPE, "shop").await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    let namespace = world.get(&Namespace::TYPE, "shop").await.unwrap();
    assert_eq!(
        condition(&namespace, "NamespaceDeletionContentFailure"),
        "True Failed to delete all resource types, 1 remaining: refused by the test: Forbidden"
    );
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(world.get(&Namespace::TYPE, "shop").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn failed_pod_deletions_are_reported_like_other_failures() {
    let world = world().await;
    let accounts = ResourceType::namespaced("", "v1", "serviceaccounts", "ServiceAccount");
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    put(&world, &accounts, account).await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "nginx"}]},
    });
    put(&world, &Pod::TYPE, pod).await;
    world.refuse("DELETE", "shop/pods", 403, 3);
    world.delete(&Namespace::TYPE, "shop").await;
    tokio::time::sleep(Duration::from_millis(2010)).await;
    let namespace = world.get(&Namespace::TYPE, "shop").await.unwrap();
    assert_eq!(
        condition(&namespace, "NamespaceDeletionContentFailure"),
        "True Failed to delete all resource types, 1 remaining: refused by the test: Forbidden"
    );
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(world.get(&Namespace::TYPE, "shop").await.is_none());
}

// Upstream: TestSyncNamespaceThatIsTerminatingNonExperimental, TestSyncNamespaceThatIsTerminatingV1.
#[tokio::test(start_paused = true)]
async fn while_discovery_fails_it_is_said_and_the_namespace_stays() {
    let mut world = World::new().await;
    let broken = Arc::new(AtomicBool::new(true));
    let (server, failing) = (world.server.transport(), broken.clone());
    let transport = tower::service_fn(move |request: http::Request<bytes::Bytes>| {
        let server = server.clone();
        let path = request.uri().path();
        let refused = failing.load(Ordering::Relaxed) && matches!(path, "/api" | "/apis");
        async move {
            if refused {
                return Err(client::BoxError::from("no answer"));
            }
            tower::ServiceExt::oneshot(server, request).await
        }
    });
    let context = Context {
        client: client::Client::new(client::Transport::new(transport)),
        ..world.context()
    };
    let running = controller(&context, 5).run(world.stop());
    world.run(running);
    world.start().await;
    for (name, finalizers) in [("shop", json!(["kubernetes"])), ("done", json!([]))] {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "finalizers": ["example.com/hold"]},
            "spec": {"finalizers": finalizers},
        });
        world.create(&Namespace::TYPE, namespace).await;
    }
    put(&world, &CONFIG_MAP, config_map(&[])).await;
    world.delete(&Namespace::TYPE, "shop").await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let namespace = world.get(&Namespace::TYPE, "shop").await.unwrap();
    assert_eq!(namespace["status"]["phase"], "Terminating");
    let told = condition(&namespace, "NamespaceDeletionDiscoveryFailure");
    assert!(
        told.starts_with("True ") && told.contains("no answer"),
        "{told}"
    );
    let others = condition(&namespace, "NamespaceDeletionContentFailure");
    assert!(others.starts_with("False "), "{others}");
    assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
    assert!(world.user.get(&CONFIG_MAP, "shop", "c").await.is_ok());

    broken.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let namespace = world.get(&Namespace::TYPE, "shop").await.unwrap();
    let told = condition(&namespace, "NamespaceDeletionDiscoveryFailure");
    assert_eq!(told, "False All resources successfully discovered");
    assert_eq!(namespace["spec"]["finalizers"], Value::Null);
    assert!(world.user.get(&CONFIG_MAP, "shop", "c").await.is_err());
}

// Upstream: TestDeleteEncounters404.
#[tokio::test(start_paused = true)]
async fn a_collection_that_cannot_be_deleted_goes_one_by_one() {
    let world = world().await;
    put(&world, &CONFIG_MAP, config_map(&[])).await;
    world.refuse("DELETE", "shop/configmaps", 404, 1);
    world.delete(&Namespace::TYPE, "shop").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(
        world.written(),
        "DELETE configmaps -> 404\nDELETE configmaps/c\nPUT status\nPUT finalize"
    );
}
