//! Label selectors and node selectors.

use api::syntax;
use serde_json::Value;

use super::metadata::labels;
use super::place::{Errors, Place};

/// What is wrong with a label selector, if it is given.
pub(super) fn label_selector(errors: &mut Errors, place: &Place<'_>) {
    let match_labels = place.field("matchLabels");
    labels(errors, &match_labels);
    let expressions = place.field("matchExpressions");
    for expression in expressions.items() {
        let (operator, values) = (expression.field("operator"), expression.field("values"));
        match operator.text() {
            "In" | "NotIn" if values.is_empty() => errors.required(
                &values,
                "must be specified when `operator` is 'In' or 'NotIn'",
            ),
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                errors.forbidden(
                    &values,
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                );
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => errors.invalid(&operator, "not a valid selector operator"),
        }
        errors.syntax(&expression.field("key"), syntax::validate_qualified_name);
        for value in values.items() {
            errors.syntax(&value, syntax::validate_label_value);
        }
    }
}

/// A selector that must be there, be well-formed and match its template's labels.
pub(super) fn workload_selector(errors: &mut Errors, spec: &Place<'_>, empty: &str) {
    let selector = spec.field("selector");
    if !selector.is_set() {
        errors.required(&selector, "");
    } else {
        label_selector(errors, &selector);
        let nothing = selector.field("matchLabels").is_empty()
            && selector.field("matchExpressions").is_empty();
        if nothing && !empty.is_empty() {
            errors.invalid(&selector, &format!("empty selector is invalid for {empty}"));
        }
    }
}

/// The compiled selector, nothing when it does not compile.
pub(super) fn compile(selector: &Value) -> Option<api::Selector> {
    let selector: api::LabelSelector = serde_json::from_value(selector.clone()).ok()?;
    selector.compile().ok()
}

pub(super) fn matches(selector: &api::Selector, labels: &Value) -> bool {
    selector.matches_by(|key| labels.get(key).and_then(Value::as_str))
}

/// Terms that choose nodes, in affinity and in volumes.
pub(super) fn node_selector(errors: &mut Errors, place: &Place<'_>) {
    let terms = place.field("nodeSelectorTerms");
    if terms.is_empty() {
        errors.required(&terms, "must have at least one node selector term");
    }
    for term in terms.items() {
        node_selector_term(errors, &term);
    }
}

pub(super) fn node_selector_term(errors: &mut Errors, term: &Place<'_>) {
    let expressions = term.field("matchExpressions");
    for expression in expressions.items() {
        node_requirement(errors, &expression);
    }
    let fields = term.field("matchFields");
    for expression in fields.items() {
        let (operator, values) = (expression.field("operator"), expression.field("values"));
        match operator.text() {
            "In" | "NotIn" if values.len() != 1 => {
                errors.required(&values, "must be only one value when `operator` is 'In' or 'NotIn' for node field selector");
            }
            "In" | "NotIn" => {}
            _ => errors.invalid(&operator, "not a valid selector operator"),
        }
        let key = expression.field("key");
        if key.text() != "metadata.name" {
            errors.invalid(&key, "not a valid field selector key");
        }
    }
}

fn node_requirement(errors: &mut Errors, expression: &Place<'_>) {
    let (operator, values) = (expression.field("operator"), expression.field("values"));
    match operator.text() {
        "In" | "NotIn" if values.is_empty() => errors.required(
            &values,
            "must be specified when `operator` is 'In' or 'NotIn'",
        ),
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.forbidden(
                &values,
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            );
        }
        "Gt" | "Lt" if values.len() != 1 => errors.required(
            &values,
            "must be specified single value when `operator` is 'Lt' or 'Gt'",
        ),
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        _ => errors.invalid(&operator, "not a valid selector operator"),
    }
    errors.syntax(&expression.field("key"), syntax::validate_qualified_name);
}
