//! `autoscaling/v1` and `autoscaling/v2`: v1 knows the CPU target only and carries the rest in annotations.

use crate::fields::{at, set};
use serde_json::{Value, json};

const PREFIX: &str = "autoscaling.alpha.kubernetes.io/";

/// (annotation, path in v2) of what v1 has no field for.
const CARRIED: [(&str, &str); 4] = [
    ("metrics", "spec.metrics"),
    ("behavior", "spec.behavior"),
    ("conditions", "status.conditions"),
    ("current-metrics", "status.currentMetrics"),
];

pub(super) fn to_v1(value: &mut Value) {
    for (annotation, path) in CARRIED {
        let found = at(value, path).clone();
        let carried = match (annotation, found) {
            (_, Value::Null) => continue,
            ("metrics", Value::Array(metrics)) => {
                let (cpu, rest): (Vec<Value>, Vec<Value>) =
                    metrics.into_iter().partition(is_cpu_utilization);
                if let Some(target) = cpu
                    .first()
                    .map(|metric| metric["resource"]["target"]["averageUtilization"].clone())
                {
                    set(value, "spec.targetCPUUtilizationPercentage", target);
                }
                Value::Array(rest)
            }
            ("current-metrics", Value::Array(metrics)) => {
                let cpu = metrics
                    .iter()
                    .find(|metric| metric["resource"]["name"] == "cpu");
                let current = cpu.map_or(Value::Null, |metric| {
                    metric["resource"]["current"]["averageUtilization"].clone()
                });
                if current.is_i64() {
                    set(value, "status.currentCPUUtilizationPercentage", current);
                }
                Value::Array(metrics)
            }
            (_, found) => found,
        };
        crate::fields::remove(value, path);
        if carried.as_array().is_none_or(|list| !list.is_empty()) {
            annotate(value, annotation, &carried.to_string());
        }
    }
}

pub(super) fn to_v2(value: &mut Value) {
    for (annotation, path) in CARRIED {
        let text = value["metadata"]["annotations"][format!("{PREFIX}{annotation}")].as_str();
        if let Some(carried) = text.and_then(|text| serde_json::from_str::<Value>(text).ok()) {
            set(value, path, carried);
        }
        forget(value, annotation);
    }
    if let Some(target) = crate::fields::remove(value, "spec.targetCPUUtilizationPercentage") {
        let target = json!({"type": "Utilization", "averageUtilization": target});
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        let mut metrics = at(value, "spec.metrics")
            .as_array()
            .cloned()
            .unwrap_or_default();
        metrics.insert(0, metric);
        set(value, "spec.metrics", Value::Array(metrics));
    }
    crate::fields::remove(value, "status.currentCPUUtilizationPercentage");
}

fn is_cpu_utilization(metric: &Value) -> bool {
    metric["type"] == "Resource"
        && metric["resource"]["name"] == "cpu"
        && metric["resource"]["target"]["averageUtilization"].is_i64()
}

fn annotate(value: &mut Value, annotation: &str, text: &str) {
    let metadata = crate::rest::metadata_mut(value);
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if let Some(map) = annotations.as_object_mut() {
        map.insert(format!("{PREFIX}{annotation}"), json!(text));
    }
}

fn forget(value: &mut Value, annotation: &str) {
    let metadata = crate::rest::metadata_mut(value);
    let Some(map) = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    map.remove(&format!("{PREFIX}{annotation}"));
    if map.is_empty() {
        metadata.remove("annotations");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_round_trip() {
        let metric = json!({"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "5"}}});
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}});
        let v2 = json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 3, "metrics": [cpu, metric], "behavior": {"scaleDown": {"stabilizationWindowSeconds": 1}}}, "status": {"conditions": [{"type": "X"}]}});
        let mut v1 = v2.clone();
        to_v1(&mut v1);
        assert_eq!(
            v1["spec"],
            json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 70})
        );
        let mut back = v1;
        to_v2(&mut back);
        assert_eq!(back, v2);
    }
}
