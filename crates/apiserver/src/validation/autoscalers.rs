//! HorizontalPodAutoscalers. Upstream: pkg/apis/autoscaling/validation.

use api::{Gate, Gates, syntax};
use serde_json::Value;

use super::place::{Errors, Place};
use super::resources;
use crate::resources::quantity;

/// An hour: how far back an autoscaler looks.
const STABILIZATION_SECONDS_MAX: i64 = 3600;
/// Half an hour: the longest window of a scaling policy.
const PERIOD_SECONDS_MAX: i64 = 1800;

/// The types of metrics, and the fields that hold them. UPSTREAM: of several fields the first in this order is looked at.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];

pub(super) fn create(errors: &mut Errors, root: &Place<'_>, gates: Gates) {
    spec(errors, &root.field("spec"), &Value::Null, gates);
}

/// What was there before may stay: no replicas at all, and versions that nobody would admit any more.
pub(super) fn update(errors: &mut Errors, root: &Place<'_>, old: &Value, gates: Gates) {
    spec(errors, &root.field("spec"), &old["spec"], gates);
}

pub(super) fn status(errors: &mut Errors, root: &Place<'_>) {
    let status = root.field("status");
    for name in ["currentReplicas", "desiredReplicas"] {
        errors.not_negative(&status.field(name));
    }
}

fn spec(errors: &mut Errors, spec: &Place<'_>, old: &Value, gates: Gates) {
    let (min, max) = (spec.field("minReplicas"), spec.field("maxReplicas"));
    let scales_to_zero = gates.enabled(Gate::HPAScaleToZero);
    let least = match old["minReplicas"].as_i64() {
        Some(0) => 0,
        _ if scales_to_zero => 0,
        _ => 1,
    };
    if min.integer().is_some_and(|number| number < least) {
        errors.invalid(&min, &format!("must be greater than or equal to {least}"));
    }
    let most = max.integer().unwrap_or_default();
    match most {
        0 => errors.required(&max, "must be set and greater than 0"),
        ..0 => errors.invalid(&max, "must be greater than or equal to 1"),
        _ => {}
    }
    if min.integer().is_some_and(|least| most < least) {
        errors.invalid(&max, "must be greater than or equal to `minReplicas`");
    }
    let target = spec.field("scaleTargetRef");
    let same = |name: &str| target.field(name).value == &old["scaleTargetRef"][name];
    let version = match (
        same("apiVersion") && same("kind"),
        target.field("kind").text(),
    ) {
        (true, _) => Version::Any,
        (_, "ReplicationController") => Version::Core,
        _ => Version::OfGroup,
    };
    reference(errors, &target, version);
    metrics(errors, spec, old);
    let behavior = spec.field("behavior");
    for name in ["scaleUp", "scaleDown"] {
        let rules = behavior.field(name);
        if rules.is_set() {
            scaling_rules(errors, &rules);
        }
    }
}

fn metrics(errors: &mut Errors, spec: &Place<'_>, old: &Value) {
    let metrics = spec.field("metrics");
    let held = old["metrics"].as_array().into_iter().flatten();
    let mut held = held.map(|metric| metric["object"]["describedObject"]["apiVersion"].as_str());
    let version = match held.any(|held| held.is_some_and(|held| held.matches('/').count() > 1)) {
        true => Version::Any,
        false => Version::Core,
    };
    let mut scales_to_zero = false;
    for metric in metrics.items() {
        metric_spec(errors, &metric, version);
        scales_to_zero |= matches!(metric.field("type").text(), "Object" | "External");
    }
    if spec.field("minReplicas").integer() == Some(0) && !scales_to_zero {
        errors.forbidden(&metrics, "must specify at least one Object or External metric to support scaling to zero replicas");
    }
}

/// Which `apiVersion` a reference may have.
#[derive(Clone, Copy, PartialEq)]
enum Version {
    Any,
    /// Well-formed, and the group may be the core group.
    Core,
    OfGroup,
}

fn reference(errors: &mut Errors, place: &Place<'_>, allowed: Version) {
    for name in ["kind", "name"] {
        errors.name(&place.field(name), syntax::validate_path_segment);
    }
    let version = place.field("apiVersion");
    let text = version.text();
    let fault = match text.matches('/').count() {
        2.. => format!("unexpected GroupVersion string: {text}"),
        count if allowed == Version::OfGroup && (count == 0 || text.starts_with('/')) => {
            "apiVersion must specify API group".to_owned()
        }
        _ => return,
    };
    if allowed != Version::Any {
        let empty = Value::from("");
        let shown = if version.is_set() {
            version.value
        } else {
            &empty
        };
        errors.invalid(&version.showing(shown), &fault);
    }
}

fn metric_spec(errors: &mut Errors, metric: &Place<'_>, version: Version) {
    let kind = metric.field("type");
    let wanted = SOURCES.iter().find(|(name, _)| *name == kind.text());
    let given = || {
        SOURCES
            .iter()
            .filter(|(_, field)| metric.field(field).is_set())
    };
    if kind.text().is_empty() {
        errors.required(&kind, "must specify a metric source type");
    }
    if wanted.is_none() {
        let mut types = SOURCES.map(|(name, _)| name);
        types.sort_unstable();
        let empty = Value::from("");
        let shown = if kind.is_set() { kind.value } else { &empty };
        // UPSTREAM: twice.
        errors.not_supported(&kind.showing(shown), &types);
        errors.not_supported(&kind.showing(shown), &types);
    }
    if let Some((_, field)) = given().next() {
        source(errors, field, &metric.field(field), version);
    }
    let wanted = wanted.map(|(_, field)| *field);
    if let Some(field) = wanted.filter(|field| !metric.field(field).is_set()) {
        let detail = "must populate information for the given metric source";
        errors.required(&metric.field(field), detail);
    }
    if given().count() != 1 {
        for (_, field) in given().filter(|(_, field)| Some(*field) != wanted) {
            let detail = "must populate the given metric source only";
            errors.forbidden(&metric.field(field), detail);
        }
    }
}

fn source(errors: &mut Errors, kind: &str, source: &Place<'_>, version: Version) {
    let target = source.field("target");
    let (value, average) = (target.field("value"), target.field("averageValue"));
    if kind == "object" {
        reference(errors, &source.field("describedObject"), version);
    }
    match kind {
        "object" | "external" | "pods" => {
            let name = source.field("metric");
            metric_name(errors, &name.field("name"));
        }
        _ => resource_name(errors, kind, source),
    }
    metric_target(errors, &target);
    match kind {
        "object" if !value.is_set() && !average.is_set() => {
            errors.required(&average, "must set either a target value or averageValue");
        }
        "external" if !value.is_set() && !average.is_set() => errors.required(
            &average,
            "must set either a target value for metric or a per-pod target",
        ),
        "external" if value.is_set() && average.is_set() => errors.forbidden(
            &value,
            "may not set both a target value for metric and a per-pod target",
        ),
        "pods" if !average.is_set() => {
            errors.required(&average, "must specify a positive target averageValue");
        }
        "resource" | "containerResource" => resource_target(errors, &target),
        _ => {}
    }
}

/// UPSTREAM: the selector of a metric is not looked at.
fn metric_name(errors: &mut Errors, name: &Place<'_>) {
    if name.text().is_empty() {
        errors.required(name, "must specify a metric name");
    } else {
        errors.syntax(name, syntax::validate_path_segment);
    }
}

fn resource_name(errors: &mut Errors, kind: &str, source: &Place<'_>) {
    let resource = source.field("name");
    match (resource.text(), kind) {
        ("", _) => errors.required(&resource, "must specify a resource name"),
        (_, "containerResource") => resources::of_container(errors, &resource),
        _ => {}
    }
    let container = source.field("container");
    if kind == "containerResource" {
        match container.text() {
            "" => errors.required(&container, "must specify a container"),
            _ => errors.syntax(&container, syntax::validate_dns1123_label),
        }
    }
}

fn resource_target(errors: &mut Errors, target: &Place<'_>) {
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
    let empty = Value::from("");
    let shown = if kind.is_set() { kind.value } else { &empty };
    if !matches!(kind.text(), "Utilization" | "Value" | "AverageValue") {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.invalid(&kind.showing(shown), detail);
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
    let most = format!("must be less than or equal to {STABILIZATION_SECONDS_MAX}");
    match window.integer() {
        Some(..0) => errors.invalid(&window, "must be greater than or equal to zero"),
        Some(seconds) if seconds > STABILIZATION_SECONDS_MAX => errors.invalid(&window, &most),
        _ => {}
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
        let most = format!("must be less than or equal to {PERIOD_SECONDS_MAX}");
        if period
            .integer()
            .is_some_and(|seconds| seconds > PERIOD_SECONDS_MAX)
        {
            errors.invalid(&period, &most);
        }
    }
    let tolerance = rules.field("tolerance");
    if quantity(tolerance.value).is_some_and(|amount| amount.sign() < 0) {
        errors.invalid(&tolerance, "must be greater than or equal to 0");
    }
}
