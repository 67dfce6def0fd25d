//! What is stored and has no effect here: expressions that would have to be evaluated, webhooks that would have
//! to be called. Whoever relies on them must be told when writing them, not when something slips through.

use crate::fields::at;
use crate::kinds::Kind;
use serde_json::Value;

/// Warnings about what an object asks for and does not get.
pub(crate) fn of(kind: &Kind, object: &Value) -> Vec<String> {
    let what = match (&*kind.group, &*kind.kind) {
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        ) => "webhooks: admission webhooks are not called by this server",
        ("admissionregistration.k8s.io", _) => {
            "spec: admission policies are not evaluated by this server"
        }
        ("flowcontrol.apiserver.k8s.io", _) => {
            "spec: requests are not sorted by priority and fairness by this server"
        }
        ("apiregistration.k8s.io", "APIService") if at(object, "spec.service").is_object() => {
            "spec.service: requests are not passed on to other API servers by this server"
        }
        ("networking.k8s.io", "ServiceCIDR") => {
            "spec.cidrs: Services get their addresses from the range that this server was started with"
        }
        _ => return Vec::new(),
    };
    vec![format!("{what}; what is written is kept and has no effect")]
}

/// The same for what nobody acts upon where nodes are simulated: elsewhere somebody may.
pub(crate) fn in_a_box(kind: &Kind) -> Option<String> {
    let what = match (&*kind.group, &*kind.kind) {
        ("networking.k8s.io", "NetworkPolicy") => {
            "spec: nodes are simulated and no traffic flows between pods, so nothing is let through or held back"
        }
        ("storage.k8s.io", "CSIStorageCapacity") => {
            "capacity: the simulated scheduler does not look at the capacity of storage"
        }
        _ => return None,
    };
    Some(format!("{what}; what is written is kept and has no effect"))
}
