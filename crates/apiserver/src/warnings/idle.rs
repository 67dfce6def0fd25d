//! What is stored and has no effect here, such as what asks for an audit log where none is written. Whoever relies on it
//! must be told when writing it, not when something slips through.

use serde_json::Value;

use crate::kinds::Kind;

/// Warnings about what an object asks for and does not get.
pub(crate) fn of(kind: &Kind, object: &Value, audits: bool) -> Vec<String> {
    let spec = &object["spec"];
    let asks = |member: &str, for_what: &str| {
        let mut list = spec[member].as_array().into_iter().flatten();
        list.any(|item| item == for_what)
    };
    let what = match (&*kind.group, &*kind.kind) {
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding")
            if !audits && asks("validationActions", "Audit") =>
        {
            "spec.validationActions: Audit: this server writes no audit log"
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy")
            if !audits && !crate::fields::is_empty(&spec["auditAnnotations"]) =>
        {
            "spec.auditAnnotations: this server writes no audit log"
        }
        ("flowcontrol.apiserver.k8s.io", _) => {
            "spec: requests are not sorted by priority and fairness by this server"
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
