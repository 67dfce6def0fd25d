//! What is stored and has no effect here: expressions that would have to be evaluated, webhooks that would have
//! to be called. Whoever relies on them must be told when writing them, not when something slips through.

use serde_json::Value;

use crate::fields::{at, list, text};
use crate::kinds::Kind;

const RULES: &str = "x-kubernetes-validations";

/// Warnings about what an object asks for and does not get.
pub(crate) fn of(kind: &Kind, object: &Value) -> Vec<String> {
    let what = match (&*kind.group, &*kind.kind) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") => return rules(object),
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        ) => "webhooks: admission webhooks are not called by this server",
        ("admissionregistration.k8s.io", _) => {
            "spec: admission policies are not evaluated by this server"
        }
        _ => return Vec::new(),
    };
    vec![format!("{what}; what is written is kept and has no effect")]
}

/// The versions of a definition whose schemas have rules, each named once.
fn rules(definition: &Value) -> Vec<String> {
    let versions = list(definition, "spec.versions").iter();
    let ruled = versions.filter(|version| has_rules(at(version, "schema.openAPIV3Schema")));
    ruled
        .map(|version| {
            let name = text(version, "name");
            format!("spec.versions[{name}]: {RULES} are not evaluated by this server; they are kept and have no effect")
        })
        .collect()
}

/// A schema is as deep as a body may be.
fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members
            .iter()
            .any(|(name, member)| name == RULES && member.is_array() || has_rules(member)),
        Value::Array(items) => items.iter().any(has_rules),
        _ => false,
    }
}
