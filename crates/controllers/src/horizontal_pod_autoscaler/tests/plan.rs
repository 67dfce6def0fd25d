//! What becomes of an autoscaler, its target and what was measured.

use api::conditions;
use api::kinds::HorizontalPodAutoscaler;
use api::{Key, MicroTime, Resource, Time};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::super::plan::plan_without_scale;
use super::super::{
    Configuration, Memory, Moment, Need, Observed, Plan, Reading, SelectorFailure, need, plan,
};
use super::calculator::read;
use super::configuration;
use crate::scale::Scale;

fn now() -> MicroTime {
    Time::from_unix(1_000_000).micro()
}

pub(super) fn moment() -> Moment {
    Moment {
        now: now(),
        steady: now(),
    }
}

pub(super) fn cpu(percent: i32) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}})
}

fn external(value: &str) -> Value {
    json!({"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": value}}})
}

pub(super) fn hpa(least: Option<i32>, most: i32, metrics: Vec<Value>) -> HorizontalPodAutoscaler {
    let object = json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": least, "maxReplicas": most, "metrics": metrics},
    });
    HorizontalPodAutoscaler::decode(object.to_string().as_bytes()).unwrap()
}

pub(super) fn scale(replicas: i32) -> Scale {
    let mut scale = Scale::default();
    scale.spec.replicas = replicas;
    scale.status.replicas = replicas;
    scale
}

pub(super) fn pods(text: &str) -> Observed {
    let (pods, metrics) = read(text);
    Observed::Metrics {
        pods,
        readings: vec![Ok(Reading::Pods(metrics))],
    }
}

fn values(pods: &str, readings: Vec<Result<Reading, String>>) -> Observed {
    let (pods, _) = read(pods);
    Observed::Metrics { pods, readings }
}

fn value(value: i64) -> Result<Reading, String> {
    Ok(Reading::Values(vec![value]))
}

fn run(
    hpa: &HorizontalPodAutoscaler,
    current: i32,
    observed: Observed,
    configuration: &Configuration,
) -> Plan {
    let mut memory = Memory::default();
    let mut plan = plan(
        hpa,
        &scale(current),
        observed,
        &mut memory,
        configuration,
        moment(),
    );
    plan.scaled(hpa, configuration, now().time());
    plan
}

fn print(plan: &Plan) -> String {
    let mut lines = vec![match &plan.rescale {
        Some(rescale) => format!("to {}: {}", rescale.to, rescale.why),
        None => "stays".to_owned(),
    }];
    for condition in &plan.status.conditions {
        let (kind, status) = (&condition.type_, &condition.status);
        lines.push(format!(
            "{kind}={status} {}: {}",
            condition.reason, condition.message
        ));
    }
    lines.extend(plan.error.iter().map(|error| format!("error: {error}")));
    lines.join("\n")
}

fn check(plan: &Plan, expected: Expect) {
    expected.assert_eq(&print(plan));
}

// TestScaleUp, TestScaleDown, TestEventCreated.
#[test]
fn follows_what_the_metric_asks_for() {
    let hpa = hpa(Some(2), 6, vec![cpu(30)]);
    let plan = run(&hpa, 3, pods("300 500 700"), &configuration());
    check(
        &plan,
        expect![[r"
        to 5: cpu resource utilization (percentage of request) above target
        AbleToScale=True SucceededRescale: the HPA controller was able to update the target scale to 5
        ScalingActive=True ValidMetricFound: the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)
        ScalingLimited=False DesiredWithinRange: the desired count is within the acceptable range"]],
    );
    assert_eq!(
        serde_json::to_value(&plan.status).unwrap(),
        json!({
            "lastScaleTime": "1970-01-12T13:46:40Z", "currentReplicas": 3, "desiredReplicas": 5,
            "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageValue": "500m", "averageUtilization": 50}}}],
            "conditions": plan.status.conditions,
        })
    );
}

// TestMaxReplicas, TestMinReplicas, TestTooFewReplicas, TestTooManyReplicas, TestZeroReplicas.
#[test]
fn bounds_come_before_metrics() {
    let bounded = hpa(Some(2), 5, vec![cpu(50)]);
    check(
        &run(&bounded, 10, Observed::Nothing, &configuration()),
        expect![[r"
        to 5: Current number of replicas above Spec.MaxReplicas
        AbleToScale=True SucceededRescale: the HPA controller was able to update the target scale to 5"]],
    );
    check(
        &run(&bounded, 1, Observed::Nothing, &configuration()),
        expect![[r"
        to 2: Current number of replicas below Spec.MinReplicas
        AbleToScale=True SucceededRescale: the HPA controller was able to update the target scale to 2"]],
    );
    check(
        &run(&bounded, 0, Observed::Nothing, &configuration()),
        expect![[r"
        stays
        AbleToScale=True SucceededGetScale: the HPA controller was able to get the target's current scale
        ScalingActive=False ScalingDisabled: scaling is disabled since the replica count of the target is zero"]],
    );
    check(
        &run(&bounded, 3, pods("5000 5000 5000"), &configuration()),
        expect![[r"
        to 5: cpu resource utilization (percentage of request) above target
        AbleToScale=True SucceededRescale: the HPA controller was able to update the target scale to 5
        ScalingActive=True ValidMetricFound: the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)
        ScalingLimited=True TooManyReplicas: the desired replica count is more than the maximum replica count"]],
    );
    check(
        &run(&bounded, 2, pods("1 1"), &configuration()),
        expect![[r"
        stays
        AbleToScale=True ScaleDownStabilized: recent recommendations were higher than current one, applying the highest recent recommendation
        ScalingActive=True ValidMetricFound: the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)
        ScalingLimited=False DesiredWithinRange: the desired count is within the acceptable range"]],
    );
}

// TestConditionInvalidSelector…, TestConditionAmbiguousSelector….
#[test]
fn a_target_whose_pods_are_not_known_is_left_alone() {
    let hpa = hpa(Some(1), 5, vec![cpu(50)]);
    let failed =
        |failure: SelectorFailure| run(&hpa, 3, Observed::BadSelector(failure), &configuration());
    check(
        &failed(SelectorFailure::Missing),
        expect![[r"
        stays
        AbleToScale=True SucceededGetScale: the HPA controller was able to get the target's current scale
        ScalingActive=False InvalidSelector: the HPA target's scale is missing a selector
        error: selector is required"]],
    );
    check(
        &failed(SelectorFailure::Invalid("why".into())),
        expect![[r"
        stays
        AbleToScale=True SucceededGetScale: the HPA controller was able to get the target's current scale
        ScalingActive=False InvalidSelector: couldn't convert selector into a corresponding internal selector object: why
        error: couldn't convert selector into a corresponding internal selector object: why"]],
    );
    let by = vec![Key::new("shop", "a"), Key::new("shop", "b")];
    check(
        &failed(SelectorFailure::Ambiguous {
            selector: "app=web".into(),
            by,
        }),
        expect![[r"
        stays
        AbleToScale=True SucceededGetScale: the HPA controller was able to get the target's current scale
        ScalingActive=False AmbiguousSelector: pods by selector app=web are controlled by multiple HPAs: [{a shop} {b shop}]
        error: pods by selector app=web are controlled by multiple HPAs: [{a shop} {b shop}]"]],
    );
}

// TestConditionFailedGetMetrics, TestConditionInvalidSourceType, TestMissingMetrics, TestEmptyMetrics.
#[test]
fn a_metric_that_fails_is_told() {
    let failing = vec![Err("unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: no luck".to_owned())];
    let only = hpa(Some(1), 5, vec![cpu(50)]);
    check(
        &run(&only, 3, values("1 1 1", failing), &configuration()),
        expect![[r"
        stays
        AbleToScale=True SucceededGetScale: the HPA controller was able to get the target's current scale
        ScalingActive=False FailedGetResourceMetric: the HPA was unable to compute the replica count: failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: no luck
        error: invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: no luck"]],
    );
    let unknown = hpa(Some(1), 5, vec![json!({"type": "CheddarCheese"})]);
    check(
        &run(
            &unknown,
            3,
            values("1 1 1", vec![value(1)]),
            &configuration(),
        ),
        expect![[r#"
        stays
        AbleToScale=True SucceededGetScale: the HPA controller was able to get the target's current scale
        ScalingActive=False InvalidMetricSourceType: the HPA was unable to compute the replica count: unknown metric source type "CheddarCheese"
        error: invalid metrics (1 invalid out of 1), first error is: unknown metric source type "CheddarCheese""#]],
    );
    for kind in [
        "Pods",
        "Object",
        "External",
        "Resource",
        "ContainerResource",
    ] {
        let bare = hpa(
            Some(1),
            5,
            vec![json!({"type": kind, (kind[..1].to_lowercase() + &kind[1..]): {}})],
        );
        let plan = run(&bare, 3, values("1 1 1", vec![value(1)]), &configuration());
        assert!(
            plan.error.is_some() && plan.rescale.is_none(),
            "{kind}: a source without a target"
        );
    }
    let none = hpa(Some(1), 5, vec![]);
    assert!(
        run(&none, 3, values("1 1 1", vec![]), &configuration())
            .error
            .is_some()
    );
}

// TestScaleUpOneMetricInvalid, TestNoScaleDownOneMetricInvalid, TestScaleUpBothMetricsEmpty, …OneMetricEmpty.
#[test]
fn one_metric_that_fails_stops_shrinking_alone() {
    let both = hpa(Some(1), 9, vec![external("100"), cpu(50)]);
    let readings = |usage: i64| vec![value(usage), Err("no luck".to_owned())];
    let up = run(
        &both,
        3,
        values("1 1 1", readings(200_000)),
        &configuration(),
    );
    assert_eq!(up.rescale.as_ref().map(|rescale| rescale.to), Some(6));
    assert!(
        up.error
            .unwrap()
            .starts_with("invalid metrics (1 invalid out of 2), first error is: ")
    );
    assert_eq!(up.status.current_metrics.len(), 2);
    let down = run(
        &both,
        3,
        values("1 1 1", readings(10_000)),
        &configuration(),
    );
    check(
        &down,
        expect![[r"
        stays
        AbleToScale=True SucceededGetScale: the HPA controller was able to get the target's current scale
        ScalingActive=False FailedGetResourceMetric: the HPA was unable to compute the replica count: failed to get cpu utilization: no luck
        error: invalid metrics (1 invalid out of 2), first error is: failed to get cpu resource metric value: failed to get cpu utilization: no luck"]],
    );
}

// TestScaleUpCM…, TestScaleUpPerPodCM…: the names and statuses of each type.
#[test]
fn each_type_has_its_name_and_its_status() {
    let object = json!({"kind": "Service", "name": "s", "apiVersion": "v1"});
    for (metric, reading, name, status) in [
        (
            json!({"type": "Pods", "pods": {"metric": {"name": "qps"}, "target": {"type": "AverageValue", "averageValue": "10"}}}),
            Ok(Reading::Pods(read("20000 20000 20000").1)),
            "pods metric qps",
            json!({"type": "Pods", "pods": {"metric": {"name": "qps"}, "current": {"averageValue": "20"}}}),
        ),
        (
            json!({"type": "Object", "object": {"describedObject": object, "metric": {"name": "qps"}, "target": {"type": "Value", "value": "10"}}}),
            value(20_000),
            "Service metric qps",
            json!({"type": "Object", "object": {"describedObject": object, "metric": {"name": "qps"}, "current": {"value": "20"}}}),
        ),
        (
            json!({"type": "Object", "object": {"describedObject": object, "metric": {"name": "qps"}, "target": {"type": "AverageValue", "averageValue": "10"}}}),
            value(60_000),
            "external metric qps(nil)",
            json!({"type": "Object", "object": {"describedObject": object, "metric": {"name": "qps"}, "current": {"averageValue": "20"}}}),
        ),
        (
            json!({"type": "External", "external": {"metric": {"name": "qps", "selector": {"matchLabels": {"a": "b"}}}, "target": {"type": "Value", "value": "10"}}}),
            value(20_000),
            "external metric qps(&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},})",
            json!({"type": "External", "external": {"metric": {"name": "qps", "selector": {"matchLabels": {"a": "b"}}}, "current": {"value": "20"}}}),
        ),
        (
            json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "main", "target": {"type": "Utilization", "averageUtilization": 50}}}),
            Ok(Reading::Pods(read("1000 1000 1000").1)),
            "cpu container resource utilization (percentage of request)",
            json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "main", "current": {"averageValue": "1", "averageUtilization": 100}}}),
        ),
        (
            json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Mi"}}}),
            Ok(Reading::Pods(read("2097152000 2097152000 2097152000").1)),
            "memory resource",
            json!({"type": "Resource", "resource": {"name": "memory", "current": {"averageValue": "2Mi"}}}),
        ),
    ] {
        let plan = run(
            &hpa(Some(1), 9, vec![metric]),
            3,
            values("1 1 1", vec![reading]),
            &configuration(),
        );
        let rescale = plan.rescale.unwrap();
        assert_eq!(
            (rescale.to, rescale.why),
            (6, format!("{name} above target"))
        );
        assert_eq!(
            serde_json::to_value(&plan.status.current_metrics).unwrap(),
            json!([status])
        );
    }
}

// TestConfigurableTolerance.
#[test]
fn a_tolerance_of_its_own_counts_if_the_gate_is_on() {
    let mut hpa = hpa(Some(1), 9, vec![cpu(100)]);
    let behavior = json!({"scaleUp": {"tolerance": "10m"}, "scaleDown": {"tolerance": "500m"}});
    hpa.spec.behavior = serde_json::from_value(behavior).unwrap();
    let on = configuration();
    let off = Configuration {
        has_tolerances: false,
        ..on
    };
    let replicas = |usage: &str, configuration: &Configuration| {
        run(&hpa, 3, pods(usage), configuration)
            .rescale
            .map(|rescale| rescale.to)
    };
    assert_eq!(replicas("1050 1050 1050", &on), Some(4));
    assert_eq!(replicas("1050 1050 1050", &off), None);
}

// TestScaleDownToZero…, TestScaleUpFromZero…, TestManualScaleToZeroDisablesHPA, TestScaledToZeroCondition….
#[test]
fn zero_is_for_those_who_were_put_there_by_us() {
    let on = Configuration {
        scales_to_zero: true,
        downscale_window: std::time::Duration::ZERO,
        ..configuration()
    };
    let mut queue = hpa(Some(0), 9, vec![external("100")]);
    assert_eq!(need(&queue, 0, &on), Need::Disabled, "somebody else did");
    let mut memory = Memory::default();
    memory.begin(3, now());
    let mut down = plan(
        &queue,
        &scale(3),
        values("1 1 1", vec![value(0)]),
        &mut memory,
        &on,
        Moment {
            steady: now().plus(std::time::Duration::from_secs(1)),
            ..moment()
        },
    );
    down.scaled(&queue, &on, now().time());
    assert_eq!(down.rescale.as_ref().unwrap().to, 0);
    let zero = |plan: &Plan| {
        let held = plan
            .status
            .conditions
            .iter()
            .find(|held| held.type_ == "ScaledToZero");
        held.map(|held| held.reason.to_string())
    };
    assert_eq!(zero(&down).as_deref(), Some("ScaledToZero"));
    queue.status = down.status;
    assert_eq!(need(&queue, 0, &on), Need::Metrics);
    assert_eq!(
        need(&queue, 0, &configuration()),
        Need::Disabled,
        "the gate is off"
    );
    let up = run(&queue, 0, values("", vec![value(250_000)]), &on);
    assert_eq!(up.rescale.as_ref().unwrap().to, 3);
    assert_eq!(zero(&up).as_deref(), Some("NotScaledToZero"));
    let none = run(&queue, 0, values("", vec![value(0)]), &on);
    assert_eq!(none.rescale, None);
    // A minimum that was raised meanwhile holds, whatever the metric says.
    queue.spec.min_replicas = Some(2);
    let raised = run(&queue, 0, values("", vec![value(0)]), &on);
    assert_eq!(raised.rescale.unwrap().to, 2);
    let cpu_only = hpa(Some(0), 9, vec![cpu(50)]);
    assert_eq!(need(&cpu_only, 0, &on), Need::Disabled);
}

// TestScaleDownToZeroCMObject, TestScaleUpFromZeroOneMetricInvalid.
#[test]
fn a_metric_of_an_object_may_ask_for_none_and_at_none_nobody_else_is_asked() {
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "some"});
    let hits = json!({"type": "Object", "object": {"describedObject": object, "metric": {"name": "hits"}, "target": {"type": "Value", "value": "20"}}});
    let mut idle = hpa(Some(0), 6, vec![hits]);
    let behavior = json!({"scaleDown": {"stabilizationWindowSeconds": 0}});
    idle.spec.behavior = serde_json::from_value(behavior).unwrap();
    for (gate, condition) in [(true, Some("ScaledToZero")), (false, None)] {
        let configuration = Configuration {
            scales_to_zero: gate,
            ..configuration()
        };
        let plan = run(
            &idle,
            5,
            values("1 1 1 1 1", vec![value(0)]),
            &configuration,
        );
        assert_eq!(plan.rescale.unwrap().to, 0);
        let held = conditions::find(&plan.status.conditions, "ScaledToZero");
        assert_eq!(held.map(|held| &*held.reason), condition);
        let cheese = hpa(Some(0), 6, vec![json!({"type": "CheddarCheese"})]);
        check(
            &run(&cheese, 0, Observed::Nothing, &configuration),
            expect![[r"
                stays
                AbleToScale=True SucceededGetScale: the HPA controller was able to get the target's current scale
                ScalingActive=False ScalingDisabled: scaling is disabled since the replica count of the target is zero"]],
        );
    }
}

// TestMoreReplicasThanSpecNoScale: a Deployment that surges.
#[test]
fn pods_beyond_what_is_wanted_are_measured_too() {
    let hpa = hpa(Some(1), 8, vec![cpu(50)]);
    let mut surging = scale(4);
    surging.status.replicas = 5;
    let mut memory = Memory::default();
    let (observed, configuration) = (pods("500 500 500 500 500"), configuration());
    let plan = plan(
        &hpa,
        &surging,
        observed,
        &mut memory,
        &configuration,
        moment(),
    );
    assert_eq!((&plan.rescale, plan.status.desired_replicas), (&None, 4));
    let able = conditions::find(&plan.status.conditions, "AbleToScale");
    assert_eq!(&*able.unwrap().reason, "ReadyForNewScale");
}

// TestScaleUpHotCpuNoScaleWouldScaleDown: the start of a pod matters to its CPU alone.
#[test]
fn metrics_that_are_not_of_the_cpu_count_from_the_start() {
    let qps = json!({"type": "Pods", "pods": {"metric": {"name": "qps"}, "target": {"type": "AverageValue", "averageValue": "15"}}});
    let plan = run(
        &hpa(Some(2), 6, vec![qps]),
        3,
        pods("50000!^ 15000 30000!^"),
        &configuration(),
    );
    check(
        &plan,
        expect![[r"
            to 6: pods metric qps above target
            AbleToScale=True SucceededRescale: the HPA controller was able to update the target scale to 6
            ScalingActive=True ValidMetricFound: the HPA was able to successfully calculate a replica count from pods metric qps
            ScalingLimited=True TooManyReplicas: the desired replica count is more than the maximum replica count"]],
    );
}

// TestConditionFailedGetScale, TestConditionFailedUpdateScale.
#[test]
fn failures_around_the_metrics_are_reported_too() {
    let hpa = hpa(Some(1), 9, vec![cpu(50)]);
    let status = plan_without_scale(&hpa, "no luck", now().time());
    assert_eq!(
        &*status.conditions[0].message,
        "the HPA controller was unable to get the target's current scale: no luck"
    );
    let mut memory = Memory::default();
    let mut plan = plan(
        &hpa,
        &scale(3),
        pods("1000 1000 1000"),
        &mut memory,
        &configuration(),
        moment(),
    );
    plan.refused(&hpa, "no luck", now().time());
    let able = &plan.status.conditions[0];
    assert_eq!(
        (&*able.reason, &*able.message),
        (
            "FailedUpdateScale",
            "the HPA controller was unable to update the target scale: no luck"
        )
    );
    assert_eq!(
        (plan.status.desired_replicas, plan.status.last_scale_time),
        (0, None)
    );
}

#[test]
fn every_sentence_reads_well() {
    let mut hpa = hpa(Some(2), 6, vec![cpu(50)]);
    let lines = |plan: &Plan| {
        let lines = plan.reasons.iter().map(api::decision::Line::from);
        lines
            .map(|line| line.to_string())
            .collect::<Vec<_>>()
            .join("\n")
    };
    expect![[r"
        cpu resource utilization (percentage of request) asks for 2 replicas
        follows to 2 at 1970-01-12T13:51:40Z: recent proposals hold it at 4 until the stabilization window has passed
        keeps its target at 4 replicas"]]
    .assert_eq(&lines(&run(&hpa, 4, pods("200 200 200 200"), &configuration())));
    expect![[r"
        cpu resource utilization (percentage of request) asks for 32 replicas
        goes no further than 6: maxReplicas does not allow 32
        scales its target from 4 to 6"]]
    .assert_eq(&lines(&run(
        &hpa,
        4,
        pods("4000 4000 4000 4000"),
        &configuration(),
    )));
    expect!["scales its target from 9 to 6: it is outside minReplicas and maxReplicas"]
        .assert_eq(&lines(&run(&hpa, 9, Observed::Nothing, &configuration())));
    expect!["leaves its target alone: it is scaled to zero"].assert_eq(&lines(&run(
        &hpa,
        0,
        Observed::Nothing,
        &configuration(),
    )));
    hpa.spec.max_replicas = 100;
    expect![[r"
        cpu resource utilization (percentage of request) asks for 32 replicas
        goes no further than 8: it may not grow to 32 in one step
        scales its target from 4 to 8"]]
    .assert_eq(&lines(&run(
        &hpa,
        4,
        pods("4000 4000 4000 4000"),
        &configuration(),
    )));
    let behavior = |rules: Value| Some(serde_json::from_value(rules).unwrap());
    hpa.spec.behavior = behavior(json!({"scaleDown": {
        "stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}],
    }}));
    expect![[r"
        cpu resource utilization (percentage of request) asks for 2 replicas
        goes further than 3 at 1970-01-12T13:47:40Z: the policies of its behavior do not allow 2 yet
        scales its target from 4 to 3"]]
    .assert_eq(&lines(&run(
        &hpa,
        4,
        pods("200 200 200 200"),
        &configuration(),
    )));
    hpa.spec.behavior = behavior(json!({"scaleDown": {"selectPolicy": "Disabled"}}));
    expect![[r"
        cpu resource utilization (percentage of request) asks for 2 replicas
        does not follow to 2: scaling down is disabled
        keeps its target at 4 replicas"]]
    .assert_eq(&lines(&run(
        &hpa,
        4,
        pods("200 200 200 200"),
        &configuration(),
    )));
}
