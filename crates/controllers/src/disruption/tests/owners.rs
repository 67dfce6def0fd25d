//! Whose scale counts, and what is said where none is known.

use api::kinds::{Deployment, ReplicationController, StatefulSet};
use api::{Resource, ResourceType};
use serde_json::{Value, json};
use testkit::World;

use super::{budget, pod, replica_set, running, status, template};

const GADGET: ResourceType = ResourceType::namespaced("example.com", "v1", "gadgets", "Gadget");

/// A custom kind with a scale subresource.
async fn define_gadgets(world: &World) {
    let definitions = ResourceType::cluster(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
    );
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                "subresources": {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}}],
        },
    });
    world.create(&definitions, definition).await;
    world.wait_until_idle().await;
}

async fn gadget(world: &World, replicas: i32) -> Value {
    let gadget = json!({
        "apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"replicas": replicas},
    });
    world.create(&GADGET, gadget).await
}

// TestScaleResource.
#[tokio::test(start_paused = true)]
async fn any_kind_with_a_scale_counts() {
    let world = running().await;
    define_gadgets(&world).await;
    let owner = gadget(&world, 10).await;
    for name in ["a", "b", "c", "d"] {
        pod(&world, name, Some(&owner)).await;
    }
    budget(&world, json!({"maxUnavailable": 5})).await;
    assert_eq!(
        status(&world).await,
        "0 allowed, 4 healthy of 5, 10 expected"
    );
    for name in ["e", "f"] {
        pod(&world, name, Some(&owner)).await;
    }
    assert_eq!(
        status(&world).await,
        "1 allowed, 6 healthy of 5, 10 expected"
    );
}

// TestScaleFinderNoResource, TestUnsupportedControllerPod.
#[tokio::test(start_paused = true)]
async fn owners_without_a_scale_are_named() {
    let unknown = json!({"apiVersion": "apps.test.io/v1", "kind": "TestWorkload", "metadata": {"name": "x", "uid": "u"}});
    let gone = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "x", "uid": "u"}});
    let daemon = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "x", "uid": "u"}});
    let nonsense =
        json!({"apiVersion": "a/b/c", "kind": "X", "metadata": {"name": "x", "uid": "u"}});
    for (owner, why) in [
        (
            unknown,
            "no matches for kind \"TestWorkload\" in version \"apps.test.io/v1\"",
        ),
        (gone, "found no controllers for pod \"a\""),
        (
            daemon,
            "daemonsets.apps does not implement the scale subresource",
        ),
        (nonsense, "unexpected GroupVersion string: a/b/c"),
    ] {
        let world = running().await;
        budget(&world, json!({"minAvailable": "28%"})).await;
        pod(&world, "a", Some(&owner)).await;
        assert_eq!(
            status(&world).await,
            format!("0 allowed, 0 healthy of 0, 0 expected (SyncFailed: {why})")
        );
        let events = world.events().await;
        let event = format!(
            "Warning CalculateExpectedPodCountFailed Failed to calculate the number of expected pods: {why}"
        );
        assert!(events.contains(&event), "{events:#?}");
        world.writes();
        world.wait_until_idle().await;
        assert_eq!(world.written(), "", "told once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_served_later_is_counted_then() {
    let world = running().await;
    let owner = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g", "uid": "u"}});
    pod(&world, "a", Some(&owner)).await;
    budget(&world, json!({"maxUnavailable": 1})).await;
    assert!(status(&world).await.contains("no matches for kind"));
    define_gadgets(&world).await;
    tokio::time::sleep(std::time::Duration::from_secs(31)).await;
    assert!(
        status(&world)
            .await
            .contains("found no controllers for pod"),
        "{}",
        status(&world).await
    );
}

#[tokio::test(start_paused = true)]
async fn a_scale_that_cannot_be_read_is_asked_for_again() {
    let world = running().await;
    define_gadgets(&world).await;
    let owner = gadget(&world, 2).await;
    world.refuse("GET", "/gadgets/g/scale", 500, 4);
    pod(&world, "a", Some(&owner)).await;
    pod(&world, "b", Some(&owner)).await;
    budget(&world, json!({"maxUnavailable": 1})).await;
    assert_eq!(
        status(&world).await,
        "1 allowed, 2 healthy of 1, 2 expected"
    );
    let failed = world.events().await;
    let failed = failed
        .iter()
        .any(|event| event.contains("refused by the test"));
    assert!(failed, "and the refusal was told");
}

// TestBasicFinderFunctions, TestDeploymentFinderFunction, TestTwoControllers.
#[tokio::test(start_paused = true)]
async fn owners_count_once_and_a_deployment_stands_for_its_sets() {
    let world = running().await;
    let selector = json!({"matchLabels": {"app": "web"}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"replicas": 11, "selector": selector, "template": template()},
    });
    let deployment = world.create(&Deployment::TYPE, deployment).await;
    let mut sets = Vec::new();
    for name in ["d-1", "d-2"] {
        let set = replica_set(&world, name, 5).await;
        let owners = json!({"metadata": {"ownerReferences": [super::reference(&deployment)]}});
        sets.push(
            world
                .patch(&api::kinds::ReplicaSet::TYPE, name, owners)
                .await,
        );
        drop(set);
    }
    let controller = json!({
        "apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "rc"},
        "spec": {"replicas": 12, "selector": {"app": "web"}, "template": template()},
    });
    let controller = world.create(&ReplicationController::TYPE, controller).await;
    let stateful = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"},
        "spec": {"replicas": 14, "serviceName": "s", "selector": selector, "template": template()},
    });
    let stateful = world.create(&StatefulSet::TYPE, stateful).await;
    budget(&world, json!({"minAvailable": "28%"})).await;
    pod(&world, "a", Some(&sets[0])).await;
    pod(&world, "b", Some(&sets[1])).await;
    assert_eq!(
        status(&world).await,
        "0 allowed, 2 healthy of 4, 11 expected"
    );
    pod(&world, "c", Some(&controller)).await;
    pod(&world, "d", Some(&controller)).await;
    assert_eq!(
        status(&world).await,
        "0 allowed, 4 healthy of 7, 23 expected"
    );
    pod(&world, "e", Some(&stateful)).await;
    assert_eq!(
        status(&world).await,
        "0 allowed, 5 healthy of 11, 37 expected"
    );
    let orphan = json!({"spec": {"replicas": 0}});
    world.patch(&Deployment::TYPE, "d", orphan).await;
    assert_eq!(
        status(&world).await,
        "0 allowed, 5 healthy of 8, 26 expected"
    );
}

#[tokio::test(start_paused = true)]
async fn kinds_of_other_groups_are_not_taken_for_the_usual_ones() {
    let world = running().await;
    let set = replica_set(&world, "web", 3).await;
    let mut foreign = set.clone();
    foreign["apiVersion"] = json!("invalid/v1");
    pod(&world, "a", Some(&foreign)).await;
    budget(&world, json!({"maxUnavailable": 1})).await;
    assert!(
        status(&world)
            .await
            .contains("no matches for kind \"ReplicaSet\" in version \"invalid/v1\"")
    );
    // A set of a Deployment that is not there counts itself, as its scale says.
    let world = running().await;
    let set = replica_set(&world, "web", 3).await;
    let ghost = json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "ghost", "uid": "u", "controller": true}]}});
    world
        .patch(&api::kinds::ReplicaSet::TYPE, "web", ghost)
        .await;
    pod(&world, "a", Some(&set)).await;
    budget(&world, json!({"maxUnavailable": 1})).await;
    assert_eq!(
        status(&world).await,
        "0 allowed, 1 healthy of 2, 3 expected"
    );
}
