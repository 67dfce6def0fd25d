//! Whether a workload has got where it is going, by its own status. Pure.

use serde_json::Value;

/// Kinds whose progress is followed.
pub(crate) const KINDS: [&str; 6] = [
    "Deployment",
    "ReplicaSet",
    "ReplicationController",
    "StatefulSet",
    "DaemonSet",
    "Pod",
];

/// As `kubectl rollout status` would say, with the old pods gone too.
pub(crate) fn is_complete(object: &Value) -> bool {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let seen = number("/status/observedGeneration") >= number("/metadata/generation");
    let wanted = wanted(object);
    match object["kind"].as_str() {
        Some("Deployment") => {
            let paused = object.pointer("/spec/paused").and_then(Value::as_bool) == Some(true);
            seen && !paused
                && number("/status/updatedReplicas") == wanted
                && number("/status/replicas") == wanted
                && number("/status/availableReplicas") == wanted
        }
        Some("ReplicaSet" | "ReplicationController") => {
            seen && number("/status/replicas") == wanted
                && number("/status/availableReplicas") == wanted
        }
        Some("StatefulSet") => {
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
            let partition = number("/spec/updateStrategy/rollingUpdate/partition");
            let on_delete = text("/spec/updateStrategy/type") == Some("OnDelete");
            let current = text("/status/currentRevision") == text("/status/updateRevision");
            seen && number("/status/replicas") == wanted
                && number("/status/availableReplicas") == wanted
                && (current
                    || on_delete
                    || number("/status/updatedReplicas") >= (wanted - partition).max(0))
        }
        Some("DaemonSet") => {
            let on_delete = object
                .pointer("/spec/updateStrategy/type")
                .is_some_and(|kind| kind == "OnDelete");
            seen && number("/status/numberAvailable") >= wanted
                && (on_delete || number("/status/updatedNumberScheduled") >= wanted)
        }
        Some("Pod") => {
            let ready =
                |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
            let conditions = object
                .pointer("/status/conditions")
                .and_then(Value::as_array);
            object
                .pointer("/status/phase")
                .is_some_and(|phase| phase == "Succeeded")
                || conditions.is_some_and(|list| list.iter().any(ready))
        }
        _ => true,
    }
}

/// How many pods it wants.
pub(crate) fn wanted(object: &Value) -> i64 {
    match object["kind"].as_str() {
        Some("DaemonSet") => object
            .pointer("/status/desiredNumberScheduled")
            .and_then(Value::as_i64)
            .unwrap_or(0),
        _ => object
            .pointer("/spec/replicas")
            .and_then(Value::as_i64)
            .unwrap_or(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(yaml: &str, expected: bool) {
        let object: Value = serde_yaml_ng::from_str(yaml).unwrap();
        assert_eq!(is_complete(&object), expected, "{yaml}");
    }

    #[test]
    fn completeness_by_kind() {
        check(
            "{kind: Deployment, spec: {replicas: 2}, status: {replicas: 2, updatedReplicas: 2, availableReplicas: 2}}",
            true,
        );
        check(
            "{kind: Deployment, metadata: {generation: 2}, spec: {replicas: 0}, status: {observedGeneration: 1}}",
            false,
        );
        check(
            "{kind: Deployment, spec: {replicas: 2}, status: {replicas: 3, updatedReplicas: 2, availableReplicas: 3}}",
            false,
        );
        check(
            "{kind: Deployment, spec: {replicas: 0, paused: true}, status: {}}",
            false,
        );
        check(
            "{kind: StatefulSet, spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 2}}}, status: {replicas: 3, availableReplicas: 3, updatedReplicas: 1, currentRevision: a, updateRevision: b}}",
            true,
        );
        check(
            "{kind: StatefulSet, spec: {replicas: 3}, status: {replicas: 3, availableReplicas: 3, updatedReplicas: 2, currentRevision: a, updateRevision: b}}",
            false,
        );
        check(
            "{kind: DaemonSet, status: {desiredNumberScheduled: 3, numberAvailable: 3, updatedNumberScheduled: 2}}",
            false,
        );
        check("{kind: Pod, status: {phase: Succeeded}}", true);
        check(
            "{kind: Pod, status: {phase: Running, conditions: [{type: Ready, status: 'False'}]}}",
            false,
        );
        check("{kind: ConfigMap}", true);
    }
}
