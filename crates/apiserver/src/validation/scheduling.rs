//! Affinity, tolerations and topology spread: where a pod may run.

use std::collections::{BTreeMap, BTreeSet};

use api::syntax;

use super::place::{Errors, Place};
use super::selectors;

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn tolerations(errors: &mut Errors, tolerations: &Place<'_>) {
    for toleration in tolerations.items() {
        let (key, operator) = (toleration.field("key"), toleration.field("operator"));
        let (value, effect) = (toleration.field("value"), toleration.field("effect"));
        if !key.text().is_empty() {
            errors.syntax(&key, syntax::validate_qualified_name);
        } else if operator.text() != "Exists" {
            errors.invalid(&operator, "operator must be Exists when `key` is empty, which means \"match all values and all keys\"");
        }
        if toleration.field("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
            let shown = effect.text().into();
            errors.invalid(
                &effect.showing(&shown),
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            );
        }
        match operator.text() {
            "Equal" | "" => {
                errors.syntax(&operator.showing(value.value), syntax::validate_label_value)
            }
            "Exists" if !value.text().is_empty() => {
                errors.invalid(
                    &operator.showing(value.value),
                    "value must be empty when `operator` is 'Exists'",
                );
            }
            "Exists" => {}
            _ => errors.not_supported(&operator, &["Equal", "Exists"]),
        }
        if !effect.text().is_empty() {
            errors.one_of(&effect, &EFFECTS);
        }
    }
}

/// Taints of a node.
pub(super) fn taints(errors: &mut Errors, taints: &Place<'_>) {
    let mut seen = BTreeSet::new();
    for taint in taints.items() {
        errors.syntax(&taint.field("key"), syntax::validate_qualified_name);
        let value = taint.field("value");
        if !value.text().is_empty() {
            errors.syntax(&value, syntax::validate_label_value);
        }
        let effect = taint.field("effect");
        if effect.text().is_empty() {
            errors.required(&effect, "")
        } else {
            errors.one_of(&effect, &EFFECTS)
        }
        if !seen.insert((taint.value["key"].to_string(), effect.text().to_owned())) {
            errors.duplicate_because(&taint, "taints must be unique by key and effect pair");
        }
    }
}

pub(super) fn affinity(errors: &mut Errors, affinity: &Place<'_>) {
    let node = affinity.field("nodeAffinity");
    let required = node.field("requiredDuringSchedulingIgnoredDuringExecution");
    if required.is_set() {
        selectors::node_selector(errors, &required);
    }
    let preferred = node.field("preferredDuringSchedulingIgnoredDuringExecution");
    for term in preferred.items() {
        weight(errors, &term.field("weight"));
        let preference = term.field("preference");
        selectors::node_selector_term(errors, &preference);
    }
    for name in ["podAffinity", "podAntiAffinity"] {
        let pod = affinity.field(name);
        let required = pod.field("requiredDuringSchedulingIgnoredDuringExecution");
        for term in required.items() {
            pod_term(errors, &term);
        }
        let preferred = pod.field("preferredDuringSchedulingIgnoredDuringExecution");
        for term in preferred.items() {
            weight(errors, &term.field("weight"));
            pod_term(errors, &term.field("podAffinityTerm"));
        }
    }
}

fn weight(errors: &mut Errors, place: &Place<'_>) {
    if !(1..=100).contains(&place.integer().unwrap_or_default()) {
        errors.invalid(place, "must be in the range 1-100");
    }
}

fn pod_term(errors: &mut Errors, term: &Place<'_>) {
    let selector = term.field("labelSelector");
    selectors::label_selector(errors, &selector);
    let namespaces = term.field("namespaceSelector");
    selectors::label_selector(errors, &namespaces);
    let names = term.field("namespaces");
    for name in names.items() {
        errors.syntax(&name, syntax::validate_dns1123_label);
    }
    let key = term.field("topologyKey");
    if key.text().is_empty() {
        errors.required(&key, "can not be empty");
    }
    errors.syntax(&key, syntax::validate_qualified_name);
}

pub(super) fn spread_constraints(errors: &mut Errors, constraints: &Place<'_>) {
    let pair = |constraint: &Place<'_>| {
        let text = |name| constraint.field(name).text().to_owned();
        (text("topologyKey"), text("whenUnsatisfiable"))
    };
    let pairs: Vec<_> = constraints.items().map(|item| pair(&item)).collect();
    let last: BTreeMap<_, _> = pairs.iter().zip(0..).collect();
    for (index, constraint) in constraints.items().enumerate() {
        let skew = constraint.field("maxSkew");
        if skew.integer().unwrap_or_default() <= 0 {
            errors.invalid(&skew, "must be greater than zero");
        }
        let key = constraint.field("topologyKey");
        if key.text().is_empty() {
            errors.required(&key, "can not be empty");
        }
        let when = constraint.field("whenUnsatisfiable");
        errors.one_of(&when, &["DoNotSchedule", "ScheduleAnyway"]);
        // UPSTREAM: of two that are the same, the first is the duplicate.
        if last[&pairs[index]] > index {
            let pair = format!("{{{}, {}}}", key.text(), when.text()).into();
            errors.duplicate(
                &constraint
                    .field("{topologyKey, whenUnsatisfiable}")
                    .showing(&pair),
            );
        }
        let domains = constraint.field("minDomains");
        if domains.integer().is_some_and(|number| number <= 0) {
            errors.invalid(&domains, "must be greater than zero");
        }
        if domains.is_set() && when.text() == "ScheduleAnyway" {
            errors.invalid(
                &domains,
                "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
            );
        }
        errors.one_of_if_set(
            &constraint.field("nodeAffinityPolicy"),
            &["Honor", "Ignore"],
        );
        errors.one_of_if_set(&constraint.field("nodeTaintsPolicy"), &["Honor", "Ignore"]);
        let selector = constraint.field("labelSelector");
        selectors::label_selector(errors, &selector);
    }
}
