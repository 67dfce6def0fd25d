//! What the metrics APIs answer, and how often they are asked.

use api::Resource;
use api::kinds::HorizontalPodAutoscaler;
use serde_json::{Value, json};
use testkit::World;

use super::sync::{PERIOD, autoscaler, condition, pass, replicas, running};

const PODS: &str = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods?labelSelector=app%3Dweb";
const CUSTOM: &str = "/apis/custom.metrics.k8s.io";
const QPS: &str =
    "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/pods/*/qps?labelSelector=app%3Dweb";
const QUEUE: &str = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue";

/// What the metrics server says that the containers of pods a, b and c use.
fn containers(world: &World, pods: [Value; 3]) {
    let now = world.clock.now().time();
    let items = ["a", "b", "c"].into_iter().zip(pods);
    let items: Vec<Value> = items
        .map(|(name, containers)| {
            let usage = containers.as_object().into_iter().flatten();
            let usage = usage.map(|(name, cpu)| json!({"name": name, "usage": {"cpu": cpu}}));
            json!({"metadata": {"name": name}, "timestamp": now, "window": "30s", "containers": usage.collect::<Vec<_>>()})
        })
        .collect();
    world.answer(PODS, json!({"metadata": {}, "items": items}));
}

fn container(name: &str) -> Value {
    json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": name, "target": {"type": "AverageValue", "averageValue": "50m"}}})
}

fn qps(target: &str) -> Value {
    json!({"type": "Pods", "pods": {"metric": {"name": "qps"}, "target": {"type": "AverageValue", "averageValue": target}}})
}

fn serve_custom(world: &World, version: &str) {
    let version = json!({"version": version});
    let group = json!({"kind": "APIGroup", "versions": [version], "preferredVersion": version});
    world.answer(CUSTOM, group);
}

async fn current(world: &World, name: &str) -> Value {
    let held = world.get(&HorizontalPodAutoscaler::TYPE, name).await;
    held.unwrap()["status"]["currentMetrics"].clone()
}

// TestRESTClientContainerCPU, …EmptyMetricsForOnePod, …ReturnsOnlyFoundContainer.
#[tokio::test(start_paused = true)]
async fn of_a_pod_the_container_that_is_named_is_read() {
    let (world, _) = running().await;
    let busy = json!({"c": "100m", "log": "500m"});
    containers(&world, [busy.clone(), busy.clone(), busy]);
    autoscaler(&world, "h", container("c")).await;
    pass(2).await;
    assert_eq!(replicas(&world).await, 6, "twice the target");
    world.delete(&HorizontalPodAutoscaler::TYPE, "h").await;
    // One of three pods says something: the others count as the target says.
    containers(
        &world,
        [
            json!({"c": "9m"}),
            json!({"c": "7m", "log": "25m"}),
            json!({}),
        ],
    );
    autoscaler(&world, "l", container("log")).await;
    pass(1).await;
    tokio::time::sleep(PERIOD / 2).await;
    let read = current(&world, "l").await;
    assert_eq!(
        read[0]["containerResource"]["current"],
        json!({"averageValue": "25m"})
    );
    world.delete(&HorizontalPodAutoscaler::TYPE, "l").await;
    autoscaler(&world, "n", container("none")).await;
    pass(2).await;
    assert_eq!(
        condition(&world, "n", "ScalingActive").await,
        "False FailedGetContainerResourceMetric: the HPA was unable to compute the replica count: failed to get cpu usage: did not receive metrics for targeted pods (pods might be unready)"
    );
}

// TestRESTClientQpsSumEqualZero, TestRESTClientQpsEmptyMetrics, TestRESTClientExternalEmptyMetrics.
#[tokio::test(start_paused = true)]
async fn nothing_is_a_value_and_no_value_is_not() {
    let (world, _) = running().await;
    serve_custom(&world, "v1beta2");
    let item = |name: &str| json!({"describedObject": {"kind": "Pod", "name": name}, "value": "0"});
    world.answer(QPS, json!({"items": [item("a"), item("b"), item("c")]}));
    autoscaler(&world, "h", qps("10")).await;
    pass(2).await;
    let read = current(&world, "h").await;
    assert_eq!(read[0]["pods"]["current"], json!({"averageValue": "0"}));
    world.answer(QPS, json!({"items": []}));
    pass(1).await;
    assert_eq!(
        condition(&world, "h", "ScalingActive").await,
        "False FailedGetPodsMetric: the HPA was unable to compute the replica count: unable to get metric qps: no metrics returned from custom metrics API"
    );
    world.delete(&HorizontalPodAutoscaler::TYPE, "h").await;
    world.answer(QUEUE, json!({"metadata": {}, "items": []}));
    let queue = json!({"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "7"}}});
    autoscaler(&world, "e", queue).await;
    pass(2).await;
    assert_eq!(
        condition(&world, "e", "ScalingActive").await,
        "False FailedGetExternalMetric: the HPA was unable to compute the replica count: unable to get external metric default/queue/nil: no metrics returned from external metrics API"
    );
}

#[tokio::test(start_paused = true)]
async fn the_version_of_the_custom_metrics_api_is_discovered_once_a_period() {
    let (world, _) = running().await;
    autoscaler(&world, "h", qps("10")).await;
    pass(2).await;
    let told = |why: &str| {
        format!(
            "False FailedGetPodsMetric: the HPA was unable to compute the replica count: unable to get metric qps: unable to fetch metrics from custom metrics API: {why}"
        )
    };
    assert_eq!(
        condition(&world, "h", "ScalingActive").await,
        told("no custom metrics API (custom.metrics.k8s.io) registered")
    );
    serve_custom(&world, "v7");
    pass(1).await;
    assert_eq!(
        condition(&world, "h", "ScalingActive").await,
        told("no known available metric versions found")
    );
    serve_custom(&world, "v1beta2");
    let item = json!({"describedObject": {"kind": "Pod", "name": "a"}, "value": "10"});
    world.answer(QPS, json!({"items": [item]}));
    world.delete(&HorizontalPodAutoscaler::TYPE, "h").await;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let object = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "two"},
        "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 10, "metrics": [qps("10"), qps("20")]},
    });
    world.create(&HorizontalPodAutoscaler::TYPE, object).await;
    let before = (world.reads_of(CUSTOM), world.reads_of("/pods/*/qps"));
    pass(20).await;
    let (asked, read) = (
        world.reads_of(CUSTOM) - before.0,
        world.reads_of("/pods/*/qps") - before.1,
    );
    assert!(read >= 38, "{read}");
    assert!(asked <= 20, "asked {asked} times for {read} readings");
}

// The API server admits selectors of metrics that nobody can read, as upstream's does.
#[tokio::test(start_paused = true)]
async fn a_selector_of_a_metric_that_cannot_be_read_is_told_in_upstreams_words() {
    let (world, _) = running().await;
    let why = r#""Near" is not a valid label selector operator"#;
    let mut told: Vec<String> = Vec::new();
    for (kind, target, error) in [
        ("Pods", "averageValue", "failed to get pods metric value"),
        (
            "Object",
            "averageValue",
            "failed to get object metric value",
        ),
        (
            "External",
            "value",
            "failed to get m external metric value: failed to get external metric m",
        ),
        (
            "External",
            "averageValue",
            "failed to get m external metric value: failed to get m external metric",
        ),
    ] {
        let selector = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
        let target_type = target[..1].to_uppercase() + &target[1..];
        let mut source = json!({
            "metric": {"name": "m", "selector": selector},
            "target": {"type": target_type, (target): "1"},
        });
        if kind == "Object" {
            source["describedObject"] =
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        }
        let field = kind[..1].to_lowercase() + &kind[1..];
        autoscaler(&world, "h", json!({"type": kind, (field): source})).await;
        pass(2).await;
        assert_eq!(
            condition(&world, "h", "ScalingActive").await,
            format!(
                "False FailedGet{kind}Metric: the HPA was unable to compute the replica count: {why}"
            )
        );
        let event = format!(
            "Warning FailedComputeMetricsReplicas invalid metrics (1 invalid out of 1), first error is: {error}: {why}"
        );
        let mut events = world.events().await;
        events.retain(|event| {
            event.contains("FailedComputeMetricsReplicas") && !told.contains(event)
        });
        assert_eq!(events, [event]);
        told.extend(events);
        world.delete(&HorizontalPodAutoscaler::TYPE, "h").await;
    }
}
