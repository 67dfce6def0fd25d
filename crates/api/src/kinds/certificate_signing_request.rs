//! What controllers read of a CertificateSigningRequest.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::conditions::{Condition, ConditionStatus};
use crate::intern::Istr;
use crate::meta::{Meta, or_default};
use crate::resource::ResourceType;

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct CertificateSigningRequest {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: CertificateSigningRequestSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: CertificateSigningRequestStatus,
}

crate::view!(
    CertificateSigningRequest,
    ResourceType::cluster(
        "certificates.k8s.io",
        "v1",
        "certificatesigningrequests",
        "CertificateSigningRequest"
    )
);

/// What is asked for, and by whom: the server wrote the latter down. It never changes.
#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct CertificateSigningRequestSpec {
    /// The PEM of a PKCS #10 request, in base64.
    #[serde(deserialize_with = "or_default")]
    pub request: Arc<str>,
    #[serde(deserialize_with = "or_default")]
    pub signer_name: Istr,
    pub expiration_seconds: Option<i32>,
    #[serde(deserialize_with = "or_default")]
    pub usages: Vec<Istr>,
    #[serde(deserialize_with = "or_default")]
    pub username: Istr,
    #[serde(deserialize_with = "or_default")]
    pub uid: Istr,
    #[serde(deserialize_with = "or_default")]
    pub groups: Vec<Istr>,
    #[serde(deserialize_with = "or_default")]
    pub extra: BTreeMap<Istr, Vec<Istr>>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct CertificateSigningRequestStatus {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
    /// The PEM of the certificate, in base64; empty until it was issued.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "or_default")]
    pub certificate: Arc<str>,
}

fn is_empty(text: &Arc<str>) -> bool {
    text.is_empty()
}

/// The conditions that approvers and signers set.
pub const CERTIFICATE_APPROVED: &str = "Approved";
pub const CERTIFICATE_DENIED: &str = "Denied";
pub const CERTIFICATE_FAILED: &str = "Failed";

impl CertificateSigningRequest {
    /// Approved, and not denied as well.
    pub fn is_approved(&self) -> bool {
        // UPSTREAM: the status of these two conditions is not looked at.
        self.has_condition(CERTIFICATE_APPROVED) && !self.is_denied()
    }

    pub fn is_denied(&self) -> bool {
        self.has_condition(CERTIFICATE_DENIED)
    }

    /// Whether a signer gave up on it.
    pub fn is_failed(&self) -> bool {
        let failed = |one: &&Condition| &*one.type_ == CERTIFICATE_FAILED;
        let mut failed = self.status.conditions.iter().filter(failed);
        // UPSTREAM: a status that was left out means True.
        failed.any(|one| one.status == ConditionStatus::True || one.status.is_unset())
    }

    pub fn is_issued(&self) -> bool {
        !self.status.certificate.is_empty()
    }

    pub fn has_condition(&self, type_: &str) -> bool {
        crate::conditions::find(&self.status.conditions, type_).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Resource;

    fn read(conditions: &str) -> CertificateSigningRequest {
        let json =
            format!(r#"{{"metadata":{{"name":"c"}},"status":{{"conditions":{conditions}}}}}"#);
        CertificateSigningRequest::decode(json.as_bytes()).unwrap()
    }

    // Upstream: TestIsCertificateRequestApproved, TestHasCondition.
    #[test]
    fn a_request_is_approved_unless_it_is_denied_as_well() {
        assert!(!read("[]").is_approved());
        assert!(read(r#"[{"type":"Approved"}]"#).is_approved());
        assert!(!read(r#"[{"type":"Denied"}]"#).is_approved());
        assert!(!read(r#"[{"type":"Approved"},{"type":"Denied"}]"#).is_approved());
        assert!(read(r#"[{"type":"Approved"},{"type":"Denied"}]"#).is_denied());
    }

    // Upstream: TestHasCondition.
    #[test]
    fn a_failure_counts_unless_it_says_false() {
        assert!(!read("[]").is_failed());
        assert!(read(r#"[{"type":"Failed","status":"True"}]"#).is_failed());
        assert!(read(r#"[{"type":"Failed","status":""}]"#).is_failed());
        assert!(!read(r#"[{"type":"Failed","status":"False"}]"#).is_failed());
        assert!(!read(r#"[{"type":"Failed","status":"Unknown"}]"#).is_failed());
    }

    #[test]
    fn null_fields_are_absent() {
        let json = r#"{"metadata":{"name":"c"},"spec":{"groups":null,"usages":null,"request":null},"status":null}"#;
        let read = CertificateSigningRequest::decode(json.as_bytes()).unwrap();
        assert!(read.spec.request.is_empty() && !read.is_issued());
    }
}
