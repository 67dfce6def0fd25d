//! The whole, against the embedded API server under virtual time.

mod claim_gone;
mod restored;

use std::time::Duration;

use api::kinds::{CsiDriver, Node, PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment};
use api::{GoDuration, Resource};
use runtime::Context;
use serde_json::{Value, json};
use testkit::World;

use super::super::names::attachment_name;
use super::super::{Loops, controllers};
use crate::config;

const VOLUME: &str = "kubernetes.io/csi/d.example.com^h-data";

fn settings() -> config::AttachDetach {
    config::AttachDetach {
        disable_reconciler_sync: false,
        reconciler_sync_loop_period: GoDuration::parse("1m").unwrap(),
        disable_force_detach_on_timeout: false,
    }
}

pub(super) struct Scene {
    pub(super) world: World,
    pub(super) context: Context,
}

impl Scene {
    /// A claim that is bound to a volume, two nodes, and the controller.
    pub(super) async fn new() -> Scene {
        let mut scene = Scene::before().await;
        scene.start().await;
        scene
    }

    /// The same while no manager runs.
    async fn before() -> Scene {
        let world = World::new().await;
        let context = world.context();
        let scene = Scene { world, context };
        let csi = json!({"csi": {"driver": "d.example.com", "volumeHandle": "h-data"}});
        scene.create_volume("data", "ReadWriteOnce", csi).await;
        scene.create_node("n1").await;
        scene.create_node("n2").await;
        scene
    }

    async fn start(&mut self) {
        let world = &mut self.world;
        let Loops {
            volumes,
            nodes,
            resync,
        } = controllers(&self.context, &settings());
        let (stop, other, third) = (world.stop(), world.stop(), world.stop());
        world.run(volumes.run(stop));
        world.run(nodes.run(other));
        world.run(resync.unwrap().run(third));
        world.start().await;
        world.wait_until_idle().await;
    }

    pub(super) async fn create_volume(&self, name: &str, mode: &str, source: Value) {
        let world = &self.world;
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "accessModes": [mode], "volumeName": name, "storageClassName": "",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        });
        let made = world.create(&PersistentVolumeClaim::TYPE, claim).await;
        let mut spec = json!({
            "capacity": {"storage": "1Gi"}, "accessModes": [mode],
            "claimRef": {"namespace": "default", "name": name, "uid": made["metadata"]["uid"]},
        });
        for (key, value) in source.as_object().unwrap() {
            spec[key] = value.clone();
        }
        let volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec,
        });
        world.create(&PersistentVolume::TYPE, volume).await;
        let status = json!({"status": {"phase": "Bound"}});
        world
            .patch_subresource(&PersistentVolumeClaim::TYPE, name, Some("status"), status)
            .await;
    }

    pub(super) async fn create_node(&self, name: &str) {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}},
        });
        self.world.create(&Node::TYPE, node).await;
        self.set_ready(name, true).await;
    }

    async fn set_ready(&self, name: &str, is_ready: bool) {
        let status = if is_ready { "True" } else { "Unknown" };
        self.patch_node(
            name,
            json!({"conditions": [{"type": "Ready", "status": status}]}),
        )
        .await;
    }

    async fn patch_node(&self, name: &str, status: Value) {
        let patch = json!({"status": status});
        self.world
            .patch_subresource(&Node::TYPE, name, Some("status"), patch)
            .await;
    }

    pub(super) async fn create_pod(&self, name: &str, node: &str, claim: &str) {
        self.create_pod_with(
            name,
            node,
            json!({"persistentVolumeClaim": {"claimName": claim}}),
        )
        .await;
    }

    async fn create_pod_with(&self, name: &str, node: &str, mut volume: Value) {
        volume["name"] = json!("data");
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "nodeName": node, "containers": [{"name": "c", "image": "i"}], "volumes": [volume],
            },
        });
        self.world.create(&Pod::TYPE, pod).await;
        self.world.wait_until_idle().await;
    }

    async fn create_attachment(&self, node: &str) {
        let attachment = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
            "metadata": {"name": attachment_name("d.example.com", "h-data", node)},
            "spec": {"attacher": "d.example.com", "nodeName": node, "source": {"persistentVolumeName": "data"}},
        });
        self.world.create(&VolumeAttachment::TYPE, attachment).await;
    }

    /// What the driver says of an attachment.
    async fn answer(&self, node: &str, status: Value) {
        let name = attachment_name("d.example.com", "h-data", node);
        let patch = json!({"status": status});
        self.world
            .patch_subresource(&VolumeAttachment::TYPE, &name, Some("status"), patch)
            .await;
        self.world.wait_until_idle().await;
    }

    pub(super) async fn delete_pod(&self, name: &str) {
        let now = client::DeleteOptions {
            grace_period_seconds: Some(0),
            ..client::DeleteOptions::default()
        };
        self.world.delete_with(&Pod::TYPE, name, &now).await;
        self.world.wait_until_idle().await;
    }

    async fn listed(&self, node: &str) -> Value {
        let node = self.world.get(&Node::TYPE, node).await.unwrap();
        node["status"]["volumesAttached"].clone()
    }

    async fn attached(&self) -> Vec<String> {
        let held = self.world.list(&VolumeAttachment::TYPE).await;
        let text = |one: &Value| {
            let attached = one["status"]["attached"].as_bool().unwrap_or(false);
            let node = one["spec"]["nodeName"].as_str().unwrap_or("");
            format!("{node} {attached}")
        };
        let mut all: Vec<String> = held.iter().map(text).collect();
        all.sort();
        all
    }

    async fn pass(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
        self.world.wait_until_idle().await;
    }
}

/// Upstream: TestAttacherAttach, Test_Run_Positive_OneDesiredVolumeAttach.
#[tokio::test(start_paused = true)]
async fn a_volume_is_attached_listed_and_announced_and_then_all_is_quiet() {
    let scene = Scene::new().await;
    scene.create_pod("web", "n1", "data").await;
    let writes = scene.world.writes();
    assert_eq!(writes.len(), 1);
    let name = attachment_name("d.example.com", "h-data", "n1");
    assert_eq!(
        writes[0].body,
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name},
            "spec": {"attacher": "d.example.com", "nodeName": "n1", "source": {"persistentVolumeName": "data"}},
        })
    );
    assert_eq!(scene.listed("n1").await, json!(null));
    scene.answer("n1", json!({"attached": true})).await;
    assert_eq!(
        scene.listed("n1").await,
        json!([{"name": VOLUME, "devicePath": ""}])
    );
    assert_eq!(
        scene.world.events().await,
        ["Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"data\" "]
    );
    scene.world.writes();
    scene.pass(Duration::from_mins(5)).await;
    assert_eq!(scene.world.written(), "");
}

/// Upstream: Test_Run_Positive_OneDesiredVolumeAttachThenDetachWithUnmountedVolume, …WithMountedVolume, TestAttacherDetach.
#[tokio::test(start_paused = true)]
async fn a_volume_in_use_is_not_detached_and_leaves_the_list_before_it_is() {
    let scene = Scene::new().await;
    scene.create_pod("web", "n1", "data").await;
    scene.answer("n1", json!({"attached": true})).await;
    scene
        .patch_node("n1", json!({"volumesInUse": [VOLUME]}))
        .await;
    scene.delete_pod("web").await;
    scene.pass(Duration::from_mins(30)).await;
    assert_eq!(scene.attached().await, ["n1 true"], "the kubelet uses it");
    scene.world.writes();
    scene.patch_node("n1", json!({"volumesInUse": null})).await;
    scene.world.wait_until_idle().await;
    let written = scene.world.written();
    let name = attachment_name("d.example.com", "h-data", "n1");
    assert_eq!(
        written,
        format!("PATCH nodes/n1/status\nDELETE volumeattachments/{name}")
    );
    assert_eq!(scene.attached().await, Vec::<String>::new());
    assert_eq!(scene.listed("n1").await, json!(null));
}

/// Upstream: Test_Run_OneVolumeDetachOnUnhealthyNode.
#[tokio::test(start_paused = true)]
async fn a_volume_leaves_a_dead_node_after_six_minutes_and_goes_to_the_next() {
    let scene = Scene::new().await;
    scene.create_pod("web", "n1", "data").await;
    scene.answer("n1", json!({"attached": true})).await;
    scene
        .patch_node("n1", json!({"volumesInUse": [VOLUME]}))
        .await;
    scene.set_ready("n1", false).await;
    scene.delete_pod("web").await;
    scene.create_pod("web-2", "n2", "data").await;
    scene.pass(Duration::from_secs(330)).await;
    assert_eq!(scene.attached().await, ["n1 true"]);
    scene.pass(Duration::from_secs(40)).await;
    assert_eq!(scene.attached().await, ["n2 false"]);
    let events = scene.world.events().await;
    assert!(
        events.contains(
            &"Warning FailedAttachVolume Multi-Attach error for volume \"data\" Volume is already exclusively attached to one node and can't be attached to another"
                .to_owned()
        ),
        "{events:?}"
    );
    let metrics = scene.context.metrics.render();
    assert!(
        metrics.contains(
            "attach_detach_controller_attachdetach_controller_forced_detaches{reason=\"timeout\"} 1"
        ),
        "{metrics}"
    );
}

/// Upstream: Test_Run_OneVolumeDetachOnOutOfServiceTaintedNode.
#[tokio::test(start_paused = true)]
async fn a_volume_leaves_a_node_out_of_service_at_once() {
    let scene = Scene::new().await;
    scene.create_pod("web", "n1", "data").await;
    scene.answer("n1", json!({"attached": true})).await;
    scene
        .patch_node("n1", json!({"volumesInUse": [VOLUME]}))
        .await;
    scene.delete_pod("web").await;
    let taint = json!({"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]}});
    scene.world.patch(&Node::TYPE, "n1", taint).await;
    scene.world.wait_until_idle().await;
    assert_eq!(scene.attached().await, Vec::<String>::new());
    let metrics = scene.context.metrics.render();
    assert!(metrics.contains("forced_detaches{reason=\"out-of-service\"} 1"));
}

/// Upstream: TestAttacherWithCSIDriver's errors; the back-off of operations.
#[tokio::test(start_paused = true)]
async fn a_driver_that_fails_is_told_again_and_again_ever_more_seldom() {
    let scene = Scene::new().await;
    scene.create_pod("web", "n1", "data").await;
    scene
        .answer(
            "n1",
            json!({"attached": false, "attachError": {"message": "no room"}}),
        )
        .await;
    scene.world.writes();
    scene.pass(Duration::from_hours(1)).await;
    assert_eq!(scene.world.written(), "", "events apart");
    let events = api::ResourceType::namespaced("", "v1", "events", "Event");
    let events = scene.world.list(&events).await;
    let count: i64 = events
        .iter()
        .filter_map(|event| event["count"].as_i64())
        .sum();
    // 0.5 s, 1 s, … 64 s, and then every 122 s.
    assert!((30..45).contains(&count), "{count}");
    scene
        .answer("n1", json!({"attached": true, "attachError": null}))
        .await;
    let events = scene.world.events().await;
    assert_eq!(
        events,
        [
            "Warning FailedAttachVolume AttachVolume.Attach failed for volume \"data\" : no room",
            "Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"data\" ",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_says_nothing_is_told_after_two_minutes() {
    let scene = Scene::new().await;
    scene.create_pod("web", "n1", "data").await;
    scene.pass(Duration::from_secs(130)).await;
    assert_eq!(
        scene.world.events().await,
        [
            "Warning FailedAttachVolume AttachVolume.Attach failed for volume \"data\" : timed out waiting for external-attacher of d.example.com CSI driver to attach volume h-data"
        ]
    );
}

/// Upstream: TestVolumeAttachmentRecovery and its cases: what is attached and nobody needs goes, what is needed stays.
#[tokio::test(start_paused = true)]
async fn a_manager_that_starts_finds_what_is_attached() {
    let mut scene = Scene::before().await;
    scene.create_attachment("n1").await;
    scene.create_pod("web", "n1", "data").await;
    scene.answer("n1", json!({"attached": true})).await;
    let list = json!({"volumesAttached": [{"name": VOLUME, "devicePath": ""}]});
    scene.patch_node("n1", list).await;
    scene.start().await;
    assert_eq!(scene.world.written(), "", "nothing has changed");
    assert_eq!(scene.world.events().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_starts_detaches_what_is_left_over() {
    let mut scene = Scene::before().await;
    scene.create_attachment("n1").await;
    scene.create_attachment("n2").await;
    scene.create_attachment("n3").await;
    scene.answer("n1", json!({"attached": true})).await;
    scene.create_pod("web", "n2", "data").await;
    scene.start().await;
    scene.pass(Duration::from_mins(1)).await;
    assert_eq!(scene.attached().await, ["n2 false", "n3 false"]);
    scene.pass(Duration::from_mins(6)).await;
    assert_eq!(
        scene.attached().await,
        ["n2 false"],
        "of a node that is gone"
    );
}

/// Upstream: TestAttachDetachController with nodes that are deleted.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_gone_is_waited_for_if_it_used_the_volume() {
    let scene = Scene::new().await;
    scene.create_pod("web", "n1", "data").await;
    scene.answer("n1", json!({"attached": true})).await;
    scene
        .patch_node("n1", json!({"volumesInUse": [VOLUME]}))
        .await;
    scene.world.delete(&Node::TYPE, "n1").await;
    scene.delete_pod("web").await;
    scene.pass(Duration::from_secs(300)).await;
    assert_eq!(scene.attached().await, ["n1 true"]);
    scene.pass(Duration::from_secs(65)).await;
    assert_eq!(scene.attached().await, Vec::<String>::new());
    scene.create_pod("web", "n2", "data").await;
    scene.answer("n2", json!({"attached": true})).await;
    scene.delete_pod("web").await;
    scene.world.delete(&Node::TYPE, "n2").await;
    scene.world.wait_until_idle().await;
    assert_eq!(
        scene.attached().await,
        Vec::<String>::new(),
        "it was not in use"
    );
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_is_gone_before_its_attachment_does_not_keep_it() {
    let scene = Scene::new().await;
    scene.create_pod("web", "n1", "data").await;
    scene.answer("n1", json!({"attached": true})).await;
    scene
        .patch_node("n1", json!({"volumesInUse": [VOLUME]}))
        .await;
    scene.world.delete(&PersistentVolume::TYPE, "data").await;
    let bare = json!({"metadata": {"finalizers": null}});
    if scene
        .world
        .get(&PersistentVolume::TYPE, "data")
        .await
        .is_some()
    {
        scene
            .world
            .patch(&PersistentVolume::TYPE, "data", bare)
            .await;
    }
    scene.delete_pod("web").await;
    assert_eq!(scene.attached().await, ["n1 true"], "it is in use");
    scene.patch_node("n1", json!({"volumesInUse": null})).await;
    scene.world.wait_until_idle().await;
    assert_eq!(scene.attached().await, Vec::<String>::new());
}

/// Upstream: TestFindAndRemoveNonattachableVolumes, TestAttacherWithCSIDriver.
#[tokio::test(start_paused = true)]
async fn a_driver_that_needs_no_attaching_gets_no_attachment() {
    let scene = Scene::new().await;
    scene.create_pod("web", "n1", "data").await;
    let driver = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "d.example.com"},
        "spec": {"attachRequired": false},
    });
    scene.world.create(&CsiDriver::TYPE, driver).await;
    scene.world.wait_until_idle().await;
    assert_eq!(scene.attached().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn inline_volumes_are_translated_for_the_drivers_that_took_over() {
    let scene = Scene::new().await;
    scene
        .create_pod_with(
            "web",
            "n1",
            json!({"awsElasticBlockStore": {"volumeID": "vol-1"}}),
        )
        .await;
    let writes = scene.world.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(
        writes[0].body["spec"],
        json!({
            "attacher": "ebs.csi.aws.com", "nodeName": "n1",
            "source": {"inlineVolumeSpec": {
                "accessModes": ["ReadWriteOnce"],
                "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1", "volumeAttributes": {"partition": "0"}},
            }},
        })
    );
    scene.delete_pod("web").await;
    assert_eq!(scene.attached().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn fibre_channel_is_listed_and_flex_volumes_are_refused() {
    let scene = Scene::new().await;
    scene
        .create_pod_with("fc", "n1", json!({"fc": {"targetWWNs": ["w"], "lun": 0}}))
        .await;
    assert_eq!(
        scene.listed("n1").await,
        json!([{"name": "kubernetes.io/fc/[w]:0", "devicePath": ""}])
    );
    scene.delete_pod("fc").await;
    assert_eq!(scene.listed("n1").await, json!(null));
    scene
        .create_pod_with("flex", "n1", json!({"flexVolume": {"driver": "k8s/nfs"}}))
        .await;
    let events = scene.world.events().await;
    assert_eq!(
        events,
        [
            "Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"data\" ",
            "Warning FailedAttachVolume FlexVolume driver k8s/nfs of volume \"data\" is not called to attach it: a volume that needs that cannot be mounted",
        ]
    );
    assert_eq!(scene.attached().await, Vec::<String>::new());
}

/// Upstream: Test_NodeAdd, Test_SetNodeStatusUpdateNeededError: a node that comes back without its list gets it again.
#[tokio::test(start_paused = true)]
async fn a_list_that_somebody_wiped_is_written_again() {
    let scene = Scene::new().await;
    scene.create_pod("web", "n1", "data").await;
    scene.answer("n1", json!({"attached": true})).await;
    scene
        .patch_node("n1", json!({"volumesAttached": null}))
        .await;
    scene.world.wait_until_idle().await;
    assert_eq!(
        scene.listed("n1").await,
        json!([{"name": VOLUME, "devicePath": ""}])
    );
    scene
        .patch_node(
            "n1",
            json!({"volumesAttached": [{"name": "foreign.example.com/x", "devicePath": "/dev/x"}]}),
        )
        .await;
    scene.world.wait_until_idle().await;
    assert_eq!(
        scene.listed("n1").await,
        json!([
            {"name": "foreign.example.com/x", "devicePath": "/dev/x"}, {"name": VOLUME, "devicePath": ""},
        ])
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_attachment_is_told_and_tried_again() {
    let scene = Scene::new().await;
    scene
        .world
        .refuse("POST", "/apis/storage.k8s.io/v1/volumeattachments", 500, 2);
    scene.create_pod("web", "n1", "data").await;
    scene.pass(Duration::from_secs(5)).await;
    assert_eq!(scene.attached().await, ["n1 false"]);
    let events = scene.world.events().await;
    assert!(
        events[0].starts_with(
            "Warning FailedAttachVolume AttachVolume.Attach failed for volume \"data\" : kubernetes.io/csi: attacher.Attach failed: "
        ),
        "{events:?}"
    );
}

/// Upstream: TestNodeStatusUpdater_UpdateNodeStatuses_FailureInFirstUpdate.
#[tokio::test(start_paused = true)]
async fn a_list_that_could_not_be_written_is_written_later() {
    for code in [500, 409] {
        let scene = Scene::new().await;
        scene.create_pod("web", "n1", "data").await;
        scene.world.refuse("PATCH", "/nodes/n1/status", code, 1);
        scene.answer("n1", json!({"attached": true})).await;
        let expected = json!([{"name": VOLUME, "devicePath": ""}]);
        assert_eq!(scene.listed("n1").await, expected, "{code}");
    }
}

/// A conflict says that somebody wrote to the attachment at the same time, not that it is gone.
#[tokio::test(start_paused = true)]
async fn an_attachment_whose_deletion_met_a_conflict_is_deleted_later() {
    let scene = Scene::new().await;
    scene.create_pod("web", "n1", "data").await;
    scene.answer("n1", json!({"attached": true})).await;
    let name = attachment_name("d.example.com", "h-data", "n1");
    scene.world.refuse("DELETE", &name, 409, 1);
    scene.delete_pod("web").await;
    scene.pass(Duration::from_mins(2)).await;
    assert_eq!(scene.attached().await, Vec::<String>::new());
}

/// Attachments that make no sense are left alone, and nothing panics.
#[tokio::test(start_paused = true)]
async fn attachments_of_others_are_left_alone() {
    let scene = Scene::new().await;
    for (name, source) in [
        ("by-hand", json!({"persistentVolumeName": "data"})),
        ("lost", json!({"persistentVolumeName": "nosuch"})),
    ] {
        let attachment = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name},
            "spec": {"attacher": "x.example.com", "nodeName": "nosuch", "source": source},
        });
        scene
            .world
            .create(&VolumeAttachment::TYPE, attachment)
            .await;
    }
    scene.pass(Duration::from_mins(30)).await;
    assert_eq!(scene.world.written(), "");
    assert_eq!(scene.attached().await.len(), 2);
}
