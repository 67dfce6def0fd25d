//! Upstream: TestVolumesInUseMetricCollection, TestTotalVolumesMetricCollection.

use api::Resource;
use api::kinds::Node;
use serde_json::json;

use super::syncs::Scene;

/// `node plugin state` of all that is counted.
fn counts(scene: &Scene) -> Vec<String> {
    let text = scene.context.metrics.render();
    let families = [
        "storage_count_attachable_volumes_in_use",
        "attachdetach_controller_total_volumes",
    ];
    let told = text.lines().filter_map(|line| {
        let family = families.iter().find(|family| line.starts_with(**family))?;
        let rest = line.strip_prefix(*family)?;
        let place = ["in use", "total"][usize::from(family.contains("total"))];
        Some(format!("{place} {rest}").replace('"', ""))
    });
    told.collect()
}

#[tokio::test(start_paused = true)]
async fn volumes_are_counted() {
    let scene = Scene::new().await;
    scene.create_pod("web", "n1", "data").await;
    assert_eq!(
        counts(&scene),
        [
            "total {plugin_name=kubernetes.io/csi:d.example.com,state=actual_state_of_world} 1",
            "total {plugin_name=kubernetes.io/csi:d.example.com,state=desired_state_of_world} 1",
            "in use {node=n1,volume_plugin=kubernetes.io/csi:d.example.com} 1",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn volumes_that_need_no_attaching_are_counted_by_the_lists_of_nodes() {
    let scene = Scene::new().await;
    let fc = json!({"fc": {"targetWWNs": ["a"], "lun": 1}});
    scene.create_volume("fibre", "ReadWriteOnce", fc).await;
    scene.create_pod("web", "n1", "fibre").await;
    assert_eq!(
        counts(&scene),
        [
            "total {plugin_name=kubernetes.io/fc,state=actual_state_of_world} 1",
            "total {plugin_name=kubernetes.io/fc,state=desired_state_of_world} 1",
            "in use {node=n1,volume_plugin=kubernetes.io/fc} 1",
        ]
    );
}

/// A node whose kubelet attaches by itself wants nothing of the controller.
#[tokio::test(start_paused = true)]
async fn only_managed_nodes_want_volumes() {
    let scene = Scene::new().await;
    let off = json!({"metadata": {"annotations": null}});
    scene.world.patch(&Node::TYPE, "n2", off).await;
    scene.create_pod("web", "n2", "data").await;
    assert_eq!(
        counts(&scene),
        ["in use {node=n2,volume_plugin=kubernetes.io/csi:d.example.com} 1"]
    );
}
