//! Against the embedded API server. Upstream: TestVACProtectionController.

use api::kinds::{PersistentVolume, PersistentVolumeClaim, VolumeAttributesClass};
use api::{Key, Resource};
use serde_json::{Value, json};
use testkit::{World, enqueued};

use super::controller;

fn class(name: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": {"name": name},
        "driverName": "disk.example.com", "parameters": {"iops": "9"},
    })
}

fn claim(class: Option<&str>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
            "volumeAttributesClassName": class,
        },
    })
}

fn volume(class: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "disk.example.com", "volumeHandle": "h"}, "volumeAttributesClassName": class,
        },
    })
}

async fn running() -> World {
    let mut world = World::new().await;
    let running = controller(&world.context()).run(world.stop());
    world.run(running);
    world.start().await;
    world
}

async fn is_there(world: &World, name: &str) -> bool {
    world.wait_until_idle().await;
    world
        .get(&VolumeAttributesClass::TYPE, name)
        .await
        .is_some()
}

#[tokio::test(start_paused = true)]
async fn a_class_is_protected_and_goes_when_nobody_names_it() {
    let world = running().await;
    world
        .create(&VolumeAttributesClass::TYPE, class("fast"))
        .await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "", "admission protects it");
    world.refuse("PUT", "volumeattributesclasses/fast", 403, 2);
    let off = json!({"metadata": {"finalizers": null}});
    world.patch(&VolumeAttributesClass::TYPE, "fast", off).await;
    world.wait_until_idle().await;
    let writes = world.writes();
    assert_eq!(writes.len(), 3);
    assert_eq!(
        writes[2].body["metadata"]["finalizers"],
        json!(["kubernetes.io/vac-protection"])
    );
    world.refuse("PUT", "volumeattributesclasses/fast", 403, 2);
    world.delete(&VolumeAttributesClass::TYPE, "fast").await;
    assert!(!is_there(&world, "fast").await);
    assert_eq!(world.writes().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_claim_keeps_the_class_that_it_wants() {
    let world = running().await;
    world
        .create(&VolumeAttributesClass::TYPE, class("fast"))
        .await;
    world
        .create(&PersistentVolumeClaim::TYPE, claim(Some("fast")))
        .await;
    world.wait_until_idle().await;
    world.delete(&VolumeAttributesClass::TYPE, "fast").await;
    assert!(is_there(&world, "fast").await);
    let off = json!({"metadata": {"finalizers": null}});
    world.patch(&PersistentVolumeClaim::TYPE, "data", off).await;
    world.delete(&PersistentVolumeClaim::TYPE, "data").await;
    assert!(!is_there(&world, "fast").await);
}

#[tokio::test(start_paused = true)]
async fn a_claim_keeps_its_current_class_and_the_one_that_it_changes_to() {
    let statuses = [
        json!({"currentVolumeAttributesClassName": "fast"}),
        json!({"modifyVolumeStatus": {"targetVolumeAttributesClassName": "fast", "status": "InProgress"}}),
    ];
    for status in statuses {
        let world = running().await;
        world
            .create(&VolumeAttributesClass::TYPE, class("fast"))
            .await;
        world
            .create(&PersistentVolumeClaim::TYPE, claim(None))
            .await;
        let status = json!({"status": status});
        let kind = PersistentVolumeClaim::TYPE;
        let put = |status: Value| world.patch_subresource(&kind, "data", Some("status"), status);
        put(status).await;
        world.wait_until_idle().await;
        world.delete(&VolumeAttributesClass::TYPE, "fast").await;
        assert!(is_there(&world, "fast").await);
        put(json!({"status": {"currentVolumeAttributesClassName": null, "modifyVolumeStatus": null}})).await;
        assert!(!is_there(&world, "fast").await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_keeps_its_class() {
    let world = running().await;
    for name in ["fast", "slow"] {
        world
            .create(&VolumeAttributesClass::TYPE, class(name))
            .await;
    }
    world.create(&PersistentVolume::TYPE, volume("fast")).await;
    world.wait_until_idle().await;
    for name in ["fast", "slow"] {
        world.delete(&VolumeAttributesClass::TYPE, name).await;
    }
    assert!(is_there(&world, "fast").await);
    assert!(!is_there(&world, "slow").await);
    let off = json!({"metadata": {"finalizers": null}});
    world.patch(&PersistentVolume::TYPE, "v", off).await;
    world.delete(&PersistentVolume::TYPE, "v").await;
    assert!(!is_there(&world, "fast").await);
}

#[tokio::test(start_paused = true)]
async fn only_a_class_that_is_no_longer_named_is_enqueued() {
    let world = World::new().await;
    let context = world.context();
    let controller = controller(&context);
    world.start().await;
    world
        .create(&PersistentVolumeClaim::TYPE, claim(Some("fast")))
        .await;
    world.create(&PersistentVolume::TYPE, volume("slow")).await;
    assert_eq!(enqueued(&controller.queue).await, "");
    // A class that is not there is nobody's concern.
    controller.reconcile(&Key::new("", "fast")).await.unwrap();
    let off = json!({"metadata": {"finalizers": null}});
    for (resource, name, class) in [
        (&PersistentVolumeClaim::TYPE, "data", "fast"),
        (&PersistentVolume::TYPE, "v", "slow"),
    ] {
        world.patch(resource, name, off.clone()).await;
        assert_eq!(enqueued(&controller.queue).await, "");
        world.delete(resource, name).await;
        assert_eq!(enqueued(&controller.queue).await, class);
    }
}
