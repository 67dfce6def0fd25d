//! What is said of autoscalers.

use super::facts;
use expect_test::{Expect, expect};

fn check(spec: &str, status: &str, expected: Expect) {
    let yaml = format!(
        "
kind: HorizontalPodAutoscaler
metadata: {{name: web, namespace: shop}}
spec: {{scaleTargetRef: {{kind: Deployment, name: web}}, minReplicas: 2, maxReplicas: 9, metrics: [{spec}]}}
status: {{{status}}}"
    );
    let told = crate::explain(&facts(&yaml));
    let mut lines = vec![format!("{:?}: {}", told.state, told.verdict)];
    lines.extend(told.wants.iter().map(|line| format!("wants {line}")));
    lines.extend(told.sees.iter().map(|line| format!("sees {line}")));
    lines.extend(
        told.help
            .map(|help| format!("{}: {}", help.command, help.why)),
    );
    expected.assert_eq(&lines.join("\n"));
}

const CPU: &str =
    "{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}";

#[test]
fn says_what_was_read_and_what_holds_it() {
    check(
        CPU,
        "currentReplicas: 4, desiredReplicas: 4, currentMetrics: [{type: Resource, resource: {name: cpu, current: {averageUtilization: 20, averageValue: 200m}}}], conditions: [{type: AbleToScale, status: 'True', reason: ScaleDownStabilized}, {type: ScalingActive, status: 'True', reason: ValidMetricFound}]",
        expect![[r#"
            Settled: keeps deployment/web at 4 replicas; the stabilization window holds it there
            wants 2 to 9 replicas of deployment/web
            wants cpu at 50% of what is requested
            sees cpu is at 20% of what is requested
            sees 4 replicas now"#]],
    );
    check(
        CPU,
        "currentReplicas: 9, desiredReplicas: 9, currentMetrics: [{type: Resource, resource: {name: cpu, current: {averageUtilization: 90}}}], conditions: [{type: AbleToScale, status: 'True', reason: ReadyForNewScale}, {type: ScalingActive, status: 'True', reason: ValidMetricFound}, {type: ScalingLimited, status: 'True', reason: TooManyReplicas}]",
        expect![[r#"
            Settled: keeps deployment/web at 9 replicas; more are asked for, and maxReplicas does not allow them
            wants 2 to 9 replicas of deployment/web
            wants cpu at 50% of what is requested
            sees cpu is at 90% of what is requested
            sees 9 replicas now"#]],
    );
    check(
        "{type: External, external: {metric: {name: queue}, target: {type: AverageValue, averageValue: '30'}}}, {type: Object, object: {metric: {name: qps}, describedObject: {kind: Service, name: s}, target: {type: Value, value: 10k}}}",
        "currentReplicas: 3, desiredReplicas: 6, currentMetrics: [{type: External, external: {metric: {name: queue}, current: {averageValue: '60'}}}, {type: ''}], conditions: [{type: ScalingActive, status: 'True', reason: ValidMetricFound}]",
        expect![[r#"
            Progressing: scales deployment/web from 3 to 6 replicas
            wants 2 to 9 replicas of deployment/web
            wants queue at 30 for each pod
            wants qps of service/s at 10k
            sees queue is at 60 for each pod
            sees qps of service/s could not be read
            sees 3 replicas now"#]],
    );
}

#[test]
fn says_that_a_direction_is_turned_off() {
    let hpa = |conditions: &str| {
        let yaml = format!(
            "
kind: HorizontalPodAutoscaler
metadata: {{name: web, namespace: shop}}
spec: {{scaleTargetRef: {{kind: Deployment, name: web}}, maxReplicas: 9, behavior: {{scaleDown: {{selectPolicy: Disabled}}}}}}
status: {{currentReplicas: 4, desiredReplicas: 4, conditions: [{{type: ScalingActive, status: 'True', reason: ValidMetricFound}}, {conditions}]}}"
        );
        crate::explain(&facts(&yaml)).verdict
    };
    let turned_off =
        "keeps deployment/web at 4 replicas; fewer would do, and scaling down is disabled";
    for conditions in [
        "{type: AbleToScale, status: 'True', reason: ScaleDownStabilized}",
        "{type: AbleToScale, status: 'True', reason: ReadyForNewScale}, {type: ScalingLimited, status: 'True', reason: ScaleDownLimit}",
    ] {
        assert_eq!(hpa(conditions), turned_off);
    }
    assert_eq!(
        hpa("{type: AbleToScale, status: 'True', reason: ScaleUpStabilized}"),
        "keeps deployment/web at 4 replicas; the stabilization window holds it there"
    );
}

#[test]
fn says_why_nothing_is_scaled() {
    check(
        CPU,
        "currentReplicas: 4, desiredReplicas: 0, currentMetrics: [{type: ''}], conditions: [{type: AbleToScale, status: 'True'}, {type: ScalingActive, status: 'False', reason: FailedGetResourceMetric, message: 'the HPA was unable to compute the replica count: no metrics returned from resource metrics API'}]",
        expect![[r#"
            Stuck: does not scale deployment/web: the HPA was unable to compute the replica count: no metrics returned from resource metrics API
            wants 2 to 9 replicas of deployment/web
            wants cpu at 50% of what is requested
            sees cpu could not be read
            sees 4 replicas now
            kubectl top pods -n shop: shows whether a metrics server answers"#]],
    );
    check(
        CPU,
        "currentReplicas: 0, desiredReplicas: 0, conditions: [{type: ScalingActive, status: 'False', reason: ScalingDisabled, message: scaling is disabled since the replica count of the target is zero}]",
        expect![[r#"
            Settled: does not scale deployment/web: scaling is disabled since the replica count of the target is zero
            wants 2 to 9 replicas of deployment/web
            wants cpu at 50% of what is requested
            sees 0 replicas now
            kubectl scale deployment/web --replicas=2 -n shop: turns autoscaling on again"#]],
    );
    check(
        CPU,
        "desiredReplicas: 0",
        expect![[r#"
        Progressing: has not been looked at yet: that happens every 15 seconds
        wants 2 to 9 replicas of deployment/web
        wants cpu at 50% of what is requested"#]],
    );
}

#[test]
fn a_target_without_requests_is_told_to_make_them() {
    super::check(
        "
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop, uid: h}
spec: {scaleTargetRef: {kind: Deployment, name: web}, maxReplicas: 9, metrics: [{type: Resource, resource: {name: cpu, target: {averageUtilization: 50}}}]}
status: {currentReplicas: 4, conditions: [{type: ScalingActive, status: 'False', reason: FailedGetResourceMetric, message: missing request for cpu in container nginx (of pod web-1)}]}
---
kind: Deployment
metadata: {name: web, namespace: shop}
spec: {template: {spec: {containers: [{name: side, resources: {requests: {cpu: 1}}}, {name: nginx}]}}}
---
controller: horizontal-pod-autoscaler-controller
object: {group: autoscaling, kind: HorizontalPodAutoscaler, namespace: shop, name: web, uid: h}
lines: [{class: waits, reason: Unread, what: changes nothing, why: missing request for cpu in container nginx (of pod web-1)}]",
        expect![[r#"
            horizontalpodautoscaler/web in shop: does not scale deployment/web: missing request for cpu in container nginx

            wants       1 to 9 replicas of deployment/web
                        cpu at 50% of what is requested

            sees        4 replicas now

            in the way  horizontalpodautoscaler/web: missing request for cpu in container nginx (of pod web-1)

            would help  kubectl set resources deployment/web -c nginx --requests=cpu=100m -n shop
                        lets it request cpu: the target is a percentage of that

            Source: the controllers themselves, at https://here.
        "#]],
    );
}
