//! Disruption budgets, leases, priority and runtime classes.

use api::syntax;
use serde_json::Value;

use super::place::{Errors, Place};
use super::selectors;
use super::workloads::{not_above_all, number_or_percent};

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
    if handler.text().is_empty() {
        errors.required(&handler, "");
    } else {
        errors.syntax(&handler, syntax::validate_dns1123_label);
    }
    let overhead = root.field("overhead");
    // UPSTREAM: what a pod costs on top is checked as a limit, and named so.
    let fixed = overhead.field("podFixed");
    let limits = overhead.field("limits");
    let limits = limits.showing(fixed.value);
    super::resources::list(errors, &limits, super::resources::Use::Container);
    let scheduling = root.field("scheduling");
    super::metadata::labels(errors, &scheduling.field("nodeSelector"));
    super::scheduling::tolerations(errors, &scheduling.field("tolerations"));
    if let Some(old) = old {
        errors.immutable(&handler, &old["handler"]);
    }
}
