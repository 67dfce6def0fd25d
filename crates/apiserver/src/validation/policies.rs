//! Admission policies and their bindings. Expressions must compile.

use std::collections::BTreeSet;

use api::syntax;
use cel::Type;
use serde_json::{Value, json};

use super::place::{Errors, Place};
use super::selectors::label_selector;
use super::webhooks::rule_with_operations;
use crate::policy::expression::{Compiler, Scope};

/// The most match conditions of a policy or a webhook.
const CONDITIONS_MAX: usize = 64;
const ANNOTATIONS_MAX: usize = 20;
/// The longest expression of an audit annotation.
const ANNOTATION_EXPRESSION_MAX: usize = 5 * 1024;
const MUTATING_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

/// A policy that validates. What `old` has already is not looked at again.
pub(super) fn validating(errors: &mut Errors, root: &Place<'_>, old: Option<&Value>) {
    let spec = root.field("spec");
    shared(errors, &spec, old, &[]);
    let scope = scope(&spec);
    // UPSTREAM: without variables there is nothing of that name.
    let mut compiler = match spec.field("variables").is_empty() {
        true => Compiler::default(),
        false => Compiler::with_variables(),
    };
    variables(errors, &spec, scope, &mut compiler);
    let (validations, annotations) = (spec.field("validations"), spec.field("auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        errors.required(&validations, why);
        errors.required(&annotations, why);
        return;
    }
    for validation in validations.items() {
        self::validation(errors, &validation, scope, &mut compiler);
    }
    if annotations.len() > ANNOTATIONS_MAX {
        let shown = annotations.items().map(|annotation| {
            let text = |name: &str| annotation.field(name).text().to_owned();
            json!({"Key": text("key"), "ValueExpression": text("valueExpression")})
        });
        let shown = Value::Array(shown.collect());
        let why = format!("must not have more than {ANNOTATIONS_MAX} auditAnnotations");
        errors.invalid(&annotations.showing(&shown), &why);
    }
    let name = root.value["metadata"]["name"].as_str().unwrap_or_default();
    let mut keys = BTreeSet::new();
    for annotation in annotations.items() {
        audit_annotation(errors, &annotation, name, scope, &mut compiler);
        let key = annotation.field("key");
        if !keys.insert(key.text().to_owned()) {
            errors.duplicate(&key);
        }
    }
}

fn validation(errors: &mut Errors, validation: &Place<'_>, scope: Scope, compiler: &mut Compiler) {
    let rule = validation.field("expression");
    if rule.text().trim().is_empty() {
        errors.required(&rule, "expression is not specified");
    } else {
        expression(errors, &rule, rule.text(), scope, compiler, &[Type::Bool]);
    }
    let computed = validation.field("messageExpression");
    if !computed.text().is_empty() && computed.text().trim().is_empty() {
        errors.invalid(&computed, "must be non-empty if specified");
    } else if !computed.text().is_empty() {
        let scope = Scope {
            authorizer: false,
            ..scope
        };
        let text = computed.text();
        expression(errors, &computed, text, scope, compiler, &[Type::String]);
    }
    let message = validation.field("message");
    if !message.text().is_empty() && message.text().trim().is_empty() {
        errors.invalid(&message, "must be non-empty if specified");
    } else if message.text().trim().contains(['\n', '\r']) {
        errors.invalid(&message, "must not contain line breaks");
    }
    errors.one_of_if_set(
        &validation.field("reason"),
        &["Forbidden", "Invalid", "RequestEntityTooLarge"],
    );
}

fn audit_annotation(
    errors: &mut Errors,
    annotation: &Place<'_>,
    name: &str,
    scope: Scope,
    compiler: &mut Compiler,
) {
    let key = annotation.field("key");
    let qualified = format!("{name}/{}", key.text());
    let shown = Value::from(qualified.as_str());
    for fault in syntax::validate_qualified_name(&qualified) {
        errors.invalid(&key.showing(&shown), &fault);
    }
    let value = annotation.field("valueExpression");
    let trimmed = value.text().trim();
    if trimmed.is_empty() {
        errors.required(&value, "valueExpression is not specified");
    } else if trimmed.len() > ANNOTATION_EXPRESSION_MAX {
        let why = format!("must not exceed {ANNOTATION_EXPRESSION_MAX} bytes in length");
        errors.required(&value, &why);
    } else {
        let returns = [Type::String, Type::Null];
        expression(errors, &value, trimmed, scope, compiler, &returns);
    }
}

/// A policy that mutates.
pub(super) fn mutating(errors: &mut Errors, root: &Place<'_>, old: Option<&Value>) {
    let spec = root.field("spec");
    shared(errors, &spec, old, &MUTATING_OPERATIONS);
    let scope = scope(&spec);
    let mut compiler = Compiler::with_variables();
    variables(errors, &spec, scope, &mut compiler);
    let mutations = spec.field("mutations");
    if mutations.is_empty() {
        errors.required(&mutations, "mutations must contain at least one item");
    }
    for mutation in mutations.items() {
        self::mutation(errors, &mutation, scope, &mut compiler);
    }
    let again = spec.field("reinvocationPolicy");
    if again.text().is_empty() {
        errors.required(&again, "");
    } else {
        errors.one_of(&again, &["IfNeeded", "Never"]);
    }
}

fn mutation(errors: &mut Errors, mutation: &Place<'_>, scope: Scope, compiler: &mut Compiler) {
    let of = mutation.field("patchType");
    let (json_patch, config) = (
        mutation.field("jsonPatch"),
        mutation.field("applyConfiguration"),
    );
    let (patch, other, returns) = match of.text() {
        "" => return errors.required(&of, ""),
        "JSONPatch" => {
            let returns = Type::list(Type::named("JSONPatch"));
            (&json_patch, (&config, "applyConfiguration"), returns)
        }
        "ApplyConfiguration" => {
            let returns = Type::named("Object");
            (&config, (&json_patch, "jsonPatch"), returns)
        }
        _ => return errors.not_supported(&of, &["ApplyConfiguration", "JSONPatch"]),
    };
    if !patch.is_set() {
        let why = format!("must be specified when patchType is {}", of.text());
        errors.required(patch, &why);
    } else {
        let text = patch.field("expression");
        let trimmed = text.text().trim();
        if trimmed.is_empty() {
            errors.required(&text, "");
        } else {
            let scope = Scope {
                patches: true,
                ..scope
            };
            let shown = Value::from(trimmed);
            let place = text.showing(&shown);
            expression(errors, &place, trimmed, scope, compiler, &[returns]);
        }
    }
    if other.0.is_set() {
        let shown = Value::from(format!("{{{}}}", other.1));
        let why = format!("must not be specified when patchType is {}", of.text());
        errors.invalid(&other.0.showing(&shown), &why);
    }
}

/// What both kinds of policies say. Operations, if given, are all that rules may name.
fn shared(errors: &mut Errors, spec: &Place<'_>, old: Option<&Value>, operations: &[&str]) {
    errors.one_of(&spec.field("failurePolicy"), &["Fail", "Ignore"]);
    let params = spec.field("paramKind");
    if params.is_set() {
        param_kind(errors, &params);
    }
    let constraints = spec.field("matchConstraints");
    if !constraints.is_set() {
        errors.required(&constraints, "");
    } else {
        matching(errors, &constraints);
        let rules = constraints.field("resourceRules");
        if rules.is_empty() {
            errors.required(&rules, "");
        }
        only_operations(errors, &constraints, operations);
    }
    let same = |name: &str| {
        let old = old.map(|old| old["spec"].get(name).unwrap_or(&Value::Null));
        old.is_some_and(|old| *old == *spec.field(name).value)
    };
    if !(same("paramKind") && same("matchConditions")) {
        match_conditions(errors, &spec.field("matchConditions"), params.is_set());
    }
}

/// UPSTREAM: the rule's place in the list is not said.
fn only_operations(errors: &mut Errors, resources: &Place<'_>, operations: &[&str]) {
    if operations.is_empty() {
        return;
    }
    let rules = resources.field("resourceRules");
    let at = rules.field("operations");
    for rule in rules.items() {
        for operation in rule.field("operations").items() {
            if !operations.contains(&operation.text()) {
                errors.not_supported(&at.showing(operation.value), operations);
            }
        }
    }
}

fn param_kind(errors: &mut Errors, params: &Place<'_>) {
    let version = params.field("apiVersion");
    match version.text().split('/').collect::<Vec<_>>()[..] {
        [""] => errors.required(&version, ""),
        ["", ""] => errors.invalid(&version, "version must be specified"),
        [_] | [_, _] => {
            let (group, number) = version
                .text()
                .split_once('/')
                .unwrap_or(("", version.text()));
            let mut part = |text: &str, faults: Vec<String>| {
                if !faults.is_empty() {
                    let shown = Value::from(text);
                    errors.invalid(&version.showing(&shown), &faults.join(","));
                }
            };
            if !group.is_empty() {
                part(group, syntax::validate_dns1123_subdomain(group));
            }
            if number.is_empty() {
                errors.invalid(&version, "version must be specified");
            } else {
                part(number, syntax::validate_dns1035_label(number));
            }
        }
        _ => {
            let why = format!("unexpected GroupVersion string: {}", version.text());
            errors.invalid(&version, &why);
        }
    }
    let kind = params.field("kind");
    if kind.text().is_empty() {
        errors.required(&kind, "");
    } else {
        let faults = syntax::validate_dns1035_label(&kind.text().to_lowercase());
        if !faults.is_empty() {
            let faults = faults.join(",");
            let why = format!("may have mixed case, but should otherwise match: {faults}");
            errors.invalid(&kind, &why);
        }
    }
}

/// Match conditions of a policy or a webhook; `params` says whether they may speak of parameters.
pub(super) fn match_conditions(errors: &mut Errors, conditions: &Place<'_>, params: bool) {
    if conditions.len() > CONDITIONS_MAX {
        errors.too_many(conditions, CONDITIONS_MAX);
    }
    let scope = Scope {
        params,
        authorizer: true,
        patches: false,
    };
    let mut compiler = Compiler::default();
    let mut names = BTreeSet::new();
    for condition in conditions.items() {
        let text = condition.field("expression");
        let trimmed = text.text().trim();
        if trimmed.is_empty() {
            errors.required(&text, "");
        } else {
            let shown = Value::from(trimmed);
            let place = text.showing(&shown);
            expression(errors, &place, trimmed, scope, &mut compiler, &[Type::Bool]);
        }
        let name = condition.field("name");
        errors.name(&name, syntax::validate_qualified_name);
        if !name.text().is_empty() && !names.insert(name.text().to_owned()) {
            errors.duplicate(&name);
        }
    }
}

fn scope(spec: &Place<'_>) -> Scope {
    Scope {
        params: spec.field("paramKind").is_set(),
        authorizer: true,
        patches: false,
    }
}

fn variables(errors: &mut Errors, spec: &Place<'_>, scope: Scope, compiler: &mut Compiler) {
    for variable in spec.field("variables").items() {
        let (name, text) = (variable.field("name"), variable.field("expression"));
        if name.text().trim().is_empty() {
            errors.required(&name, "name is not specified");
        } else if !cel::is_identifier(name.text()) {
            errors.invalid(&name, "must be a valid CEL identifier");
        }
        if text.text().trim().is_empty() {
            errors.required(&text, "expression is not specified");
        } else if let Err(error) = compiler.declare(name.text(), text.text(), scope) {
            errors.expression(&text, error.internal, &error.detail);
        }
    }
}

/// What is wrong with an expression; the place shows what messages quote.
fn expression(
    errors: &mut Errors,
    place: &Place<'_>,
    text: &str,
    scope: Scope,
    compiler: &mut Compiler,
    returns: &[Type],
) {
    if let Err(error) = compiler.compile(text, scope, returns) {
        errors.expression(place, error.internal, &error.detail);
    }
}

impl Errors {
    fn expression(&mut self, place: &Place<'_>, internal: bool, detail: &str) {
        match internal {
            true => self.internal(place, detail),
            false => self.invalid(place, detail),
        }
    }
}

fn matching(errors: &mut Errors, resources: &Place<'_>) {
    errors.one_of_if_set(&resources.field("matchPolicy"), &["Equivalent", "Exact"]);
    for name in ["namespaceSelector", "objectSelector"] {
        label_selector(errors, &resources.field(name));
    }
    for list in ["resourceRules", "excludeResourceRules"] {
        for rule in resources.field(list).items() {
            let mut seen = BTreeSet::new();
            for name in rule.field("resourceNames").items() {
                errors.syntax(&name, syntax::validate_path_segment);
                if !seen.insert(name.text()) {
                    errors.duplicate(&name);
                }
            }
            rule_with_operations(errors, &rule);
        }
    }
}

pub(super) fn validating_binding(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    binding(errors, &spec);
    let actions = spec.field("validationActions");
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
    if actions.is_empty() {
        errors.required(&actions, "at least one validation action is required");
    }
}

pub(super) fn mutating_binding(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    binding(errors, &spec);
    let resources = spec.field("matchResources");
    only_operations(errors, &resources, &MUTATING_OPERATIONS);
}

fn binding(errors: &mut Errors, spec: &Place<'_>) {
    errors.name(
        &spec.field("policyName"),
        syntax::validate_dns1123_subdomain,
    );
    let params = spec.field("paramRef");
    if params.is_set() {
        param_ref(errors, &params);
    }
    let resources = spec.field("matchResources");
    if resources.is_set() {
        matching(errors, &resources);
    }
}

fn param_ref(errors: &mut Errors, params: &Place<'_>) {
    let (name, selector) = (params.field("name"), params.field("selector"));
    let exclusive = "name and selector are mutually exclusive";
    if !name.text().is_empty() {
        errors.syntax(&name, syntax::validate_path_segment);
        if selector.is_set() {
            errors.forbidden(&name, exclusive);
        }
    }
    if selector.is_set() {
        label_selector(errors, &selector);
        if !name.text().is_empty() {
            errors.forbidden(&selector, exclusive);
        }
    }
    if name.text().is_empty() && !selector.is_set() {
        errors.required(params, "one of name or selector must be specified");
    }
    let action = params.field("parameterNotFoundAction");
    if action.text().is_empty() {
        errors.required(&action, "");
    } else {
        errors.one_of(&action, &["Deny", "Allow"]);
    }
}
