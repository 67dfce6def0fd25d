//! Claims: made before their pods, owned as the policy says.

use api::ResourceType;
use expect_test::expect;

use super::super::claims::claim_body;
use super::super::identity::{ordinal, storage_matches};
use super::super::pods::new_pod;
use super::*;

const CLAIM: ResourceType = PersistentVolumeClaim::TYPE;

async fn owners(world: &World, claim: &str) -> String {
    let claim = world.get(&CLAIM, claim).await.unwrap();
    let owners = claim["metadata"]["ownerReferences"].as_array().cloned();
    let text = |owner: &Value| {
        let part = |name: &str| owner[name].as_str().unwrap_or_default().to_string();
        format!("{} {}", part("kind"), part("name"))
    };
    owners
        .unwrap_or_default()
        .iter()
        .map(text)
        .collect::<Vec<_>>()
        .join(", ")
}

// Upstream: TestStatefulPodControlCreatesPods, TestStatefulPodControlCreatePodExists, TestGetPersistentVolumeClaims.
#[tokio::test(start_paused = true)]
async fn claims_are_created_before_the_pod() {
    let world = world().await;
    let set = with_claims(stateful_set(1), "Retain", "Retain");
    world.create(&StatefulSet::TYPE, set).await;
    world.wait_until_idle().await;
    let writes = world.writes();
    let lines: Vec<String> = writes.iter().map(ToString::to_string).collect();
    expect![[r#"
        POST controllerrevisions
        POST persistentvolumeclaims
        POST pods
        PUT statefulsets/web/status
        PUT statefulsets/web/status"#]]
    .assert_eq(&lines.join("\n"));
    let claim = &writes[1].body;
    assert_eq!(
        claim["metadata"],
        json!({"name": "data-web-0", "namespace": "default", "labels": {"app": "web", "tier": "db"}})
    );
    assert_eq!(
        claim["spec"]["resources"],
        json!({"requests": {"storage": "1Gi"}})
    );
    assert_eq!(
        writes[2].body["spec"]["volumes"][0],
        json!({"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}})
    );
    assert_eq!(
        world.events().await,
        [
            "Normal SuccessfulCreate Create Claim data-web-0 Pod web-0 in StatefulSet web success",
            "Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful",
        ]
    );
    roll_out(&world).await;
    world.written();
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

// Upstream: TestStorageMatches, TestUpdateStorage.
#[test]
fn a_pod_has_the_volume_of_each_claim_template_and_no_other_of_that_name() {
    let held = set("replicas=2 claims");
    let matches = |name: &str, volumes: Value| {
        let pod = json!({"metadata": {"name": name}, "spec": {"volumes": volumes}});
        let pod = Pod::decode(pod.to_string().as_bytes()).unwrap();
        let place = ordinal(&held, &pod);
        place.is_some_and(|place| storage_matches(&held, &pod, place))
    };
    let volume =
        |claim: &str| json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}});
    let home = json!({"name": "home", "hostPath": {"path": "/home"}});
    assert!(matches("web-1", json!([home, volume("data-web-1")])));
    assert!(!matches("web-1", json!([home])));
    assert!(!matches("web-1", json!([{"name": "data", "emptyDir": {}}])));
    assert!(!matches("web-1", json!([volume("data-web-0")])));
    assert!(!matches("bar", json!([volume("data-web-1")])));

    // What we make has them, whatever the template says of volumes of that name.
    for volumes in [
        json!([]),
        json!([home]),
        json!([{"name": "data", "emptyDir": {}}, home]),
        json!([volume("foo"), home]),
    ] {
        let template = json!({"spec": {"volumes": volumes}});
        let template = api::Template::parse(&template.to_string()).unwrap();
        let made = new_pod(&held, &template, "new", 1).to_string();
        let made: Value = serde_json::from_str(&made).unwrap();
        let made = &made["spec"]["volumes"];
        assert!(matches("web-1", made.clone()), "{made}");
        let others = made
            .as_array()
            .unwrap()
            .iter()
            .filter(|held| **held != volume("data-web-1"));
        assert!(others.clone().all(|held| *held == home), "{made}");
        let had = volumes.as_array().unwrap().contains(&home);
        assert_eq!(others.count(), usize::from(had), "{made}");
    }
}

// Upstream: TestGetPersistentVolumeClaims.
#[test]
fn a_claim_has_the_labels_of_its_template_and_those_that_the_set_selects_by() {
    let labels = |selected: Value, own: Value| {
        let mut set = with_claims(stateful_set(1), "Retain", "Retain");
        set["spec"]["selector"] = json!({"matchLabels": selected});
        set["spec"]["volumeClaimTemplates"][0]["metadata"]["labels"] = own;
        let set = StatefulSet::decode(set.to_string().as_bytes()).unwrap();
        let claim = claim_body(&set, 0, "data-web-0").to_string();
        let claim: Value = serde_json::from_str(&claim).unwrap();
        claim["metadata"]["labels"].clone()
    };
    assert_eq!(labels(json!({}), Value::Null), Value::Null);
    assert_eq!(labels(json!({"a": "1"}), Value::Null), json!({"a": "1"}));
    assert_eq!(
        labels(json!({"a": "1"}), json!({"b": "2"})),
        json!({"a": "1", "b": "2"})
    );
    assert_eq!(
        labels(json!({"a": "1"}), json!({"a": "2"})),
        json!({"a": "1"}),
        "what the set selects by wins"
    );
}

// Upstream: TestStatefulPodControlRetentionPolicyUpdate, TestStatefulPodControlRetainDeletionPolicyUpdate.
#[tokio::test(start_paused = true)]
async fn owners_follow_the_policy_through_its_changes() {
    let world = world().await;
    let set = with_claims(stateful_set(1), "Retain", "Retain");
    world.create(&StatefulSet::TYPE, set).await;
    roll_out(&world).await;
    for (scaled, deleted, expected) in [
        ("Retain", "Delete", "StatefulSet web"),
        ("Delete", "Retain", ""),
        ("Delete", "Delete", "StatefulSet web"),
        ("Retain", "Retain", ""),
    ] {
        let policy = json!({"whenScaled": scaled, "whenDeleted": deleted});
        let patch = json!({"spec": {"persistentVolumeClaimRetentionPolicy": policy}});
        world.patch(&StatefulSet::TYPE, "web", patch).await;
        roll_out(&world).await;
        assert_eq!(
            owners(&world, "data-web-0").await,
            expected,
            "{scaled} {deleted}"
        );
    }
}

// Upstream: TestStaleOwnerRefOnScaleup.
#[tokio::test(start_paused = true)]
async fn a_condemned_pod_takes_its_claim_along() {
    for (when_deleted, owner) in [("Delete", "StatefulSet web"), ("Retain", "")] {
        condemn(when_deleted, owner).await;
    }
}

/// Scales down and up again; `owner` is whose the claims of wanted pods are.
async fn condemn(when_deleted: &str, owner: &str) {
    let world = world().await;
    let set = with_claims(stateful_set(2), "Delete", when_deleted);
    world.create(&StatefulSet::TYPE, set).await;
    roll_out(&world).await;
    assert_eq!(owners(&world, "data-web-1").await, owner);
    world.written();
    scale(&world, 1).await;
    world.wait_until_idle().await;
    expect![[r#"
        PUT persistentvolumeclaims/data-web-1
        DELETE pods/web-1
        PUT statefulsets/web/status ×2"#]]
    .assert_eq(&world.written());
    assert_eq!(owners(&world, "data-web-1").await, "Pod web-1");
    assert_eq!(owners(&world, "data-web-0").await, owner);

    scale(&world, 2).await;
    world.wait_until_idle().await;
    assert_eq!(
        world.pod_names().await,
        ["web-0"],
        "the claim of the pod before has to go first"
    );
    world.delete(&CLAIM, "data-web-1").await;
    let finalizers = json!({"metadata": {"finalizers": null}});
    if world.get(&CLAIM, "data-web-1").await.is_some() {
        world.patch(&CLAIM, "data-web-1", finalizers).await;
    }
    // Claims enqueue nothing; a change of the set does.
    world
        .patch(
            &StatefulSet::TYPE,
            "web",
            json!({"metadata": {"annotations": {"poke": "1"}}}),
        )
        .await;
    roll_out(&world).await;
    assert_eq!(world.pod_names().await, ["web-0", "web-1"]);
    assert_eq!(owners(&world, "data-web-1").await, owner);
}

// Upstream: TestStatefulSetControl/RecreatesPVCForPendingPod.
#[tokio::test(start_paused = true)]
async fn a_pending_pod_gets_a_lost_claim_back() {
    let world = world().await;
    let set = with_claims(stateful_set(1), "Retain", "Retain");
    world.create(&StatefulSet::TYPE, set).await;
    world.wait_until_idle().await;
    world.delete(&CLAIM, "data-web-0").await;
    let finalizers = json!({"metadata": {"finalizers": null}});
    if world.get(&CLAIM, "data-web-0").await.is_some() {
        world.patch(&CLAIM, "data-web-0", finalizers).await;
    }
    world.wait_until_idle().await;
    world.written();
    let touch = json!({"metadata": {"annotations": {"poke": "1"}}});
    world.patch(&StatefulSet::TYPE, "web", touch).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "POST persistentvolumeclaims");
}

#[tokio::test(start_paused = true)]
async fn another_controller_of_a_claim_is_reported_and_respected() {
    let world = world().await;
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data-web-0",
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "ConfigMap", "name": "boss", "controller": true,
                "uid": "00000000-0000-0000-0000-000000000001",
            }],
        },
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    world.create(&CLAIM, claim).await;
    let set = with_claims(stateful_set(1), "Delete", "Delete");
    world.create(&StatefulSet::TYPE, set).await;
    roll_out(&world).await;
    assert_eq!(owners(&world, "data-web-0").await, "ConfigMap boss");
    let message = "Warning ConflictingController PersistentVolumeClaim data-web-0 has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim";
    assert!(world.events().await.contains(&message.into()));
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_a_claim_that_is_on_its_way_out() {
    let world = world().await;
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-web-0", "finalizers": ["example.com/hold"]},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    world.create(&CLAIM, claim).await;
    world.delete(&CLAIM, "data-web-0").await;
    let set = with_claims(stateful_set(1), "Retain", "Retain");
    world.create(&StatefulSet::TYPE, set).await;
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    assert!(world.pod_names().await.is_empty());
    let message = "Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: pvc data-web-0 is being deleted";
    assert!(world.events().await.contains(&message.into()));
    let free = json!({"metadata": {"finalizers": null}});
    world.patch(&CLAIM, "data-web-0", free).await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(world.pod_names().await, ["web-0"]);
}

// Upstream: TestOrphanedPodsWithPVCDeletePolicy.
#[tokio::test(start_paused = true)]
async fn claims_of_adopted_pods_are_owned_and_those_of_released_ones_are_not() {
    let world = world().await;
    let orphan = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-0", "labels": {"app": "web"}},
        "spec": {
            "containers": [{"name": "c", "image": "nginx:1"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}],
        },
    });
    world.create(&Pod::TYPE, orphan).await;
    world.make_ready("web-0").await;
    for name in ["data-web-0", "data-xweb-1"] {
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        });
        world.create(&CLAIM, claim).await;
    }
    let set = with_claims(stateful_set(1), "Delete", "Delete");
    let set = world.create(&StatefulSet::TYPE, set).await;
    let misnamed = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "xweb-1", "labels": {"app": "web"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web",
                "uid": set["metadata"]["uid"], "controller": true,
            }],
        },
        "spec": {"containers": [{"name": "c", "image": "nginx:1"}]},
    });
    world.create(&Pod::TYPE, misnamed).await;
    world.wait_until_idle().await;
    assert_eq!(owners(&world, "data-web-0").await, "StatefulSet web");
    assert_eq!(owners(&world, "data-xweb-1").await, "");
    let released = world.get(&Pod::TYPE, "xweb-1").await.unwrap();
    assert_eq!(released["metadata"]["ownerReferences"], Value::Null);
}
