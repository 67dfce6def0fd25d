//! Whether a workload is complete, by its own status. Pure.

use api::kinds::Job;
use serde::Serialize;
use serde_json::Value;

use crate::facts::text;
use crate::kinds::Kind;

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
    held(object, "Failed").filter(|_| is_job(object))
}

/// A suspended Job has no pods, and gets none until somebody resumes it.
pub(crate) fn is_suspended(object: &Value) -> bool {
    is_job(object)
        && object.pointer("/spec/suspend").and_then(Value::as_bool) == Some(true)
        && held(object, "Suspended").is_some()
        && held(object, "Complete").is_none()
        && failed(object).is_none()
}

fn is_job(object: &Value) -> bool {
    Kind::of(object).is_some_and(Kind::is::<Job>)
}

/// The condition, if it is true.
fn held<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let is_held = |condition: &&Value| condition["type"] == type_ && condition["status"] == "True";
    conditions.iter().find(is_held)
}

/// As `kubectl rollout status` would say, with the old pods gone too. What is not followed is complete.
pub(crate) fn is_complete(object: &Value) -> bool {
    let completion = Kind::of(object).and_then(Kind::completion);
    completion.is_none_or(|completion| (completion.is_complete)(object))
}

/// How many pods it wants.
pub(crate) fn wanted(object: &Value) -> i64 {
    let completion = Kind::of(object).and_then(Kind::completion);
    completion.map_or(1, |completion| (completion.wanted)(object))
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

fn is_seen(object: &Value) -> bool {
    number(object, "/status/observedGeneration") >= number(object, "/metadata/generation")
}

fn is_on_delete(object: &Value) -> bool {
    text(object, "/spec/updateStrategy/type") == "OnDelete"
}

pub(crate) fn is_deployment_complete(object: &Value) -> bool {
    let wanted = replicas(object);
    let paused = object.pointer("/spec/paused").and_then(Value::as_bool) == Some(true);
    is_seen(object)
        && !paused
        && number(object, "/status/updatedReplicas") == wanted
        && number(object, "/status/replicas") == wanted
        && number(object, "/status/availableReplicas") == wanted
}

pub(crate) fn is_replica_set_complete(object: &Value) -> bool {
    let wanted = replicas(object);
    is_seen(object)
        && number(object, "/status/replicas") == wanted
        && number(object, "/status/availableReplicas") == wanted
}

pub(crate) fn is_stateful_set_complete(object: &Value) -> bool {
    let wanted = replicas(object);
    let partition = number(object, "/spec/updateStrategy/rollingUpdate/partition");
    let is_current =
        text(object, "/status/currentRevision") == text(object, "/status/updateRevision");
    is_replica_set_complete(object)
        && (is_current
            || is_on_delete(object)
            || number(object, "/status/updatedReplicas") >= (wanted - partition).max(0))
}

pub(crate) fn is_daemon_set_complete(object: &Value) -> bool {
    let wanted = nodes_wanted(object);
    is_seen(object)
        && number(object, "/status/numberAvailable") >= wanted
        && (is_on_delete(object) || updated_of_daemon_set(object) >= wanted)
}

pub(crate) fn updated_of_daemon_set(object: &Value) -> i64 {
    number(object, "/status/updatedNumberScheduled")
}

/// Without a rollout in progress all pods have the current template.
pub(crate) fn updated_of_stateful_set(object: &Value) -> Option<i64> {
    let is_rolling =
        text(object, "/status/currentRevision") != text(object, "/status/updateRevision");
    is_rolling.then(|| number(object, "/status/updatedReplicas"))
}

pub(crate) fn is_job_complete(object: &Value) -> bool {
    let waits = is_suspended(object) && number(object, "/status/active") == 0;
    held(object, "Complete").is_some() || waits
}

pub(crate) fn is_pod_complete(object: &Value) -> bool {
    text(object, "/status/phase") == "Succeeded" || held(object, "Ready").is_some()
}

pub(crate) fn replicas(object: &Value) -> i64 {
    let replicas = object.pointer("/spec/replicas");
    replicas.and_then(Value::as_i64).unwrap_or(1)
}

pub(crate) fn nodes_wanted(object: &Value) -> i64 {
    number(object, "/status/desiredNumberScheduled")
}

/// A Job without a number of completions is done when one of its pods is, and starts all at once.
pub(crate) fn completions(object: &Value) -> i64 {
    let fields = ["/spec/completions", "/spec/parallelism"];
    let mut given = fields
        .iter()
        .filter_map(|field| object.pointer(field)?.as_i64());
    given.next().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(yaml: &str, expected: bool) {
        let mut object: Value = api::yaml::from_str(yaml).unwrap();
        let known = Kind::all().find(|kind| object["kind"] == *kind.resource.kind);
        let version = known.map_or("v1".into(), |kind| kind.resource.api_version());
        object["apiVersion"] = Value::from(version);
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
