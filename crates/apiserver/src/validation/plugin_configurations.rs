//! What is wrong with the configurations of admission plugins, which come from files.

use std::collections::BTreeSet;

use api::syntax;
use serde_json::json;

use super::place::{Errors, Place};
use crate::admission::{Level, Version};

/// UPSTREAM: `plugin/pkg/admission/eventratelimit/apis/eventratelimit/validation`.
pub(super) fn event_limits(errors: &mut Errors, root: &Place<'_>) {
    let limits = root.field("limits");
    if limits.is_empty() {
        errors.invalid(&limits, "must not be empty");
    }
    for limit in limits.items() {
        let kind = limit.field("type");
        errors.one_of(&kind, &["Server", "Namespace", "User", "SourceAndObject"]);
        for name in ["burst", "qps"] {
            let place = limit.field(name);
            let number = place.integer().unwrap_or_default();
            if number <= 0 && (place.integer().is_some() || !place.is_set()) {
                errors.invalid(&place.showing(&json!(number)), "must be positive");
            }
        }
        let size = limit.field("cacheSize");
        if kind.text() != "Server" && size.integer().is_some_and(|size| size < 0) {
            errors.invalid(&size, "must not be negative");
        }
    }
}

/// UPSTREAM: `admission/api/validation` of k8s.io/pod-security-admission.
pub(super) fn pod_security(errors: &mut Errors, root: &Place<'_>) {
    let defaults = root.field("defaults");
    for (level, version) in [
        ("enforce", "enforce-version"),
        ("warn", "warn-version"),
        ("audit", "audit-version"),
    ] {
        let place = defaults.field(level);
        if let (false, Err(why)) = (place.is_empty(), Level::parse(place.text())) {
            errors.invalid(&place, why);
        }
        let place = defaults.field(version);
        if let (false, Err(why)) = (place.is_empty(), Version::parse(place.text())) {
            errors.invalid(&place, why);
        }
    }
    let exemptions = root.field("exemptions");
    let is_named = |name: &str| match name.is_empty() {
        true => vec!["username must not be empty".to_owned()],
        false => Vec::new(),
    };
    names(
        errors,
        &exemptions.field("namespaces"),
        syntax::validate_dns1123_label,
    );
    names(
        errors,
        &exemptions.field("runtimeClasses"),
        syntax::validate_dns1123_subdomain,
    );
    names(errors, &exemptions.field("usernames"), is_named);
}

/// Names of whatever is exempt, each once.
fn names(errors: &mut Errors, list: &Place<'_>, check: fn(&str) -> Vec<String>) {
    let mut seen = BTreeSet::new();
    for name in list.items() {
        let faults = check(name.text());
        if !faults.is_empty() {
            errors.invalid(&name, &faults.join(", "));
        } else if !seen.insert(name.text().to_owned()) {
            errors.duplicate(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::Value;

    use super::*;

    /// UPSTREAM: TestValidateConfiguration.
    #[test]
    fn limits_of_events_are_checked() {
        let check = |limits: Value, expected: Expect| {
            let causes = crate::validation::event_limits(&json!({"limits": limits}));
            expected.assert_eq(&crate::status::summary(&causes));
        };
        let valid = json!([
            {"type": "Server", "burst": 5, "qps": 1, "cacheSize": -1},
            {"type": "Namespace", "burst": 10, "qps": 2, "cacheSize": 100},
            {"type": "User", "burst": 10, "qps": 2, "cacheSize": 100},
            {"type": "SourceAndObject", "burst": 25, "qps": 10},
        ]);
        check(valid, expect!["[]"]);
        check(
            json!([]),
            expect!["limits: Invalid value: []: must not be empty"],
        );
        check(
            json!([{"burst": 25, "qps": 10}]),
            expect![[
                r#"limits[0].type: Unsupported value: "": supported values: "Server", "Namespace", "User", "SourceAndObject""#
            ]],
        );
        check(
            json!([{"type": "unknown-type", "burst": 25, "qps": 10}]),
            expect![[
                r#"limits[0].type: Unsupported value: "unknown-type": supported values: "Server", "Namespace", "User", "SourceAndObject""#
            ]],
        );
        check(
            json!([{"type": "Server", "qps": -1}]),
            expect![
                "[limits[0].burst: Invalid value: 0: must be positive, limits[0].qps: Invalid value: -1: must be positive]"
            ],
        );
        check(
            json!([{"type": "Namespace", "burst": 10, "qps": 2, "cacheSize": -1}]),
            expect!["limits[0].cacheSize: Invalid value: -1: must not be negative"],
        );
    }

    /// UPSTREAM: TestValidatePodSecurityConfiguration.
    #[test]
    fn defaults_and_exemptions_of_pod_security_are_checked() {
        let check = |configuration: Value, expected: Expect| {
            let causes = crate::validation::pod_security(&configuration);
            let lines = causes
                .iter()
                .map(|one| format!("{}: {}", one.field, one.message));
            expected.assert_eq(&lines.collect::<Vec<_>>().join("\n"));
        };
        let long = "test".repeat(16);
        check(
            json!({"defaults": {"enforce": "privileged", "enforce-version": "v1.22", "audit": "baseline",
                    "audit-version": "v1.25", "warn": "restricted", "warn-version": "latest"},
                "exemptions": {"namespaces": ["", "_&$%#", "TEST", long, "testing", "testing"],
                    "runtimeClasses": ["", "_&$%#", "TEST", "testing", "testing"],
                    "usernames": ["", "testing", "testing"]}}),
            expect![[r#"
                exemptions.namespaces[0]: Invalid value: "": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
                exemptions.namespaces[1]: Invalid value: "_&$%#": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
                exemptions.namespaces[2]: Invalid value: "TEST": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
                exemptions.namespaces[3]: Invalid value: "testtesttesttesttesttesttesttesttesttesttesttesttesttesttesttest": must be no more than 63 characters
                exemptions.namespaces[5]: Duplicate value: "testing"
                exemptions.runtimeClasses[0]: Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                exemptions.runtimeClasses[1]: Invalid value: "_&$%#": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                exemptions.runtimeClasses[2]: Invalid value: "TEST": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                exemptions.runtimeClasses[4]: Duplicate value: "testing"
                exemptions.usernames[0]: Invalid value: "": username must not be empty
                exemptions.usernames[2]: Duplicate value: "testing""#]],
        );
        check(
            json!({"defaults": {"enforce": "baslein", "enforce-version": "v.122", "audit": "lorum",
                "audit-version": "ipsum", "warn": "", "warn-version": ""}}),
            expect![[r#"
                defaults.enforce: Invalid value: "baslein": must be one of privileged, baseline, restricted
                defaults.enforce-version: Invalid value: "v.122": must be "latest" or "v1.x"
                defaults.audit: Invalid value: "lorum": must be one of privileged, baseline, restricted
                defaults.audit-version: Invalid value: "ipsum": must be "latest" or "v1.x""#]],
        );
    }
}
