//! On a server that was restored from a backup.

use super::*;

/// A server that was restored from a backup has again what was deleted, and its cache may never have lacked it.
#[tokio::test(start_paused = true)]
async fn an_attachment_that_a_restored_server_has_again_is_deleted_again_or_kept() {
    for is_wanted in [false, true] {
        let scene = Scene::new().await;
        scene.create_pod("web", "n1", "data").await;
        scene.answer("n1", json!({"attached": true})).await;
        let name = attachment_name("d.example.com", "h-data", "n1");
        // It is accepted, and undone with the tail of the server.
        scene.world.refuse("DELETE", &name, 200, 1);
        scene.delete_pod("web").await;
        if is_wanted {
            scene.create_pod("web-2", "n1", "data").await;
        }
        assert_eq!(scene.attached().await, ["n1 true"]);
        scene.pass(runtime::expectations::EXPIRY).await;
        scene.pass(Duration::from_secs(1)).await;
        match is_wanted {
            true => assert_eq!(scene.listed("n1").await[0]["name"], VOLUME),
            false => assert_eq!(scene.attached().await, Vec::<String>::new()),
        }
    }
}

/// So it is at once where it had been seen to go.
#[tokio::test(start_paused = true)]
async fn a_recreated_attachment_is_no_longer_deleted() {
    let scene = Scene::new().await;
    scene.create_pod("web", "n1", "data").await;
    let kind = VolumeAttachment::TYPE;
    let name = attachment_name("d.example.com", "h-data", "n1");
    let finalizers = |held: Value| json!({"metadata": {"finalizers": held}});
    let patch = finalizers(json!(["d.example.com/x"]));
    scene.world.patch(&kind, &name, patch).await;
    scene.answer("n1", json!({"attached": true})).await;
    let before = scene.world.get(&kind, &name).await.unwrap();
    scene.delete_pod("web").await;
    scene.create_pod("web-2", "n1", "data").await;
    scene
        .world
        .refuse("POST", "/volumeattachments", 500, usize::MAX);
    scene.world.patch(&kind, &name, finalizers(json!([]))).await;
    scene.world.wait_until_idle().await;
    assert_eq!(scene.attached().await, Vec::<String>::new());
    scene.world.server.restore(before).unwrap();
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.listed("n1").await[0]["name"], VOLUME);
}
