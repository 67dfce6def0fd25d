//! Admission policies and their bindings. Expressions are kept, not compiled: this server evaluates none.

use api::syntax;
use serde_json::Value;

use super::place::{Errors, Place};
use super::webhooks::rule_with_operations;

/// A policy that validates.
pub(super) fn validating(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    shared(errors, &spec);
    let (validations, annotations) = (spec.field("validations"), spec.field("auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        errors.required(&validations, why);
        errors.required(&annotations, why);
    }
    for validation in validations.items() {
        let expression = validation.field("expression");
        if expression.text().trim().is_empty() {
            errors.required(&expression, "expression is not specified");
        }
        errors.one_of_if_set(
            &validation.field("reason"),
            &["Forbidden", "Invalid", "RequestEntityTooLarge"],
        );
    }
    let name = root.value["metadata"]["name"].as_str().unwrap_or_default();
    for annotation in annotations.items() {
        let key = annotation.field("key");
        let shown = Value::from(format!("{name}/{}", key.text()));
        errors.syntax(&key.showing(&shown), syntax::validate_qualified_name);
        let expression = annotation.field("valueExpression");
        if expression.text().trim().is_empty() {
            errors.required(&expression, "valueExpression is not specified");
        }
    }
}

/// A policy that mutates.
pub(super) fn mutating(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    shared(errors, &spec);
    let mutations = spec.field("mutations");
    if mutations.is_empty() {
        errors.required(&mutations, "mutations must contain at least one item");
    }
    for mutation in mutations.items() {
        errors.one_of(
            &mutation.field("patchType"),
            &["ApplyConfiguration", "JSONPatch"],
        );
    }
    errors.one_of(&spec.field("reinvocationPolicy"), &["IfNeeded", "Never"]);
}

fn shared(errors: &mut Errors, spec: &Place<'_>) {
    errors.one_of(&spec.field("failurePolicy"), &["Fail", "Ignore"]);
    let parameters = spec.field("paramKind");
    if parameters.is_set() {
        errors.need(&parameters.field("apiVersion"));
        errors.need(&parameters.field("kind"));
    }
    let constraints = spec.field("matchConstraints");
    if !constraints.is_set() {
        errors.required(&constraints, "");
    } else {
        let rules = constraints.field("resourceRules");
        if rules.is_empty() {
            errors.required(&rules, "");
        }
        matching(errors, &constraints);
    }
    for condition in spec.field("matchConditions").items() {
        errors.need(&condition.field("name"));
        errors.need(&condition.field("expression"));
    }
    for variable in spec.field("variables").items() {
        let name = variable.field("name");
        if !is_identifier(name.text()) {
            errors.invalid(&name, "must be a valid CEL identifier");
        }
    }
}

fn is_identifier(name: &str) -> bool {
    let first = name.chars().next();
    first.is_some_and(|letter| letter.is_ascii_alphabetic() || letter == '_')
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn matching(errors: &mut Errors, resources: &Place<'_>) {
    errors.one_of_if_set(&resources.field("matchPolicy"), &["Equivalent", "Exact"]);
    for list in ["resourceRules", "excludeResourceRules"] {
        for rule in resources.field(list).items() {
            rule_with_operations(errors, &rule);
        }
    }
}

pub(super) fn validating_binding(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    binding(errors, &spec);
    let actions = spec.field("validationActions");
    if actions.is_empty() {
        errors.required(&actions, "at least one validation action is required");
    }
    let mut seen = Vec::new();
    for action in actions.items() {
        errors.one_of(&action, &["Audit", "Deny", "Warn"]);
        if seen.contains(&action.text()) {
            errors.duplicate(&action);
        }
        seen.push(action.text());
    }
    if seen.contains(&"Deny") && seen.contains(&"Warn") {
        errors.invalid(&actions, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)");
    }
}

pub(super) fn mutating_binding(errors: &mut Errors, root: &Place<'_>) {
    binding(errors, &root.field("spec"));
}

fn binding(errors: &mut Errors, spec: &Place<'_>) {
    let policy = spec.field("policyName");
    if policy.text().is_empty() {
        errors.required(&policy, "");
    } else {
        errors.syntax(&policy, syntax::validate_dns1123_subdomain);
    }
    let parameters = spec.field("paramRef");
    if parameters.is_set() {
        let (name, selector) = (parameters.field("name"), parameters.field("selector"));
        if !name.text().is_empty() && selector.is_set() {
            for place in [&name, &selector] {
                errors.forbidden(place, "name and selector are mutually exclusive");
            }
        }
        let action = parameters.field("parameterNotFoundAction");
        if action.is_set() {
            errors.one_of(&action, &["Allow", "Deny"]);
        } else {
            errors.required(&action, "");
        }
    }
    let resources = spec.field("matchResources");
    if resources.is_set() {
        matching(errors, &resources);
    }
}
