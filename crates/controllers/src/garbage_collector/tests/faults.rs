//! What goes wrong, and what comes and goes while the collector runs.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::{ResourceType, Uid};
use bytes::Bytes;
use client::{Body, BoxError, Client, Propagation};
use http::{Request, Response};
use serde_json::{Value, json};
use testkit::{WIDGET, World};
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt};

use super::odd::counting;
use super::sync::{CONFIG_MAP, by, config_map, names, start_with, world};

const SECRET: ResourceType = ResourceType::namespaced("", "v1", "secrets", "Secret");

/// A client for which everything under a path breaks off while the switch is on.
fn breaking(world: &World, path: &'static str) -> (Client, Arc<AtomicBool>) {
    let broken = Arc::new(AtomicBool::new(true));
    let (inner, switch) = (world.server.transport(), broken.clone());
    let transport = BoxCloneSyncService::new(tower::service_fn(move |request: Request<Bytes>| {
        let (mut inner, switch) = (inner.clone(), switch.clone());
        async move {
            if switch.load(Ordering::Relaxed) && request.uri().path().starts_with(path) {
                return Err(BoxError::from("the line is cut"));
            }
            let response: Response<Body> = inner.ready().await?.call(request).await?;
            Ok::<_, BoxError>(response)
        }
    }));
    (Client::new(transport), broken)
}

fn secret(name: &str, owner: &Value) -> Value {
    let mut secret = config_map(name, &[owner]);
    secret["kind"] = json!("Secret");
    secret
}

// Upstream: TestGarbageCollectorSync.
#[tokio::test(start_paused = true)]
async fn a_kind_that_cannot_be_listed_stops_nobody() {
    let mut world = World::new().await;
    let (watching, broken) = breaking(&world, "/api/v1/secrets");
    let acting = world.client.clone();
    start_with(&mut world, acting, watching).await;
    tokio::time::sleep(Duration::from_secs(31)).await;
    let root = world.create(&CONFIG_MAP, config_map("root", &[])).await;
    world
        .create(&CONFIG_MAP, config_map("leaf", &[&root]))
        .await;
    world.create(&SECRET, secret("leaf", &root)).await;
    world.wait_until_idle().await;
    world.delete(&CONFIG_MAP, "root").await;
    world.wait_until_idle().await;
    assert!(names(&world).await.is_empty());
    assert!(world.get(&SECRET, "leaf").await.is_some(), "not seen yet");
    broken.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(world.get(&SECRET, "leaf").await.is_none());
}

/// [`start_with`] shares pods, which somebody caches, and nodes, which nobody does.
#[tokio::test(start_paused = true)]
async fn a_cached_kind_is_not_streamed_again() {
    let mut world = World::new().await;
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let (inner, noted) = (world.server.transport(), asked.clone());
    let watching = BoxCloneSyncService::new(tower::service_fn(move |request: Request<Bytes>| {
        let path = request.uri().path().to_owned();
        noted.lock().push(path);
        inner.clone().oneshot(request)
    }));
    let acting = world.client.clone();
    start_with(&mut world, acting, Client::new(watching)).await;
    let count = |path: &str| asked.lock().iter().filter(|other| *other == path).count();
    assert_eq!(count("/api/v1/pods"), 0);
    assert_eq!(count("/api/v1/nodes"), 1);
}

// Upstream: TestGarbageCollectorSync.
#[tokio::test(start_paused = true)]
async fn discovery_that_fails_takes_nothing_away() {
    let mut world = World::new().await;
    let (acting, broken) = breaking(&world, "/apis");
    broken.store(false, Ordering::Relaxed);
    let watching = world.client.clone();
    start_with(&mut world, acting, watching).await;
    broken.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(120)).await;
    let root = world.create(&CONFIG_MAP, config_map("root", &[])).await;
    world
        .create(&CONFIG_MAP, config_map("leaf", &[&root]))
        .await;
    world.wait_until_idle().await;
    world.delete(&CONFIG_MAP, "root").await;
    world.wait_until_idle().await;
    assert!(names(&world).await.is_empty());
}

// Upstream: TestGarbageCollectorConstruction, TestDeleteOwnerRefPatch.
#[tokio::test(start_paused = true)]
async fn custom_kinds_come_and_are_collected() {
    let (world, _) = world().await;
    world.define_widgets().await;
    tokio::time::sleep(Duration::from_secs(35)).await;
    let root = world.create(&CONFIG_MAP, config_map("root", &[])).await;
    let widget = |name: &str, owner: &Value| {
        let mut widget = config_map(name, &[owner]);
        widget["apiVersion"] = json!("example.com/v1");
        widget["kind"] = json!("Widget");
        widget
    };
    world.create(&WIDGET, widget("orphan", &root)).await;
    world.wait_until_idle().await;
    world
        .delete_with(&CONFIG_MAP, "root", &by(Propagation::Orphan))
        .await;
    world.wait_until_idle().await;
    assert_eq!(
        world.written(),
        "PATCH widgets/orphan -> 415\nPATCH widgets/orphan\nPATCH configmaps/root"
    );
    let orphan = world.get(&WIDGET, "orphan").await.unwrap();
    assert_eq!(orphan["metadata"]["ownerReferences"], Value::Null);

    let owner = world.create(&CONFIG_MAP, config_map("owner", &[])).await;
    world.create(&WIDGET, widget("leaf", &owner)).await;
    world.wait_until_idle().await;
    world.delete(&CONFIG_MAP, "owner").await;
    world.wait_until_idle().await;
    assert!(world.get(&WIDGET, "leaf").await.is_none());
}

// Issue 21: a definition that came after the manager started and went before discovery was asked the next time.
#[tokio::test(start_paused = true)]
async fn dependents_of_a_kind_that_was_there_for_ten_seconds_go() {
    let (world, _) = world().await;
    world.define_widgets().await;
    let mut widget = config_map("owner", &[]);
    widget["apiVersion"] = json!("example.com/v1");
    widget["kind"] = json!("Widget");
    let owner = world.create(&WIDGET, widget).await;
    world
        .create(&CONFIG_MAP, config_map("leaf", &[&owner]))
        .await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(names(&world).await, ["leaf"], "its owner lives");
    world.undefine_widgets().await;
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert!(names(&world).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn unknown_owners_refresh_discovery_at_most_every_two_seconds() {
    let mut world = World::new().await;
    let (acting, asked) = counting(&world, "/apis");
    let watching = world.client.clone();
    start_with(&mut world, acting, watching).await;
    for number in 0..50 {
        let alien = json!({"apiVersion": "example.com/v1", "kind": "Alien",
            "metadata": {"name": "x", "uid": format!("u-{number}")}});
        let leaf = config_map(&format!("leaf-{number}"), &[&alien]);
        world.create(&CONFIG_MAP, leaf).await;
    }
    let before = asked.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let asked = asked.load(Ordering::Relaxed) - before;
    assert!((2..=32).contains(&asked), "{asked} times in a minute");
    assert_eq!(names(&world).await.len(), 50);
}

/// A leaf under a root.
async fn tree(world: &World) -> Uid {
    let root = world.create(&CONFIG_MAP, config_map("root", &[])).await;
    let leaf = world
        .create(&CONFIG_MAP, config_map("leaf", &[&root]))
        .await;
    world.wait_until_idle().await;
    world.written();
    Uid::from(leaf["metadata"]["uid"].as_str().unwrap())
}

// Upstream: the conflict cases of TestAttemptToDeleteItem.
#[tokio::test(start_paused = true)]
async fn a_change_that_has_nothing_to_do_with_owners_saves_nobody() {
    let (world, _) = world().await;
    tree(&world).await;
    world.refuse("DELETE", "configmaps/leaf", 409, 1);
    world.delete(&CONFIG_MAP, "root").await;
    world.wait_until_idle().await;
    let writes = world.writes();
    let lines: Vec<String> = writes.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        ["DELETE configmaps/leaf -> 409", "DELETE configmaps/leaf"]
    );
    let preconditions = &writes[1].body["preconditions"];
    assert!(preconditions["uid"].is_string());
    assert_eq!(preconditions["resourceVersion"], Value::Null);
}

// Upstream: TestAttemptToDeleteItemDeleteObjectNotFound.
#[tokio::test(start_paused = true)]
async fn what_the_server_denies_leaves_the_graph() {
    let (world, graph) = world().await;
    let leaf = tree(&world).await;
    world.refuse("DELETE", "configmaps/leaf", 404, 1);
    world.delete(&CONFIG_MAP, "root").await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "DELETE configmaps/leaf -> 404");
    assert!(!graph.has(&leaf));
}

// Upstream: TestAttemptToDeleteItemDeleteObjectNotFoundWaitingForDependents.
#[tokio::test(start_paused = true)]
async fn a_denied_dependent_does_not_hold_up_a_foreground_deletion() {
    let (world, graph) = world().await;
    let leaf = tree(&world).await;
    world.refuse("DELETE", "configmaps/leaf", 404, 1);
    world
        .delete_with(&CONFIG_MAP, "root", &by(Propagation::Foreground))
        .await;
    world.wait_until_idle().await;
    assert_eq!(
        world.written(),
        "DELETE configmaps/leaf -> 404\nPATCH configmaps/root"
    );
    assert!(!graph.has(&leaf));
    assert!(world.get(&CONFIG_MAP, "root").await.is_none());
}

// Upstream: TestOrphanDependentsFailure.
#[tokio::test(start_paused = true)]
async fn an_owner_waits_until_all_its_orphans_know() {
    let (world, _) = world().await;
    tree(&world).await;
    world.refuse("PATCH", "configmaps/leaf", 500, 2);
    world.refuse("PATCH", "configmaps/root", 409, 1);
    world
        .delete_with(&CONFIG_MAP, "root", &by(Propagation::Orphan))
        .await;
    world.wait_until_idle().await;
    assert_eq!(
        world.written(),
        "PATCH configmaps/leaf -> 500 ×2\nPATCH configmaps/leaf\nPATCH configmaps/root -> 409\nPATCH configmaps/root"
    );
    assert_eq!(names(&world).await, ["leaf"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_will_not_delete_is_asked_ever_more_rarely() {
    let (world, _) = world().await;
    tree(&world).await;
    world.refuse("DELETE", "configmaps/leaf", 403, 8);
    world.delete(&CONFIG_MAP, "root").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(
        world.written(),
        "DELETE configmaps/leaf -> 403 ×8\nDELETE configmaps/leaf"
    );
}
