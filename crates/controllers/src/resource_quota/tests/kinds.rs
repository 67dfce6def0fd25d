//! Kinds that come and go. Upstream: TestDiscoverySync, TestGetQuotableResources, TestSyncResourceQuota with CRDs.

use api::kinds::ResourceQuota;
use api::{Resource, ResourceType};
use serde_json::json;

use super::*;

fn open(streams: &MetadataStreams) -> Vec<String> {
    let open = streams.resources();
    open.iter()
        .map(|resource| resource.plural.to_string())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn only_what_a_quota_names_is_watched() {
    let (world, streams) = world().await;
    assert!(open(&streams).is_empty(), "{:?}", open(&streams));
    create_quota(
        &world,
        "q",
        json!({"hard": {"count/configmaps": "9", "secrets": "9", "pods": "9"}}),
    )
    .await;
    assert_eq!(open(&streams), ["configmaps", "secrets"]);
    world.create(&CONFIG_MAPS, config_map("a")).await;
    world.wait_until_idle().await;
    assert_eq!(
        status(&world, "q").await["used"],
        json!({"count/configmaps": "1", "pods": "0", "secrets": "0"})
    );
    world.delete(&CONFIG_MAPS, "a").await;
    world.wait_until_idle().await;
    assert_eq!(status(&world, "q").await["used"]["count/configmaps"], "0");
    world
        .patch(
            &ResourceQuota::TYPE,
            "q",
            json!({"spec": {"hard": {"secrets": null}}}),
        )
        .await;
    world.delete(&ResourceQuota::TYPE, "q").await;
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert!(open(&streams).is_empty(), "{:?}", open(&streams));
}

// A listener hears of all objects at once, and must not find a lock held that it needs.
#[tokio::test(start_paused = true)]
async fn a_stream_that_somebody_else_has_filled_is_shared() {
    let (world, streams) = world().await;
    let _collector = streams.of(&CONFIG_MAPS);
    world.create(&CONFIG_MAPS, config_map("a")).await;
    world.wait_until_idle().await;
    create_quota(&world, "q", json!({"hard": {"count/configmaps": "9"}})).await;
    assert_eq!(status(&world, "q").await["used"]["count/configmaps"], "1");
    create_quota(&world, "r", json!({"hard": {"count/configmaps": "9"}})).await;
    assert_eq!(status(&world, "r").await["used"]["count/configmaps"], "1");
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_counted_as_soon_as_it_is_served() {
    let (world, streams) = world().await;
    create_quota(
        &world,
        "q",
        json!({"hard": {"count/widgets.example.com": "2"}}),
    )
    .await;
    assert_eq!(
        status(&world, "q").await,
        json!({"hard": {"count/widgets.example.com": "2"}})
    );
    world.writes();
    tokio::time::sleep(Duration::from_secs(400)).await;
    assert_eq!(world.written(), "", "there is nothing more to say");
    world.define_widgets().await;
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(open(&streams), ["widgets"]);
    assert_eq!(
        status(&world, "q").await["used"],
        json!({"count/widgets.example.com": "0"})
    );
    let widgets = ResourceType::namespaced("example.com", "v1", "widgets", "Widget");
    let widget = |name: &str| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}});
    for name in ["a", "b"] {
        world.create(&widgets, widget(name)).await;
    }
    let refused = world.try_create(&widgets, widget("c")).await.unwrap_err();
    assert!(
        refused.to_string().contains(
            "exceeded quota: q, requested: count/widgets.example.com=1, used: count/widgets.example.com=2, limited: count/widgets.example.com=2"
        ),
        "{refused}"
    );
    world.delete(&widgets, "a").await;
    world.wait_until_idle().await;
    assert_eq!(
        status(&world, "q").await["used"],
        json!({"count/widgets.example.com": "1"})
    );
}

/// What aggregated discovery says of the groups: a resource of each, or that its server did not answer.
fn groups(resources: &[(&str, Option<(&str, &str)>)]) -> serde_json::Value {
    let groups = resources.iter().map(|(group, resource)| {
        let version = match resource {
            None => json!({"version": "v1", "freshness": "Stale"}),
            Some((plural, kind)) => json!({"version": "v1", "freshness": "Current", "resources": [{
                "resource": plural, "responseKind": {"group": group, "version": "v1", "kind": kind},
                "scope": "Namespaced", "verbs": ["create", "delete", "list", "watch"]}]}),
        };
        json!({"metadata": {"name": group}, "versions": [version]})
    });
    let items: Vec<serde_json::Value> = groups.collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items})
}

#[tokio::test(start_paused = true)]
async fn kinds_of_an_unavailable_group_are_kept_and_removed_kinds_are_dropped() {
    let (world, streams) = world().await;
    let deployments = ("deployments", "Deployment");
    let batch = ("batch", Some(("jobs", "Job")));
    create_quota(
        &world,
        "q",
        json!({"hard": {"count/deployments.apps": "9", "secrets": "9"}}),
    )
    .await;
    assert_eq!(open(&streams), ["secrets", "deployments"]);
    // Nobody says anything that can be read.
    world.answer("/apis", json!("nothing"));
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(open(&streams), ["secrets", "deployments"]);
    // One group does not.
    world.answer("/apis", groups(&[("apps", None), batch]));
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(open(&streams), ["secrets", "deployments"]);
    let secrets = ResourceType::namespaced("", "v1", "secrets", "Secret");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    world.create(&secrets, secret).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(
        status(&world, "q").await["used"],
        json!({"count/deployments.apps": "0", "secrets": "1"})
    );
    world.answer("/apis", groups(&[batch]));
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(open(&streams), ["secrets"], "nobody serves the other");
    world.answer("/apis", groups(&[("apps", Some(deployments)), batch]));
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(open(&streams), ["secrets", "deployments"]);
}

#[tokio::test(start_paused = true)]
async fn claims_count_by_class_and_devices_by_theirs() {
    let (world, _) = world().await;
    let hard = json!({
        "requests.storage": "10Gi", "gold.storageclass.storage.k8s.io/requests.storage": "5Gi",
        "gpu.deviceclass.resource.k8s.io/devices": "4", "requests.example.com/gpu": "9",
    });
    create_quota(&world, "q", json!({"hard": hard})).await;
    let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
        "spec": {"extendedResourceName": "example.com/gpu"}});
    let classes = ResourceType::cluster("resource.k8s.io", "v1", "deviceclasses", "DeviceClass");
    world.create(&classes, class).await;
    let claims =
        ResourceType::namespaced("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim");
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "gold", "resources": {"requests": {"storage": "4Gi"}}}});
    world.create(&claims, claim).await;
    let devices =
        ResourceType::namespaced("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim");
    let asks = |name: &str, count: i32| {
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {
                "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}}]}}})
    };
    world.create(&devices, asks("three", 3)).await;
    let refused = world
        .try_create(&devices, asks("two", 2))
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("gpu.deviceclass.resource.k8s.io/devices=2, used: gpu.deviceclass.resource.k8s.io/devices=3"),
        "{refused}"
    );
    world.wait_until_idle().await;
    assert_eq!(
        status(&world, "q").await["used"],
        json!({"requests.storage": "4Gi", "gold.storageclass.storage.k8s.io/requests.storage": "4Gi",
            "gpu.deviceclass.resource.k8s.io/devices": "3", "requests.example.com/gpu": "3"})
    );
    world.delete(&devices, "three").await;
    world.wait_until_idle().await;
    assert_eq!(
        status(&world, "q").await["used"]["requests.example.com/gpu"],
        "0"
    );
}
