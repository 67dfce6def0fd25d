//! Plans first, then the whole against the embedded API server. Upstream: TestSyncHandler.

use api::Resource;
use api::kinds::{PersistentVolume, PersistentVolumeClaim};
use serde_json::{Value, json};
use testkit::{World, enqueued};

use super::controller;
use super::plan::{Step, plan};

fn claim(wants: &str, has: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default", "uid": "u1"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "volumeName": "v", "storageClassName": "",
            "resources": {"requests": {"storage": wants}},
        },
        "status": {"phase": "Bound", "capacity": {"storage": has}},
    })
}

fn volume(source: &str, uid: &Value) -> Value {
    let given = match source {
        "csi" => json!({"driver": "d", "volumeHandle": "h"}),
        "awsElasticBlockStore" => json!({"volumeID": "i"}),
        _ => json!({"path": "/tmp/v"}),
    };
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], source: given,
            "claimRef": {"namespace": "default", "name": "data", "uid": uid},
        },
    })
}

fn check(claim: &Value, volume: &Value, expected: Result<Step, &str>) {
    let claim = PersistentVolumeClaim::decode(claim.to_string().as_bytes()).unwrap();
    let volume = PersistentVolume::decode(volume.to_string().as_bytes()).unwrap();
    assert_eq!(plan(&claim, &volume), expected.map_err(str::to_owned));
}

#[test]
fn a_driver_that_took_over_is_told_and_others_are_waited_for() {
    let ours = json!("u1");
    let grows = claim("2Gi", "1Gi");
    check(&grows, &volume("csi", &ours), Ok(Step::Wait));
    check(&grows, &volume("hostPath", &ours), Ok(Step::Wait));
    let ebs = Step::Mark {
        built_in: "kubernetes.io/aws-ebs",
        driver: "ebs.csi.aws.com",
    };
    check(&grows, &volume("awsElasticBlockStore", &ours), Ok(ebs));
    check(
        &claim("1Gi", "1Gi"),
        &volume("csi", &ours),
        Ok(Step::Nothing),
    );
    check(
        &claim("1Gi", "2Gi"),
        &volume("csi", &ours),
        Ok(Step::Nothing),
    );
    let mut resized = volume("csi", &ours);
    resized["metadata"]["annotations"] =
        json!({"volume.alpha.kubernetes.io/pre-resize-capacity": "1Gi"});
    check(&claim("1Gi", "1Gi"), &resized, Ok(Step::Wait));
    let mut resized = volume("awsElasticBlockStore", &ours);
    resized["metadata"]["annotations"] =
        json!({"volume.alpha.kubernetes.io/pre-resize-capacity": "1Gi"});
    check(&claim("2Gi", "2Gi"), &resized, Ok(ebs));
    let foreign = "persistent Volume is not bound to PVC being updated : default/data";
    check(&grows, &volume("csi", &json!("u2")), Err(foreign));
    check(&grows, &json!({"metadata": {"name": "v"}}), Err(foreign));
}

async fn create(world: &World, source: &str, wants: &str) {
    let mut body = claim(wants, "1Gi");
    body["metadata"]["uid"] = json!(null);
    let made = world.create(&PersistentVolumeClaim::TYPE, body).await;
    world
        .create(
            &PersistentVolume::TYPE,
            volume(source, &made["metadata"]["uid"]),
        )
        .await;
    let status = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
    world
        .patch_subresource(&PersistentVolumeClaim::TYPE, "data", Some("status"), status)
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_marked_once_for_the_driver_that_took_over() {
    let mut world = World::new().await;
    let running = controller(&world.context(), 2).run(world.stop());
    world.run(running);
    world.start().await;
    create(&world, "awsElasticBlockStore", "2Gi").await;
    world.wait_until_idle().await;
    let writes = world.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(
        writes[0].body["metadata"]["annotations"],
        json!({"volume.kubernetes.io/storage-resizer": "ebs.csi.aws.com"})
    );
    let events = world.events().await;
    assert_eq!(
        events,
        [
            "Normal ExternalExpanding CSI migration enabled for kubernetes.io/aws-ebs; waiting for external resizer to expand the pvc"
        ]
    );
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn external_expansion_is_awaited_and_a_missing_volume_requeued() {
    let mut world = World::new().await;
    let context = world.context();
    let running = controller(&context, 2).run(world.stop());
    world.run(running);
    world.start().await;
    create(&world, "csi", "2Gi").await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
    let grown = json!({"status": {"capacity": {"storage": "2Gi"}}});
    world
        .patch_subresource(&PersistentVolumeClaim::TYPE, "data", Some("status"), grown)
        .await;
    world.wait_until_idle().await;
    let key = api::Key::new("default", "data");
    let decided = context.decisions.get("test-controller", &key);
    let told: Vec<String> = decided.iter().map(|one| one.lines[0].to_string()).collect();
    assert_eq!(
        told,
        [
            "waits until its driver has expanded its volume: it requests more than it has",
            "has what it requests",
        ]
    );
    assert_eq!(
        world.events().await,
        ["Normal ExternalExpanding waiting for an external controller to expand this PVC"]
    );
}

#[tokio::test(start_paused = true)]
async fn volumes_come_from_the_cache() {
    let mut world = World::new().await;
    let running = controller(&world.context(), 2).run(world.stop());
    world.run(running);
    world.start().await;
    create(&world, "csi", "2Gi").await;
    world.wait_until_idle().await;
    assert_eq!(
        world.events().await,
        ["Normal ExternalExpanding waiting for an external controller to expand this PVC"]
    );
    assert_eq!(world.reads_of("/persistentvolumes/v"), 0);
}

#[tokio::test(start_paused = true)]
async fn only_bound_claims_that_grow_are_enqueued() {
    let world = World::new().await;
    let controller = controller(&world.context(), 2);
    world.start().await;
    create(&world, "csi", "1Gi").await;
    assert_eq!(
        enqueued(&controller.queue).await,
        "data",
        "it has more than before"
    );
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    world
        .patch(&PersistentVolumeClaim::TYPE, "data", label)
        .await;
    assert_eq!(enqueued(&controller.queue).await, "");
}
