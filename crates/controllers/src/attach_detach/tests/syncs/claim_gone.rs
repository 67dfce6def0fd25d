//! Claims that are deleted under the pods that use them, with their finalizers taken away by hand.

use super::*;

impl Scene {
    async fn delete_claim(&self) {
        let kind = PersistentVolumeClaim::TYPE;
        let off = json!({"metadata": {"finalizers": null}});
        self.world.delete(&kind, "data").await;
        if self.world.get(&kind, "data").await.is_some() {
            self.world.patch(&kind, "data", off).await;
        }
        self.world.wait_until_idle().await;
        assert_eq!(self.world.get(&kind, "data").await, None);
    }
}

/// Upstream: `findAndRemoveDeletedPods` removes what a pod needed with the pod only.
#[tokio::test(start_paused = true)]
async fn a_volume_stays_attached_while_its_pod_runs_though_the_claim_is_gone() {
    let scene = Scene::new().await;
    scene.create_pod("web", "n1", "data").await;
    scene.answer("n1", json!({"attached": true})).await;
    scene.delete_claim().await;
    scene.pass(Duration::from_mins(10)).await;
    assert_eq!(scene.attached().await, ["n1 true"]);
    assert_eq!(scene.listed("n1").await[0]["name"], VOLUME);
    scene.delete_pod("web").await;
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.attached().await, Vec::<String>::new());
}

/// A pod of the same name on another node has not used it.
#[tokio::test(start_paused = true)]
async fn a_volume_whose_claim_is_gone_does_not_follow_a_recreated_pod() {
    let scene = Scene::new().await;
    scene.create_pod("web", "n1", "data").await;
    scene.answer("n1", json!({"attached": true})).await;
    scene.delete_claim().await;
    scene.delete_pod("web").await;
    scene.create_pod("web", "n2", "data").await;
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.attached().await, Vec::<String>::new());
}

/// A manager that starts without the claim knows only what the kubelet says.
#[tokio::test(start_paused = true)]
async fn after_a_restart_the_kubelet_keeps_attached_what_it_uses() {
    let mut scene = Scene::before().await;
    scene.create_attachment("n1").await;
    scene.answer("n1", json!({"attached": true})).await;
    let used =
        json!({"volumesInUse": [VOLUME], "volumesAttached": [{"name": VOLUME, "devicePath": ""}]});
    scene.patch_node("n1", used).await;
    scene.create_pod("web", "n1", "data").await;
    scene.delete_claim().await;
    scene.start().await;
    scene.pass(Duration::from_mins(10)).await;
    assert_eq!(scene.attached().await, ["n1 true"]);
    scene.patch_node("n1", json!({"volumesInUse": null})).await;
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.attached().await, Vec::<String>::new());
}
