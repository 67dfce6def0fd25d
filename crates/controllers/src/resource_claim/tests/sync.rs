//! The controller against the embedded API server, under virtual time.

use api::kinds::{CLAIM_DELETE_PROTECTION, Pod, PodGroup, ResourceClaim, ResourceClaimTemplate};
use api::{Gate, Gates, Resource};
use client::DeleteOptions;
use expect_test::expect;
use runtime::{Context, Metrics};
use serde_json::{Value, json};
use testkit::World;

use crate::resource_claim::{Item, controller};

fn pod(name: &str, claims: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "resourceClaims": claims},
    })
}

fn spec() -> Value {
    json!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}})
}

fn template(name: &str) -> Value {
    let meta = json!({"labels": {"a": "b"}, "annotations": {"c": "d"}});
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": name},
        "spec": {"metadata": meta, "spec": spec()},
    })
}

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name, "finalizers": [CLAIM_DELETE_PROTECTION]}, "spec": spec(),
    })
}

/// Says that the claim has a device, for the pods of these names and uids.
async fn allocate(world: &World, name: &str, users: &[(&str, &Value)]) {
    let users: Vec<Value> = users
        .iter()
        .map(|(name, uid)| json!({"resource": "pods", "name": name, "uid": uid}))
        .collect();
    let result = json!({"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "d"});
    let allocation = json!({"devices": {"results": [result]}});
    let status = json!({"status": {"allocation": allocation, "reservedFor": users}});
    world
        .patch_subresource(&ResourceClaim::TYPE, name, Some("status"), status)
        .await;
}

async fn phase(world: &World, pod: &str, phase: &str) {
    let status = json!({"status": {"phase": phase}});
    world
        .patch_subresource(&Pod::TYPE, pod, Some("status"), status)
        .await;
}

async fn running() -> (World, Metrics) {
    let mut world = World::new().await;
    let context = world.context();
    let running = controller(&context, 5).run(world.stop());
    world.run(running);
    world.start().await;
    (world, context.metrics)
}

fn counts(metrics: &Metrics) -> String {
    let text = metrics.render();
    let lines = text.lines();
    let own = lines.filter_map(|line| line.strip_prefix("resourceclaim_controller_"));
    own.collect::<Vec<_>>().join("\n")
}

async fn status(world: &World, pod: &str) -> Value {
    let pod = world.get(&Pod::TYPE, pod).await.unwrap();
    pod["status"]["resourceClaimStatuses"].clone()
}

// Upstream: TestSyncHandler (create, nop, recreate), TestResourceClaimEventHandler.
#[tokio::test(start_paused = true)]
async fn claims_are_created_from_templates_and_listed_in_the_status() {
    let (world, metrics) = running().await;
    world
        .create(&ResourceClaimTemplate::TYPE, template("t"))
        .await;
    let entries = json!([
        {"name": "gpu", "resourceClaimTemplateName": "t"}, {"name": "nic", "resourceClaimTemplateName": "t"},
    ]);
    let made = world.create(&Pod::TYPE, pod("web", entries)).await;
    world.wait_until_idle().await;
    let writes = world.writes();
    let lines: Vec<String> = writes.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "POST resourceclaims",
            "POST resourceclaims",
            "PATCH pods/web/status"
        ]
    );
    assert_eq!(
        writes[0].body,
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {
                "generateName": "web-gpu-", "labels": {"a": "b"},
                "annotations": {"c": "d", "resource.kubernetes.io/pod-claim-name": "gpu"},
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Pod", "name": "web", "uid": made["metadata"]["uid"], "controller": true,
                }],
            },
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {
                "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1,
            }}]}},
        })
    );
    let claims = world.list(&ResourceClaim::TYPE).await;
    let names: Vec<&str> = claims
        .iter()
        .map(|claim| claim["metadata"]["name"].as_str().unwrap())
        .collect();
    let told = json!([
        {"name": "gpu", "resourceClaimName": names[0]}, {"name": "nic", "resourceClaimName": names[1]},
    ]);
    assert_eq!(
        writes[2].body["status"],
        json!({"resourceClaimStatuses": told})
    );
    assert_eq!(status(&world, "web").await, told);
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");

    // Somebody deletes one: there is another, and the status still tells of both.
    world.delete(&ResourceClaim::TYPE, names[1]).await;
    world.wait_until_idle().await;
    expect![[r#"
        POST resourceclaims
        PATCH pods/web/status"#]]
    .assert_eq(&world.written());
    let told = status(&world, "web").await;
    assert_eq!(
        told[0],
        json!({"name": "gpu", "resourceClaimName": names[0]})
    );
    assert_ne!(told[1]["resourceClaimName"], names[1]);
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
    expect![[r#"
        creates_total{admin_access="false",status="success"} 3
        resource_claims{admin_access="false",allocated="false",source="resource_claim_template"} 2"#]]
    .assert_eq(&counts(&metrics));
}

// Upstream: TestSyncHandler (missing-template), TestResourceClaimTemplateEventHandler.
#[tokio::test(start_paused = true)]
async fn a_missing_template_is_told_and_waited_for() {
    let (world, _) = running().await;
    let entries = json!([{"name": "gpu", "resourceClaimTemplateName": "t"}]);
    world.create(&Pod::TYPE, pod("web", entries)).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
    assert_eq!(
        world.events().await,
        [
            r#"Warning FailedResourceClaimCreation PodResourceClaim gpu: resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found"#
        ]
    );
    world
        .create(&ResourceClaimTemplate::TYPE, template("t"))
        .await;
    world.wait_until_idle().await;
    expect![[r#"
        POST resourceclaims
        PATCH pods/web/status"#]]
    .assert_eq(&world.written());
}

// Upstream: TestSyncHandler (create-conflict).
#[tokio::test(start_paused = true)]
async fn a_refused_claim_is_reported_and_retried() {
    let (world, metrics) = running().await;
    world.refuse("POST", "resourceclaims", 409, 1);
    world
        .create(&ResourceClaimTemplate::TYPE, template("t"))
        .await;
    let entries = json!([{"name": "gpu", "resourceClaimTemplateName": "t"}]);
    world.create(&Pod::TYPE, pod("web", entries)).await;
    world.wait_until_idle().await;
    assert_eq!(world.list(&ResourceClaim::TYPE).await.len(), 1);
    let events = world.events().await;
    let told = "Warning FailedResourceClaimCreation PodResourceClaim gpu: create ResourceClaim : ";
    assert!(
        events.len() == 1 && events[0].starts_with(told),
        "{events:?}"
    );
    assert!(counts(&metrics).contains(r#"creates_total{admin_access="false",status="failure"} 1"#));
}

// Upstream: TestSyncHandler (find-existing-claim-by-label): a status that could not be written does not cost a claim.
#[tokio::test(start_paused = true)]
async fn a_claim_whose_status_was_refused_is_not_created_again() {
    let (world, _) = running().await;
    world.refuse("PATCH", "pods/web/status", 500, 1);
    world
        .create(&ResourceClaimTemplate::TYPE, template("t"))
        .await;
    let entries = json!([{"name": "gpu", "resourceClaimTemplateName": "t"}]);
    world.create(&Pod::TYPE, pod("web", entries)).await;
    world.wait_until_idle().await;
    let claims = world.list(&ResourceClaim::TYPE).await;
    assert_eq!(claims.len(), 1);
    assert_eq!(
        status(&world, "web").await,
        json!([{"name": "gpu", "resourceClaimName": claims[0]["metadata"]["name"]}])
    );
}

// Upstream: TestSyncHandler (clear-reserved-structured, structured-deleted, clear-reserved-when-done).
#[tokio::test(start_paused = true)]
async fn devices_go_back_when_the_last_consumer_is_done() {
    let (world, _) = running().await;
    world.create(&ResourceClaim::TYPE, claim("shared")).await;
    let entries = json!([{"name": "gpu", "resourceClaimName": "shared"}]);
    let one = world.create(&Pod::TYPE, pod("one", entries.clone())).await;
    let two = world.create(&Pod::TYPE, pod("two", entries)).await;
    let users = [
        ("one", &one["metadata"]["uid"]),
        ("two", &two["metadata"]["uid"]),
    ];
    allocate(&world, "shared", &users).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");

    phase(&world, "one", "Succeeded").await;
    world.wait_until_idle().await;
    let writes = world.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(
        writes[0].body["status"],
        json!({"reservedFor": [{"$patch": "delete", "uid": one["metadata"]["uid"]}]})
    );
    let held = world.get(&ResourceClaim::TYPE, "shared").await.unwrap();
    assert!(held["status"]["allocation"].is_object());

    let now = DeleteOptions {
        grace_period_seconds: Some(0),
        ..DeleteOptions::default()
    };
    world.delete_with(&Pod::TYPE, "two", &now).await;
    world.wait_until_idle().await;
    expect![[r#"
        PATCH resourceclaims/shared/status
        PATCH resourceclaims/shared"#]]
    .assert_eq(&world.written());
    let held = world.get(&ResourceClaim::TYPE, "shared").await.unwrap();
    assert_eq!(held["metadata"]["finalizers"], Value::Null);
    assert_eq!(held["status"], json!({}));
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

// Upstream: TestSyncHandler (structured-deleted).
#[tokio::test(start_paused = true)]
async fn a_claim_that_nobody_uses_may_be_deleted_with_its_devices() {
    let (world, _) = running().await;
    world.create(&ResourceClaim::TYPE, claim("unused")).await;
    allocate(&world, "unused", &[]).await;
    world.delete(&ResourceClaim::TYPE, "unused").await;
    world.wait_until_idle().await;
    expect![[r#"
        PATCH resourceclaims/unused/status
        PATCH resourceclaims/unused"#]]
    .assert_eq(&world.written());
    assert!(world.get(&ResourceClaim::TYPE, "unused").await.is_none());
}

// Upstream: TestSyncHandler (delete-claim-when-done).
#[tokio::test(start_paused = true)]
async fn a_claim_that_was_created_for_a_pod_goes_when_it_is_done() {
    let (world, _) = running().await;
    world
        .create(&ResourceClaimTemplate::TYPE, template("t"))
        .await;
    let entries = json!([{"name": "gpu", "resourceClaimTemplateName": "t"}]);
    world.create(&Pod::TYPE, pod("web", entries)).await;
    world.wait_until_idle().await;
    world.written();
    phase(&world, "web", "Failed").await;
    world.wait_until_idle().await;
    assert!(world.list(&ResourceClaim::TYPE).await.is_empty());
    // The pod is over, so it gets no other.
    assert!(
        world
            .written()
            .starts_with("DELETE resourceclaims/web-gpu-")
    );
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

/// The claim is there before the status of its pod tells of it. If the pod ends in between, nothing else tells.
#[tokio::test(start_paused = true)]
async fn a_claim_that_no_status_tells_of_goes_when_its_pod_is_done() {
    let (world, _) = running().await;
    let entries = json!([{"name": "gpu", "resourceClaimTemplateName": "t"}]);
    let made = world.create(&Pod::TYPE, pod("web", entries)).await;
    let mut untold = claim("web-gpu-1");
    untold["metadata"]["annotations"] = json!({"resource.kubernetes.io/pod-claim-name": "gpu"});
    untold["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "Pod", "name": "web", "uid": made["metadata"]["uid"], "controller": true,
    }]);
    world.refuse("PATCH", "pods/web/status", 500, 100);
    world.create(&ResourceClaim::TYPE, untold).await;
    world.wait_until_idle().await;
    assert_eq!(status(&world, "web").await, Value::Null);
    phase(&world, "web", "Failed").await;
    world.wait_until_idle().await;
    let held = world.list(&ResourceClaim::TYPE).await;
    let is_deleted = |claim: &Value| claim["metadata"]["deletionTimestamp"].is_string();
    assert!(held.iter().all(is_deleted), "{held:?}");
}

// Upstream: TestSyncHandler (remove-reserved, stay-reserved-not-seen): who is not in the cache is asked for.
#[tokio::test(start_paused = true)]
async fn unknown_consumers_are_looked_up() {
    let world = World::new().await;
    let controller = controller(&world.context(), 1);
    world.create(&ResourceClaim::TYPE, claim("shared")).await;
    let there = world.create(&Pod::TYPE, pod("there", json!([]))).await;
    let uid = &there["metadata"]["uid"];
    let (gone, older) = (json!("gone"), json!("older"));
    allocate(
        &world,
        "shared",
        &[("there", uid), ("gone", &gone), ("there", &older)],
    )
    .await;
    let held = world.get(&ResourceClaim::TYPE, "shared").await.unwrap();
    let view = ResourceClaim::decode(held.to_string().as_bytes()).unwrap();
    world.informers.store::<ResourceClaim>().put(view.into());
    let key = api::Key::new("default", "shared");
    controller
        .reconcile(&Item::Claim(key.clone()))
        .await
        .unwrap();
    let held = world.get(&ResourceClaim::TYPE, "shared").await.unwrap();
    assert_eq!(
        held["status"]["reservedFor"],
        json!([{"resource": "pods", "name": "there", "uid": uid}])
    );
    assert!(
        controller.reconcile(&Item::Claim(key)).await.is_err(),
        "waits for its own write"
    );
    for item in [Item::Pod, Item::Claim, Item::PodGroup] {
        let absent = api::Key::new("default", "absent");
        controller.reconcile(&item(absent)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_consumer_is_not_taken_for_its_predecessor_that_the_cache_still_has() {
    let world = World::new().await;
    let controller = controller(&world.context(), 1);
    world.create(&ResourceClaim::TYPE, claim("shared")).await;
    let there = world.create(&Pod::TYPE, pod("web", json!([]))).await;
    let uid = &there["metadata"]["uid"];
    allocate(&world, "shared", &[("web", uid)]).await;
    let held = world.get(&ResourceClaim::TYPE, "shared").await.unwrap();
    let view = ResourceClaim::decode(held.to_string().as_bytes()).unwrap();
    world.informers.store::<ResourceClaim>().put(view.into());
    let mut before = there.clone();
    before["metadata"]["uid"] = json!("older");
    let before = Pod::decode(before.to_string().as_bytes()).unwrap();
    world.informers.store::<Pod>().put(before.into());
    let key = api::Key::new("default", "shared");
    controller.reconcile(&Item::Claim(key)).await.unwrap();
    assert_eq!(
        world.written(),
        "",
        "the scheduler knows a pod that the cache does not have yet"
    );
}

// Upstream: TestSyncHandler (add-reserved).
#[tokio::test(start_paused = true)]
async fn a_pod_that_somebody_bound_becomes_a_consumer() {
    let (world, _) = running().await;
    world.create(&ResourceClaim::TYPE, claim("shared")).await;
    allocate(&world, "shared", &[]).await;
    let mut bound = pod(
        "web",
        json!([{"name": "gpu", "resourceClaimName": "shared"}]),
    );
    bound["spec"]["nodeName"] = json!("n1");
    let made = world.create(&Pod::TYPE, bound).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "PATCH resourceclaims/shared/status");
    let held = world.get(&ResourceClaim::TYPE, "shared").await.unwrap();
    assert_eq!(
        held["status"]["reservedFor"],
        json!([{"resource": "pods", "name": "web", "uid": made["metadata"]["uid"]}])
    );
}

// Upstream: TestEnqueuePodExtendedResourceClaims.
#[tokio::test(start_paused = true)]
async fn the_claim_of_extended_resources_is_released_with_its_pod() {
    let (world, metrics) = running().await;
    let made = world.create(&Pod::TYPE, pod("web", json!([]))).await;
    let mut extended = claim("web-extended");
    extended["metadata"]["annotations"] =
        json!({"resource.kubernetes.io/extended-resource-claim": "true"});
    extended["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "Pod", "name": "web", "uid": made["metadata"]["uid"], "controller": true,
    }]);
    world.create(&ResourceClaim::TYPE, extended).await;
    allocate(&world, "web-extended", &[("web", &made["metadata"]["uid"])]).await;
    let told = json!({"status": {"extendedResourceClaimStatus": {
        "resourceClaimName": "web-extended",
        "requestMappings": [{"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}],
    }}});
    world
        .patch_subresource(&Pod::TYPE, "web", Some("status"), told)
        .await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
    let line =
        r#"resource_claims{admin_access="false",allocated="true",source="extended_resource"} 1"#;
    assert!(counts(&metrics).contains(line), "{}", counts(&metrics));
    phase(&world, "web", "Succeeded").await;
    world.wait_until_idle().await;
    expect![[r#"
        PATCH resourceclaims/web-extended/status
        PATCH resourceclaims/web-extended
        DELETE resourceclaims/web-extended"#]]
    .assert_eq(&world.written());
    assert!(
        world
            .get(&ResourceClaim::TYPE, "web-extended")
            .await
            .is_none()
    );
}

// Upstream: TestSyncHandler and TestEventHandlers, the rows of pod groups.
#[tokio::test(start_paused = true)]
async fn pods_share_the_claims_of_their_group() {
    let mut world = World::new().await;
    let gates = Gates::default().with(Gate::DRAWorkloadResourceClaims, true);
    let context = Context {
        gates,
        ..world.context()
    };
    let running = controller(&context, 5).run(world.stop());
    world.run(running);
    world.start().await;
    let entries = json!([{"name": "gpu", "resourceClaimTemplateName": "t"}]);
    world
        .create(&ResourceClaimTemplate::TYPE, template("t"))
        .await;
    let group = json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": entries},
    });
    let made = world.create(&PodGroup::TYPE, group).await;
    world.wait_until_idle().await;
    expect![[r#"
        POST resourceclaims
        PATCH podgroups/g/status"#]]
    .assert_eq(&world.written());
    let claims = world.list(&ResourceClaim::TYPE).await;
    let owner = &claims[0]["metadata"]["ownerReferences"][0];
    assert_eq!(
        *owner,
        json!({
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "name": "g",
            "uid": made["metadata"]["uid"], "controller": true,
        })
    );
    let held = world.get(&PodGroup::TYPE, "g").await.unwrap();
    let told = json!([{"name": "gpu", "resourceClaimName": claims[0]["metadata"]["name"]}]);
    assert_eq!(held["status"]["resourceClaimStatuses"], told);
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}
