//! Decisions first, then the whole against the embedded API server. Upstream: TestPVProtectionController.

use api::Resource;
use api::kinds::PersistentVolume;
use serde_json::{Value, json};
use testkit::{Lagging, World};

use super::{controller, plan};
use crate::storage::protection::Need;

fn volume(finalizers: &[&str], phase: &str, leaving: bool) -> PersistentVolume {
    let deleted_at = leaving.then_some("2024-01-01T00:00:00Z");
    let json = json!({
        "metadata": {"name": "v", "finalizers": finalizers, "deletionTimestamp": deleted_at},
        "status": {"phase": phase},
    });
    PersistentVolume::decode(json.to_string().as_bytes()).unwrap()
}

#[test]
fn a_volume_is_protected_until_no_claim_is_bound_to_it() {
    let ours = ["kubernetes.io/pv-protection"];
    assert_eq!(plan(&volume(&[], "Available", false)), Some(Need::Add));
    assert_eq!(plan(&volume(&ours, "Available", false)), None);
    assert_eq!(plan(&volume(&ours, "Available", true)), Some(Need::Remove));
    assert_eq!(plan(&volume(&ours, "Released", true)), Some(Need::Remove));
    assert_eq!(plan(&volume(&ours, "Bound", true)), None);
    assert_eq!(plan(&volume(&[], "Bound", false)), Some(Need::Add));
    assert_eq!(plan(&volume(&["other"], "Available", true)), None);
}

fn body() -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp/v"},
            "claimRef": {"namespace": "default", "name": "data"},
        },
    })
}

async fn set_phase(world: &World, phase: &str) {
    let status = json!({"status": {"phase": phase}});
    world
        .patch_subresource(&PersistentVolume::TYPE, "v", Some("status"), status)
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_bound_volume_goes_when_its_claim_has_left_it() {
    let mut world = World::new().await;
    let context = world.context();
    let running = controller(&context).run(world.stop());
    world.run(running);
    world.start().await;
    world.create(&PersistentVolume::TYPE, body()).await;
    set_phase(&world, "Bound").await;
    world.delete(&PersistentVolume::TYPE, "v").await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
    let decided = context
        .decisions
        .get("test-controller", &api::Key::new("", "v"));
    assert_eq!(
        decided[0].lines[0].to_string(),
        "is kept until claim default/data is gone, which is bound to it"
    );
    world.refuse("PUT", "persistentvolumes/v", 403, 2);
    set_phase(&world, "Released").await;
    world.wait_until_idle().await;
    let answers: Vec<u16> = world.writes().iter().map(|write| write.answer).collect();
    assert_eq!(answers, [403, 403, 200]);
    assert_eq!(world.get(&PersistentVolume::TYPE, "v").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_volume_without_the_finalizer_gets_it() {
    let mut world = World::new().await;
    let running = controller(&world.context()).run(world.stop());
    world.run(running);
    world.start().await;
    world.create(&PersistentVolume::TYPE, body()).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
    world.refuse("PUT", "persistentvolumes/v", 403, 2);
    let off = json!({"metadata": {"finalizers": ["example.com/mine"]}});
    world.patch(&PersistentVolume::TYPE, "v", off).await;
    world.wait_until_idle().await;
    let writes = world.writes();
    assert_eq!(writes.len(), 3);
    assert_eq!(
        writes[2].body["metadata"]["finalizers"],
        json!(["example.com/mine", "kubernetes.io/pv-protection"])
    );
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_the_cache_has_not_seen_keeps_its_volume() {
    let world = World::new().await;
    let controller = controller(&world.context());
    world.create(&PersistentVolume::TYPE, body()).await;
    world.delete(&PersistentVolume::TYPE, "v").await;
    let lagging = Lagging { world, controller };
    lagging.see::<PersistentVolume>("v").await;
    set_phase(&lagging.world, "Bound").await;
    let key = api::Key::new("", "v");
    lagging.controller.reconcile(&key).await.unwrap_err();
    assert_eq!(
        lagging.world.written(),
        "PUT persistentvolumes/v -> 409",
        "what was decided on an old revision is not written"
    );
}
