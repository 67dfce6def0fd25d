//! Against the embedded API server: whole payloads, and nothing twice. Upstream: endpointslice_controller_test.go.

use api::Resource;
use api::kinds::{EndpointSlice, Pod, Service};
use serde_json::json;

use super::world::{node, pod, published, running, service, set_ready, slice};

// Upstream: TestSyncService, TestSyncServiceWithSelector, TestSyncServicePodSelection.
#[tokio::test(start_paused = true)]
async fn the_pods_of_a_service_are_published() {
    let world = running().await;
    let service = service(&world, json!({})).await;
    world.wait_until_idle().await;
    world.written();
    pod(&world, "a", "10.0.0.1").await;
    world.wait_until_idle().await;
    let writes = world.writes();
    assert_eq!(writes.len(), 1);
    let mut body = writes[0].body.clone();
    let uid = body["endpoints"][0]["targetRef"]["uid"].take();
    assert!(uid.is_string());
    let held = slice(&world).await;
    let name = held["metadata"]["name"].as_str().unwrap();
    assert!(
        name.starts_with("web-") && writes[0].to_string() == format!("PUT endpointslices/{name}")
    );
    body["metadata"]["resourceVersion"].take();
    assert_eq!(
        body,
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "generateName": "web-", "namespace": "default", "name": name, "resourceVersion": null,
                "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2024-01-01T00:00:10Z"},
                "labels": {
                    "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                    "kubernetes.io/service-name": "web", "team": "a",
                },
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Service", "name": "web", "uid": service["metadata"]["uid"],
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "addressType": "IPv4",
            "endpoints": [{
                "addresses": ["10.0.0.1"],
                "conditions": {"ready": true, "serving": true, "terminating": false},
                "targetRef": {"kind": "Pod", "namespace": "default", "name": "a", "uid": null},
                "nodeName": "n1",
            }],
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        })
    );
    world.wait_until_idle().await;
    assert_eq!(world.written(), "", "a second sync writes nothing");
}

#[tokio::test(start_paused = true)]
async fn a_placeholder_is_created_and_then_filled() {
    let world = running().await;
    service(&world, json!({})).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "POST endpointslices");
    let held = slice(&world).await;
    assert!(held["endpoints"].as_array().is_none_or(Vec::is_empty));
    pod(&world, "a", "10.0.0.1").await;
    pod(&world, "b", "10.0.0.2").await;
    world.wait_until_idle().await;
    assert_eq!(published(&world).await, "10.0.0.1 10.0.0.2");
    world.delete(&Pod::TYPE, "a").await;
    world.wait_until_idle().await;
    assert_eq!(published(&world).await, "-10.0.0.1 10.0.0.2");
    world.finish_deletions().await;
    world.wait_until_idle().await;
    assert_eq!(published(&world).await, "10.0.0.2");
    set_ready(&world, "b", "10.0.0.2", "False").await;
    world.wait_until_idle().await;
    assert_eq!(published(&world).await, "-10.0.0.2");
    world.written();
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

// Upstream: TestSyncServiceNoSelector, TestServiceExternalNameTypeSync.
#[tokio::test(start_paused = true)]
async fn a_service_that_stops_selecting_keeps_its_slices_and_gets_no_more() {
    let world = running().await;
    service(&world, json!({})).await;
    pod(&world, "a", "10.0.0.1").await;
    world.wait_until_idle().await;
    world
        .patch(&Service::TYPE, "web", json!({"spec": {"selector": null}}))
        .await;
    world.wait_until_idle().await;
    world.written();
    pod(&world, "b", "10.0.0.2").await;
    world.wait_until_idle().await;
    assert_eq!(
        (world.written(), published(&world).await),
        (String::new(), "10.0.0.1".into())
    );
    world
        .patch(
            &Service::TYPE,
            "web",
            json!({"spec": {"selector": {"app": "web"}}}),
        )
        .await;
    world.wait_until_idle().await;
    assert_eq!(published(&world).await, "10.0.0.1 10.0.0.2");
    let external = json!({"spec": {"type": "ExternalName", "externalName": "a.example", "clusterIP": null, "clusterIPs": null}});
    world.patch(&Service::TYPE, "web", external).await;
    world.wait_until_idle().await;
    world.written();
    world.finish_deletions().await;
    set_ready(&world, "a", "10.0.0.1", "False").await;
    world.wait_until_idle().await;
    assert_eq!(
        (world.written(), published(&world).await),
        (String::new(), "10.0.0.1 10.0.0.2".into())
    );
}

#[tokio::test(start_paused = true)]
async fn services_without_a_selector_are_left_to_their_users() {
    let world = running().await;
    service(&world, json!({"spec": {"selector": null}})).await;
    pod(&world, "a", "10.0.0.1").await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn labels_and_ports_of_the_service_are_followed() {
    let world = running().await;
    service(&world, json!({})).await;
    pod(&world, "a", "10.0.0.1").await;
    world.wait_until_idle().await;
    world.written();
    let changed = json!({"metadata": {"labels": {"team": "b"}}});
    world.patch(&Service::TYPE, "web", changed).await;
    world.wait_until_idle().await;
    let held = slice(&world).await;
    assert_eq!(held["metadata"]["labels"]["team"], "b");
    let ports = json!({"spec": {"ports": [{"name": "http", "port": 80, "targetPort": 9090, "protocol": "TCP"}]}});
    world.patch(&Service::TYPE, "web", ports).await;
    world.wait_until_idle().await;
    let name = held["metadata"]["name"].as_str().unwrap();
    assert_eq!(world.written(), format!("PUT endpointslices/{name} ×2"));
    assert_eq!(slice(&world).await["ports"][0]["port"], 9090);
}

// Upstream: TestSyncService, TestReconcileHeadlessServiceNoPorts.
#[tokio::test(start_paused = true)]
async fn a_headless_service_names_its_pods() {
    let world = running().await;
    service(
        &world,
        json!({"spec": {"clusterIP": "None", "ports": null}}),
    )
    .await;
    let object = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "labels": {"app": "web"}},
        "spec": {"nodeName": "n1", "hostname": "web-0", "subdomain": "web", "containers": [{"name": "c", "image": "i"}]},
    });
    world.create(&Pod::TYPE, object).await;
    set_ready(&world, "web-0", "10.0.0.1", "True").await;
    world.wait_until_idle().await;
    let held = slice(&world).await;
    assert_eq!(
        held["metadata"]["labels"]["service.kubernetes.io/headless"],
        ""
    );
    assert_eq!(held["endpoints"][0]["hostname"], "web-0");
}

// Upstream: TestPodAddsBatching, TestPodUpdatesBatching, TestPodDeleteBatching.
#[tokio::test(start_paused = true)]
async fn changes_of_pods_wait_for_each_other() {
    let batch = std::time::Duration::from_secs(2);
    let settings = super::super::Settings {
        batch,
        ..super::world::SETTINGS
    };
    let (world, _) = super::world::running_with(settings).await;
    service(&world, json!({})).await;
    world.wait_until_idle().await;
    world.written();
    for number in 1..=5 {
        pod(&world, &format!("p{number}"), &format!("10.0.0.{number}")).await;
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    }
    world.wait_until_idle().await;
    assert_eq!(world.writes().len(), 1);
    for number in 1..=5 {
        set_ready(
            &world,
            &format!("p{number}"),
            &format!("10.0.0.{number}"),
            "False",
        )
        .await;
    }
    world.wait_until_idle().await;
    assert_eq!(world.writes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_changes_while_slices_are_written_and_as_long_after_is_written_together() {
    let settings = super::super::Settings {
        max_endpoints: 2,
        ..super::world::SETTINGS
    };
    let (world, _) = super::world::running_with(settings).await;
    for number in 1..=4 {
        pod(&world, &format!("p{number}"), &format!("10.0.0.{number}")).await;
    }
    service(&world, json!({})).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "POST endpointslices ×2");
    world.slow_down(std::time::Duration::from_millis(100));
    for (number, wait) in [(1, 50), (3, 100), (4, 0)] {
        let ip = format!("10.0.0.{number}");
        set_ready(&world, &format!("p{number}"), &ip, "False").await;
        tokio::time::sleep(std::time::Duration::from_millis(wait)).await;
    }
    world.wait_until_idle().await;
    assert_eq!(world.writes().len(), 2, "one of each slice");
    assert_eq!(
        published(&world).await,
        "-10.0.0.1 10.0.0.2 | -10.0.0.3 -10.0.0.4"
    );
}

#[tokio::test(start_paused = true)]
async fn the_trigger_time_is_published_and_removed_when_it_is_old() {
    let world = running().await;
    service(&world, json!({})).await;
    pod(&world, "a", "10.0.0.1").await;
    world.wait_until_idle().await;
    let time = |held: &serde_json::Value| {
        held["metadata"]["annotations"]["endpoints.kubernetes.io/last-change-trigger-time"].clone()
    };
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    let now = world.clock.now().time();
    set_ready(&world, "a", "10.0.0.1", "False").await;
    world.wait_until_idle().await;
    assert_eq!(time(&slice(&world).await), json!(now));
    world
        .patch(
            &Service::TYPE,
            "web",
            json!({"metadata": {"labels": {"team": "c"}}}),
        )
        .await;
    world.wait_until_idle().await;
    assert!(time(&slice(&world).await).is_null());
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_another_zone_says_so() {
    let world = running().await;
    node(&world, "n2", "z2").await;
    service(
        &world,
        json!({"spec": {"trafficDistribution": "PreferSameZone"}}),
    )
    .await;
    let object = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"app": "web"}},
        "spec": {"nodeName": "n2", "containers": [{"name": "c", "image": "i"}]},
    });
    world.create(&Pod::TYPE, object).await;
    set_ready(&world, "a", "10.0.0.1", "True").await;
    world.wait_until_idle().await;
    let held = slice(&world).await;
    assert_eq!(held["endpoints"][0]["zone"], "z2");
    assert_eq!(
        held["endpoints"][0]["hints"],
        json!({"forZones": [{"name": "z2"}]})
    );
    assert_eq!(EndpointSlice::TYPE.plural, "endpointslices");
}
