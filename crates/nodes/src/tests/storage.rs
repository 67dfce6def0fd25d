//! Claims and the volumes that are made for them.

use api::kinds::{CsiDriver, VolumeAttachment};

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

fn volume(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "csi": {"driver": "disk.example.com", "volumeHandle": name},
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

/// What the attach-detach controller does: asks for the volume, and lists it once it is attached.
async fn play_attach(world: &World, node: &str, volume: &str) {
    let name = format!("{volume}-{node}");
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name},
        "spec": {
            "attacher": "disk.example.com", "nodeName": node, "source": {"persistentVolumeName": volume},
        },
    });
    world.create(&VolumeAttachment::TYPE, attachment).await;
    pass(world, 2).await;
    let attached = world.get(&VolumeAttachment::TYPE, &name).await.unwrap();
    assert_eq!(attached["status"]["attached"], true);
    assert_eq!(
        attached["metadata"]["finalizers"],
        json!(["external-attacher/disk-example-com"])
    );
    let listed = json!([{"name": unique_name(volume), "devicePath": ""}]);
    let list = json!({"status": {"volumesAttached": listed}});
    world
        .patch_subresource(&NODES, node, Some("status"), list)
        .await;
    pass(world, 3).await;
}

fn unique_name(volume: &str) -> String {
    format!("kubernetes.io/csi/disk.example.com^{volume}")
}

async fn volume_of(world: &World, claim: &str) -> String {
    let bound = world
        .get(&PersistentVolumeClaim::TYPE, claim)
        .await
        .unwrap();
    bound["spec"]["volumeName"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_until_its_volume_is_attached_and_the_node_says_that_it_is_used() {
    let world = world(Config::default()).await;
    world.create(&PODS, mounting("db", "data")).await;
    world
        .create(&PersistentVolumeClaim::TYPE, claim("data", None))
        .await;
    pass(&world, 15).await;
    play_binder(&world, "data").await;
    let pod = world.get(&PODS, "db").await.unwrap();
    let node = pod["spec"]["nodeName"].as_str().unwrap();
    let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
    assert_eq!(waiting["reason"], "ContainerCreating");
    let volume = volume_of(&world, "data").await;
    let used = world.get(&NODES, node).await.unwrap();
    assert_eq!(
        used["status"]["volumesInUse"],
        json!([unique_name(&volume)])
    );
    play_attach(&world, node, &volume).await;
    let pod = world.get(&PODS, "db").await.unwrap();
    assert_eq!(pod["status"]["phase"], "Running");

    // A list that lacks it later does not stop what runs.
    let wiped = json!({"status": {"volumesAttached": null}});
    world
        .patch_subresource(&NODES, node, Some("status"), wiped)
        .await;
    pass(&world, 5).await;
    let pod = world.get(&PODS, "db").await.unwrap();
    assert_eq!(pod["status"]["phase"], "Running");

    world.delete(&PODS, "db").await;
    pass(&world, 60).await;
    let free = world.get(&NODES, node).await.unwrap();
    assert_eq!(free["status"]["volumesInUse"], json!(null));
    let name = format!("{volume}-{node}");
    world.delete(&VolumeAttachment::TYPE, &name).await;
    pass(&world, 2).await;
    assert_eq!(world.get(&VolumeAttachment::TYPE, &name).await, None);
}

#[tokio::test(start_paused = true)]
async fn volumes_of_the_class_that_is_broken_are_not_attached() {
    let world = world(Config::default()).await;
    world.create(&PODS, mounting("db", "data")).await;
    let broken = claim("data", Some("broken"));
    world.create(&PersistentVolumeClaim::TYPE, broken).await;
    pass(&world, 15).await;
    play_binder(&world, "data").await;
    let volume = volume_of(&world, "data").await;
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "a"},
        "spec": {
            "attacher": "disk.example.com", "nodeName": "node-0", "source": {"persistentVolumeName": volume},
        },
    });
    world.create(&VolumeAttachment::TYPE, attachment).await;
    pass(&world, 2).await;
    let failed = world.get(&VolumeAttachment::TYPE, "a").await.unwrap();
    assert_eq!(
        (
            &failed["status"]["attached"],
            &failed["status"]["attachError"]["message"]
        ),
        (
            &json!(false),
            &json!("rpc error: code = Internal desc = volumes of this class fail on purpose")
        )
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_attached_to_a_node_that_does_not_exist_until_it_does() {
    let world = world(Config::default()).await;
    world.create(&PersistentVolume::TYPE, volume("v")).await;
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "a"},
        "spec": {
            "attacher": "disk.example.com", "nodeName": "late", "source": {"persistentVolumeName": "v"},
        },
    });
    world.create(&VolumeAttachment::TYPE, attachment).await;
    pass(&world, 2).await;
    let failed = world.get(&VolumeAttachment::TYPE, "a").await.unwrap();
    assert_eq!(failed["status"]["attached"], false);
    assert_eq!(
        failed["status"]["attachError"]["message"],
        "node \"late\" not found"
    );

    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "late"}});
    world.create(&NODES, node).await;
    pass(&world, 2).await;
    let attached = world.get(&VolumeAttachment::TYPE, "a").await.unwrap();
    assert_eq!(attached["status"], json!({"attached": true}));
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_does_not_exist_is_waited_for() {
    let world = world(Config::default()).await;
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "a"},
        "spec": {
            "attacher": "disk.example.com", "nodeName": "node-0", "source": {"persistentVolumeName": "v"},
        },
    });
    world.create(&VolumeAttachment::TYPE, attachment).await;
    pass(&world, 2).await;
    let waits = world.get(&VolumeAttachment::TYPE, "a").await.unwrap();
    assert_eq!(waits["status"], json!({"attached": false}));

    world.create(&PersistentVolume::TYPE, volume("v")).await;
    pass(&world, 2).await;
    let attached = world.get(&VolumeAttachment::TYPE, "a").await.unwrap();
    assert_eq!(attached["status"], json!({"attached": true}));
}

#[tokio::test(start_paused = true)]
async fn nodes_have_csi_nodes_and_the_driver_a_csi_driver() {
    let world = world(Config::default()).await;
    let kind = ResourceType::cluster("storage.k8s.io", "v1", "csinodes", "CSINode");
    let node = world.get(&kind, "node-0").await.unwrap();
    assert_eq!(
        node["spec"]["drivers"],
        json!([{
            "name": "simulated.steersman.dev", "nodeID": "node-0", "allocatable": {"count": 128},
            "topologyKeys": ["topology.kubernetes.io/zone"],
        }])
    );
    let driver = world.get(&CsiDriver::TYPE, "simulated.steersman.dev").await;
    assert_eq!(driver.unwrap()["spec"]["attachRequired"], true);
}

#[tokio::test(start_paused = true)]
async fn a_volume_follows_the_attributes_class_of_its_claim() {
    let world = world(Config::default()).await;
    world.create(&PODS, mounting("db", "data")).await;
    world
        .create(&PersistentVolumeClaim::TYPE, claim("data", None))
        .await;
    pass(&world, 15).await;
    play_binder(&world, "data").await;
    let ask = json!({"spec": {"volumeAttributesClassName": "gold"}});
    world.patch(&PersistentVolumeClaim::TYPE, "data", ask).await;
    pass(&world, 2).await;
    let claim = world
        .get(&PersistentVolumeClaim::TYPE, "data")
        .await
        .unwrap();
    assert_eq!(
        claim["status"]["modifyVolumeStatus"],
        json!({"targetVolumeAttributesClassName": "gold", "status": "Pending"})
    );
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": {"name": "gold"},
        "driverName": "disk.example.com", "parameters": {"iops": "5000"},
    });
    world
        .create(&api::kinds::VolumeAttributesClass::TYPE, class)
        .await;
    pass(&world, 2).await;
    let claim = world
        .get(&PersistentVolumeClaim::TYPE, "data")
        .await
        .unwrap();
    let status = &claim["status"];
    assert_eq!(status["currentVolumeAttributesClassName"], "gold");
    assert_eq!(status["modifyVolumeStatus"], json!(null));
    let volume = volume_of(&world, "data").await;
    let volume = world.get(&PersistentVolume::TYPE, &volume).await.unwrap();
    assert_eq!(volume["spec"]["volumeAttributesClassName"], "gold");
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_made_with_the_attributes_class_of_its_claim_once_that_is_there() {
    let world = world(Config::default()).await;
    let mut asking = claim("data", None);
    asking["spec"]["volumeAttributesClassName"] = json!("gold");
    world.create(&PersistentVolumeClaim::TYPE, asking).await;
    let ask = json!({"metadata": {"annotations": {
        "volume.kubernetes.io/storage-provisioner": "example.com/disk",
        "volume.kubernetes.io/selected-node": "node-0",
    }}});
    world.patch(&PersistentVolumeClaim::TYPE, "data", ask).await;
    pass(&world, 2).await;
    let mut failures = world.events().await;
    failures.retain(|event| event.contains("ProvisioningFailed"));
    assert_eq!(
        failures,
        [
            "Warning ProvisioningFailed failed to provision volume with StorageClass \"standard\": volumeattributesclasses.storage.k8s.io \"gold\" not found"
        ]
    );
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": {"name": "gold"},
        "driverName": "disk.example.com", "parameters": {"iops": "5000"},
    });
    world
        .create(&api::kinds::VolumeAttributesClass::TYPE, class)
        .await;
    pass(&world, 2).await;
    let claim = world.get(&PersistentVolumeClaim::TYPE, "data").await;
    let uid = claim.unwrap()["metadata"]["uid"].clone();
    let volume = format!("pvc-{}", uid.as_str().unwrap());
    let volume = world.get(&PersistentVolume::TYPE, &volume).await.unwrap();
    assert_eq!(volume["spec"]["volumeAttributesClassName"], "gold");
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
    play_attach(&world, "node-0", &volume).await;
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
    let pod = world.get(&PODS, "db").await.unwrap();
    let node = pod["spec"]["nodeName"].as_str().unwrap();
    play_attach(&world, node, &volume_of(&world, "data").await).await;
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

#[tokio::test(start_paused = true)]
async fn a_volume_whose_claim_is_deleted_under_its_pod_stays_in_use_and_goes_once_it_is_detached() {
    let world = world(Config::default()).await;
    let claim = claim("data", Some("immediate"));
    world.create(&PersistentVolumeClaim::TYPE, claim).await;
    pass(&world, 2).await;
    play_binder(&world, "data").await;
    let volume = volume_of(&world, "data").await;
    world.create(&PODS, mounting("db", "data")).await;
    pass(&world, 5).await;
    let pod = world.get(&PODS, "db").await.unwrap();
    let node = pod["spec"]["nodeName"].as_str().unwrap().to_owned();
    play_attach(&world, &node, &volume).await;

    let off = json!({"metadata": {"finalizers": null}});
    let kind = &PersistentVolumeClaim::TYPE;
    world.delete(kind, "data").await;
    if world.get(kind, "data").await.is_some() {
        world.patch(kind, "data", off.clone()).await;
    }
    let released = json!({"status": {"phase": "Released"}});
    let of_volumes = &PersistentVolume::TYPE;
    world
        .patch_subresource(of_volumes, &volume, Some("status"), released)
        .await;
    pass(&world, 60).await;
    let held = world.get(of_volumes, &volume).await.unwrap();
    assert_eq!(held["metadata"]["deletionTimestamp"], json!(null));
    let used = world.get(&NODES, &node).await.unwrap();
    assert_eq!(
        used["status"]["volumesInUse"],
        json!([unique_name(&volume)])
    );

    world.delete(&PODS, "db").await;
    pass(&world, 60).await;
    let free = world.get(&NODES, &node).await.unwrap();
    assert_eq!(free["status"]["volumesInUse"], json!(null));
    let name = format!("{volume}-{node}");
    world.delete(&VolumeAttachment::TYPE, &name).await;
    pass(&world, 2).await;
    let held = world.get(of_volumes, &volume).await;
    let is_deleted = |held: &Value| held["metadata"]["deletionTimestamp"] != json!(null);
    assert!(held.as_ref().is_none_or(is_deleted));
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_a_local_volume_runs_where_the_volume_is() {
    let world = world(Config::default()).await;
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
    });
    world.create(&StorageClass::TYPE, class).await;
    let term =
        json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-2"]}]});
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "local": {"path": "/mnt/disk"}, "storageClassName": "local",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
    });
    let kind = &PersistentVolume::TYPE;
    world.create(kind, volume).await;
    let status = |phase: &str| json!({"status": {"phase": phase}});
    world
        .patch_subresource(kind, "disk", Some("status"), status("Available"))
        .await;
    let claims = &PersistentVolumeClaim::TYPE;
    world.create(claims, claim("data", Some("local"))).await;
    world.create(&PODS, mounting("db", "data")).await;
    pass(&world, 3).await;
    let kept = world.get(kind, "disk").await.unwrap();
    assert_eq!(kept["spec"]["claimRef"]["name"], "data");
    let claim = world.get(claims, "data").await.unwrap();
    assert_eq!(claim["metadata"]["annotations"], json!(null));

    let named = json!({"spec": {"volumeName": "disk"}});
    world.patch(claims, "data", named).await;
    world
        .patch_subresource(claims, "data", Some("status"), status("Bound"))
        .await;
    pass(&world, 5).await;
    let pod = world.get(&PODS, "db").await.unwrap();
    assert_eq!(
        (&pod["spec"]["nodeName"], &pod["status"]["phase"]),
        (&json!("node-2"), &json!("Running"))
    );
}
