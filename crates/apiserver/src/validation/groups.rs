//! Autoscalers, disruption budgets, leases, priority and runtime classes.

use api::syntax;
use serde_json::Value;

use super::place::{Errors, Place};
use super::selectors;
use super::workloads::{not_above_all, number_or_percent};
use crate::resources::quantity;

/// An hour: how far back an autoscaler looks.
const STABILIZATION_SECONDS_MAX: i64 = 3600;
/// Half an hour: the longest window of a scaling policy.
const PERIOD_SECONDS_MAX: i64 = 1800;

pub(super) fn autoscaler(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    let (min, max) = (spec.field("minReplicas"), spec.field("maxReplicas"));
    if min.integer().is_some_and(|number| number < 1) {
        errors.invalid(&min, "must be greater than or equal to 1");
    }
    let most = max.integer().unwrap_or_default();
    if most < 1 {
        errors.required(&max, "must be set and greater than 0");
    }
    if min.integer().is_some_and(|least| most < least) {
        errors.invalid(&max, "must be greater than or equal to `minReplicas`");
    }
    reference(errors, &spec.field("scaleTargetRef"), true);
    let metrics = spec.field("metrics");
    let mut scales_to_zero = false;
    for metric in metrics.items() {
        metric_spec(errors, &metric);
        scales_to_zero |= matches!(metric.field("type").text(), "Object" | "External");
    }
    if min.integer() == Some(0) && !scales_to_zero {
        errors.forbidden(&metrics, "must specify at least one Object or External metric to support scaling to zero replicas");
    }
    let behavior = spec.field("behavior");
    for name in ["scaleUp", "scaleDown"] {
        let rules = behavior.field(name);
        if rules.is_set() {
            scaling_rules(errors, &rules);
        }
    }
}

fn reference(errors: &mut Errors, place: &Place<'_>, needs_group: bool) {
    for name in ["kind", "name"] {
        let field = place.field(name);
        if field.text().is_empty() {
            errors.required(&field, "")
        } else {
            errors.syntax(&field, syntax::validate_path_segment)
        }
    }
    let version = place.field("apiVersion");
    if needs_group
        && version.text().is_empty()
        && place.field("kind").text() != "ReplicationController"
    {
        let empty = Value::from("");
        errors.invalid(
            &version.showing(&empty),
            "apiVersion must specify API group",
        );
    }
}

fn metric_spec(errors: &mut Errors, metric: &Place<'_>) {
    let kind = metric.field("type");
    let name = match kind.text() {
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        "External" => "external",
        "" => return errors.required(&kind, "must specify a metric source type"),
        _ => {
            return errors.not_supported(
                &kind,
                &[
                    "ContainerResource",
                    "External",
                    "Object",
                    "Pods",
                    "Resource",
                ],
            );
        }
    };
    let source = metric.field(name);
    if !source.is_set() {
        return errors.required(
            &source,
            "must populate information for the given metric source",
        );
    }
    let target = source.field("target");
    metric_target(errors, &target);
    let (value, average) = (target.field("value"), target.field("averageValue"));
    match name {
        "object" => {
            reference(errors, &source.field("describedObject"), false);
            metric_name(errors, &source);
            if !value.is_set() && !average.is_set() {
                errors.required(
                    &average,
                    "must set either a target value for metric or a per-pod target",
                );
            }
        }
        "external" => {
            metric_name(errors, &source);
            if value.is_set() && average.is_set() {
                errors.forbidden(
                    &value,
                    "may not set both a target value for metric and a per-pod target",
                );
            } else if !value.is_set() && !average.is_set() {
                errors.required(
                    &average,
                    "must set either a target value for metric or a per-pod target",
                );
            }
        }
        "pods" => {
            metric_name(errors, &source);
            if quantity(average.value).is_none_or(|amount| amount.sign() <= 0) {
                errors.required(&average, "must specify a positive target averageValue");
            }
        }
        _ => resource_metric(errors, name, &source, &target),
    }
}

fn metric_name(errors: &mut Errors, source: &Place<'_>) {
    let metric = source.field("metric");
    let name = metric.field("name");
    if name.text().is_empty() {
        errors.required(&name, "must specify a metric name");
    } else {
        errors.syntax(&name, syntax::validate_path_segment);
    }
    let selector = metric.field("selector");
    selectors::label_selector(errors, &selector);
}

fn resource_metric(errors: &mut Errors, kind: &str, source: &Place<'_>, target: &Place<'_>) {
    let resource = source.field("name");
    if resource.text().is_empty() {
        errors.required(&resource, "must specify a resource name");
    }
    if kind == "containerResource" && source.field("container").text().is_empty() {
        errors.required(&source.field("container"), "must specify a container");
    }
    let (utilization, average) = (
        target.field("averageUtilization"),
        target.field("averageValue"),
    );
    if !utilization.is_set() && !average.is_set() {
        errors.required(
            &utilization,
            "must set either a target raw value or a target utilization",
        );
    }
    if utilization.is_set() && average.is_set() {
        errors.forbidden(
            &average,
            "may not set both a target raw value and a target utilization",
        );
    }
}

fn metric_target(errors: &mut Errors, target: &Place<'_>) {
    let kind = target.field("type");
    if kind.text().is_empty() {
        errors.required(&kind, "must specify a metric target type");
    }
    let empty = serde_json::json!("");
    let kind = if kind.is_set() {
        kind
    } else {
        kind.showing(&empty)
    };
    if !matches!(kind.text(), "Utilization" | "Value" | "AverageValue") {
        errors.invalid(&kind, "must be either Utilization, Value, or AverageValue");
    }
    for name in ["value", "averageValue"] {
        let place = target.field(name);
        if quantity(place.value).is_some_and(|amount| amount.sign() <= 0) {
            errors.invalid(&place, "must be positive");
        }
    }
    let utilization = target.field("averageUtilization");
    if utilization.integer().is_some_and(|percent| percent < 1) {
        errors.invalid(&utilization, "must be greater than 0");
    }
}

fn scaling_rules(errors: &mut Errors, rules: &Place<'_>) {
    let window = rules.field("stabilizationWindowSeconds");
    errors.not_negative(&window);
    if window
        .integer()
        .is_some_and(|seconds| seconds > STABILIZATION_SECONDS_MAX)
    {
        errors.invalid(
            &window,
            &format!("must be less than or equal to {STABILIZATION_SECONDS_MAX}"),
        );
    }
    errors.one_of_if_set(&rules.field("selectPolicy"), &["Disabled", "Max", "Min"]);
    let policies = rules.field("policies");
    if policies.is_empty() {
        errors.required(&policies, "must specify at least one Policy");
    }
    for policy in policies.items() {
        errors.one_of(&policy.field("type"), &["Percent", "Pods"]);
        let (value, period) = (policy.field("value"), policy.field("periodSeconds"));
        for place in [&value, &period] {
            if place.integer().unwrap_or_default() <= 0 {
                errors.invalid(place, "must be greater than zero");
            }
        }
        if period
            .integer()
            .is_some_and(|seconds| seconds > PERIOD_SECONDS_MAX)
        {
            errors.invalid(
                &period,
                &format!("must be less than or equal to {PERIOD_SECONDS_MAX}"),
            );
        }
    }
}

pub(super) fn disruption_budget(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    let (min, max) = (spec.field("minAvailable"), spec.field("maxUnavailable"));
    if min.is_set() && max.is_set() {
        errors.invalid(&spec, "minAvailable and maxUnavailable cannot be both set");
    }
    for place in [&min, &max] {
        number_or_percent(errors, place);
        not_above_all(errors, place);
    }
    let selector = spec.field("selector");
    selectors::label_selector(errors, &selector);
    errors.one_of_if_set(
        &spec.field("unhealthyPodEvictionPolicy"),
        &["AlwaysAllow", "IfHealthyBudget"],
    );
}

pub(super) fn disruption_budget_status(errors: &mut Errors, root: &Place<'_>) {
    let status = root.field("status");
    for name in [
        "disruptionsAllowed",
        "currentHealthy",
        "desiredHealthy",
        "expectedPods",
    ] {
        errors.not_negative(&status.field(name));
    }
}

pub(super) fn lease(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    let (duration, transitions) = (
        spec.field("leaseDurationSeconds"),
        spec.field("leaseTransitions"),
    );
    if duration.integer().is_some_and(|seconds| seconds <= 0) {
        errors.invalid(&duration, "must be greater than 0");
    }
    errors.not_negative(&transitions);
}

pub(super) fn priority_class(errors: &mut Errors, root: &Place<'_>) {
    /// Above are the two that the system itself needs.
    const USER_MAX: i64 = 1_000_000_000;
    let metadata = root.field("metadata");
    let name = metadata.field("name");
    let system = [
        ("system-cluster-critical", 2_000_000_000_i64),
        ("system-node-critical", 2_000_001_000),
    ];
    let value = root.field("value");
    if name.text().starts_with("system-") {
        if !system.contains(&(name.text(), value.integer().unwrap_or_default())) {
            let detail = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {} is not a known system priority class",
                name.text()
            );
            errors.forbidden(&name, &detail);
        }
    } else if value.integer().unwrap_or_default() > USER_MAX {
        errors.forbidden(
            &value,
            &format!("maximum allowed value of a user defined priority is {USER_MAX}"),
        );
    }
    errors.one_of_if_set(
        &root.field("preemptionPolicy"),
        &["PreemptLowerPriority", "Never"],
    );
}

/// A class's value is in every pod that has it.
pub(super) fn priority_class_update(errors: &mut Errors, root: &Place<'_>, old: &Value) {
    for name in ["value", "preemptionPolicy"] {
        let place = root.field(name);
        if place.value != old.get(name).unwrap_or(&Value::Null) {
            let detail = if name == "value" {
                "may not be changed in an update."
            } else {
                "field is immutable"
            };
            if name == "value" {
                errors.forbidden(&place, detail)
            } else {
                errors.invalid(&place, detail)
            }
        }
    }
}

pub(super) fn runtime_class(errors: &mut Errors, root: &Place<'_>, old: Option<&Value>) {
    let handler = root.field("handler");
    errors.syntax(&handler, syntax::validate_dns1123_label);
    if let Some(old) = old {
        errors.immutable(&handler, &old["handler"]);
    }
}
