//! Which pods conflict, and who is told.

use api::kinds::{CsiDriver, PersistentVolume, PersistentVolumeClaim, Pod};
use api::{Istr, Key, Resource};
use runtime::Metrics;
use serde_json::{Value, json};
use testkit::World;

use super::conflicts::{Use, Volumes, labels_conflict};
use super::controller;

// Upstream: TestConflicts, TestSELinuxOptionsToFileLabel.
#[test]
fn labels_conflict_in_what_both_say_and_in_the_level() {
    let conflict = |one: &str, two: &str| {
        assert_eq!(labels_conflict(one, two), labels_conflict(two, one));
        labels_conflict(one, two)
    };
    assert!(!conflict("u:r:t:l", "u:r:t:l"));
    assert!(!conflict("u:r:t:s0:c1,c2", ":::s0:c1,c2"));
    assert!(!conflict("u:::l", ":r:t:l"));
    assert!(conflict("u:r:t:s0:c1,c2", ":::s0:c98,c99"));
    assert!(conflict(":::s0:c1,c2", ""));
    assert!(conflict("u:r:t:l", "v:r:t:l"));
    assert!(conflict("u:r:t:l", ":r:x:l"));
    assert!(!conflict("", ""));
    assert!(!conflict("u:r:t:", ""));
}

fn told(volumes: &mut Volumes, pod: (&str, &str), label: &str, policy: &str) -> Vec<String> {
    let used = Use {
        label: Istr::new(label),
        policy: Istr::new(policy),
    };
    let driver = Some(Istr::new("d"));
    let conflicts = volumes.add(&Istr::new("v"), driver, &Key::new(pod.0, pod.1), used);
    let lines = conflicts
        .iter()
        .map(|it| format!("{} {}", it.pod, it.message()));
    lines.collect()
}

// Upstream: TestVolumeCache_AddVolumeSendConflicts, TestVolumeCache_AddVolume_Idempotent, TestVolumeCache_GetConflicts,
// TestVolumeCache_DeletePod.
#[test]
fn conflicting_pods_of_a_volume_get_one_event_each() {
    let mut volumes = Volumes::default();
    assert_eq!(
        told(&mut volumes, ("ns", "one"), ":::a", "MountOption"),
        [""; 0]
    );
    let second = told(&mut volumes, ("ns", "two"), ":::b", "MountOption");
    assert_eq!(
        second,
        [
            "ns/two SELinuxLabel \":::b\" conflicts with pod one that uses the same volume as this pod with SELinuxLabel \":::a\". If both pods land on the same node, only one of them may access the volume.",
            "ns/one SELinuxLabel \":::a\" conflicts with pod two that uses the same volume as this pod with SELinuxLabel \":::b\". If both pods land on the same node, only one of them may access the volume.",
        ]
    );
    assert_eq!(
        told(&mut volumes, ("ns", "two"), ":::b", "MountOption"),
        [""; 0]
    );
    let far = told(&mut volumes, ("far", "three"), ":::a", "Recursive");
    assert_eq!(far.len(), 6);
    assert!(far.contains(&"ns/one SELinuxChangePolicy\"MountOption\" conflicts with another pod that uses the same volume as this pod with a different SELinuxChangePolicy. If both pods land on the same node, only one of them may access the volume.".to_owned()), "{far:?}");
    assert_eq!(volumes.conflicts().len(), 8);
    assert_eq!(volumes.pods_of_driver("d").len(), 3);
    volumes.remove(&Key::new("ns", "two"));
    assert_eq!(volumes.conflicts().len(), 2);
    // A pod that changes gets its events again.
    assert_eq!(
        told(&mut volumes, ("far", "three"), ":::a", "MountOption"),
        [""; 0]
    );
    assert_eq!(volumes.conflicts().len(), 0);
    volumes.remove(&Key::new("far", "three"));
    volumes.remove(&Key::new("ns", "one"));
    assert_eq!(volumes.pods_of_driver("d"), []);
}

fn pod(name: &str, level: &str, policy: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "securityContext": {"seLinuxOptions": {"level": level}, "seLinuxChangePolicy": policy},
            "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}],
        },
    })
}

async fn running(selinux_mount: bool) -> (World, Metrics) {
    let mut world = World::new().await;
    let context = world.context();
    let running = controller(&context).run(world.stop());
    world.run(running);
    let driver = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "csi.example.com"},
        "spec": {"seLinuxMount": selinux_mount},
    });
    world.create(&CsiDriver::TYPE, driver).await;
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "claim", "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "volume",
            "storageClassName": "",
        },
    });
    let claim = world.create(&PersistentVolumeClaim::TYPE, claim).await;
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "volume"},
        "spec": {
            "accessModes": ["ReadWriteMany"], "capacity": {"storage": "1Gi"},
            "csi": {"driver": "csi.example.com", "volumeHandle": "h"},
            "claimRef": {"namespace": "default", "name": "claim", "uid": claim["metadata"]["uid"]},
        },
    });
    world.create(&PersistentVolume::TYPE, volume).await;
    world.start().await;
    (world, context.metrics)
}

fn pairs(metrics: &Metrics) -> usize {
    let text = metrics.render();
    let lines = text.lines();
    lines
        .filter(|line| line.starts_with("selinux_warning_controller_selinux_volume_conflict{"))
        .count()
}

// Upstream: TestSELinuxWarningController_Sync (two pods with different labels, the metric), TestSELinuxWarningController_Sync
// (a pod that is over is forgotten).
#[tokio::test(start_paused = true)]
async fn conflicts_are_reported_and_counted_until_a_pod_finishes() {
    let (world, metrics) = running(true).await;
    world
        .create(&Pod::TYPE, pod("one", "s0:c1", Value::Null))
        .await;
    world
        .create(&Pod::TYPE, pod("two", "s0:c2", Value::Null))
        .await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
    let events = world.events().await;
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(
        events
            .iter()
            .all(|it| it.starts_with("Normal SELinuxLabelConflict SELinuxLabel \":::s0:c")),
        "{events:?}"
    );
    assert_eq!(pairs(&metrics), 2);
    world.pod_status("two", json!({"phase": "Succeeded"})).await;
    world.wait_until_idle().await;
    assert_eq!(pairs(&metrics), 0);
}

// Upstream: TestSELinuxWarningController_Sync (existing pod with Recursive policy).
#[tokio::test(start_paused = true)]
async fn policies_conflict_too() {
    let (world, metrics) = running(true).await;
    world
        .create(&Pod::TYPE, pod("one", "s0:c1", Value::Null))
        .await;
    world
        .create(&Pod::TYPE, pod("two", "s0:c1", json!("Recursive")))
        .await;
    world.wait_until_idle().await;
    let events = world.events().await;
    let policies = events
        .iter()
        .filter(|it| it.contains("SELinuxChangePolicyConflict"));
    assert_eq!(policies.count(), 2, "{events:?}");
    // UPSTREAM: who asks for recursion has no label to mount with, which is not the other's.
    assert_eq!(pairs(&metrics), 4);
}

// Upstream: TestSELinuxWarningController_Sync (no SELinuxMount support), the handlers of CSIDriver.
#[tokio::test(start_paused = true)]
async fn a_driver_that_cannot_mount_with_labels_has_no_conflicts_until_it_can() {
    let (world, metrics) = running(false).await;
    world
        .create(&Pod::TYPE, pod("one", "s0:c1", Value::Null))
        .await;
    world
        .create(&Pod::TYPE, pod("two", "s0:c2", Value::Null))
        .await;
    world.wait_until_idle().await;
    assert_eq!(world.events().await, [""; 0]);
    let mounts = json!({"spec": {"seLinuxMount": true}});
    world
        .patch(&CsiDriver::TYPE, "csi.example.com", mounts)
        .await;
    world.wait_until_idle().await;
    assert_eq!(pairs(&metrics), 2);
    world.delete(&CsiDriver::TYPE, "csi.example.com").await;
    world.wait_until_idle().await;
    assert_eq!(pairs(&metrics), 0);
}

// Upstream: TestSELinuxWarningController_Sync (a volume that is mounted with two labels).
#[tokio::test(start_paused = true)]
async fn two_labels_in_one_pod_are_reported() {
    let (world, _) = running(true).await;
    let mut pod = pod("one", "s0:c1", Value::Null);
    let other = json!({
        "name": "d", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "securityContext": {"seLinuxOptions": {"level": "s0:c2"}},
    });
    pod["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .push(other);
    world.create(&Pod::TYPE, pod).await;
    world.wait_until_idle().await;
    assert_eq!(
        world.events().await,
        [
            "Warning MultipleSELinuxLabels Volume \"data\" is mounted twice with different SELinux labels inside this pod"
        ]
    );
}

// Upstream: TestSELinuxWarningController_Sync (inline volume).
#[tokio::test(start_paused = true)]
async fn volumes_that_stand_in_pods_conflict_too() {
    let (world, metrics) = running(true).await;
    let source = json!({"targetPortal": "10.0.0.1", "iqn": "iqn.2001-04.com.example:x", "lun": 0});
    for (name, level) in [("one", "s0:c1"), ("two", "s0:c2")] {
        let mut pod = pod(name, level, Value::Null);
        pod["spec"]["volumes"] = json!([
            {"name": "data", "iscsi": source}, {"name": "other", "emptyDir": {}},
        ]);
        world.create(&Pod::TYPE, pod).await;
    }
    world.wait_until_idle().await;
    assert_eq!(pairs(&metrics), 2);
    assert_eq!(world.events().await.len(), 2);
}
