//! Against the embedded API server: whole payloads, and nothing twice. Upstream: endpoints_controller_test.go.

use std::time::Duration;

use api::Resource;
use api::kinds::{Endpoints, Pod, Service};
use runtime::Error;
use serde_json::{Value, json};
use testkit::{Lagging, World};

use super::super::controller;

async fn running_with(world: World, batch: Duration) -> World {
    let mut world = world;
    let running = controller(&world.context(), 2, batch).run(world.stop());
    world.run(running);
    world.start().await;
    world.wait_until_idle().await;
    world
}

pub(super) async fn running() -> World {
    running_with(World::new().await, Duration::ZERO).await
}

pub(super) async fn service(world: &World) -> Value {
    let object = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "labels": {"team": "a"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
    });
    world.create(&Service::TYPE, object).await
}

pub(super) async fn pod(world: &World, name: &str, ip: &str) {
    let object = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    });
    world.create(&Pod::TYPE, object).await;
    set_ready(world, name, ip, "True").await;
}

async fn set_ready(world: &World, name: &str, ip: &str, ready: &str) {
    let at = world.clock.now().time();
    let condition = json!({"type": "Ready", "status": ready, "lastTransitionTime": at});
    let status =
        json!({"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [condition]});
    world.pod_status(name, status).await;
}

pub(super) async fn stored(world: &World) -> String {
    let Some(held) = world.get(&Endpoints::TYPE, "web").await else {
        return "none".into();
    };
    let mut texts = Vec::new();
    for subset in held["subsets"].as_array().into_iter().flatten() {
        for (list, mark) in [("addresses", ""), ("notReadyAddresses", "-")] {
            for address in subset[list].as_array().into_iter().flatten() {
                texts.push(format!("{mark}{}", address["ip"].as_str().unwrap()));
            }
        }
    }
    texts.join(" ")
}

#[tokio::test(start_paused = true)]
async fn the_pods_of_a_service_are_stored() {
    let world = running().await;
    service(&world).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "POST endpoints");
    pod(&world, "a", "10.0.0.1").await;
    let now = world.clock.now().time();
    world.wait_until_idle().await;
    let writes = world.writes();
    assert_eq!(
        (writes.len(), writes[0].to_string()),
        (1, "PUT endpoints/web".into())
    );
    let mut body = writes[0].body.clone();
    for field in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
        body["metadata"].as_object_mut().unwrap().remove(field);
    }
    body["subsets"][0]["addresses"][0]["targetRef"]["uid"].take();
    assert_eq!(
        body,
        json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": {
                "name": "web", "namespace": "default",
                "labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller", "team": "a"},
                "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": now},
            },
            "subsets": [{
                "addresses": [{
                    "ip": "10.0.0.1", "nodeName": "n1",
                    "targetRef": {"kind": "Pod", "namespace": "default", "name": "a", "uid": null},
                }],
                "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            }],
        })
    );
    world.wait_until_idle().await;
    assert_eq!(world.written(), "", "a second sync writes nothing");
    set_ready(&world, "a", "10.0.0.1", "False").await;
    world.wait_until_idle().await;
    assert_eq!(stored(&world).await, "-10.0.0.1");
    world.delete(&Pod::TYPE, "a").await;
    world.wait_until_idle().await;
    assert_eq!(stored(&world).await, "");
}

// Upstream: TestSyncEndpointsServiceNotFound, TestEndpointsDeletionEvents.
#[tokio::test(start_paused = true)]
async fn endpoints_are_deleted_with_their_service_and_recreated_if_deleted() {
    let world = running().await;
    service(&world).await;
    pod(&world, "a", "10.0.0.1").await;
    world.wait_until_idle().await;
    world.written();
    world.delete(&Endpoints::TYPE, "web").await;
    world.wait_until_idle().await;
    assert_eq!(
        (world.written(), stored(&world).await),
        ("POST endpoints".into(), "10.0.0.1".into())
    );
    world.delete(&Service::TYPE, "web").await;
    world.wait_until_idle().await;
    assert_eq!(
        (world.written(), stored(&world).await),
        ("DELETE endpoints/web".into(), "none".into())
    );
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn external_edits_are_reverted() {
    let world = running().await;
    service(&world).await;
    pod(&world, "a", "10.0.0.1").await;
    world.wait_until_idle().await;
    world.written();
    world
        .patch(&Endpoints::TYPE, "web", json!({"subsets": null}))
        .await;
    world.wait_until_idle().await;
    assert_eq!(
        (world.written(), stored(&world).await),
        ("PUT endpoints/web".into(), "10.0.0.1".into())
    );
    world
        .patch(
            &Endpoints::TYPE,
            "web",
            json!({"metadata": {"annotations": {"mine": "stays"}}}),
        )
        .await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "", "annotations are the user's");
}

// Upstream: TestCheckLeftoverEndpoints.
#[tokio::test(start_paused = true)]
async fn leftovers_are_removed_at_the_start_and_only_then() {
    let world = World::new().await;
    let endpoints = |name: &str, annotations: Value| json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name, "annotations": annotations}});
    let leader = json!({"control-plane.alpha.kubernetes.io/leader": "{}"});
    world
        .create(&Endpoints::TYPE, endpoints("old", json!({})))
        .await;
    world
        .create(&Endpoints::TYPE, endpoints("elected", leader))
        .await;
    let world = running_with(world, Duration::ZERO).await;
    assert_eq!(world.written(), "DELETE endpoints/old");
    world
        .create(&Endpoints::TYPE, endpoints("new", json!({})))
        .await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "", "its service may come");
}

// As after a request whose answer was lost: upstream deletes by name when the service goes, whatever its cache has.
#[tokio::test(start_paused = true)]
async fn own_endpoints_seen_after_their_service_is_deleted_are_removed() {
    let world = running().await;
    let ours = json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"});
    let late = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "late", "labels": ours}});
    world.create(&Endpoints::TYPE, late).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(world.written(), "DELETE endpoints/late");
}

// Upstream: TestSyncServiceExternalNameType, TestSyncEndpointsItemsPreserveNoSelector.
#[tokio::test(start_paused = true)]
async fn a_service_that_stops_selecting_keeps_its_endpoints() {
    let world = running().await;
    service(&world).await;
    pod(&world, "a", "10.0.0.1").await;
    world.wait_until_idle().await;
    world
        .patch(&Service::TYPE, "web", json!({"spec": {"selector": null}}))
        .await;
    world.wait_until_idle().await;
    world.written();
    set_ready(&world, "a", "10.0.0.1", "False").await;
    world.wait_until_idle().await;
    assert_eq!(
        (world.written(), stored(&world).await),
        (String::new(), "10.0.0.1".into())
    );
    let external = json!({"spec": {"type": "ExternalName", "externalName": "a.example", "selector": {"app": "web"}, "clusterIP": null, "clusterIPs": null}});
    world.patch(&Service::TYPE, "web", external).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

// Upstream: TestPodAddsBatching, TestPodUpdatesBatching, TestPodDeleteBatching.
#[tokio::test(start_paused = true)]
async fn changes_of_pods_wait_for_each_other() {
    let world = running_with(World::new().await, Duration::from_secs(2)).await;
    service(&world).await;
    world.wait_until_idle().await;
    world.written();
    for number in 1..=5 {
        pod(&world, &format!("p{number}"), &format!("10.0.0.{number}")).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    world.wait_until_idle().await;
    assert_eq!(world.written(), "PUT endpoints/web");
    for number in 1..=5 {
        world.delete(&Pod::TYPE, &format!("p{number}")).await;
    }
    world.wait_until_idle().await;
    assert_eq!(
        (world.written(), stored(&world).await),
        ("PUT endpoints/web".into(), String::new())
    );
}

#[tokio::test(start_paused = true)]
async fn what_changes_while_endpoints_are_written_and_as_long_after_is_written_together() {
    let world = running().await;
    for number in 1..=4 {
        pod(&world, &format!("p{number}"), &format!("10.0.0.{number}")).await;
    }
    service(&world).await;
    world.wait_until_idle().await;
    world.written();
    world.slow_down(Duration::from_millis(100));
    for (number, wait) in [(1, 50), (2, 30), (3, 80), (4, 0)] {
        let ip = format!("10.0.0.{number}");
        set_ready(&world, &format!("p{number}"), &ip, "False").await;
        tokio::time::sleep(Duration::from_millis(wait)).await;
    }
    world.wait_until_idle().await;
    assert_eq!(world.written(), "PUT endpoints/web ×2");
    assert_eq!(
        stored(&world).await,
        "-10.0.0.1 -10.0.0.2 -10.0.0.3 -10.0.0.4"
    );
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_an_event_and_is_tried_again() {
    let world = running().await;
    world.refuse("POST", "default/endpoints", 500, 1);
    service(&world).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "POST endpoints -> 500\nPOST endpoints");
    world.refuse("PUT", "endpoints/web", 409, 1);
    pod(&world, "a", "10.0.0.1").await;
    world.wait_until_idle().await;
    assert_eq!(
        world.written(),
        "PUT endpoints/web -> 409\nPUT endpoints/web"
    );
    let mut events = world.events().await;
    events.sort();
    assert_eq!(
        events,
        [
            "Warning FailedToCreateEndpoint Failed to create endpoint for service default/web: refused by the test: InternalError",
            "Warning FailedToUpdateEndpoint Failed to update endpoint default/web: refused by the test: Conflict",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_deleted_is_no_failure() {
    let world = running().await;
    world.refuse("POST", "going/endpoints", 500, 1);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going"}, "spec": {"finalizers": ["kubernetes"]}});
    world.create(&api::kinds::Namespace::TYPE, namespace).await;
    let object = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    });
    world
        .user
        .create(&Service::TYPE, "going", object.to_string())
        .await
        .unwrap();
    world.delete(&api::kinds::Namespace::TYPE, "going").await;
    world.wait_until_idle().await;
    let written = world.written();
    assert!(written.ends_with("POST endpoints -> 403"), "{written}");
}

// Upstream: TestStaleEndpointsTracker, TestMultiplePodChanges, TestMultipleServiceChanges.
#[tokio::test(start_paused = true)]
async fn what_was_written_is_waited_for() {
    let world = World::new().await;
    let lagging = Lagging {
        controller: controller(&world.context(), 1, Duration::ZERO),
        world,
    };
    service(&lagging.world).await;
    pod(&lagging.world, "a", "10.0.0.1").await;
    lagging.see::<Service>("web").await;
    lagging.see::<Pod>("a").await;
    lagging.reconcile("web").await.unwrap();
    assert_eq!(lagging.world.written(), "POST endpoints");
    set_ready(&lagging.world, "a", "10.0.0.1", "False").await;
    lagging.see::<Pod>("a").await;
    let stale = lagging.reconcile("web").await;
    assert!(matches!(stale, Err(Error::Stale { .. })));
    lagging.see::<Endpoints>("web").await;
    lagging.reconcile("web").await.unwrap();
    assert_eq!(lagging.world.written(), "PUT endpoints/web");
}
