//! Groups of the Kubernetes community: who defines kinds in them says where that was approved, or that it was not.
// UPSTREAM: k8s.io/apiextensions-apiserver/pkg/apihelpers and pkg/controller/apiapproval.

use crate::fields::{entry, text};
use crate::status::Cause;
use api::syntax::go_quote;
use serde_json::{Value, json};

const ANNOTATION: &str = "api-approved.kubernetes.io";
pub(super) const CONDITION: &str = "KubernetesAPIApprovalPolicyConformant";
const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Approval {
    /// Neither a URL nor a reason.
    Invalid,
    Approved,
    /// It says that it is not approved.
    Bypassed,
    Missing,
}

/// What a new definition, or one whose annotation changes, must say.
pub(super) fn validate(definition: &Value, old: Option<&Value>) -> Option<Cause> {
    if !is_protected(text(definition, "spec.group")) {
        return None;
    }
    let (approval, message) = approval_of(definition);
    if old.is_some_and(|old| approval_of(old).0 == approval) {
        return None;
    }
    let field = format!("metadata.annotations[{ANNOTATION}]");
    match approval {
        Approval::Approved | Approval::Bypassed => None,
        Approval::Missing => Some(Cause::new(
            &field,
            "FieldValueRequired",
            format!("Required value: {message}"),
        )),
        Approval::Invalid => {
            let given = go_quote(annotation(definition));
            let message = format!("Invalid value: {given}: {message}");
            Some(Cause::new(&field, "FieldValueInvalid", message))
        }
    }
}

/// The condition that says so, for groups that need it; its time is that of its last change.
pub(super) fn condition(definition: &Value, before: Option<&Value>, now: &str) -> Option<Value> {
    if !is_protected(text(definition, "spec.group")) {
        return None;
    }
    let (approval, message) = approval_of(definition);
    let (status, reason) = match approval {
        Approval::Invalid => ("False", "InvalidAnnotation"),
        Approval::Missing => ("False", "MissingAnnotation"),
        Approval::Approved => ("True", "ApprovedAnnotation"),
        Approval::Bypassed => ("False", "UnapprovedAnnotation"),
    };
    let since = before
        .filter(|before| before["status"] == status)
        .map_or(json!(now), |before| before["lastTransitionTime"].clone());
    Some(json!({
        "type": CONDITION, "status": status, "reason": reason, "message": message, "lastTransitionTime": since,
    }))
}

fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        group
            .strip_suffix(domain)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

fn annotation(definition: &Value) -> &str {
    entry(definition, "metadata.annotations", ANNOTATION).unwrap_or_default()
}

fn approval_of(definition: &Value) -> (Approval, String) {
    let annotation = annotation(definition);
    let must = format!("protected groups must have approval annotation \"{ANNOTATION}\"");
    if annotation.is_empty() {
        return (Approval::Missing, format!("{must}, {SEE}"));
    }
    if annotation.starts_with("unapproved") {
        let message = format!("not approved: {}", go_quote(annotation));
        return (Approval::Bypassed, message);
    }
    let url = annotation.parse::<http::Uri>().ok();
    let is_absolute = url.is_some_and(|url| {
        url.scheme().is_some() && url.host().is_some_and(|host| !host.is_empty())
    });
    if is_absolute {
        return (Approval::Approved, format!("approved in {annotation}"));
    }
    let message =
        format!("{must} with either a URL or a reason starting with \"unapproved\", {SEE}");
    (Approval::Invalid, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_the_community_are_protected() {
        for group in ["k8s.io", "a.k8s.io", "kubernetes.io", "a.b.kubernetes.io"] {
            assert!(is_protected(group), "{group}");
        }
        for group in ["example.com", "notk8s.io", "k8s.io.example.com", ""] {
            assert!(!is_protected(group), "{group}");
        }
    }

    #[test]
    fn approvals_are_urls_or_reasons() {
        let check = |annotation: &str, reason: &str| {
            let definition = json!({"metadata": {"annotations": {ANNOTATION: annotation}}, "spec": {"group": "a.k8s.io"}});
            let condition = condition(&definition, None, "now").unwrap();
            assert_eq!(condition["reason"], reason, "{condition}");
            let is_valid = validate(&definition, None).is_none();
            let expected = !matches!(reason, "InvalidAnnotation" | "MissingAnnotation");
            assert_eq!(is_valid, expected, "{annotation}");
            // What does not change is not checked again.
            assert!(validate(&definition, Some(&definition)).is_none());
        };
        check("", "MissingAnnotation");
        check(
            "https://github.com/kubernetes/kubernetes/pull/1",
            "ApprovedAnnotation",
        );
        check("unapproved, experimental", "UnapprovedAnnotation");
        check("/pull/1", "InvalidAnnotation");
        check("yes", "InvalidAnnotation");
    }

    #[test]
    fn the_condition_keeps_its_time_until_its_status_changes() {
        let definition = |annotation: &str| json!({"metadata": {"annotations": {ANNOTATION: annotation}}, "spec": {"group": "a.k8s.io"}});
        let first = condition(&definition("unapproved"), None, "1").unwrap();
        let second = condition(&definition("unapproved, yet"), Some(&first), "2").unwrap();
        assert_eq!(second["lastTransitionTime"], "1");
        let third = condition(&definition("https://a.b/c"), Some(&second), "3").unwrap();
        assert_eq!(
            (&third["status"], &third["lastTransitionTime"]),
            (&json!("True"), &json!("3"))
        );
    }
}
