//! Priority.

use super::*;

#[test]
fn priority_comes_from_the_class() {
    let case = cluster([
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9, "preemptionPolicy": "Never"}),
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "usual"}, "value": 3, "globalDefault": true}),
    ]);
    let (admitted, _) = case.create(pod(json!({}))).unwrap();
    assert_eq!(
        (
            text(&admitted, "spec.priorityClassName"),
            at(&admitted, "spec.priority")
        ),
        ("usual", &json!(3))
    );
    let (admitted, _) = case
        .create(pod(json!({"priorityClassName": "high"})))
        .unwrap();
    assert_eq!(
        (
            at(&admitted, "spec.priority"),
            text(&admitted, "spec.preemptionPolicy")
        ),
        (&json!(9), "Never")
    );
    case.refuses(
        pod(json!({"priorityClassName": "high", "priority": 1})),
        "pods \"p\" is forbidden: the integer value of priority (1) must not be provided in pod spec; priority admission controller computed 9 from the given PriorityClass name",
    );
    case.refuses(
        pod(json!({"priorityClassName": "none"})),
        "pods \"p\" is forbidden: no PriorityClass with name none was found",
    );
    case.refuses(
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "second"}, "value": 1, "globalDefault": true}),
        "priorityclasses.scheduling.k8s.io \"second\" is forbidden: PriorityClass usual is already marked as default. Only one default can exist",
    );
}

/// As `kubectl replace` sends what was created without one.
#[test]
fn an_update_need_not_repeat_the_priority() {
    let case = cluster([]);
    let (created, _) = case.create(pod(json!({}))).unwrap();
    let again = pod(json!({}));
    let (admitted, _) = case.run(&again, Some(&created), None).unwrap();
    assert_eq!(
        (
            at(&admitted, "spec.priority"),
            text(&admitted, "spec.preemptionPolicy")
        ),
        (&json!(0), "PreemptLowerPriority")
    );
}
