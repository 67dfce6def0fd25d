//! Who uses a claim first, then the whole against the embedded API server. Upstream: TestPVCProtectionController.

use std::sync::Arc;

use api::kinds::{PersistentVolumeClaim, Pod};
use api::{Gate, Gates, Resource};
use expect_test::{Expect, expect};
use runtime::{Change, Context, Next, Queue};
use serde_json::{Value, json};
use testkit::{Lagging, World, enqueued};

use super::plan::{Use, uses};
use super::{controller, enqueue_claims};

/// `finished unscheduled shut-down ephemeral`: a pod on a node that uses the claim `data`, unless it says otherwise.
fn pod(words: &str) -> Value {
    let has = |word: &str| words.split(' ').any(|given| given == word);
    let volume = match (has("ephemeral"), has("unrelated")) {
        (true, _) => {
            json!({"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": spec()}}})
        }
        (_, true) => json!({"name": "data", "persistentVolumeClaim": {"claimName": "unrelated"}}),
        _ => json!({"name": "data", "persistentVolumeClaim": {"claimName": "data"}}),
    };
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default", "uid": "pod-uid"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}], "nodeName": "n1",
            "volumes": [{"name": "tmp", "emptyDir": {}}, volume],
        },
        "status": {"phase": "Running"},
    });
    if has("unscheduled") {
        pod["spec"]["nodeName"] = json!(null);
        pod["status"]["phase"] = json!("Pending");
    }
    if has("finished") {
        pod["status"]["phase"] = json!("Failed");
    }
    if has("starts") {
        let state = json!({"waiting": {"reason": "ContainerCreating"}});
        pod["status"]["containerStatuses"] = json!([{"name": "c", "state": state}]);
    }
    if has("leaving") {
        pod["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        let state = json!({"running": {"startedAt": "2024-01-01T00:00:00Z"}});
        pod["status"]["containerStatuses"] = json!([{"name": "c", "state": state}]);
    }
    if has("shut-down") {
        pod["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    }
    pod
}

fn spec() -> Value {
    json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}})
}

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"},
        "spec": spec(),
    })
}

fn view<K: Resource>(object: &Value) -> K {
    K::decode(object.to_string().as_bytes()).unwrap()
}

/// `deletion`, `reference`, both or nothing: how the pod uses the claim that is named like its volume's.
fn check(words: &str, owner: Option<&str>, expected: &str) {
    let is_ephemeral = words.contains("ephemeral");
    let mut claim = claim(if is_ephemeral { "web-data" } else { "data" });
    if let Some(uid) = owner {
        claim["metadata"]["ownerReferences"] = json!([
            {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid, "controller": true}
        ]);
    }
    let (pod, claim): (Pod, PersistentVolumeClaim) = (view(&pod(words)), view(&claim));
    let mut found = Vec::new();
    for (how, name) in [(Use::Deletion, "deletion"), (Use::Reference, "reference")] {
        found.extend(uses(&pod, &claim, how).then_some(name));
    }
    assert_eq!(found.join(" "), expected, "{words}");
}

#[test]
fn a_pod_on_a_node_uses_its_claims_until_it_is_gone() {
    check("running", None, "deletion reference");
    check("finished", None, "deletion");
    check("unscheduled", None, "reference");
    check("unrelated", None, "");
    // None of its containers runs, or will.
    check("shut-down", None, "deletion");
    check("starts", None, "deletion reference");
    check("leaving", None, "deletion reference");
}

#[test]
fn an_ephemeral_volume_uses_only_the_claim_that_was_created_for_its_pod() {
    check("ephemeral", Some("pod-uid"), "deletion reference");
    check("ephemeral", Some("another"), "");
    check("ephemeral", None, "");
    // A finalizer of the pod may wait for the claim.
    check("ephemeral shut-down", Some("pod-uid"), "");
    check("ephemeral leaving", Some("pod-uid"), "deletion reference");
    check("ephemeral finished", Some("pod-uid"), "deletion");
}

#[test]
fn only_pods_that_could_free_a_claim_enqueue_it() {
    let enqueued_by = |words: &str, is_gone: bool, says_unused: bool| {
        let queue = Queue::new(runtime::rate_limit::Backoff::DEFAULT);
        let pod = Arc::new(view::<Pod>(&pod(words)));
        let change = match is_gone {
            true => Change::Deleted(&pod),
            false => Change::Added(&pod),
        };
        enqueue_claims(change, says_unused, &queue);
        queue.len()
    };
    assert_eq!(enqueued_by("running", false, false), 0);
    assert_eq!(enqueued_by("running", false, true), 1);
    assert_eq!(enqueued_by("finished", false, false), 1);
    assert_eq!(enqueued_by("unscheduled", false, false), 1);
    assert_eq!(enqueued_by("leaving", false, false), 0);
    // A finalizer keeps it, which may wait for the claim of its ephemeral volume.
    assert_eq!(enqueued_by("shut-down", false, false), 1);
    assert_eq!(enqueued_by("ephemeral shut-down", false, false), 1);
    assert_eq!(enqueued_by("running", true, false), 1);
    assert_eq!(enqueued_by("ephemeral", true, false), 1);
}

async fn running(gates: Gates) -> World {
    let mut world = World::new().await;
    let context = Context {
        gates,
        ..world.context()
    };
    let running = controller(&context).run(world.stop());
    world.run(running);
    world.start().await;
    world
}

async fn claims(world: &World) -> String {
    let claims = world.list(&PersistentVolumeClaim::TYPE).await;
    let line = |claim: &Value| {
        let meta = &claim["metadata"];
        let leaving = ["", " leaving"][usize::from(!meta["deletionTimestamp"].is_null())];
        let conditions = claim["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten();
        let conditions: String = conditions
            .map(|held| format!(" {}={} {}", held["type"], held["status"], held["reason"]))
            .collect();
        format!(
            "{} {}{leaving}{conditions}",
            meta["name"], meta["finalizers"]
        )
    };
    let lines: Vec<String> = claims.iter().map(line).collect();
    lines.join("\n").replace('"', "")
}

async fn see(world: &World, expected: Expect) {
    world.wait_until_idle().await;
    expected.assert_eq(&claims(world).await);
}

#[tokio::test(start_paused = true)]
async fn every_claim_is_protected_and_other_finalizers_stay() {
    let world = running(Gates::default()).await;
    world
        .create(&PersistentVolumeClaim::TYPE, claim("data"))
        .await;
    let off = json!({"metadata": {"finalizers": ["example.com/mine"]}});
    world.patch(&PersistentVolumeClaim::TYPE, "data", off).await;
    see(
        &world,
        expect!["data [example.com/mine,kubernetes.io/pvc-protection]"],
    )
    .await;
    expect!["PUT persistentvolumeclaims/data"].assert_eq(&world.written());
    world.wait_until_idle().await;
    assert_eq!(world.written(), "", "a second sync writes nothing");
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_is_tried_again() {
    let world = running(Gates::default()).await;
    world.refuse("PUT", "persistentvolumeclaims/data", 403, 2);
    world
        .create(&PersistentVolumeClaim::TYPE, claim("data"))
        .await;
    let off = json!({"metadata": {"finalizers": null}});
    world.patch(&PersistentVolumeClaim::TYPE, "data", off).await;
    see(&world, expect!["data [kubernetes.io/pvc-protection]"]).await;
    let answers: Vec<u16> = world.writes().iter().map(|write| write.answer).collect();
    assert_eq!(answers, [403, 403, 200]);
    world.refuse("PUT", "persistentvolumeclaims/data", 403, 2);
    world.delete(&PersistentVolumeClaim::TYPE, "data").await;
    see(&world, expect![""]).await;
    let answers: Vec<u16> = world.writes().iter().map(|write| write.answer).collect();
    assert_eq!(answers, [403, 403, 200]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_in_use_goes_when_its_last_pod_is_gone() {
    let world = running(Gates::default()).await;
    for name in ["data", "free"] {
        world
            .create(&PersistentVolumeClaim::TYPE, claim(name))
            .await;
    }
    let mut user = pod("running");
    user["metadata"]["uid"] = json!(null);
    world.create(&Pod::TYPE, user).await;
    for name in ["data", "free"] {
        world.delete(&PersistentVolumeClaim::TYPE, name).await;
    }
    see(
        &world,
        expect!["data [kubernetes.io/pvc-protection] leaving"],
    )
    .await;
    // Over is not gone.
    world.make_failed("web").await;
    see(
        &world,
        expect!["data [kubernetes.io/pvc-protection] leaving"],
    )
    .await;
    world.delete(&Pod::TYPE, "web").await;
    world.finish_deletions().await;
    see(&world, expect![""]).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_on_no_node_keeps_no_claim() {
    let world = running(Gates::default()).await;
    world
        .create(&PersistentVolumeClaim::TYPE, claim("data"))
        .await;
    let mut user = pod("unscheduled");
    user["metadata"]["uid"] = json!(null);
    world.create(&Pod::TYPE, user).await;
    world.delete(&PersistentVolumeClaim::TYPE, "data").await;
    see(&world, expect![""]).await;
}

/// A claim that is being deleted, in a cache that has seen no pod.
async fn lagging(names: &[&str], gates: Gates) -> Lagging {
    let world = World::new().await;
    let controller = controller(&Context {
        gates,
        ..world.context()
    });
    for name in names {
        world
            .create(&PersistentVolumeClaim::TYPE, claim(name))
            .await;
        world.delete(&PersistentVolumeClaim::TYPE, name).await;
    }
    let lagging = Lagging { world, controller };
    for name in names {
        lagging.see::<PersistentVolumeClaim>(name).await;
    }
    lagging
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_only_the_api_server_knows_keeps_its_claim() {
    let lagging = lagging(&["data", "free"], Gates::default()).await;
    let world = &lagging.world;
    let mut user = pod("running");
    user["metadata"]["uid"] = json!(null);
    world.create(&Pod::TYPE, user).await;
    lagging.reconcile("data").await.unwrap();
    lagging.reconcile("free").await.unwrap();
    expect!["data [kubernetes.io/pvc-protection] leaving"].assert_eq(&claims(world).await);
}

/// A pod that came and went while the watch stood still is never heard of.
#[tokio::test(start_paused = true)]
async fn a_claim_whose_pod_the_cache_never_saw_is_looked_at_again() {
    let lagging = lagging(&["data"], Gates::default()).await;
    let world = &lagging.world;
    let mut user = pod("running");
    user["metadata"]["uid"] = json!(null);
    world.create(&Pod::TYPE, user).await;
    let next = lagging.reconcile("data").await.unwrap();
    assert_eq!(next, Next::After(super::UNSEEN));
    lagging.see::<Pod>("web").await;
    let next = lagging.reconcile("data").await.unwrap();
    assert_eq!(next, Next::AwaitChange, "its end will be heard of");
}

#[tokio::test(start_paused = true)]
async fn one_list_answers_for_all_claims_of_a_moment() {
    let lagging = lagging(&["a", "b"], Gates::default()).await;
    let world = &lagging.world;
    lagging.reconcile("a").await.unwrap();
    // What comes after the list is not in it, and is not started with a claim that is being deleted.
    let mut late = pod("running");
    late["metadata"]["uid"] = json!(null);
    late["spec"]["volumes"][1]["persistentVolumeClaim"]["claimName"] = json!("b");
    world.create(&Pod::TYPE, late).await;
    lagging.reconcile("b").await.unwrap();
    expect![""].assert_eq(&claims(world).await);
}

#[tokio::test(start_paused = true)]
async fn a_stale_list_answers_no_lookup() {
    let lagging = lagging(&["a", "b"], Gates::default()).await;
    let world = &lagging.world;
    lagging.reconcile("a").await.unwrap();
    tokio::time::sleep(super::live_pods::FRESH).await;
    let mut late = pod("running");
    late["metadata"]["uid"] = json!(null);
    late["spec"]["volumes"][1]["persistentVolumeClaim"]["claimName"] = json!("b");
    world.create(&Pod::TYPE, late).await;
    lagging.reconcile("b").await.unwrap();
    expect!["b [kubernetes.io/pvc-protection] leaving"].assert_eq(&claims(world).await);
}

#[tokio::test(start_paused = true)]
async fn a_namesake_is_not_touched() {
    let lagging = lagging(&["data"], Gates::default()).await;
    let world = &lagging.world;
    let off = json!({"metadata": {"finalizers": null}});
    world.patch(&PersistentVolumeClaim::TYPE, "data", off).await;
    world
        .create(&PersistentVolumeClaim::TYPE, claim("data"))
        .await;
    lagging.reconcile("data").await.unwrap_err();
    expect!["data [kubernetes.io/pvc-protection]"].assert_eq(&claims(world).await);
    assert_eq!(world.written(), "PUT persistentvolumeclaims/data -> 409");
}

fn unused_gate() -> Gates {
    Gates::default().with(Gate::PersistentVolumeClaimUnusedSinceTime, true)
}

#[tokio::test(start_paused = true)]
async fn the_condition_says_since_when_no_pod_uses_a_claim() {
    let world = running(unused_gate()).await;
    world
        .create(&PersistentVolumeClaim::TYPE, claim("data"))
        .await;
    see(
        &world,
        expect!["data [kubernetes.io/pvc-protection] Unused=True NoPodsUsingPVC"],
    )
    .await;
    assert_eq!(world.writes().len(), 1);
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
    let mut user = pod("unscheduled");
    user["metadata"]["uid"] = json!(null);
    world.create(&Pod::TYPE, user).await;
    see(
        &world,
        expect!["data [kubernetes.io/pvc-protection] Unused=False PodUsingPVC"],
    )
    .await;
    world.make_failed("web").await;
    see(
        &world,
        expect!["data [kubernetes.io/pvc-protection] Unused=True NoPodsUsingPVC"],
    )
    .await;
    let writes = world.writes();
    assert_eq!(
        writes.last().unwrap().body["status"]["conditions"],
        json!([{
            "type": "Unused", "status": "True", "lastTransitionTime": "2024-01-01T00:00:25Z",
            "reason": "NoPodsUsingPVC", "message": "No pods are currently referencing this PVC",
        }])
    );
}

#[tokio::test(start_paused = true)]
async fn condition_and_finalizer_come_in_one_sync() {
    let world = running(unused_gate()).await;
    let mut user = pod("running");
    user["metadata"]["uid"] = json!(null);
    world
        .create(&PersistentVolumeClaim::TYPE, claim("data"))
        .await;
    world.create(&Pod::TYPE, user).await;
    world.wait_until_idle().await;
    world.writes();
    let off = json!({"metadata": {"finalizers": null}});
    world.patch(&PersistentVolumeClaim::TYPE, "data", off).await;
    let off = json!({"status": {"conditions": null}});
    world
        .patch_subresource(&PersistentVolumeClaim::TYPE, "data", Some("status"), off)
        .await;
    see(
        &world,
        expect!["data [kubernetes.io/pvc-protection] Unused=False PodUsingPVC"],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_being_deleted_keeps_the_condition_that_it_has() {
    let world = running(unused_gate()).await;
    let mut held = claim("data");
    held["metadata"]["finalizers"] = json!(["example.com/mine"]);
    world.create(&PersistentVolumeClaim::TYPE, held).await;
    world.wait_until_idle().await;
    world.writes();
    world.delete(&PersistentVolumeClaim::TYPE, "data").await;
    see(
        &world,
        expect!["data [example.com/mine] leaving Unused=True NoPodsUsingPVC"],
    )
    .await;
    expect!["PUT persistentvolumeclaims/data"].assert_eq(&world.written());
}

#[tokio::test(start_paused = true)]
async fn claims_that_lack_nothing_are_not_looked_at() {
    let world = World::new().await;
    let controller = controller(&world.context());
    world.start().await;
    world
        .create(&PersistentVolumeClaim::TYPE, claim("data"))
        .await;
    assert_eq!(enqueued(&controller.queue).await, "");
    world.delete(&PersistentVolumeClaim::TYPE, "data").await;
    assert_eq!(enqueued(&controller.queue).await, "data");
}
