//! What comes next for a request, and what is said about it.

use api::Resource;
use api::decision::Line;
use api::kinds::CertificateSigningRequest as Csr;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::super::{Reason, Step, next_step};
use super::{JANE, NODE_CLIENT, encoded};
use crate::certificates::Signer;

/// Of a curve that ring does not know.
const P521: &str = include_str!("../../certificates/testdata/p521.csr");
/// By OpenSSL, for a key that nobody has kept: `openssl req -new -newkey rsa:1024 -subj /CN=a -sha384`.
const SMALL_RSA_SHA384: &str = include_str!("../../certificates/testdata/small-rsa-sha384.csr");

fn request(encoded: &str, signer: &str, status: Value) -> Csr {
    let request = json!({
        "metadata": {"name": "c"}, "status": status,
        "spec": {"request": encoded, "signerName": signer, "usages": ["client auth"]},
    });
    Csr::decode(request.to_string().as_bytes()).unwrap()
}

fn check(request: &Csr, expected: &str) {
    // One signer has no CA.
    let answer = match next_step(request, |signer| signer != Signer::KubeletServing) {
        Step::Sign(signer, parsed) => format!("{signer:?} signs {}", parsed.subject.common_name),
        Step::Fail { message, .. } => format!("fails: {message}"),
        Step::Leave(reason) => Line::from(&reason).to_string(),
    };
    assert_eq!(answer, expected);
}

#[test]
fn what_can_be_signed_is_and_all_else_says_why_not() {
    let client = Signer::ApiServerClient.name();
    let approved = || json!({"conditions": [{"type": "Approved", "status": "True"}]});
    let jane = encoded(JANE);
    check(
        &request(&jane, client, approved()),
        "ApiServerClient signs jane",
    );
    check(
        &request(&jane, client, json!(null)),
        "waits to be approved: nothing is signed that is not approved",
    );
    let both = json!({"conditions": [{"type": "Approved"}, {"type": "Denied"}]});
    check(
        &request(&jane, client, both),
        "will not be signed: it was denied",
    );
    let failed =
        json!({"conditions": [{"type": "Approved"}, {"type": "Failed", "status": "True"}]});
    check(
        &request(&jane, client, failed),
        "will not be signed: its signer has refused it before",
    );
    let issued = json!({"conditions": [{"type": "Approved"}], "certificate": "YQ=="});
    check(
        &request(&jane, client, issued),
        "the certificate was issued",
    );
    check(
        &request(&jane, "example.com/\u{202e}x\n", approved()),
        "is not signed here: signer \"example.com/\\u{202e}x\\n\" is not a built-in one",
    );
    check(
        &request(&jane, Signer::KubeletServing.name(), approved()),
        "cannot be signed: no CA is given for signer kubernetes.io/kubelet-serving",
    );
    check(
        &request(
            &encoded(NODE_CLIENT),
            Signer::KubeletClient.name(),
            approved(),
        ),
        "fails: usages did not match [client auth digital signature key encipherment]",
    );
}

#[test]
fn what_the_rules_forbid_says_so_before_it_is_approved() {
    let kubelet = Signer::KubeletClient.name();
    let usages = "usages did not match [client auth digital signature key encipherment]";
    check(
        &request(&encoded(NODE_CLIENT), kubelet, json!(null)),
        &format!("will be refused if it is approved: {usages}"),
    );
    // Somebody else's rules are not known.
    check(
        &request(&encoded(NODE_CLIENT), "example.com/x", json!(null)),
        "waits to be approved: nothing is signed that is not approved",
    );
}

/// Its signer's word stands; nobody is told to approve it.
#[test]
fn a_failed_request_without_approval_is_not_pending() {
    let failed = json!({"conditions": [{"type": "Failed", "status": "True"}]});
    check(
        &request(&encoded(JANE), Signer::ApiServerClient.name(), failed),
        "will not be signed: its signer has refused it before",
    );
}

#[test]
fn a_signer_without_a_ca_names_its_own_flags() {
    let line = Line::from(&Reason::NoAuthority(Signer::KubeletServing));
    assert_eq!(
        line.hint,
        "--cluster-signing-kubelet-serving-cert-file names its certificate, and --cluster-signing-kubelet-serving-key-file its key"
    );
}

#[test]
fn what_can_never_be_signed_says_so_once() {
    let client = Signer::ApiServerClient.name();
    let approved = || json!({"conditions": [{"type": "Approved", "status": "True"}]});
    let never = |encoded: &str, why: &str| {
        let expected = format!("can never be signed: {why}");
        check(&request(encoded, client, approved()), &expected);
        // Nobody needs to approve it first.
        check(&request(encoded, client, json!(null)), &expected);
    };
    let no_pem = "PEM block type must be CERTIFICATE REQUEST";
    never("", no_pem);
    never("not base64", no_pem);
    never(&BASE64_STANDARD.encode(vec![0; 1 << 20]), no_pem);
    never(
        &encoded(SMALL_RSA_SHA384),
        "unable to verify certificate request signature: signature unsupported algorithm",
    );
}

/// Servers refuse it when it is created, so that it is looked for when it is signed, and not before.
#[test]
fn a_wrong_signature_is_found_before_anything_is_signed() {
    let mut der = x509_parser::pem::parse_x509_pem(JANE.as_bytes())
        .unwrap()
        .1
        .contents;
    let at = der.windows(4).position(|four| four == b"jane").unwrap();
    der[at] = b'J';
    let body = BASE64_STANDARD.encode(der);
    let pem =
        format!("-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----\n");
    let approved = json!({"conditions": [{"type": "Approved", "status": "True"}]});
    check(
        &request(&encoded(&pem), Signer::ApiServerClient.name(), approved),
        "can never be signed: unable to verify certificate request signature: signature verification error",
    );
}

#[test]
fn a_request_by_a_key_on_a_curve_that_ring_lacks_is_signed() {
    let client = Signer::ApiServerClient.name();
    let approved = json!({"conditions": [{"type": "Approved", "status": "True"}]});
    check(
        &request(&encoded(P521), client, approved),
        "ApiServerClient signs jane",
    );
    check(
        &request(&encoded(P521), client, json!(null)),
        "waits to be approved: nothing is signed that is not approved",
    );
}
