//! HorizontalPodAutoscalers at `autoscaling/v1`, which knows one metric in a field and keeps everything
//! else that `v2` can say in annotations. Stored is `v2`. Mirrors `pkg/apis/autoscaling/v1/conversion.go`.

use serde_json::{Map, Value, json};

use crate::fields::{at, entry, integer, list, object_mut, remove, set, text};
use crate::rest::strict::is_shallow;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// UPSTREAM: how much of the processors is to be used where nobody says it.
const DEFAULT_PERCENT: i64 = 80;

/// Twice as deep as the deepest metric.
const MAX_ANNOTATION_DEPTH: usize = 16;

/// Reads a `v1` object: annotations become fields. What does not parse stays an annotation.
pub(super) fn to_v2(object: &mut Value) {
    let mut metrics = Vec::new();
    if let Some(Value::Array(others)) = take(object, METRICS) {
        let others = others.iter();
        metrics.extend(others.filter_map(|metric| metric_to_v2(metric, "target")));
    }
    let percent = remove(object, "spec.targetCPUUtilizationPercentage");
    let percent = percent.as_ref().and_then(Value::as_i64);
    // UPSTREAM: the processor comes last, wherever it was, and by itself if there is nothing else.
    if let Some(percent) = percent.or(metrics.is_empty().then_some(DEFAULT_PERCENT)) {
        let target = json!({"type": "Utilization", "averageUtilization": percent});
        let resource = json!({"name": "cpu", "target": target});
        metrics.push(json!({"type": "Resource", "resource": resource}));
    }
    set(object, "spec.metrics", metrics);
    if let Some(behavior) = take(object, BEHAVIOR) {
        set(object, "spec.behavior", recased(&behavior, false));
    }
    remove(object, "status.currentCPUUtilizationPercentage");
    // The newer version leaves one out where the older always prints it, and the other way round.
    if integer(object, "status.currentReplicas") == Some(0) {
        remove(object, "status.currentReplicas");
    }
    if at(object, "status").is_object() {
        set(object, "status.currentMetrics", Value::Null);
    }
    if let Some(Value::Array(current)) = take(object, CURRENT_METRICS) {
        let current: Vec<_> = current
            .iter()
            .filter_map(|metric| metric_to_v2(metric, "current"))
            .collect();
        set(object, "status.currentMetrics", current);
    }
    if let Some(conditions @ Value::Array(_)) = take(object, CONDITIONS) {
        set(object, "status.conditions", conditions);
    }
}

/// Shows a stored object at `v1`.
pub(super) fn to_v1(object: &mut Value) {
    let is_cpu = |metric: &Value| {
        text(metric, "type") == "Resource" && text(metric, "resource.name") == "cpu"
    };
    let (mut percent, mut others) = (None, Vec::new());
    for metric in list(object, "spec.metrics") {
        let utilization =
            integer(metric, "resource.target.averageUtilization").filter(|_| is_cpu(metric));
        match utilization.filter(|_| percent.is_none()) {
            Some(utilization) => percent = Some(utilization),
            None => others.extend(metric_to_v1(metric, "target")),
        }
    }
    let current = list(object, "status.currentMetrics");
    let used = current
        .iter()
        .filter(|metric| is_cpu(metric))
        .find_map(|metric| integer(metric, "resource.current.averageUtilization"));
    let current: Vec<_> = current
        .iter()
        .filter_map(|metric| metric_to_v1(metric, "current"))
        .collect();
    let conditions = list(object, "status.conditions").to_vec();
    let behavior = remove(object, "spec.behavior").filter(Value::is_object);
    for path in ["spec.metrics", "status.currentMetrics", "status.conditions"] {
        remove(object, path);
    }
    if let Some(percent) = percent {
        set(object, "spec.targetCPUUtilizationPercentage", percent);
    }
    // The older version always prints it.
    if at(object, "status.currentReplicas").is_null() {
        set(object, "status.currentReplicas", 0);
    }
    if let Some(used) = used {
        set(object, "status.currentCPUUtilizationPercentage", used);
    }
    for (key, items) in [
        (METRICS, others),
        (CURRENT_METRICS, current),
        (CONDITIONS, conditions),
    ] {
        if !items.is_empty() {
            put(object, key, &Value::Array(items));
        }
    }
    if let Some(behavior) = behavior {
        put(object, BEHAVIOR, &recased(&behavior, true));
    }
}

fn put(object: &mut Value, key: &str, value: &Value) {
    object_mut(object, "metadata.annotations").insert(key.to_owned(), value.to_string().into());
}

fn take(object: &mut Value, key: &str) -> Option<Value> {
    let value = serde_json::from_str(entry(object, "metadata.annotations", key)?).ok()?;
    // The text of an annotation may be as deep as a whole object, and lies deeper when it is a field.
    if !is_shallow(&value, MAX_ANNOTATION_DEPTH) {
        return None;
    }
    let annotations = object_mut(object, "metadata.annotations");
    annotations.remove(key);
    if annotations.is_empty() {
        remove(object, "metadata.annotations");
    }
    Some(value)
}

/// The field of a metric that holds its source.
fn source_of(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        "Pods" => "pods",
        "Object" => "object",
        "External" => "external",
        _ => return None,
    })
}

/// `role` is `target` for what is wanted and `current` for what was seen.
fn metric_to_v1(metric: &Value, role: &str) -> Option<Value> {
    let name = source_of(text(metric, "type"))?;
    let source = at(metric, name);
    let amounts = at(source, role);
    let mut flat = Map::new();
    let mut put = |key: &str, value: &Value| {
        if !value.is_null() {
            flat.insert(key.to_owned(), value.clone());
        }
    };
    put("name", at(source, "name"));
    put("container", at(source, "container"));
    put("metricName", at(source, "metric.name"));
    put(
        if name == "external" {
            "metricSelector"
        } else {
            "selector"
        },
        at(source, "metric.selector"),
    );
    put("target", at(source, "describedObject"));
    put(
        &format!("{role}AverageUtilization"),
        at(amounts, "averageUtilization"),
    );
    // UPSTREAM: an object's average has no prefix.
    let average = if name == "object" {
        "averageValue".to_owned()
    } else {
        format!("{role}AverageValue")
    };
    put(&average, at(amounts, "averageValue"));
    put(&format!("{role}Value"), at(amounts, "value"));
    Some(json!({"type": text(metric, "type"), name: flat}))
}

fn metric_to_v2(metric: &Value, role: &str) -> Option<Value> {
    let name = source_of(text(metric, "type"))?;
    let flat = at(metric, name);
    let (mut source, mut amounts) = (json!({}), json!({}));
    let put = |into: &mut Value, path: &str, value: &Value| {
        if !value.is_null() {
            set(into, path, value.clone());
        }
    };
    put(&mut source, "name", at(flat, "name"));
    put(&mut source, "container", at(flat, "container"));
    put(&mut source, "metric.name", at(flat, "metricName"));
    put(
        &mut source,
        "metric.selector",
        at(
            flat,
            if name == "external" {
                "metricSelector"
            } else {
                "selector"
            },
        ),
    );
    put(&mut source, "describedObject", at(flat, "target"));
    let utilization = at(flat, &format!("{role}AverageUtilization"));
    let average = match at(flat, &format!("{role}AverageValue")) {
        Value::Null => at(flat, "averageValue"),
        found => found,
    };
    let value = at(flat, &format!("{role}Value"));
    if role == "target" {
        let kind = match (utilization.is_null(), average.is_null()) {
            (false, _) => "Utilization",
            (true, false) => "AverageValue",
            (true, true) => "Value",
        };
        put(&mut amounts, "type", &json!(kind));
    }
    put(&mut amounts, "averageUtilization", utilization);
    put(&mut amounts, "averageValue", average);
    // An object's value is not a pointer in Go: zero stands for none beside an average.
    if average.is_null() || value != &json!("0") {
        put(&mut amounts, "value", value);
    }
    put(&mut source, role, &amounts);
    Some(json!({"type": text(metric, "type"), name: source}))
}

/// UPSTREAM: the behavior is kept as Go prints its internal type, with capital letters and nulls.
fn recased(value: &Value, upper: bool) -> Value {
    match value {
        Value::Object(fields) => {
            let recase = |name: &String| {
                let mut letters = name.chars();
                let first = letters.next().map(|letter| {
                    if upper {
                        letter.to_ascii_uppercase()
                    } else {
                        letter.to_ascii_lowercase()
                    }
                });
                first.into_iter().chain(letters).collect::<String>()
            };
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                kept.map(|(name, value)| (recase(name), recased(value, upper)))
                    .collect(),
            )
        }
        Value::Array(items) => items.iter().map(|item| recased(item, upper)).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same object as kube-apiserver 1.36 shows it at both versions.
    fn shown() -> (Value, Value) {
        let both: Value =
            serde_json::from_str(include_str!("../../testdata/autoscaler.json")).unwrap();
        (both["v1"].clone(), both["v2"].clone())
    }

    /// Annotations as values: Go and we order keys differently.
    fn parsed(mut object: Value) -> Value {
        for (_, value) in object_mut(&mut object, "metadata.annotations").iter_mut() {
            let inner: Value = serde_json::from_str(value.as_str().unwrap()).unwrap();
            *value = recased(&inner, true);
        }
        object
    }

    #[test]
    fn a_stored_object_looks_as_upstream_shows_it_at_v1() {
        let (v1, mut object) = shown();
        to_v1(&mut object);
        object["apiVersion"] = json!("autoscaling/v1");
        assert_eq!(parsed(object), parsed(v1));
    }

    #[test]
    fn nothing_is_lost_on_the_way_through_v1() {
        let (_, mut v2) = shown();
        let mut object = v2.clone();
        to_v1(&mut object);
        to_v2(&mut object);
        let metrics = v2["spec"]["metrics"].as_array_mut().unwrap();
        metrics.rotate_left(1);
        assert_eq!(object, v2);
    }

    #[test]
    fn rubbish_in_annotations_stays_there() {
        let mut object = json!({"metadata": {"annotations": {METRICS: "{", CONDITIONS: "3"}}, "spec": {"targetCPUUtilizationPercentage": 50}});
        to_v2(&mut object);
        assert_eq!(list(&object, "spec.metrics").len(), 1);
        assert_eq!(entry(&object, "metadata.annotations", METRICS), Some("{"));
    }
}
