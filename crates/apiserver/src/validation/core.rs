//! ConfigMaps, Secrets, Nodes, Namespaces, quotas and limit ranges.

use std::collections::BTreeSet;

use api::syntax;
use serde_json::{Value, json};

use super::addresses::cidr;
use super::place::{Errors, Place, config_key};
use super::{resources, scheduling};
use crate::fields::text;
use crate::resources::{amounts, quantity};

/// What a ConfigMap or Secret may hold in all: etcd's own limit is a little above.
const DATA_MAX: usize = 1024 * 1024;

pub(super) fn config_map(errors: &mut Errors, root: &Place<'_>) {
    let (data, binary) = (root.field("data"), root.field("binaryData"));
    let mut size = 0;
    for (key, value) in data.entries() {
        let shown = Value::from(key);
        let place = value.showing(&shown);
        errors.syntax(&place, config_key);
        if binary.value.get(key).is_some() {
            errors.invalid(&place, "duplicate of key present in binaryData");
        }
        size += value.text().len();
    }
    for (key, value) in binary.entries() {
        let shown = Value::from(key);
        errors.syntax(&value.showing(&shown), config_key);
        size += value.text().len() / 4 * 3;
    }
    if size > DATA_MAX {
        // UPSTREAM: the whole object is named, by an empty path.
        errors.too_long(&root.field(""), DATA_MAX);
    }
}

/// An immutable ConfigMap or Secret stays as it is, and immutable.
pub(super) fn immutable_data(errors: &mut Errors, root: &Place<'_>, old: &Value) {
    if old["immutable"] != json!(true) {
        return;
    }
    let flag = root.field("immutable");
    if !flag.flag() {
        errors.forbidden(&flag, "field is immutable when `immutable` is set");
    }
    for name in ["data", "binaryData"] {
        let place = root.field(name);
        if place.value != old.get(name).unwrap_or(&Value::Null) {
            errors.forbidden(&place, "field is immutable when `immutable` is set");
        }
    }
}

pub(super) fn secret(errors: &mut Errors, root: &Place<'_>) {
    use base64::Engine as _;
    let data = root.field("data");
    let mut size = 0;
    for (key, value) in data.entries() {
        let shown = Value::from(key);
        errors.syntax(&value.showing(&shown), config_key);
        size += value.text().len() / 4 * 3;
    }
    if size > DATA_MAX {
        errors.too_long(&data, DATA_MAX);
    }
    let need = |errors: &mut Errors, key: &str| {
        let place = data.key(key);
        if !place.is_set() {
            errors.required(&place, "");
        }
    };
    match root.field("type").text() {
        "kubernetes.io/tls" => ["tls.crt", "tls.key"]
            .iter()
            .for_each(|key| need(errors, key)),
        "kubernetes.io/basic-auth"
            if !data.key("username").is_set() && !data.key("password").is_set() =>
        {
            ["username", "password"]
                .iter()
                .for_each(|key| need(errors, key));
        }
        "kubernetes.io/ssh-auth" => errors.need(&data.key("ssh-privatekey")),
        "kubernetes.io/service-account-token" => {
            let metadata = root.field("metadata");
            let annotations = metadata.field("annotations");
            let name = annotations.key("kubernetes.io/service-account.name");
            if name.is_empty() {
                errors.required(&name, "");
            }
        }
        kind @ ("kubernetes.io/dockercfg" | "kubernetes.io/dockerconfigjson") => {
            let key = if kind.ends_with("json") {
                ".dockerconfigjson"
            } else {
                ".dockercfg"
            };
            let place = data.key(key);
            need(errors, key);
            let text = base64::engine::general_purpose::STANDARD
                .decode(place.text())
                .unwrap_or_default();
            if place.is_set()
                && let Err(error) = serde_json::from_slice::<Value>(&text)
            {
                let redacted = json!("<secret contents redacted>");
                errors.invalid(&place.showing(&redacted), &go_json_error(&text, &error));
            }
        }
        _ => {}
    }
}

/// What Go's parser says about text that is not JSON.
fn go_json_error(text: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let line = text
        .split(|byte| *byte == b'\n')
        .nth(error.line().saturating_sub(1))
        .unwrap_or_default();
    let letter = line
        .get(error.column().saturating_sub(1))
        .copied()
        .map_or(' ', char::from);
    let place = if error.to_string().starts_with("trailing") {
        "after top-level value"
    } else {
        "looking for beginning of value"
    };
    format!("invalid character '{letter}' {place}")
}

pub(super) fn node(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    // UPSTREAM: taints are named as if they were in the metadata.
    let taints = spec.field("taints");
    let metadata = root.field("metadata");
    let shown = metadata.field("taints");
    scheduling::taints(errors, &shown.showing(taints.value));
    let cidrs = spec.field("podCIDRs");
    let mut families = BTreeSet::new();
    for range in cidrs.items() {
        let faults = cidr(range.text());
        errors.syntax(&range, cidr);
        if faults.is_empty() && !families.insert(range.text().contains(':')) {
            errors.invalid(
                &cidrs,
                "may specify no more than one CIDR for each IP family",
            );
        }
    }
    let status = root.field("status");
    for name in ["capacity", "allocatable"] {
        let list = status.field(name);
        for (resource, amount) in list.entries() {
            resources::value(errors, resource, &amount);
        }
    }
}

/// A node's networks and provider id are given once.
pub(super) fn node_update(errors: &mut Errors, root: &Place<'_>, old: &Value) {
    node(errors, root);
    let spec = root.field("spec");
    let before = &old["spec"];
    for name in ["podCIDRs", "providerID"] {
        let place = spec.field(name);
        let set_before = before
            .get(name)
            .is_some_and(|value| !crate::fields::is_empty(value));
        if set_before && place.value != &before[name] {
            let field = if name == "podCIDRs" { "podCIDR" } else { name };
            errors.forbidden(
                &place,
                &format!("node updates may not change {field} except from \"\" to valid"),
            );
        }
    }
}

pub(super) fn namespace(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    let finalizers = spec.field("finalizers");
    for finalizer in finalizers.items() {
        let place = finalizers.showing(finalizer.value);
        errors.syntax(&place, syntax::validate_qualified_name);
        if !finalizer.text().contains('/') && finalizer.text() != "kubernetes" {
            errors.invalid(
                &place,
                "name is neither a standard finalizer name nor is it fully qualified",
            );
        }
    }
}

pub(super) fn resource_quota(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    let hard = spec.field("hard");
    for (name, amount) in hard.entries() {
        let shown = Value::from(name);
        let place = amount.showing(&shown);
        let counts = name.starts_with("count/");
        if counts {
            errors.syntax(&place, syntax::validate_qualified_name);
        } else {
            resources::qualified(errors, &place, name);
            if !name.contains('/') && !resources::is_standard(name) {
                errors.invalid(&place, "must be a standard resource for quota");
            }
        }
        resources::value(errors, name, &amount);
    }
    quota_scopes(errors, &spec, &hard);
}

const QUOTA_SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];

/// Objects are in one of these scopes or not: there is no value to select.
const SCOPES_WITHOUT_VALUES: [&str; 5] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "CrossNamespacePodAffinity",
];

fn quota_scopes(errors: &mut Errors, spec: &Place<'_>, hard: &Place<'_>) {
    let scopes = spec.field("scopes");
    for scope in scopes.items() {
        if !QUOTA_SCOPES.contains(&scope.text()) {
            errors.invalid(&scopes, "unsupported scope");
        }
        scope_fits_all(errors, &scopes, scope.text(), hard);
    }
    let names = scopes.items().map(|scope| scope.text()).collect();
    conflicting_scopes(errors, &scopes, &names);

    let selector = spec.field("scopeSelector");
    let expressions = selector.field("matchExpressions");
    let mut names = BTreeSet::new();
    for expression in expressions.items() {
        // UPSTREAM: no index in these paths.
        let bare = expressions.showing(expression.value);
        let (scope, operator) = (bare.field("scopeName"), bare.field("operator"));
        if !QUOTA_SCOPES.contains(&scope.text()) {
            errors.invalid(&scope, "unsupported scope");
        }
        let shown = expressions.showing(selector.value);
        scope_fits_all(errors, &shown, scope.text(), hard);
        if SCOPES_WITHOUT_VALUES.contains(&scope.text()) && operator.text() != "Exists" {
            errors.invalid(&operator, "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity");
        }
        scope_values(errors, &operator, &bare.field("values"));
        names.insert(text(expression.value, "scopeName"));
    }
    conflicting_scopes(errors, &expressions.showing(scopes.value), &names);
}

fn scope_values(errors: &mut Errors, operator: &Place<'_>, values: &Place<'_>) {
    match operator.text() {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(
                values,
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            );
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.invalid(
                values,
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            );
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => errors.invalid(operator, "not a valid selector operator"),
    }
}

fn conflicting_scopes(errors: &mut Errors, place: &Place<'_>, names: &BTreeSet<&str>) {
    for pair in [
        ["BestEffort", "NotBestEffort"],
        ["Terminating", "NotTerminating"],
    ] {
        if pair.iter().all(|scope| names.contains(scope)) {
            errors.invalid(place, "conflicting scopes");
        }
    }
}

/// A scope goes with every standard resource that is limited.
fn scope_fits_all(errors: &mut Errors, place: &Place<'_>, scope: &str, hard: &Place<'_>) {
    for (resource, _) in hard.entries() {
        if resources::is_standard_quota(resource) && !scope_fits(scope, resource) {
            errors.invalid(place, "unsupported scope applied to resource");
        }
    }
}

/// Whether objects that a standard resource counts can be told apart by a scope.
fn scope_fits(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => {
            matches!(resource, "persistentvolumeclaims" | "requests.storage")
        }
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => matches!(
            resource,
            "pods"
                | "cpu"
                | "memory"
                | "limits.cpu"
                | "limits.memory"
                | "requests.cpu"
                | "requests.memory"
        ),
        _ => true,
    }
}

pub(super) fn limit_range(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    let limits = spec.field("limits");
    let mut kinds = BTreeSet::new();
    for item in limits.items() {
        let kind = item.field("type");
        let known = ["Container", "Pod", "PersistentVolumeClaim"];
        if !known.contains(&kind.text()) && !kind.text().contains('/') {
            errors.invalid(&kind, "must be a standard limit type or fully qualified");
        }
        if !kinds.insert(kind.text().to_owned()) {
            errors.duplicate(&kind);
        }
        if kind.text() == "Pod" {
            for name in ["default", "defaultRequest"] {
                let place = item.field(name);
                if !place.is_empty() {
                    errors.forbidden(&place, "may not be specified when `type` is 'Pod'");
                }
            }
        }
        if kind.text() == "PersistentVolumeClaim"
            && item.field("min").is_empty()
            && item.field("max").is_empty()
        {
            errors.required(
                &item.field("limits"),
                "either minimum or maximum storage value is required, but neither was provided",
            );
        }
        limit_values(errors, &item);
    }
}

/// The lists of one item bound each other: min <= default request <= default <= max.
fn limit_values(errors: &mut Errors, item: &Place<'_>) {
    let list = |name: &str| amounts(item.value, name);
    let (min, max) = (list("min"), list("max"));
    let (default, request, ratio) = (
        list("default"),
        list("defaultRequest"),
        list("maxLimitRequestRatio"),
    );
    let names: BTreeSet<&api::Istr> = [&min, &max, &default, &request, &ratio]
        .into_iter()
        .flat_map(|list| list.keys())
        .collect();
    let mut say = |list: &str, name: &str, value: &api::Quantity, detail: String| {
        let shown = Value::from(value.to_string());
        let list = item.field(list);
        let place = list.key(name);
        errors.invalid(&place.showing(&shown), &detail);
    };
    for name in names {
        let (least, most) = (min.get(name), max.get(name));
        let (given, asked) = (default.get(name), request.get(name));
        if let (Some(least), Some(most)) = (least, most)
            && least > most
        {
            say(
                "min",
                name,
                least,
                format!("min value {least} is greater than max value {most}"),
            );
        }
        if let (Some(least), Some(asked)) = (least, asked)
            && least > asked
        {
            say(
                "defaultRequest",
                name,
                asked,
                format!("min value {least} is greater than default request value {asked}"),
            );
        }
        if let (Some(asked), Some(most)) = (asked, most)
            && asked > most
        {
            say(
                "defaultRequest",
                name,
                asked,
                format!("default request value {asked} is greater than max value {most}"),
            );
        }
        if let (Some(asked), Some(given)) = (asked, given)
            && asked > given
        {
            say(
                "defaultRequest",
                name,
                asked,
                format!(
                    "default request value {asked} is greater than default limit value {given}"
                ),
            );
        }
        if let (Some(least), Some(given)) = (least, given)
            && least > given
        {
            say(
                "default",
                name,
                least,
                format!("min value {least} is greater than default value {given}"),
            );
        }
        if let (Some(given), Some(most)) = (given, most)
            && given > most
        {
            say(
                "default",
                name,
                most,
                format!("default value {given} is greater than max value {most}"),
            );
        }
        if let Some(ratio) = ratio.get(name)
            && *ratio < quantity(&json!("1")).unwrap_or_default()
        {
            say(
                "maxLimitRequestRatio",
                name,
                ratio,
                format!("ratio {ratio} is less than 1"),
            );
        }
    }
}
