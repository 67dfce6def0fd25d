//! Devices from `--node-config` to pods that run with them.

use api::ResourceType;

use super::*;
use crate::devices::{DeviceClass, ResourceClaim, ResourceSlice};

const CLAIMS: ResourceType = ResourceClaim::TYPE;

const NODES_WITH_GPUS: &str = "
nodes:
- name: gpu
  devices:
  - {count: 2, attributes: {model: a100, cores: 8, shared: false, driverVersion: {version: 1.2.3}}, capacity: {memory: 80Gi}}
  - {name: old, taints: [{key: worn, effect: NoSchedule}]}
- name: plain
";

fn claim(name: &str, count: usize) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
        "spec": {"devices": {"requests": [
            {"name": "gpu", "exactly": {"deviceClassName": "gpu.steersman.dev", "count": count}},
        ]}},
    })
}

fn user(name: &str, claim: &str) -> Value {
    pod(
        name,
        json!({"spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]}}),
    )
}

#[tokio::test(start_paused = true)]
async fn the_driver_publishes_what_the_config_says() {
    let world = world(Config::parse(NODES_WITH_GPUS, "nodes.yaml").unwrap()).await;
    let slice = world
        .get(&ResourceSlice::TYPE, "gpu-0-gpu.steersman.dev")
        .await
        .unwrap();
    let node = world.get(&NODES, "gpu-0").await.unwrap();
    assert_eq!(
        slice["metadata"]["ownerReferences"][0]["uid"],
        node["metadata"]["uid"]
    );
    let gpu = |number| {
        json!({
            "name": format!("gpu-{number}"),
            "attributes": {
                "model": {"string": "a100"}, "cores": {"int": 8}, "shared": {"bool": false},
                "driverVersion": {"version": "1.2.3"},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        })
    };
    let mut devices = slice["spec"]["devices"].clone();
    let taint = devices[2]["taints"][0].take();
    assert_eq!(
        (&taint["key"], &taint["effect"]),
        (&json!("worn"), &json!("NoSchedule"))
    );
    assert_eq!(
        devices,
        json!([gpu(0), gpu(1), {"name": "old-0", "taints": [null]}])
    );
    assert_eq!(world.list(&ResourceSlice::TYPE).await.len(), 1);
    let class = world
        .get(&DeviceClass::TYPE, "gpu.steersman.dev")
        .await
        .unwrap();
    let selectors = json!([{"cel": {"expression": "device.driver == 'gpu.steersman.dev'"}}]);
    assert_eq!(class["spec"]["selectors"], selectors);
}

#[tokio::test(start_paused = true)]
async fn a_pod_runs_with_its_devices_and_the_next_waits_for_them() {
    let world = world(Config::parse(NODES_WITH_GPUS, "nodes.yaml").unwrap()).await;
    world.create(&CLAIMS, claim("two", 2)).await;
    world.create(&CLAIMS, claim("one", 1)).await;
    world.create(&PODS, user("first", "two")).await;
    pass(&world, 5).await;
    let first = world.get(&PODS, "first").await.unwrap();
    assert_eq!(
        (&first["spec"]["nodeName"], &first["status"]["phase"]),
        (&json!("gpu-0"), &json!("Running"))
    );
    let two = world.get(&CLAIMS, "two").await.unwrap();
    assert_eq!(
        two["metadata"]["finalizers"],
        json!(["resource.kubernetes.io/delete-protection"])
    );
    let results = two["status"]["allocation"]["devices"]["results"]
        .as_array()
        .unwrap();
    let devices: Vec<&Value> = results.iter().map(|result| &result["device"]).collect();
    assert_eq!(devices, ["gpu-0", "gpu-1"]);
    assert_eq!(
        two["status"]["reservedFor"][0]["uid"],
        first["metadata"]["uid"]
    );
    assert_eq!(
        two["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"],
        json!(["gpu-0"])
    );

    world.create(&PODS, user("second", "one")).await;
    pass(&world, 5).await;
    let second = world.get(&PODS, "second").await.unwrap();
    let message = "0/2 nodes are available: 2 cannot allocate all claims. still not schedulable, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    assert_eq!(condition(&second, "PodScheduled")["message"], message);

    // What the resourceclaim-controller does when the first pod is gone.
    world.delete(&PODS, "first").await;
    let free = json!({"status": {"allocation": null, "reservedFor": null}});
    world
        .patch_subresource(&CLAIMS, "two", Some("status"), free)
        .await;
    pass(&world, 15).await;
    let second = world.get(&PODS, "second").await.unwrap();
    assert_eq!(second["status"]["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_claim_is_not_there_is_held_in_silence() {
    let world = world(Config::parse(NODES_WITH_GPUS, "nodes.yaml").unwrap()).await;
    world.create(&PODS, user("early", "late")).await;
    pass(&world, 5).await;
    let early = world.get(&PODS, "early").await.unwrap();
    assert!(early["status"]["conditions"].is_null(), "{early}");
    world.create(&CLAIMS, claim("late", 1)).await;
    pass(&world, 5).await;
    let early = world.get(&PODS, "early").await.unwrap();
    assert_eq!(early["status"]["phase"], "Running");
}

/// Both are planned in one batch: the second must not count on the devices of the first.
#[tokio::test(start_paused = true)]
async fn pods_that_are_planned_together_share_no_device() {
    let world = world(Config::parse(NODES_WITH_GPUS, "nodes.yaml").unwrap()).await;
    for name in ["a", "b"] {
        world.create(&CLAIMS, claim(name, 1)).await;
        world.create(&PODS, user(name, name)).await;
    }
    pass(&world, 5).await;
    let mut devices = Vec::new();
    for name in ["a", "b"] {
        let claim = world.get(&CLAIMS, name).await.unwrap();
        let device = &claim["status"]["allocation"]["devices"]["results"][0]["device"];
        devices.push(device.as_str().unwrap().to_owned());
    }
    devices.sort();
    assert_eq!(devices, ["gpu-0", "gpu-1"]);
}
