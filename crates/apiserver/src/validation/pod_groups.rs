//! Pods that are scheduled together: workloads, which plan groups, and the groups. Alpha upstream.

use std::collections::BTreeSet;

use api::syntax;
use serde_json::Value;

use super::place::{Errors, Place};

const TEMPLATES_MAX: usize = 8;
const CLAIMS_MAX: usize = 4;

pub(super) fn workload(errors: &mut Errors, spec: &Place<'_>) {
    let owner = spec.field("controllerRef");
    if owner.is_set() {
        for name in ["kind", "name"] {
            errors.name(&owner.field(name), syntax::validate_path_segment);
        }
        if !owner.field("apiGroup").text().is_empty() {
            errors.syntax(&owner.field("apiGroup"), syntax::validate_dns1123_subdomain);
        }
    }
    let templates = spec.field("podGroupTemplates");
    if templates.is_empty() {
        errors.required(&templates, "");
    }
    if templates.len() > TEMPLATES_MAX {
        errors.too_many(&templates, TEMPLATES_MAX);
    }
    let mut names = BTreeSet::new();
    for template in templates.items() {
        let name = template.field("name");
        errors.name(&name, syntax::validate_dns1123_label);
        if !name.text().is_empty() && !names.insert(name.text().to_owned()) {
            errors.duplicate(&template.showing(name.value));
        }
        pods(errors, &template);
    }
}

/// What a workload plans stays as it is.
pub(super) fn workload_update(errors: &mut Errors, root: &Place<'_>, old: &Value) {
    let spec = root.field("spec");
    for name in ["controllerRef", "podGroupTemplates"] {
        errors.immutable(&spec.field(name), &old["spec"][name]);
    }
}

pub(super) fn group(errors: &mut Errors, spec: &Place<'_>) {
    let template = spec.field("podGroupTemplateRef");
    if template.is_set() {
        let workload = template.field("workload");
        if workload.is_set() {
            errors.name(
                &workload.field("workloadName"),
                syntax::validate_dns1123_subdomain,
            );
            errors.name(
                &workload.field("podGroupTemplateName"),
                syntax::validate_dns1123_label,
            );
        } else {
            errors.invalid(&template, "must specify one of: `workload`");
        }
    }
    pods(errors, spec);
}

pub(super) fn group_update(errors: &mut Errors, root: &Place<'_>, old: &Value) {
    let spec = root.field("spec");
    for name in ["podGroupTemplateRef", "schedulingPolicy", "resourceClaims"] {
        errors.immutable(&spec.field(name), &old["spec"][name]);
    }
}

/// Claims are told of by the names that the spec gives them.
pub(super) fn group_status(errors: &mut Errors, root: &Place<'_>) {
    let (spec, status) = (root.field("spec"), root.field("status"));
    let claims = spec.field("resourceClaims");
    let known: BTreeSet<&str> = claims
        .value
        .as_array()
        .map_or_else(BTreeSet::new, |claims| {
            let names = claims.iter().filter_map(|claim| claim["name"].as_str());
            names.collect()
        });
    for told in status.field("resourceClaimStatuses").items() {
        let name = told.field("name");
        if !known.contains(name.text()) {
            errors.invalid(
                &name,
                "must match the name of an entry in `spec.resourceClaims`",
            );
        }
    }
}

/// What a group and its template have in common.
fn pods(errors: &mut Errors, spec: &Place<'_>) {
    let policy = spec.field("schedulingPolicy");
    let (basic, gang) = (policy.field("basic"), policy.field("gang"));
    match (basic.is_set(), gang.is_set()) {
        (false, false) => errors.invalid(&policy, "must specify one of: `basic`, `gang`"),
        (true, true) => {
            let shown = Value::from("{`basic`, `gang`}");
            errors.invalid(
                &policy.showing(&shown),
                "must specify exactly one of: `basic`, `gang`",
            );
        }
        _ => {}
    }
    let least = gang.field("minCount");
    if gang.is_set() && least.integer().unwrap_or_default() == 0 {
        errors.required(&least, "");
    } else if gang.is_set() && least.integer().is_some_and(|count| count < 1) {
        errors.invalid(&least, "must be greater than or equal to 1");
    }
    let claims = spec.field("resourceClaims");
    if claims.len() > CLAIMS_MAX {
        errors.too_many(&claims, CLAIMS_MAX);
    }
    for claim in claims.items() {
        errors.name(&claim.field("name"), syntax::validate_dns1123_label);
        let ways = ["resourceClaimName", "resourceClaimTemplateName"];
        let given = ways.iter().filter(|way| claim.field(way).is_set()).count();
        match given {
            0 => errors.invalid(
                &claim,
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            ),
            1 => {}
            _ => errors.invalid(
                &claim,
                "must specify exactly one of: `resourceClaimName`, `resourceClaimTemplateName`",
            ),
        }
    }
}
