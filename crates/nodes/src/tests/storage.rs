//! Claims and the volumes that are made for them.

use super::*;
use crate::storage::{PersistentVolume, PersistentVolumeClaim, StorageClass};

fn claim(name: &str, class: Option<&str>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    })
}

fn mounting(name: &str, claim: &str) -> Value {
    let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}});
    pod(name, json!({"spec": {"volumes": [volume]}}))
}

/// What the binder does: asks for a volume, and binds it once it is there.
async fn play_binder(world: &World, name: &str) {
    let kind = &PersistentVolumeClaim::TYPE;
    let ask = json!({"volume.kubernetes.io/storage-provisioner": "example.com/disk"});
    let ask = json!({"metadata": {"annotations": ask}});
    let claim = world.patch(kind, name, ask).await;
    pass(world, 2).await;
    let uid = claim["metadata"]["uid"].as_str().unwrap();
    let volume = format!("pvc-{uid}");
    let bound = json!({"status": {"phase": "Bound"}});
    world
        .patch_subresource(
            &PersistentVolume::TYPE,
            &volume,
            Some("status"),
            bound.clone(),
        )
        .await;
    world
        .patch(kind, name, json!({"spec": {"volumeName": volume}}))
        .await;
    world
        .patch_subresource(kind, name, Some("status"), bound)
        .await;
    pass(world, 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_the_default_class_is_bound_when_its_pod_gets_a_node() {
    let zoned = "nodes: [{count: 2, zones: [a, b]}]";
    let world = world(Config::parse(zoned, "nodes.yaml").unwrap()).await;
    let class = world.get(&StorageClass::TYPE, "standard").await.unwrap();
    assert_eq!(class["volumeBindingMode"], "WaitForFirstConsumer");

    world
        .create(&PersistentVolumeClaim::TYPE, claim("data", None))
        .await;
    pass(&world, 2).await;
    let waiting = world
        .get(&PersistentVolumeClaim::TYPE, "data")
        .await
        .unwrap();
    assert_eq!(
        (
            &waiting["status"]["phase"],
            &waiting["spec"]["storageClassName"]
        ),
        (&json!("Pending"), &json!("standard"))
    );

    world.create(&PODS, mounting("db", "data")).await;
    pass(&world, 3).await;
    play_binder(&world, "data").await;
    let bound = world
        .get(&PersistentVolumeClaim::TYPE, "data")
        .await
        .unwrap();
    let volume = bound["spec"]["volumeName"].as_str().unwrap().to_owned();
    let made = world.get(&PersistentVolume::TYPE, &volume).await.unwrap();
    assert_eq!(made["status"]["phase"], "Bound");
    assert_eq!(made["spec"]["claimRef"]["name"], "data");
    let terms = &made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
    assert_eq!(terms[0]["matchExpressions"][0]["values"], json!(["a"]));
    let running = world.get(&PODS, "db").await.unwrap();
    assert_eq!(
        (&running["spec"]["nodeName"], &running["status"]["phase"]),
        (&json!("node-0"), &json!("Running"))
    );

    // The volume is in zone a, and so is every later pod that wants it.
    world.delete(&PODS, "db").await;
    world
        .patch(&NODES, "node-0", json!({"spec": {"unschedulable": true}}))
        .await;
    pass(&world, 3).await;
    world.create(&PODS, mounting("db2", "data")).await;
    pass(&world, 3).await;
    let stuck = world.get(&PODS, "db2").await.unwrap();
    assert_eq!(
        condition(&stuck, "PodScheduled")["message"],
        "0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, 1 node(s) were unschedulable. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    );
}

#[tokio::test(start_paused = true)]
async fn a_class_says_where_its_volumes_can_be_made() {
    let zoned = "nodes: [{count: 2, zones: [a, b]}]";
    let world = world(Config::parse(zoned, "nodes.yaml").unwrap()).await;
    let class = |name: &str, zone: &str| {
        let zone = json!({"key": "topology.kubernetes.io/zone", "values": [zone]});
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": "example.com/disk", "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [zone]}],
        })
    };
    for (name, zone) in [("near", "b"), ("nowhere", "c")] {
        world.create(&StorageClass::TYPE, class(name, zone)).await;
        let claim = claim(name, Some(name));
        world.create(&PersistentVolumeClaim::TYPE, claim).await;
        world.create(&PODS, mounting(name, name)).await;
    }
    pass(&world, 3).await;
    play_binder(&world, "near").await;
    let near = world.get(&PODS, "near").await.unwrap();
    assert_eq!(near["spec"]["nodeName"], "node-1");
    let nowhere = world.get(&PODS, "nowhere").await.unwrap();
    assert_eq!(
        condition(&nowhere, "PodScheduled")["message"],
        "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_claim_is_missing_waits_for_it() {
    let world = world(Config::default()).await;
    world.create(&PODS, mounting("db", "data")).await;
    pass(&world, 2).await;
    let stuck = world.get(&PODS, "db").await.unwrap();
    assert_eq!(
        condition(&stuck, "PodScheduled")["message"],
        r#"0/3 nodes are available: persistentvolumeclaim "data" not found. not found"#
    );
    world
        .create(&PersistentVolumeClaim::TYPE, claim("data", None))
        .await;
    pass(&world, 15).await;
    play_binder(&world, "data").await;
    assert_eq!(
        world.get(&PODS, "db").await.unwrap()["status"]["phase"],
        "Running"
    );
}

#[tokio::test(start_paused = true)]
async fn a_volume_goes_when_it_is_released() {
    let world = world(Config::default()).await;
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "cloud"},
        "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "Immediate",
    });
    world.create(&StorageClass::TYPE, class).await;
    world
        .create(&PersistentVolumeClaim::TYPE, claim("data", Some("cloud")))
        .await;
    pass(&world, 2).await;
    play_binder(&world, "data").await;
    let bound = world
        .get(&PersistentVolumeClaim::TYPE, "data")
        .await
        .unwrap();
    let volume = bound["spec"]["volumeName"].as_str().unwrap().to_owned();
    // The controllers that release and protect do not run here.
    let off = json!({"metadata": {"finalizers": null}});
    world.patch(&PersistentVolume::TYPE, &volume, off).await;
    pass(&world, 2).await;
    assert!(world.get(&PersistentVolume::TYPE, &volume).await.is_some());
    let released = json!({"status": {"phase": "Released"}});
    world
        .patch_subresource(&PersistentVolume::TYPE, &volume, Some("status"), released)
        .await;
    pass(&world, 2).await;
    assert_eq!(world.get(&PersistentVolume::TYPE, &volume).await, None);
}
