//! What is stored and has no effect here: policies that would have to be evaluated. Whoever relies on them must be told when writing them, not when something slips through.

use crate::kinds::Kind;

/// Warnings about what an object asks for and does not get.
pub(crate) fn of(kind: &Kind) -> Vec<String> {
    let what = match (&*kind.group, &*kind.kind) {
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        ) => return Vec::new(),
        ("admissionregistration.k8s.io", _) => {
            "spec: admission policies are not evaluated by this server"
        }
        _ => return Vec::new(),
    };
    vec![format!("{what}; what is written is kept and has no effect")]
}
