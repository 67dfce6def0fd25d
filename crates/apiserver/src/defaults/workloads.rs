//! Defaults of apps, batch and autoscaling.

use serde_json::{Value, json};

use super::{Object, is_missing, object_in, set_empty, set_missing, text};

/// The annotation in which apps/v1 keeps a DaemonSet's template generation.
pub(crate) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(super) fn of(name: &str) -> Option<fn(&mut Object)> {
    Some(match name {
        "api.apps.v1.Deployment" => deployment,
        "api.apps.v1.DaemonSet" => daemon_set,
        "api.apps.v1.StatefulSet" => stateful_set,
        "api.apps.v1.ReplicaSet" => |set| set_missing(object_in(set, "spec"), "replicas", 1),
        "api.batch.v1.Job" => job,
        "api.batch.v1.CronJob" => cron_job,
        "api.batch.v1.PodFailurePolicyOnPodConditionsPattern" => {
            |pattern| set_empty(pattern, "status", "True")
        }
        "api.autoscaling.v1.HorizontalPodAutoscaler" => {
            |scaler| set_missing(object_in(scaler, "spec"), "minReplicas", 1)
        }
        "api.autoscaling.v2.HorizontalPodAutoscaler" => autoscaler,
        _ => return None,
    })
}

fn deployment(deployment: &mut Object) {
    let spec = object_in(deployment, "spec");
    set_missing(spec, "replicas", 1);
    let strategy = object_in(spec, "strategy");
    set_empty(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = object_in(strategy, "rollingUpdate");
        set_missing(rolling, "maxUnavailable", "25%");
        set_missing(rolling, "maxSurge", "25%");
    }
    set_missing(spec, "revisionHistoryLimit", 10);
    set_missing(spec, "progressDeadlineSeconds", 600);
}

fn daemon_set(set: &mut Object) {
    // UPSTREAM: a field of an older version that lives on as an annotation, which is always there.
    let annotations = object_in(object_in(set, "metadata"), "annotations");
    set_missing(annotations, TEMPLATE_GENERATION, "0");
    let spec = object_in(set, "spec");
    let strategy = object_in(spec, "updateStrategy");
    set_empty(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = object_in(strategy, "rollingUpdate");
        set_missing(rolling, "maxUnavailable", 1);
        set_missing(rolling, "maxSurge", 0);
    }
    set_missing(spec, "revisionHistoryLimit", 10);
}

fn stateful_set(set: &mut Object) {
    let spec = object_in(set, "spec");
    set_empty(spec, "podManagementPolicy", "OrderedReady");
    let strategy = object_in(spec, "updateStrategy");
    if text(strategy, "type").is_empty() {
        strategy.insert("type".to_owned(), "RollingUpdate".into());
        object_in(strategy, "rollingUpdate");
    }
    // UPSTREAM: with an explicit type, a missing rollingUpdate stays missing.
    if text(strategy, "type") == "RollingUpdate" && !is_missing(strategy, "rollingUpdate") {
        let rolling = object_in(strategy, "rollingUpdate");
        set_missing(rolling, "partition", 0);
    }
    let retention = object_in(spec, "persistentVolumeClaimRetentionPolicy");
    set_empty(retention, "whenDeleted", "Retain");
    set_empty(retention, "whenScaled", "Retain");
    set_missing(spec, "replicas", 1);
    set_missing(spec, "revisionHistoryLimit", 10);
}

fn job(job: &mut Object) {
    let labels = job
        .get("spec")
        .map(|spec| spec["template"]["metadata"]["labels"].clone());
    let spec = object_in(job, "spec");
    if is_missing(spec, "completions") && is_missing(spec, "parallelism") {
        spec.insert("completions".to_owned(), 1.into());
    }
    set_missing(spec, "parallelism", 1);
    // With a limit per index, the limit for the whole job is out of the way.
    let backoff_limit = if is_missing(spec, "backoffLimitPerIndex") {
        6
    } else {
        i64::from(i32::MAX)
    };
    set_missing(spec, "backoffLimit", backoff_limit);
    set_missing(spec, "completionMode", "NonIndexed");
    set_missing(spec, "suspend", false);
    let replacement = if is_missing(spec, "podFailurePolicy") {
        "TerminatingOrFailed"
    } else {
        "Failed"
    };
    set_missing(spec, "podReplacementPolicy", replacement);
    set_missing(spec, "manualSelector", false);
    if let Some(labels) = labels.filter(Value::is_object) {
        set_empty(object_in(job, "metadata"), "labels", labels);
    }
}

fn cron_job(job: &mut Object) {
    let spec = object_in(job, "spec");
    set_empty(spec, "concurrencyPolicy", "Allow");
    set_missing(spec, "suspend", false);
    set_missing(spec, "successfulJobsHistoryLimit", 3);
    set_missing(spec, "failedJobsHistoryLimit", 1);
}

fn autoscaler(scaler: &mut Object) {
    let spec = object_in(scaler, "spec");
    set_missing(spec, "minReplicas", 1);
    set_empty(
        spec,
        "metrics",
        json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]),
    );
    if is_missing(spec, "behavior") {
        return;
    }
    let behavior = object_in(spec, "behavior");
    let double = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let up = object_in(behavior, "scaleUp");
    set_missing(up, "stabilizationWindowSeconds", 0);
    set_missing(up, "selectPolicy", "Max");
    set_missing(
        up,
        "policies",
        json!([{"type": "Pods", "value": 4, "periodSeconds": 15}, double]),
    );
    let down = object_in(behavior, "scaleDown");
    set_missing(down, "selectPolicy", "Max");
    set_missing(down, "policies", json!([double]));
}
