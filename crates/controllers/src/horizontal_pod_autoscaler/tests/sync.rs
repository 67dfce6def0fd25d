//! Whole syncs against the embedded API server; what metrics APIs answer is given.

use std::time::Duration;

use api::kinds::{Deployment, HorizontalPodAutoscaler, Pod};
use api::{Key, Resource};
use runtime::Context;
use serde_json::{Value, json};
use testkit::World;

use super::super::controller;
use super::configuration;

pub(super) const PERIOD: Duration = Duration::from_secs(15);
const PODS: &str = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods?labelSelector=app%3Dweb";

/// A world in which the controller runs, with a Deployment `web` of three ready pods that request one CPU each.
pub(super) async fn running() -> (World, Context) {
    let mut world = World::new().await;
    let context = world.context();
    let running = controller(&context, 2, PERIOD, configuration()).run(world.stop());
    world.run(running);
    world.start().await;
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    });
    world.create(&Deployment::TYPE, deployment).await;
    for name in ["a", "b", "c"] {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}}, "spec": template["spec"]});
        world.create(&Pod::TYPE, pod).await;
        let since = "2023-01-01T00:00:00Z";
        let status = json!({"phase": "Running", "startTime": since, "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]});
        world.pod_status(name, status).await;
    }
    (world, context)
}

pub(super) async fn autoscaler(world: &World, name: &str, metric: Value) {
    let object = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1, "maxReplicas": 10, "metrics": [metric]},
    });
    world.create(&HorizontalPodAutoscaler::TYPE, object).await;
}

pub(super) fn cpu() -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}})
}

/// What the metrics server says that each pod uses.
pub(super) fn usage(world: &World, cpu: &str) {
    let now = world.clock.now().time();
    let pod = |name: &str| json!({"metadata": {"name": name, "namespace": "default"}, "timestamp": now, "window": "30s", "containers": [{"name": "c", "usage": {"cpu": cpu, "memory": "1Mi"}}]});
    let list = json!({"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": [pod("a"), pod("b"), pod("c")]});
    world.answer(PODS, list);
}

pub(super) async fn replicas(world: &World) -> i64 {
    let held = world.get(&Deployment::TYPE, "web").await.unwrap();
    held["spec"]["replicas"].as_i64().unwrap()
}

pub(super) async fn condition(world: &World, name: &str, kind: &str) -> String {
    let held = world
        .get(&HorizontalPodAutoscaler::TYPE, name)
        .await
        .unwrap();
    let conditions = held["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let found = conditions.iter().find(|held| held["type"] == kind);
    let text = |held: &Value, field: &str| held[field].as_str().unwrap_or_default().to_owned();
    found.map_or("none".into(), |held| {
        let (status, reason) = (text(held, "status"), text(held, "reason"));
        format!("{status} {reason}: {}", text(held, "message"))
    })
}

pub(super) async fn pass(periods: u32) {
    tokio::time::sleep(PERIOD * periods).await;
}

#[tokio::test(start_paused = true)]
async fn scales_its_target_and_says_so() {
    let (world, _) = running().await;
    usage(&world, "900m");
    autoscaler(&world, "h", cpu()).await;
    tokio::time::sleep(PERIOD - Duration::from_secs(1)).await;
    assert_eq!(world.written(), "", "its first time has not come");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let writes = world.writes();
    let paths: Vec<String> = writes.iter().map(ToString::to_string).collect();
    assert_eq!(
        paths,
        [
            "PUT deployments/web/scale",
            "PUT horizontalpodautoscalers/h/status"
        ]
    );
    let scale = &writes[0].body;
    assert_eq!(
        (&scale["spec"], &scale["kind"]),
        (&json!({"replicas": 6}), &json!("Scale"))
    );
    assert!(
        scale["metadata"]["resourceVersion"].is_string(),
        "on top of what was read"
    );
    let status = &writes[1].body["status"];
    assert_eq!(
        (
            &status["currentReplicas"],
            &status["desiredReplicas"],
            &status["currentMetrics"]
        ),
        (
            &json!(3),
            &json!(6),
            &json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageValue": "900m", "averageUtilization": 90}}}])
        )
    );
    assert_eq!(replicas(&world).await, 6);
    let events = world.events().await;
    assert_eq!(
        events,
        [
            "Normal SuccessfulRescale New size: 6; reason: cpu resource utilization (percentage of request) above target"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn what_does_not_change_is_not_written() {
    let (world, _) = running().await;
    usage(&world, "500m");
    autoscaler(&world, "h", cpu()).await;
    pass(3).await;
    assert_eq!(world.written(), "PUT horizontalpodautoscalers/h/status");
    pass(20).await;
    assert_eq!(world.written(), "");
    assert_eq!(world.events().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn the_period_does_not_drift() {
    let (world, context) = running().await;
    let begun = tokio::time::Instant::now();
    autoscaler(&world, "h", cpu()).await;
    for period in 1..=40_u32 {
        let due = begun + PERIOD * period;
        tokio::time::sleep_until(due - Duration::from_millis(200)).await;
        let decided = || {
            let kept = context
                .decisions
                .get(context.controller, &Key::new("default", "h"));
            kept.iter().map(|decision| decision.count).sum::<u64>()
        };
        let before = decided();
        tokio::time::sleep_until(due + Duration::from_millis(400)).await;
        assert_eq!(decided(), before + 1, "period {period}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_api_is_reported_in_upstreams_words() {
    let (world, _) = running().await;
    autoscaler(&world, "h", cpu()).await;
    pass(2).await;
    let why = "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)";
    assert_eq!(
        condition(&world, "h", "ScalingActive").await,
        format!(
            "False FailedGetResourceMetric: the HPA was unable to compute the replica count: {why}"
        )
    );
    let events = world.events().await;
    assert!(
        events.contains(&format!("Warning FailedGetResourceMetric {why}")),
        "{events:#?}"
    );
    assert!(events.contains(&format!("Warning FailedComputeMetricsReplicas invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: {why}")), "{events:#?}");
    assert_eq!(world.written(), "PUT horizontalpodautoscalers/h/status");
    pass(5).await;
    assert_eq!(world.written(), "", "told once");
}

#[tokio::test(start_paused = true)]
async fn an_api_that_hangs_is_reported_and_scales_nothing() {
    let (world, _) = running().await;
    world.hang(PODS);
    autoscaler(&world, "h", cpu()).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let told = condition(&world, "h", "ScalingActive").await;
    assert!(told.contains("did not answer within 30 s"), "{told}");
    assert_eq!(replicas(&world).await, 3);
    usage(&world, "1");
    tokio::time::sleep(Duration::from_mins(1)).await;
    let told = condition(&world, "h", "ScalingActive").await;
    assert!(told.contains("ValidMetricFound"), "{told}");
    assert_eq!(replicas(&world).await, 6);
}

// UPSTREAM: asks how old a metric is only while a pod starts.
#[tokio::test(start_paused = true)]
async fn metrics_that_come_a_day_late_count() {
    let (world, _) = running().await;
    world.jump(-86_400);
    usage(&world, "1");
    world.jump(86_400);
    autoscaler(&world, "h", cpu()).await;
    pass(2).await;
    assert_eq!(replicas(&world).await, 6);
}

#[tokio::test(start_paused = true)]
async fn nonsense_from_a_metrics_api_is_a_condition() {
    let (world, _) = running().await;
    autoscaler(&world, "h", cpu()).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    for answer in [
        json!({"metadata": {}, "items": []}),
        json!({"metadata": {}, "items": [{"metadata": {"name": "a"}, "containers": [{"name": "c", "usage": {"cpu": "NaN"}}]}]}),
        json!({"metadata": {}, "items": [{"metadata": {"name": "a"}, "containers": []}]}),
        json!({"items": "nothing"}),
        json!("nothing"),
        json!({"metadata": {}, "items": [{"metadata": {"name": "a"}, "window": "soon", "timestamp": null, "containers": [{"name": "c", "usage": {"cpu": "-5"}}]}]}),
    ] {
        world.answer(PODS, answer.clone());
        pass(1).await;
        let told = condition(&world, "h", "ScalingActive").await;
        assert!(
            told.contains("FailedGetResourceMetric") || told.contains("ValidMetricFound"),
            "{answer}: {told}"
        );
    }
    assert!((1..=10).contains(&replicas(&world).await));
}

#[tokio::test(start_paused = true)]
async fn other_metrics_come_from_their_own_apis() {
    let (world, _) = running().await;
    world.answer("/apis/custom.metrics.k8s.io", json!({"kind": "APIGroup", "versions": [{"version": "v1beta1"}], "preferredVersion": {"version": "v1beta1"}}));
    let item = |name: &str| json!({"describedObject": {"kind": "Pod", "name": name}, "metricName": "qps", "timestamp": "2024-01-01T00:00:00Z", "value": "20"});
    world.answer(
        "/apis/custom.metrics.k8s.io/v1beta1/namespaces/default/pods/*/qps?labelSelector=app%3Dweb",
        json!({"items": [item("a"), item("b"), item("c")]}),
    );
    autoscaler(&world, "h", json!({"type": "Pods", "pods": {"metric": {"name": "qps"}, "target": {"type": "AverageValue", "averageValue": "10"}}})).await;
    pass(2).await;
    assert_eq!(replicas(&world).await, 6);
    world.delete(&HorizontalPodAutoscaler::TYPE, "h").await;
    world.answer(
        "/apis/custom.metrics.k8s.io/v1beta1/namespaces/default/deployments.apps/web/hits?metricLabelSelector=a%3Db",
        json!({"items": [{"describedObject": {"kind": "Deployment", "name": "web"}, "value": "30"}]}),
    );
    autoscaler(&world, "o", json!({"type": "Object", "object": {"describedObject": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "metric": {"name": "hits", "selector": {"matchLabels": {"a": "b"}}}, "target": {"type": "Value", "value": "10"}}})).await;
    pass(2).await;
    assert_eq!(
        replicas(&world).await,
        9,
        "three ready pods with three times the target each"
    );
    world.delete(&HorizontalPodAutoscaler::TYPE, "o").await;
    world.answer(
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue",
        json!({"metadata": {}, "items": [{"metricName": "queue", "value": "20"}, {"metricName": "queue", "value": "50"}]}),
    );
    autoscaler(&world, "e", json!({"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "7"}}})).await;
    pass(2).await;
    let told = condition(&world, "e", "ScalingActive").await;
    assert_eq!(
        told,
        "True ValidMetricFound: the HPA was able to successfully calculate a replica count from external metric queue(nil)"
    );
}

// TestConditionFailedGetScale, TestConditionFailedUpdateScale, TestHPARescaleWithSuccessfulConflictRetry.
#[tokio::test(start_paused = true)]
async fn a_target_that_cannot_be_scaled_is_told() {
    let (world, _) = running().await;
    usage(&world, "900m");
    autoscaler(&world, "h", cpu()).await;
    world.refuse("PUT", "/deployments/web/scale", 409, 2);
    pass(1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(replicas(&world).await, 6, "conflicts are no refusal");
    let patch = json!({"spec": {"replicas": 3}});
    world.patch(&Deployment::TYPE, "web", patch).await;
    world.refuse("PUT", "/deployments/web/scale", 403, 1);
    pass(1).await;
    let told = condition(&world, "h", "AbleToScale").await;
    assert_eq!(
        told,
        "False FailedUpdateScale: the HPA controller was unable to update the target scale: refused by the test: Forbidden"
    );
    world.delete(&Deployment::TYPE, "web").await;
    pass(1).await;
    let told = condition(&world, "h", "AbleToScale").await;
    assert_eq!(
        told,
        "False FailedGetScale: the HPA controller was unable to get the target's current scale: deployments.apps \"web\" not found"
    );
    let events = world.events().await;
    assert!(
        events.contains(&"Warning FailedGetScale deployments.apps \"web\" not found".to_owned()),
        "{events:#?}"
    );
}

// TestConditionAmbiguousSelector…, TestMultipleHPAs.
#[tokio::test(start_paused = true)]
async fn two_autoscalers_over_the_same_pods_do_nothing() {
    let (world, _) = running().await;
    usage(&world, "900m");
    autoscaler(&world, "h1", cpu()).await;
    autoscaler(&world, "h2", cpu()).await;
    pass(3).await;
    let told = condition(&world, "h2", "ScalingActive").await;
    assert_eq!(
        told,
        "False AmbiguousSelector: pods by selector app=web are controlled by multiple HPAs: [{h1 default} {h2 default}]"
    );
    world.delete(&HorizontalPodAutoscaler::TYPE, "h1").await;
    pass(2).await;
    let told = condition(&world, "h2", "ScalingActive").await;
    assert!(told.starts_with("True ValidMetricFound"), "{told}");
}

// TestReconciliationDurationIsRecorded, …OnError, TestReconciliationsTotalCountMultipleReconciliations.
#[tokio::test(start_paused = true)]
async fn syncs_and_metrics_are_measured() {
    let (world, context) = running().await;
    autoscaler(&world, "h", cpu()).await;
    pass(2).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    usage(&world, "900m");
    pass(1).await;
    let told = context.metrics.render();
    for line in [
        "horizontal_pod_autoscaler_controller_reconciliations_total{action=\"none\",error=\"internal\"} 2",
        "horizontal_pod_autoscaler_controller_reconciliations_total{action=\"scale_up\",error=\"none\"} 1",
        "horizontal_pod_autoscaler_controller_metric_computation_total{action=\"none\",error=\"internal\",metric_type=\"Resource\"} 2",
        "horizontal_pod_autoscaler_controller_metric_computation_total{action=\"scale_up\",error=\"none\",metric_type=\"Resource\"} 1",
        "horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers 1",
        "horizontal_pod_autoscaler_controller_desired_replicas{hpa_name=\"h\",namespace=\"default\"} 6",
    ] {
        assert!(told.contains(line), "{line} is not in\n{told}");
    }
}
