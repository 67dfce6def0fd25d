//! Whether a workload is complete, by its own status. Pure.

use serde::Serialize;
use serde_json::Value;

/// Kinds whose progress is followed.
pub(crate) const KINDS: [&str; 7] = [
    "Deployment",
    "ReplicaSet",
    "ReplicationController",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "Pod",
];

/// Why a Job has given up.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failure {
    /// `BackoffLimitExceeded`
    pub reason: String,
    pub message: String,
    /// Seconds from the moment of applying.
    pub at: f64,
}

/// Nothing more comes of it, good or bad.
pub(crate) fn is_final(object: &Value) -> bool {
    is_complete(object) || failed(object).is_some()
}

/// The condition by which a Job says that it has failed.
pub(crate) fn failed(object: &Value) -> Option<&Value> {
    match object["kind"] == "Job" {
        true => held(object, "Failed"),
        false => None,
    }
}

/// A suspended Job has no pods, and gets none until somebody resumes it.
pub(crate) fn is_suspended(object: &Value) -> bool {
    object["kind"] == "Job"
        && object.pointer("/spec/suspend").and_then(Value::as_bool) == Some(true)
        && held(object, "Suspended").is_some()
        && held(object, "Complete").is_none()
        && failed(object).is_none()
}

/// The condition, if it is true.
fn held<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let is_held = |condition: &&Value| condition["type"] == type_ && condition["status"] == "True";
    conditions.iter().find(is_held)
}

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
        Some("Job") => {
            let waits = is_suspended(object) && number("/status/active") == 0;
            held(object, "Complete").is_some() || waits
        }
        Some("Pod") => {
            object
                .pointer("/status/phase")
                .is_some_and(|phase| phase == "Succeeded")
                || held(object, "Ready").is_some()
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
        // A Job without a number of completions is done when one of its pods is, and starts all at once.
        Some("Job") => ["/spec/completions", "/spec/parallelism"]
            .iter()
            .find_map(|pointer| object.pointer(pointer)?.as_i64())
            .unwrap_or(1),
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
        let object: Value = api::yaml::from_str(yaml).unwrap();
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
        check("{kind: Job, status: {active: 1}}", false);
        check(
            "{kind: Job, status: {conditions: [{type: Complete, status: 'True'}]}}",
            true,
        );
        check(
            "{kind: Job, status: {conditions: [{type: Failed, status: 'True'}]}}",
            false,
        );
        check("{kind: Job, spec: {suspend: true}, status: {}}", false);
        check(
            "{kind: Job, spec: {suspend: true}, status: {conditions: [{type: Suspended, status: 'True'}]}}",
            true,
        );
    }
}
