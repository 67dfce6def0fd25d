//! References that no sane program writes, and kinds that go away: never a wrong deletion, never a worker
//! that hangs, and a reason that can be read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api::Key;
use bytes::Bytes;
use client::{Body, BoxError, Client, Propagation};
use http::Request;
use runtime::Stop;
use runtime::informer::{MetadataStreams, StreamOptions};
use serde_json::{Value, json};
use testkit::{WIDGET, World};
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt};

use super::super::{Memory, controller};
use super::sync::{CONFIG_MAP, by, config_map, names, world};

fn owner(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "uid": uid}})
}

/// The collector still does its work.
async fn check_works(world: &World) {
    let root = world.create(&CONFIG_MAP, config_map("root", &[])).await;
    let leaf = config_map("root-leaf", &[&root]);
    world.create(&CONFIG_MAP, leaf).await;
    world.wait_until_idle().await;
    world.delete(&CONFIG_MAP, "root").await;
    world.wait_until_idle().await;
    assert!(world.get(&CONFIG_MAP, "root-leaf").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn owners_of_unknown_kinds_delete_nothing() {
    let (world, _) = world().await;
    let odd = [
        owner("example.com/v1", "Alien", "x", "u-1"),
        owner("v1", "Con/figMap", "x", "u-2"),
        owner("v999", "ConfigMap", "x", "u-3"),
        owner("no spaces/v1", "Kind", "x", "u 4"),
    ];
    for (number, owner) in odd.iter().enumerate() {
        let leaf = config_map(&format!("leaf-{number}"), &[owner]);
        world.create(&CONFIG_MAP, leaf).await;
    }
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(
        names(&world).await,
        ["leaf-0", "leaf-1", "leaf-2", "leaf-3"]
    );
    check_works(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_uid_that_is_none_is_nobodys() {
    let (world, _) = world().await;
    world.create(&CONFIG_MAP, config_map("owner", &[])).await;
    let stranger = owner("v1", "ConfigMap", "owner", "../not a uid\"");
    let leaf = config_map("leaf", &[&stranger]);
    world.create(&CONFIG_MAP, leaf).await;
    world.wait_until_idle().await;
    // Upstream's answer as well: an owner of that name exists, but it is another one.
    assert_eq!(names(&world).await, ["owner"]);
    assert_eq!(world.written(), "DELETE configmaps/leaf");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_owns_itself_lives_until_it_is_deleted() {
    for propagation in [
        Propagation::Background,
        Propagation::Foreground,
        Propagation::Orphan,
    ] {
        let (world, graph) = world().await;
        let made = world.create(&CONFIG_MAP, config_map("self", &[])).await;
        let owns = config_map("self", &[&made])["metadata"].clone();
        let patch = json!({"metadata": {"ownerReferences": owns["ownerReferences"]}});
        world.patch(&CONFIG_MAP, "self", patch).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(names(&world).await, ["self"]);
        world
            .delete_with(&CONFIG_MAP, "self", &by(propagation))
            .await;
        world.wait_until_idle().await;
        assert!(names(&world).await.is_empty(), "{propagation:?}");
        let uid = made["metadata"]["uid"].as_str().unwrap().into();
        assert!(!graph.has(&uid));
    }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_dependents_go_with_their_owner() {
    let (world, graph) = world().await;
    let root = world.create(&CONFIG_MAP, config_map("root", &[])).await;
    world.wait_until_idle().await;
    let before = graph.len();
    for number in 0..10_000 {
        let leaf = config_map(&format!("leaf-{number}"), &[&root]);
        world.create(&CONFIG_MAP, leaf).await;
    }
    world.wait_until_idle().await;
    assert_eq!(graph.len(), before + 10_000);
    assert_eq!(world.written(), "");
    world.delete(&CONFIG_MAP, "root").await;
    world.wait_until_idle().await;
    assert!(names(&world).await.is_empty());
    assert_eq!(world.writes().len(), 10_000, "one request each");
    assert_eq!(graph.len(), before - 1);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_goes_away_while_it_is_watched_hurts_nobody() {
    let (world, _) = world().await;
    world.define_widgets().await;
    tokio::time::sleep(Duration::from_secs(35)).await;
    let mut widget = config_map("widget", &[]);
    widget["apiVersion"] = json!("example.com/v1");
    widget["kind"] = json!("Widget");
    let widget = world.create(&WIDGET, widget).await;
    let leaf = config_map("leaf", &[&widget]);
    world.create(&CONFIG_MAP, leaf).await;
    world.wait_until_idle().await;
    world.undefine_widgets().await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    check_works(&world).await;
    // The kind comes back, and so does what can be said about its objects.
    world.define_widgets().await;
    tokio::time::sleep(Duration::from_secs(2000)).await;
    assert!(names(&world).await.is_empty(), "the owner is gone for good");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_says_why() {
    let mut world = World::new().await;
    let context = world.context();
    let decisions = context.decisions.clone();
    let memory = Memory::new(streams(&world, world.client.clone()));
    let running = controller(&context, &memory, 5).run(world.stop());
    world.run(running);
    world.start().await;
    world.wait_until_idle().await;
    let root = world.create(&CONFIG_MAP, config_map("root", &[])).await;
    let leaf = config_map("leaf", &[&root]);
    world.create(&CONFIG_MAP, leaf).await;
    world.wait_until_idle().await;
    world.delete(&CONFIG_MAP, "root").await;
    world.wait_until_idle().await;
    let said: Vec<String> = decisions
        .get("test-controller", &Key::new("default", "leaf"))
        .iter()
        .flat_map(|decision| {
            let lines = decision.lines.iter();
            lines.map(ToString::to_string).collect::<Vec<_>>()
        })
        .collect();
    assert!(
        said.iter().any(|line| line.contains("root")),
        "the owner that is gone is named: {said:?}"
    );
}

fn streams(world: &World, watching: Client) -> MetadataStreams {
    let options = StreamOptions {
        rng: world.rng.fork(),
        resync: None,
    };
    MetadataStreams::new(watching, options)
}

/// A client that counts what it asks for under a path.
pub(super) fn counting(world: &World, path: &'static str) -> (Client, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let (inner, counted) = (world.server.transport(), count.clone());
    let transport = BoxCloneSyncService::new(tower::service_fn(move |request: Request<Bytes>| {
        let mut inner = inner.clone();
        if request.uri().path().starts_with(path) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        async move {
            let answer: http::Response<Body> = inner.ready().await?.call(request).await?;
            Ok::<_, BoxError>(answer)
        }
    }));
    (Client::new(transport), count)
}

#[tokio::test(start_paused = true)]
async fn a_second_term_lists_nothing_again() {
    let world = World::new().await;
    let (watching, reads) = counting(&world, "/");
    let streams = streams(&world, watching);
    let memory = Memory::new(streams.clone());
    for term in 1..=2 {
        let (stopper, stop) = Stop::new();
        let context = world.context();
        let running = runtime::spawn(controller(&context, &memory, 5).run(stop));
        world.wait_until_idle().await;
        check_works(&world).await;
        let read = reads.swap(0, Ordering::Relaxed);
        assert_eq!(read == 0, term == 2, "{read} requests in term {term}");
        stopper.stop();
        running.await.unwrap();
        streams.clear_listeners();
        // What happens between two terms is seen at the begin of the next.
        let ghost = owner(
            "v1",
            "ConfigMap",
            "ghost",
            "3f9d9c3a-0000-4000-8000-000000000001",
        );
        let leaf = config_map(&format!("late-{term}"), &[&ghost]);
        world.create(&CONFIG_MAP, leaf).await;
    }
    assert_eq!(names(&world).await, ["late-2"]);
}
