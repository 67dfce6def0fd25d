//! CertificateSigningRequests once they were made: what was decided about one stays decided, and what was issued stays as
//! it is. What was asked for cannot change, so it is not looked at again.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use keys::pem::blocks;
use serde_json::Value;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::place::{Errors, Place};
use crate::fields::{list, text};

const DECISIONS: [&str; 2] = ["Approved", "Denied"];
const FAILED: &str = "Failed";

/// A signer writes the certificate, or why there is none; others decide.
pub(super) fn status(errors: &mut Errors, root: &Place<'_>, old: &Value) {
    let status = root.field("status");
    let conditions = status.field("conditions");
    check_conditions(errors, &conditions, old);
    let (certificate, held) = (status.field("certificate"), text(old, "status.certificate"));
    let is_new = certificate.text() != held;
    // What was taken once stays, whatever a newer reader of certificates thinks of it.
    if is_new
        && chain_fault(held).is_none()
        && let Some(fault) = chain_fault(certificate.text())
    {
        let shown = Value::from("<certificate data>");
        errors.invalid(&certificate.showing(&shown), &fault);
    }
    check_removed(errors, &conditions, old);
    for decision in DECISIONS {
        if count(conditions.value, decision) > count(&old["status"]["conditions"], decision) {
            let detail = format!("updates may not add a condition of type \"{decision}\"");
            errors.forbidden(&conditions, &detail);
        }
    }
    if is_new && !held.is_empty() {
        let detail = "updates may not modify existing certificate content";
        errors.forbidden(&certificate, detail);
    }
}

/// Somebody approves or denies it, once and for all.
pub(super) fn approval(errors: &mut Errors, root: &Place<'_>, old: &Value) {
    let status = root.field("status");
    let conditions = status.field("conditions");
    check_conditions(errors, &conditions, old);
    check_removed(errors, &conditions, old);
}

/// What is wrong with conditions, but for what was wrong with them before.
fn check_conditions(errors: &mut Errors, conditions: &Place<'_>, old: &Value) {
    let before = list(old, "status.conditions");
    let had = |kind: &str| before.iter().any(|one| text(one, "type") == kind);
    let was_both = DECISIONS.iter().all(|decision| had(decision));
    let was_nameless = had("");
    let mut kinds: Vec<&str> = before.iter().map(|one| text(one, "type")).collect();
    kinds.sort_unstable();
    let was_repeated = kinds.windows(2).any(|two| two[0] == two[1]);

    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for condition in conditions.items() {
        let (kind, name) = (condition.field("type"), text(condition.value, "type"));
        if !was_nameless {
            errors.need(&kind);
        }
        let status = condition.field("status");
        let is_only_true = DECISIONS.contains(&kind.text()) || kind.text() == FAILED;
        match status.text() {
            "" => errors.required(&status, ""),
            _ if is_only_true => errors.one_of(&status, &["True"]),
            _ => errors.one_of(&status, &["False", "True", "Unknown"]),
        }
        let mut others = DECISIONS.into_iter().filter(|other| *other != name);
        let contradicts = others.any(|other| seen.contains(other));
        if !was_both && DECISIONS.contains(&name) && contradicts {
            let detail = "Approved and Denied conditions are mutually exclusive";
            errors.invalid(&conditions.showing(kind.value), detail);
        }
        if !seen.insert(name) && !was_repeated {
            errors.duplicate(&kind);
        }
    }
}

fn check_removed(errors: &mut Errors, conditions: &Place<'_>, old: &Value) {
    for kind in DECISIONS.into_iter().chain([FAILED]) {
        if count(conditions.value, kind) < count(&old["status"]["conditions"], kind) {
            let detail = format!("updates may not remove a condition of type \"{kind}\"");
            errors.forbidden(conditions, &detail);
        }
    }
}

fn count(conditions: &Value, kind: &str) -> usize {
    let conditions = conditions.as_array().into_iter().flatten();
    conditions.filter(|one| text(one, "type") == kind).count()
}

/// What is wrong with an issued certificate (PEM, in base64); there may be none.
fn chain_fault(encoded: &str) -> Option<String> {
    if encoded.is_empty() {
        return None;
    }
    let pem = STANDARD.decode(encoded).unwrap_or_default();
    let pem = String::from_utf8_lossy(&pem);
    let blocks = blocks(&pem);
    if blocks.is_empty() {
        return Some("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    blocks.iter().find_map(|block| {
        if block.label != "CERTIFICATE" {
            let label = block.label;
            let fault = format!("only CERTIFICATE PEM blocks are allowed, found \"{label}\"");
            return Some(fault);
        }
        if block.has_headers {
            return Some("no PEM block headers are permitted".to_owned());
        }
        if block.der.is_empty() {
            return Some("found CERTIFICATE PEM block containing 0 certificates".to_owned());
        }
        let mut rest = block.der.as_slice();
        while !rest.is_empty() {
            match X509Certificate::from_der(rest) {
                Ok((after, _)) => rest = after,
                Err(_) => return Some("x509: malformed certificate".to_owned()),
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};
    use serde_json::json;

    use super::*;

    type Check = fn(&mut Errors, &Place<'_>, &Value);

    /// `Approved Failed=False` and a certificate.
    fn request(conditions: &str, certificate: &str) -> Value {
        let conditions = conditions.split_whitespace().map(|condition| {
            let (kind, status) = condition.split_once('=').unwrap_or((condition, "True"));
            json!({"type": kind, "status": status})
        });
        let conditions: Vec<Value> = conditions.collect();
        let mut status = json!({"conditions": conditions});
        if !certificate.is_empty() {
            status["certificate"] = STANDARD.encode(certificate).into();
        }
        json!({"metadata": {"name": "r"}, "status": status})
    }

    fn faults(check: Check, new: &Value, old: &Value) -> Vec<String> {
        let mut errors = Errors::default();
        check(&mut errors, &Place::root(new), old);
        let causes = errors.0.iter();
        causes
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect()
    }

    fn pem() -> String {
        let params = CertificateParams::new(["a".to_owned()]).unwrap();
        params
            .self_signed(&KeyPair::generate().unwrap())
            .unwrap()
            .pem()
    }

    // Upstream: TestValidateCertificateSigningRequestUpdate, …StatusUpdate, …ApprovalUpdate.
    #[test]
    fn what_was_decided_stays_decided() {
        let check = |check: Check, new: &str, old: &str| {
            faults(check, &request(new, ""), &request(old, "")).join("; ")
        };
        assert_eq!(check(approval, "Approved", ""), "");
        assert_eq!(check(approval, "Denied", ""), "");
        assert_eq!(check(status, "Approved Failed", "Approved"), "");
        for kind in ["Approved", "Denied", "Failed"] {
            let removed = format!(
                "status.conditions: Forbidden: updates may not remove a condition of type \"{kind}\""
            );
            assert_eq!(check(approval, "", kind), removed);
            assert_eq!(check(status, "", kind), removed);
        }
        for kind in DECISIONS {
            assert_eq!(
                check(status, kind, ""),
                format!(
                    "status.conditions: Forbidden: updates may not add a condition of type \"{kind}\""
                )
            );
        }
        let exclusive = |kind: &str| {
            format!(
                "status.conditions: Invalid value: \"{kind}\": Approved and Denied conditions are mutually exclusive"
            )
        };
        assert_eq!(
            check(approval, "Approved Denied", "Approved"),
            exclusive("Denied")
        );
        assert_eq!(
            check(approval, "Denied Approved", "Denied"),
            exclusive("Approved")
        );
        assert_eq!(check(approval, "Denied Approved", "Denied Approved"), "");
    }

    // Upstream: Test_validateCertificateSigningRequest_…Conditions.
    #[test]
    fn conditions_have_types_and_statuses() {
        let check =
            |new: &str, old: &str| faults(status, &request(new, ""), &request(old, "")).join("; ");
        assert_eq!(check("Other=Unknown Other2=False", ""), "");
        assert_eq!(
            check("Other=Maybe", ""),
            "status.conditions[0].status: Unsupported value: \"Maybe\": supported values: \"False\", \"True\", \"Unknown\""
        );
        assert_eq!(
            check("Failed=False", ""),
            "status.conditions[0].status: Unsupported value: \"False\": supported values: \"True\""
        );
        assert_eq!(
            check("Other=", ""),
            "status.conditions[0].status: Required value"
        );
        assert_eq!(
            check("=True", ""),
            "status.conditions[0].type: Required value"
        );
        assert_eq!(check("=True", "=True"), "");
        assert_eq!(
            check("Failed Failed", "Failed"),
            "status.conditions[1].type: Duplicate value: \"Failed\""
        );
        assert_eq!(check("Failed Failed", "Failed Failed"), "");
    }

    // Upstream: Test_validateCertificateSigningRequest_…Certificate, TestValidateCertificateSigningRequestUpdate.
    #[test]
    fn what_was_issued_stays_and_is_certificates() {
        let check = |new: &str, old: &str| {
            faults(status, &request("Approved", new), &request("Approved", old)).join("; ")
        };
        let (one, two) = (pem(), pem());
        assert_eq!(check(&one, ""), "");
        assert_eq!(check(&format!("text\n{one}text\n{two}"), ""), "");
        assert_eq!(check(&one, &one), "");
        let modified =
            "status.certificate: Forbidden: updates may not modify existing certificate content";
        assert_eq!(check(&two, &one), modified);
        assert_eq!(check("", &one), modified);
        let invalid = "status.certificate: Invalid value: \"<certificate data>\": ";
        assert_eq!(
            check("text", ""),
            format!("{invalid}must contain at least one CERTIFICATE PEM block")
        );
        assert_eq!(
            check(&one.replace("CERTIFICATE", "PUBLIC KEY"), ""),
            format!("{invalid}only CERTIFICATE PEM blocks are allowed, found \"PUBLIC KEY\"")
        );
        assert_eq!(
            check(&one.replacen('\n', "\nkey: value\n\n", 1), ""),
            format!("{invalid}no PEM block headers are permitted")
        );
        let odd = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert_eq!(
            check(&format!("{one}{odd}"), ""),
            format!("{invalid}x509: malformed certificate")
        );
        let empty = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n";
        assert_eq!(
            check(empty, ""),
            format!("{invalid}found CERTIFICATE PEM block containing 0 certificates")
        );
        assert_eq!(check("text", "text"), "");
    }
}
