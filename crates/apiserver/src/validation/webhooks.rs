//! Admission webhook configurations.

use std::collections::BTreeSet;

use api::syntax;
use serde_json::Value;

use super::place::{Errors, Place};
use super::selectors;

const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Validates a mutating or validating configuration.
pub(super) fn configuration(errors: &mut Errors, root: &Place<'_>) {
    let hooks = root.field("webhooks");
    let mut names = BTreeSet::new();
    for hook in hooks.items() {
        webhook(errors, &hook);
        let name = hook.field("name");
        if !name.text().is_empty() && !names.insert(name.text().to_owned()) {
            errors.duplicate(&name);
        }
    }
}

/// Validates how a definition converts its objects, with fields as upstream's internal version names them.
pub(super) fn conversion(errors: &mut Errors, conversion: &Place<'_>) {
    let strategy = conversion.field("strategy");
    match strategy.is_empty() {
        true => errors.required(&strategy, ""),
        false => errors.one_of(&strategy, &["None", "Webhook"]),
    }
    let config = conversion.field("webhookClientConfig");
    let versions = conversion.field("conversionReviewVersions");
    if strategy.text() != "Webhook" {
        let why = "should not be set when strategy is not set to Webhook";
        if config.is_set() {
            errors.forbidden(&config, why);
        }
        if !versions.is_empty() {
            errors.forbidden(&versions, why);
        }
        return;
    }
    match config.is_set() {
        true => client_config(errors, &config),
        false => errors.required(&config, "required when strategy is set to Webhook"),
    }
    if versions.is_empty() {
        errors.required(&versions, "");
        return;
    }
    let mut seen = BTreeSet::new();
    for version in versions.items() {
        match seen.insert(version.text().to_owned()) {
            true => errors.syntax(&version, syntax::validate_dns1035_label),
            false => errors.invalid(&version, "duplicate version"),
        }
    }
    if !VERSIONS.iter().any(|known| seen.contains(*known)) {
        let why = format!("must include at least one of {}", VERSIONS.join(", "));
        errors.invalid(&versions, &why);
    }
}

fn webhook(errors: &mut Errors, hook: &Place<'_>) {
    let name = hook.field("name");
    if name.text().is_empty() {
        errors.required(&name, "");
    } else {
        errors.syntax(&name, syntax::validate_dns1123_subdomain);
        if name.text().split('.').count() < 3 {
            errors.invalid(
                &name,
                "should be a domain with at least three segments separated by dots",
            );
        }
    }
    let effects = hook.field("sideEffects");
    if !effects.is_set() {
        errors.required(&effects, "must specify one of None, NoneOnDryRun");
    } else {
        errors.one_of(&effects, &["None", "NoneOnDryRun"]);
    }
    let versions = hook.field("admissionReviewVersions");
    if versions.is_empty() {
        errors.required(
            &versions,
            &format!("must specify one of {}", VERSIONS.join(", ")),
        );
    } else if !versions
        .items()
        .any(|version| VERSIONS.contains(&version.text()))
    {
        errors.invalid(
            &versions,
            &format!("must include at least one of {}", VERSIONS.join(", ")),
        );
    }
    errors.one_of_if_set(&hook.field("failurePolicy"), &["Fail", "Ignore"]);
    errors.one_of_if_set(&hook.field("matchPolicy"), &["Equivalent", "Exact"]);
    errors.one_of_if_set(&hook.field("reinvocationPolicy"), &["IfNeeded", "Never"]);
    let timeout = hook.field("timeoutSeconds");
    if timeout
        .integer()
        .is_some_and(|seconds| !(1..=30).contains(&seconds))
    {
        errors.invalid(
            &timeout,
            "the timeout value must be between 1 and 30 seconds",
        );
    }
    for name in ["namespaceSelector", "objectSelector"] {
        let selector = hook.field(name);
        selectors::label_selector(errors, &selector);
    }
    client_config(errors, &hook.field("clientConfig"));
    let rules = hook.field("rules");
    for rule in rules.items() {
        rule_with_operations(errors, &rule);
    }
}

fn client_config(errors: &mut Errors, config: &Place<'_>) {
    let (url, service) = (config.field("url"), config.field("service"));
    match (url.is_set(), service.is_set()) {
        (true, true) | (false, false) => {
            errors.required(config, "exactly one of url or service is required")
        }
        (true, false) => webhook_url(errors, &url),
        (false, true) => service_reference(errors, &service),
    }
}

fn webhook_url(errors: &mut Errors, url: &Place<'_>) {
    let (scheme, rest) = url.text().split_once("://").unwrap_or(("", url.text()));
    let mut say = |shown: &str, detail: &str| {
        let shown = Value::from(shown);
        errors.invalid(&url.showing(&shown), detail);
    };
    if scheme != "https" {
        say(
            scheme,
            "'https' is the only allowed URL scheme; desired format: https://host[/path]",
        );
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.rsplit('@').next().is_none_or(str::is_empty) {
        say(
            "",
            "host must be specified; desired format: https://host[/path]",
        );
    }
    if authority.contains('@') {
        say(
            authority.split('@').next().unwrap_or_default(),
            "user information is not permitted in the URL",
        );
    }
    if !fragment.is_empty() {
        say(fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        say(query, "query parameters are not permitted in the URL");
    }
}

fn service_reference(errors: &mut Errors, service: &Place<'_>) {
    // UPSTREAM: the two are named the wrong way round.
    for (name, shown) in [("name", "namespace"), ("namespace", "name")] {
        if service.field(name).is_empty() {
            errors.required(&service.field(shown), "");
        }
    }
    let port = service.field("port");
    if port
        .integer()
        .is_some_and(|number| !(1..=65535).contains(&number))
    {
        errors.invalid(
            &port,
            "port is not valid: must be between 1 and 65535, inclusive",
        );
    }
    let path = service.field("path");
    if !path.is_set() || matches!(path.text(), "/" | "") {
        return;
    }
    if !path.text().starts_with('/') {
        errors.invalid(&path, "must start with a '/'");
    }
    let segments: Vec<_> = path
        .text()
        .get(1..)
        .unwrap_or_default()
        .split('/')
        .collect();
    for (index, segment) in segments.iter().enumerate() {
        if segment.is_empty() && index + 1 < segments.len().max(2) {
            errors.invalid(&path, &format!("segment[{index}] may not be empty"));
        }
    }
}

pub(super) fn rule_with_operations(errors: &mut Errors, rule: &Place<'_>) {
    let operations = rule.field("operations");
    errors.need(&operations);
    alone(
        errors,
        &operations,
        "if '*' is present, must not specify other operations",
    );
    for operation in operations.items() {
        errors.one_of(&operation, &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]);
    }
    let (groups, versions, resources) = (
        rule.field("apiGroups"),
        rule.field("apiVersions"),
        rule.field("resources"),
    );
    errors.need(&groups);
    alone(
        errors,
        &groups,
        "if '*' is present, must not specify other API groups",
    );
    errors.need(&versions);
    alone(
        errors,
        &versions,
        "if '*' is present, must not specify other API versions",
    );
    for version in versions.items() {
        errors.need(&version);
    }
    errors.need(&resources);
    let everything = resources.items().any(|resource| resource.text() == "*/*");
    if everything && resources.len() > 1 {
        errors.invalid(
            &resources,
            "if '*/*' is present, must not specify other resources",
        );
    }
    let has_all = resources.items().any(|resource| resource.text() == "*");
    if has_all
        && resources
            .items()
            .any(|resource| resource.text() != "*" && !resource.text().contains('/'))
    {
        errors.invalid(
            &resources,
            "if '*' is present, must not specify other resources without subresources",
        );
    }
    errors.one_of_if_set(&rule.field("scope"), &["*", "Cluster", "Namespaced"]);
}

/// A wildcard says everything already.
fn alone(errors: &mut Errors, list: &Place<'_>, detail: &str) {
    if list.len() > 1 && list.items().any(|item| item.text() == "*") {
        errors.invalid(list, detail);
    }
}
