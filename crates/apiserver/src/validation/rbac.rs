//! Roles and bindings.

use serde_json::Value;

use super::place::{Errors, Place};
use super::selectors;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn role(errors: &mut Errors, root: &Place<'_>, namespaced: bool) {
    let rules = root.field("rules");
    for rule in rules.items() {
        let verbs = rule.field("verbs");
        if verbs.is_empty() {
            errors.required(&verbs, "verbs must contain at least one value");
        }
        let (urls, groups, resources) = (
            rule.field("nonResourceURLs"),
            rule.field("apiGroups"),
            rule.field("resources"),
        );
        if !urls.is_empty() {
            if namespaced {
                errors.invalid(&urls, "namespaced rules cannot apply to non-resource URLs");
            }
            if !groups.is_empty()
                || !resources.is_empty()
                || !rule.field("resourceNames").is_empty()
            {
                errors.invalid(
                    &urls,
                    "rules cannot apply to both regular resources and non-resource URLs",
                );
            }
            continue;
        }
        if groups.is_empty() {
            errors.required(&groups, "resource rules must supply at least one api group");
        }
        if resources.is_empty() {
            errors.required(
                &resources,
                "resource rules must supply at least one resource",
            );
        }
    }
    let aggregation = root.field("aggregationRule");
    if aggregation.is_set() {
        let list = aggregation.field("clusterRoleSelectors");
        if list.is_empty() {
            errors.required(
                &list,
                "at least one clusterRoleSelector required if aggregationRule is non-nil",
            );
        }
        for selector in list.items() {
            selectors::label_selector(errors, &selector);
        }
    }
}

pub(super) fn binding(errors: &mut Errors, root: &Place<'_>, namespaced: bool) {
    let reference = root.field("roleRef");
    let (group, kind, name) = (
        reference.field("apiGroup"),
        reference.field("kind"),
        reference.field("name"),
    );
    errors.one_of(&group, &[GROUP]);
    errors.one_of(
        &kind,
        if namespaced {
            &["Role", "ClusterRole"]
        } else {
            &["ClusterRole"]
        },
    );
    if name.text().is_empty() {
        errors.required(&name, "")
    } else {
        errors.syntax(&name, api::syntax::validate_path_segment)
    }
    let subjects = root.field("subjects");
    for subject in subjects.items() {
        let (kind, group, name) = (
            subject.field("kind"),
            subject.field("apiGroup"),
            subject.field("name"),
        );
        errors.need(&name);
        match kind.text() {
            "ServiceAccount" => {
                if !name.text().is_empty() {
                    errors.syntax(&name, api::syntax::validate_dns1123_subdomain);
                }
                if !group.text().is_empty() {
                    errors.not_supported(&group, &[""]);
                }
                let namespace = subject.field("namespace");
                if !namespaced && namespace.text().is_empty() {
                    errors.required(&namespace, "");
                }
            }
            "User" | "Group" => errors.one_of(&group, &[GROUP]),
            _ => errors.not_supported(&kind, &["ServiceAccount", "User", "Group"]),
        }
    }
}

/// Whom a binding is for may change; what it gives may not.
pub(super) fn binding_update(errors: &mut Errors, root: &Place<'_>, old: &Value, namespaced: bool) {
    binding(errors, root, namespaced);
    let reference = root.field("roleRef");
    if reference.value != &old["roleRef"] {
        errors.invalid(&reference, "cannot change roleRef");
    }
}
