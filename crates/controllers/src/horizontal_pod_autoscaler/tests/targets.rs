//! What is scaled, and by whom: targets of other kinds, several autoscalers in one namespace.

use api::Resource;
use api::kinds::{Deployment, HorizontalPodAutoscaler, Pod, ReplicaSet, ReplicationController};
use serde_json::{Value, json};
use testkit::World;

use super::sync::{condition, cpu, pass, running, usage};

fn template(labels: &Value) -> Value {
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}});
    json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}})
}

/// A pod that has been ready for long, of any owner.
async fn ready_pod(world: &World, name: &str, labels: &Value) {
    let spec = template(labels)["spec"].clone();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec});
    world.create(&Pod::TYPE, pod).await;
    let since = "2023-01-01T00:00:00Z";
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": since});
    let status = json!({"phase": "Running", "startTime": since, "conditions": [ready]});
    world.pod_status(name, status).await;
}

async fn autoscaler(world: &World, name: &str, api_version: &str, kind: &str, bounds: (i32, i32)) {
    let target = json!({"apiVersion": api_version, "kind": kind, "name": name});
    let object = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name},
        "spec": {"scaleTargetRef": target, "minReplicas": bounds.0, "maxReplicas": bounds.1, "metrics": [cpu()]},
    });
    world.create(&HorizontalPodAutoscaler::TYPE, object).await;
}

async fn deployment(world: &World, name: &str, replicas: i32, labels: &Value) {
    let spec = json!({"replicas": replicas, "selector": {"matchLabels": labels}, "template": template(labels)});
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec});
    world.create(&Deployment::TYPE, object).await;
}

/// What the metrics server says that these pods use.
fn usage_of(world: &World, app: &str, pods: &[&str], cpu: &str) {
    let now = world.clock.now().time();
    let pod = |name: &&str| json!({"metadata": {"name": name}, "timestamp": now, "window": "30s", "containers": [{"name": "c", "usage": {"cpu": cpu}}]});
    let items: Vec<Value> = pods.iter().map(pod).collect();
    let path =
        format!("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods?labelSelector=app%3D{app}");
    world.answer(&path, json!({"metadata": {}, "items": items}));
}

async fn sized(world: &World, resource: &api::ResourceType, name: &str) -> i64 {
    let held = world.get(resource, name).await.unwrap();
    held["spec"]["replicas"].as_i64().unwrap()
}

// TestScaleUpReplicaSet.
#[tokio::test(start_paused = true)]
async fn a_replicaset_is_scaled_as_a_deployment_is() {
    let (world, _) = running().await;
    let labels = json!({"app": "set"});
    let spec =
        json!({"replicas": 3, "selector": {"matchLabels": labels}, "template": template(&labels)});
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "set"}, "spec": spec});
    world.create(&ReplicaSet::TYPE, set).await;
    for name in ["x", "y", "z"] {
        ready_pod(&world, name, &labels).await;
    }
    usage_of(&world, "set", &["x", "y", "z"], "700m");
    autoscaler(&world, "set", "apps/v1", "ReplicaSet", (2, 6)).await;
    pass(2).await;
    assert_eq!(sized(&world, &ReplicaSet::TYPE, "set").await, 5);
}

// TestScaleUpRCImmediately, TestScaleDownRCImmediately: however lately it was scaled.
#[tokio::test(start_paused = true)]
async fn a_replicationcontroller_out_of_bounds_is_scaled_at_once() {
    let (world, _) = running().await;
    for (name, replicas, bounds, expected) in [("low", 1, (2, 6), 2), ("high", 6, (2, 5), 5)] {
        let labels = json!({"app": name});
        let spec = json!({"replicas": replicas, "selector": labels, "template": template(&labels)});
        let object = json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": name}, "spec": spec});
        world.create(&ReplicationController::TYPE, object).await;
        autoscaler(&world, name, "v1", "ReplicationController", bounds).await;
        let now = world.clock.now().time();
        let status = json!({"status": {"lastScaleTime": now, "currentReplicas": replicas, "desiredReplicas": replicas}});
        world
            .patch_subresource(&HorizontalPodAutoscaler::TYPE, name, Some("status"), status)
            .await;
        pass(2).await;
        assert_eq!(
            sized(&world, &ReplicationController::TYPE, name).await,
            expected
        );
        let told = condition(&world, name, "AbleToScale").await;
        assert!(told.starts_with("True"), "{told}");
    }
}

// TestConditionNoAmbiguousSelectorWhenNoSelectorOverlapBetweenHPAs, …WhenPartialSelectorOverlapBetweenHPAs.
#[tokio::test(start_paused = true)]
async fn autoscalers_of_different_pods_do_not_meet_until_a_pod_is_under_both() {
    let (world, _) = running().await;
    usage(&world, "500m");
    let cheese = json!({"cheddar": "cheese"});
    deployment(&world, "cheese", 1, &cheese).await;
    ready_pod(&world, "brie", &cheese).await;
    let deployments = [("web", "app"), ("cheese", "cheddar")];
    for (name, _) in deployments {
        autoscaler(&world, name, "apps/v1", "Deployment", (1, 5)).await;
    }
    let metrics =
        "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods?labelSelector=cheddar%3Dcheese";
    let now = world.clock.now().time();
    let brie = json!({"metadata": {"name": "brie"}, "timestamp": now, "window": "30s", "containers": [{"name": "c", "usage": {"cpu": "500m"}}]});
    world.answer(metrics, json!({"metadata": {}, "items": [brie]}));
    pass(3).await;
    for (name, _) in deployments {
        let told = condition(&world, name, "ScalingActive").await;
        assert!(told.starts_with("True ValidMetricFound"), "{name}: {told}");
    }
    // A pod of the one gets the label of the other.
    let labels = json!({"metadata": {"labels": cheese}});
    world.patch(&Pod::TYPE, "a", labels).await;
    pass(2).await;
    for (name, _) in deployments {
        let told = condition(&world, name, "ScalingActive").await;
        assert!(
            told.starts_with("False AmbiguousSelector"),
            "{name}: {told}"
        );
    }
}

// TestMultipleHPAs.
#[tokio::test(start_paused = true)]
async fn a_hundred_autoscalers_each_have_their_turn_in_every_period() {
    let (world, context) = running().await;
    let names: Vec<String> = (0..100).map(|number| format!("t{number}")).collect();
    for name in &names {
        let labels = json!({"app": name});
        deployment(&world, name, 1, &labels).await;
        ready_pod(&world, name, &labels).await;
        usage_of(&world, name, &[name], "900m");
        autoscaler(&world, name, "apps/v1", "Deployment", (1, 10)).await;
    }
    pass(2).await;
    for name in &names {
        assert_eq!(sized(&world, &Deployment::TYPE, name).await, 2, "{name}");
    }
    let gauge = |count: usize| {
        format!("horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers {count}")
    };
    assert!(context.metrics.render().contains(&gauge(100)));
    world.delete(&HorizontalPodAutoscaler::TYPE, "t0").await;
    world.wait_until_idle().await;
    assert!(context.metrics.render().contains(&gauge(99)));
}
