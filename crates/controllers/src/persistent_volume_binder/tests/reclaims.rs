//! Volumes whose claim is gone, against the embedded API server. Upstream: TestDeleteSync, TestDeleteMultiSync,
//! TestRecycleSync.

use std::time::Duration;

use api::kinds::{PersistentVolume, PersistentVolumeClaim, Pod};
use api::{Key, Resource};
use expect_test::expect;
use serde_json::{Value, json};
use testkit::World;

use super::super::controllers;
use super::states::{STATE, State};
use super::sync::{create_claim, create_volume, lines, pass, running, see, settings};
use super::volume;

/// A pod that uses the claim.
fn user(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "c", "image": "i"}], "nodeName": "n1",
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    })
}

async fn release(world: &World) {
    let off = json!({"metadata": {"finalizers": null}});
    world.patch(&PersistentVolumeClaim::TYPE, "data", off).await;
    world.delete(&PersistentVolumeClaim::TYPE, "data").await;
}

#[tokio::test(start_paused = true)]
async fn retained_volumes_stay_and_others_are_deleted() {
    let world = running().await;
    create_volume(&world, "v policy=Retain").await;
    create_claim(&world, "data class=").await;
    pass(&world).await;
    release(&world).await;
    see(&world, expect!["v Released -> data by us"]).await;
    create_claim(&world, "data class=").await;
    see(
        &world,
        expect![[r#"
        v Released -> data by us
        data Pending"#]],
    )
    .await;

    let world = running().await;
    create_volume(&world, "v policy=Delete made-by=kubernetes.io/host-path").await;
    create_claim(&world, "data class=").await;
    pass(&world).await;
    world.writes();
    release(&world).await;
    pass(&world).await;
    // Protected by admission: the controller that takes that off does not run here.
    let told: Vec<String> = world.writes().iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "PUT persistentvolumes/v/status",
            "PUT persistentvolumes/v",
            "DELETE persistentvolumes/v"
        ]
    );
    let volume = world.get(&PersistentVolume::TYPE, "v").await.unwrap();
    assert_eq!(
        volume["metadata"]["finalizers"],
        json!(["kubernetes.io/pv-protection"])
    );
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_cannot_be_deleted_fails() {
    let world = running().await;
    create_volume(&world, "v policy=Delete path=/data").await;
    create_claim(&world, "data class=").await;
    pass(&world).await;
    release(&world).await;
    see(&world, expect!["v Failed -> data by us"]).await;
    let volume = world.get(&PersistentVolume::TYPE, "v").await.unwrap();
    assert_eq!(
        volume["status"]["message"],
        "host_path deleter only supports /tmp/.+ but received provided /data"
    );
}

#[tokio::test(start_paused = true)]
async fn a_recycled_volume_is_free_again() {
    let world = running().await;
    create_volume(&world, "v policy=Recycle").await;
    create_claim(&world, "data class=").await;
    pass(&world).await;
    release(&world).await;
    pass(&world).await;
    let pod = world.get(&Pod::TYPE, "recycler-for-v").await.unwrap();
    assert_eq!(pod["spec"]["volumes"][0]["hostPath"]["path"], "/tmp/data");
    expect!["v Released -> data by us"].assert_eq(&lines(&world).await);
    world
        .pod_status("recycler-for-v", json!({"phase": "Succeeded"}))
        .await;
    see(&world, expect!["v Available"]).await;
    assert_eq!(world.get(&Pod::TYPE, "recycler-for-v").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_volume_in_use_is_not_recycled_and_a_failure_is_told() {
    let world = running().await;
    create_volume(&world, "v policy=Recycle").await;
    create_claim(&world, "data class=").await;
    pass(&world).await;
    world.create(&Pod::TYPE, user("web")).await;
    release(&world).await;
    pass(&world).await;
    assert_eq!(world.get(&Pod::TYPE, "recycler-for-v").await, None);
    world.delete(&Pod::TYPE, "web").await;
    world.finish_deletions().await;
    pass(&world).await;
    world
        .pod_status(
            "recycler-for-v",
            json!({"phase": "Failed", "message": "no space"}),
        )
        .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    expect!["v Failed -> data by us"].assert_eq(&lines(&world).await);
    let volume = world.get(&PersistentVolume::TYPE, "v").await.unwrap();
    assert_eq!(
        volume["status"]["message"],
        "Recycle failed: failed to recycle volume: no space"
    );
}

// Upstream: TestRecycleSync (7-9 before what no plugin can do).
#[tokio::test(start_paused = true)]
async fn a_volume_that_cannot_be_recycled_fails_once_it_is_unused() {
    let world = running().await;
    create_volume(&world, "v policy=Recycle source=csi").await;
    create_claim(&world, "data class=").await;
    pass(&world).await;
    world.create(&Pod::TYPE, user("web")).await;
    release(&world).await;
    see(&world, expect!["v Released -> data by us"]).await;
    let events = world.events().await;
    let told = "Normal VolumeFailedRecycle Volume is used by pods: default/web";
    assert!(events.iter().any(|event| event == told), "{events:?}");
    world.delete(&Pod::TYPE, "web").await;
    world.finish_deletions().await;
    see(&world, expect!["v Failed -> data by us"]).await;
    let volume = world.get(&PersistentVolume::TYPE, "v").await.unwrap();
    assert_eq!(
        volume["status"]["message"],
        "No recycler plugin found for the volume!"
    );
}

// Upstream: TestVolumeOperationError.
#[tokio::test(start_paused = true)]
async fn only_what_a_plugin_could_not_delete_counts_as_failed() {
    let failures = async |volume: &str| {
        let mut world = World::new().await;
        let context = world.context();
        for running in controllers(&context, settings()).into_runnables() {
            let stop = world.stop();
            world.run(running.run(stop));
        }
        world.start().await;
        create_volume(&world, volume).await;
        create_claim(&world, "data class=").await;
        pass(&world).await;
        release(&world).await;
        see(&world, expect!["v Failed -> data by us"]).await;
        let text = context.metrics.render();
        let lines = text.lines();
        let mut counted = lines.filter(|line| line.starts_with("volume_operation_errors_total"));
        counted.next().is_some_and(|line| {
            line.contains(r#"{operation_name="delete",plugin_name="kubernetes.io/host-path"}"#)
        })
    };
    assert!(failures("v policy=Delete path=/data").await);
    assert!(!failures("v policy=Delete source=nfs").await);
    assert!(!failures("v policy=Delete made-by=kubernetes.io/flocker").await);
}

// Upstream: TestRecycleSync (6-9, 6-11 to 6-14).
#[tokio::test(start_paused = true)]
async fn only_unused_volumes_are_recycled() {
    for (claim, phase, expected) in [
        ("", "", true),
        ("", "Running", false),
        ("", "Pending", false),
        ("", "Succeeded", true),
        // Its claim is gone: another one of the name has another volume.
        ("data class=", "", true),
        ("data class=", "Running", true),
    ] {
        let world = World::new().await;
        let volumes = "v phase=Bound policy=Recycle claim=default/data/gone by-us";
        let state = State {
            volumes,
            claim,
            ..STATE
        };
        state.build(&world).await;
        if !phase.is_empty() {
            world.create(&Pod::TYPE, user("web")).await;
            world.pod_status("web", json!({"phase": phase})).await;
        }
        let loops = controllers(&world.context(), settings());
        world.start().await;
        loops.volumes.reconcile(&Key::new("", "v")).await.unwrap();
        let pod = world.get(&Pod::TYPE, "recycler-for-v").await;
        assert_eq!(pod.is_some(), expected, "{claim} {phase}");
    }
}

// Upstream: TestDeleteSync (8-6, 8-7), TestRecycleSync (6-6 to 6-8).
#[tokio::test(start_paused = true)]
async fn the_server_says_whether_a_volume_is_still_released() {
    for policy in ["Delete", "Recycle"] {
        for live in [
            "",
            "v",
            "v claim=default/data/",
            "v uid=other claim=default/data/gone",
        ] {
            let world = World::new().await;
            let is_other = live.contains("uid=other");
            if !live.is_empty() {
                create_volume(&world, &format!("{live} policy={policy}")).await;
            }
            let before = world.get(&PersistentVolume::TYPE, "v").await;
            let loops = controllers(&world.context(), settings());
            world.start().await;
            let text = format!("v policy={policy} phase=Released claim=default/data/gone");
            let mut cached = PersistentVolume::clone(&volume(&text));
            if let Some(before) = &before
                && !is_other
            {
                let before = PersistentVolume::decode(before.to_string().as_bytes()).unwrap();
                cached.metadata = before.metadata;
            }
            world
                .informers
                .store::<PersistentVolume>()
                .put(cached.into());
            loops.volumes.reconcile(&Key::new("", "v")).await.unwrap();
            assert_eq!(world.written(), "", "{policy} {live}");
            assert_eq!(world.get(&PersistentVolume::TYPE, "v").await, before);
        }
    }
}

// Upstream: TestDeleteMultiSync.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_is_tried_again() {
    let world = running().await;
    create_volume(&world, "v policy=Delete").await;
    create_claim(&world, "data class=").await;
    pass(&world).await;
    world.refuse("DELETE", "persistentvolumes/v", 500, 1);
    release(&world).await;
    see(&world, expect!["v Released -> data by us, gone"]).await;
}
