//! Nodes, and whom they enqueue.

use api::Resource;
use api::kinds::{Node, Pod};
use serde_json::json;

use super::world::{node, running, service, set_ready, slice};

async fn pod_on(world: &testkit::World, name: &str, node: &str, ip: &str) {
    let object = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
    });
    world.create(&Pod::TYPE, object).await;
    set_ready(world, name, ip, "True").await;
}

// Upstream: TestUpdateNode, TestReconcileTopology, Test_checkNodeTopologyDistribution.
#[tokio::test(start_paused = true)]
async fn a_service_is_looked_at_again_when_a_zone_comes_that_has_none_of_its_endpoints() {
    let world = running().await;
    world.delete(&Node::TYPE, "n1").await;
    node(&world, "na", "za").await;
    node(&world, "nb", "zb").await;
    world.wait_until_idle().await;
    service(
        &world,
        json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": "Auto"}}}),
    )
    .await;
    for (number, node) in ["na", "nb", "na", "nb", "na", "nb"].iter().enumerate() {
        pod_on(
            &world,
            &format!("p{number}"),
            node,
            &format!("10.0.0.{number}"),
        )
        .await;
    }
    world.wait_until_idle().await;
    let zones = |held: &serde_json::Value| {
        let endpoints = held["endpoints"].as_array().unwrap();
        let mut zones: Vec<String> = endpoints
            .iter()
            .map(|endpoint| {
                endpoint["hints"]["forZones"][0]["name"]
                    .as_str()
                    .unwrap_or("none")
                    .to_owned()
            })
            .collect();
        zones.sort();
        zones.join(" ")
    };
    assert_eq!(zones(&slice(&world).await), "za za za zb zb zb");
    let events = world.events().await;
    assert_eq!(
        events.last().unwrap(),
        "Normal TopologyAwareHintsEnabled Topology Aware Hints has been enabled, addressType: IPv4"
    );
    node(&world, "nc", "zc").await;
    world.wait_until_idle().await;
    assert_eq!(zones(&slice(&world).await), "za za zb zb zc zc");
    let labels = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": null}}});
    world.patch(&Node::TYPE, "nc", labels).await;
    world.wait_until_idle().await;
    assert_eq!(zones(&slice(&world).await), "none none none none none none");
    let events = world.events().await;
    let expected = "Warning TopologyAwareHintsDisabled Insufficient Node information: allocatable CPU or zone not specified on one or more nodes, addressType: IPv4";
    assert!(events.iter().any(|event| event == expected), "{events:?}");
}
