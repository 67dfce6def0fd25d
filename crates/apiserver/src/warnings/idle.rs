//! What is stored and has no effect here: an audit log that would have to be written. Whoever relies on it must be told
//! when writing it, not when something slips through.

use serde_json::Value;

use crate::kinds::Kind;

/// Warnings about what an object asks for and does not get.
pub(crate) fn of(kind: &Kind, object: &Value) -> Vec<String> {
    let spec = &object["spec"];
    let asks = |member: &str, for_what: &str| {
        let mut list = spec[member].as_array().into_iter().flatten();
        list.any(|item| item == for_what)
    };
    let what = match (&*kind.group, &*kind.kind) {
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding")
            if asks("validationActions", "Audit") =>
        {
            "spec.validationActions: Audit: this server writes no audit log"
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy")
            if !crate::fields::is_empty(&spec["auditAnnotations"]) =>
        {
            "spec.auditAnnotations: this server writes no audit log"
        }
        _ => return Vec::new(),
    };
    vec![format!("{what}; what is written is kept and has no effect")]
}
