//! What a request of a pod for a certificate may say.

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SignatureAlgorithm};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use serde_json::json;

use super::*;

/// New Year 2024.
const NOW: i64 = 1_704_067_200;

fn stub_of(key: &KeyPair) -> String {
    let params = CertificateParams::new([]).unwrap();
    STANDARD.encode(params.serialize_request(key).unwrap().der())
}

fn request(stub: &str) -> Value {
    json!({"metadata": {"name": "r", "namespace": "ns"}, "spec": {
        "signerName": "example.com/s", "podName": "p", "podUID": "pu", "serviceAccountName": "a",
        "serviceAccountUID": "au", "nodeName": "n", "nodeUID": "nu", "maxExpirationSeconds": 7200,
        "stubPKCS10Request": stub,
    }})
}

fn said(errors: Errors) -> String {
    let causes = errors.0.iter();
    let causes = causes.map(|cause| format!("{}: {}", cause.field, cause.message));
    causes.collect::<Vec<_>>().join("; ")
}

/// What is wrong with a request in which some fields are others.
fn faults(changed: &[(&str, Value)]) -> String {
    let mut request = request(&stub_of(&KeyPair::generate().unwrap()));
    for (field, value) in changed {
        request["spec"][field] = value.clone();
    }
    let mut errors = Errors::default();
    create(&mut errors, &Place::root(&request));
    said(errors)
}

// Upstream: TestValidatePodCertificateRequestCreate.
#[test]
fn a_request_says_for_whom_and_for_how_long() {
    assert_eq!(faults(&[]), "");
    for field in ["podUID", "serviceAccountUID", "nodeUID"] {
        let empty = format!("spec.{field}: Invalid value: \"\": must not be empty");
        assert_eq!(faults(&[(field, json!(""))]), empty);
        let long = format!("spec.{field}: Too long: may not be more than 128 bytes");
        assert_eq!(faults(&[(field, json!("x".repeat(129)))]), long);
    }
    for field in ["podName", "serviceAccountName", "nodeName"] {
        let odd = faults(&[(field, json!("Not a name"))]);
        assert!(
            odd.starts_with(&format!("spec.{field}: Invalid value: ")),
            "{odd}"
        );
    }
    assert_eq!(
        faults(&[("signerName", json!("plain"))]),
        "spec.signerName: Invalid value: \"plain\": must be a fully qualified domain and path of the form 'example.com/signer-name'"
    );
    assert_eq!(
        faults(&[("maxExpirationSeconds", Value::Null)]),
        "spec.maxExpirationSeconds: Required value: must be set"
    );
    let seconds = |signer: &str, seconds: i64| {
        faults(&[
            ("signerName", json!(signer)),
            ("maxExpirationSeconds", json!(seconds)),
        ])
    };
    for (signer, most) in [
        ("example.com/s", 91 * 86_400),
        ("kubernetes.io/s", 86_400),
        ("a.kubernetes.io/s", 86_400),
    ] {
        assert_eq!(seconds(signer, most), "");
        for odd in [3599, most + 1] {
            assert_eq!(
                seconds(signer, odd),
                format!(
                    "spec.maxExpirationSeconds: Invalid value: {odd}: must be in the range [3600, {most}]"
                )
            );
        }
    }
    assert_eq!(
        faults(&[(
            "unverifiedUserAnnotations",
            json!({"example.com/a": "1", "b": "2"})
        )]),
        "spec.unverifiedUserAnnotations: Invalid value: \"b\": must be a domain-prefixed path (such as \"acme.io/foo\")"
    );
}

#[test]
fn a_stub_is_signed_by_a_key_that_can_be_certified() {
    let of_kind = |kind: &'static SignatureAlgorithm| {
        faults(&[(
            "stubPKCS10Request",
            json!(stub_of(&KeyPair::generate_for(kind).unwrap())),
        )])
    };
    assert_eq!(of_kind(&PKCS_ED25519), "");
    assert_eq!(of_kind(&PKCS_ECDSA_P384_SHA384), "");
    let stub = |der: &[u8]| faults(&[("stubPKCS10Request", json!(STANDARD.encode(der)))]);
    let path = "spec.stubPKCS10Request";
    let malformed = format!("{path}: Invalid value: must be a valid PKCS#10 CSR");
    assert_eq!(stub(b"text"), malformed);
    let long = format!("{path}: Too long: may not be more than 10240 bytes");
    assert_eq!(stub(&vec![0; REQUEST_MAX + 1]), long);
    let mut forged = STANDARD
        .decode(stub_of(&KeyPair::generate().unwrap()))
        .unwrap();
    // The last byte of the signature.
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(
        stub(&forged),
        format!("{path}: Invalid value: invalid signature")
    );
    let rsa =
        include_str!("../../../../controllers/src/service_account_token/testdata/rsa_pkcs8.pem");
    assert_eq!(
        faults(&[(
            "stubPKCS10Request",
            json!(stub_of(&KeyPair::from_pem(rsa).unwrap()))
        )]),
        format!(
            "{path}: Invalid value: \"2048-bit modulus\": RSA keys must have modulus size 3072 or 4096"
        )
    );
    // By OpenSSL: a key on secp256k1, which Go does not know.
    let unknown = "MIHDMGsCAQAwDDEKMAgGA1UEAwwBYTBWMBAGByqGSM49AgEGBSuBBAAKA0IABAMBcTZM3xE2lmtoj7HlYvDq/Mof3/MY4FeGGHQzDRTBHQq1jnCD8eLrQr/nE26BoNsLJYAyg31sulioNShOKemgADAKBggqhkjOPQQDAgNIADBFAiAnnIwgs366v2dJ4hxoGM+VOPTHlqZ5FkBtMYRa2PCRawIhAJ10SXQYLKD7zFK/4/dolAWQQsXlHRMUYaYtp69n/5eH";
    assert_eq!(faults(&[("stubPKCS10Request", json!(unknown))]), malformed);
    // In the order of this file: P-224, and P-521 with SHA-512.
    let by_curve = blocks(include_str!("../../../../keys/src/testdata/ecdsa.pem"));
    assert_eq!(stub(&by_curve[15].der), "");
    assert_eq!(
        stub(&by_curve[0].der),
        format!(
            "{path}: Invalid value: \"curve P-224\": elliptic public keys must use curve P256, P384, or P521"
        )
    );
    let either = "spec: Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set";
    assert_eq!(faults(&[("stubPKCS10Request", json!(""))]), either);
    assert_eq!(faults(&[("pkixPublicKey", json!("AAAA"))]), either);
}

#[test]
fn a_key_comes_with_a_proof_that_is_about_this_pod() {
    let key = KeyPair::generate().unwrap();
    let random = SystemRandom::new();
    let signing = EcdsaKeyPair::from_pkcs8(
        &ECDSA_P256_SHA256_ASN1_SIGNING,
        key.serialized_der(),
        &random,
    );
    let proof = signing.unwrap().sign(&random, b"pu").unwrap();
    let given = |uid: &str, public: &[u8]| {
        faults(&[
            ("stubPKCS10Request", Value::Null),
            ("podUID", json!(uid)),
            ("pkixPublicKey", json!(STANDARD.encode(public))),
            ("proofOfPossession", json!(STANDARD.encode(proof.as_ref()))),
        ])
    };
    let public = rcgen::PublicKeyData::subject_public_key_info(&key);
    assert_eq!(given("pu", &public), "");
    assert_eq!(
        given("other", &public),
        "spec.proofOfPossession: Invalid value: could not verify proof-of-possession signature"
    );
    assert_eq!(
        given("pu", b"text"),
        "spec.pkixPublicKey: Invalid value: \"dGV4dA==\": must be a valid PKIX-serialized public key"
    );
}

/// By OpenSSL, for keys that nobody has kept: `openssl pkey -pubout` and `openssl dgst -sha256 -sign` of `pu`.
#[test]
fn the_curve_of_a_key_is_one_of_three() {
    let given = |key: &str, proof: &str| {
        faults(&[
            ("stubPKCS10Request", Value::Null),
            ("pkixPublicKey", json!(key)),
            ("proofOfPossession", json!(proof)),
        ])
    };
    let p521 = concat!(
        "MIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQAcBqjFSAy/6oX+gQFiTkgZnzxDZ1FO0JGk2q+9Cp9lkmyCf3MTDluaDPtbfQvNtAB2n2R1+5g3aNCFgcJySrk5MkAzp3JkdPUrkeGoAgMTsdop/PmrLt+vzXX",
        "XQhdFRRLqMUz1Rkygy5tC0ktD8STb6G+OTluol2u3iur9x+xZURbR8M="
    );
    let proof = "MIGHAkEVSNsEcfOAEIB2hFUL/XDHokQg/GDnA79VvY3NP4WN3T49hWbK3PPhz2dLZRjONufbCgxqrCza4CjyERvecWMuYgJCANfrb3il/0J0yyepO1XnYbW1eJ4ti4HuZKbZfdyMfWhpciB7Fl6sstiL3H7uWgwe00egvrL+t3KRvs42bB6YSUbu";
    assert_eq!(given(p521, proof), "");
    let p224 = "ME4wEAYHKoZIzj0CAQYFK4EEACEDOgAEH0/VGcn7DGOOgYAaovNjF44NfJmusRGuk5yZk7lN2MV/c5auej+tMqVNMRGYTiRjddtDNoVvoic=";
    let proof =
        "MD0CHF+l12x0N5kwQTnKV68Ij0KzQ14opNMteX6Xr3oCHQCM1U8v6i1UymQNAk2gn3dXO4qpyDgto6cw3/wM";
    assert_eq!(
        given(p224, proof),
        "spec.pkixPublicKey: Invalid value: \"curve P-224\": elliptic public keys must use curve P256 or P384"
    );
    // On secp256k1.
    let unknown = "MFYwEAYHKoZIzj0CAQYFK4EEAAoDQgAEAwFxNkzfETaWa2iPseVi8Or8yh/f8xjgV4YYdDMNFMEdCrWOcIPx4utCv+cTboGg2wslgDKDfWy6WKg1KE4p6Q==";
    assert_eq!(
        given(unknown, proof),
        format!(
            "spec.pkixPublicKey: Invalid value: \"{unknown}\": must be a valid PKIX-serialized public key"
        )
    );
}

/// A status that says that a certificate of two hours was issued now.
fn answered(key: &KeyPair, begins: i64) -> Value {
    let at = |seconds: i64| {
        let parsed = x509_parser::time::ASN1Time::from_timestamp(seconds).unwrap();
        parsed.to_datetime()
    };
    let mut params = CertificateParams::new([]).unwrap();
    params.not_before = at(begins);
    params.not_after = at(begins + 7200);
    let chain = params.self_signed(key).unwrap().pem();
    let text = |seconds| json!(Time::from_unix(seconds).to_string());
    json!({
        "conditions": [condition("Issued", "True")], "certificateChain": chain,
        "notBefore": text(begins), "notAfter": text(begins + 7200),
        "beginRefreshAt": text(begins + 3600),
    })
}

fn condition(kind: &str, status: &str) -> Value {
    json!({"type": kind, "status": status, "reason": "Test", "message": "",
        "lastTransitionTime": "2024-01-01T00:00:00Z"})
}

fn answer_faults(key: &KeyPair, new: &Value, old: &Value) -> String {
    let with = |status: &Value| {
        let mut request = request(&stub_of(key));
        request["status"] = status.clone();
        request
    };
    let mut errors = Errors::default();
    status(&mut errors, &Place::root(&with(new)), &with(old), NOW);
    said(errors)
}

// Upstream: TestValidatePodCertificateRequestStatusUpdate.
#[test]
fn a_signer_answers_once() {
    let key = KeyPair::generate().unwrap();
    let (none, issued) = (json!({}), answered(&key, NOW));
    let check = |new: &Value, old: &Value| answer_faults(&key, new, old);
    let only = |kind: &str, status: &str| json!({"conditions": [condition(kind, status)]});
    assert_eq!(check(&issued, &none), "");
    assert_eq!(check(&only("Denied", "True"), &none), "");
    assert_eq!(check(&only("Failed", "True"), &none), "");
    assert_eq!(check(&issued, &issued), "");
    let immutable =
        "status: Invalid value: immutable after PodCertificateRequest is issued, denied, or failed";
    assert_eq!(check(&only("Denied", "True"), &issued), immutable);
    assert_eq!(check(&none, &only("Failed", "True")), immutable);
    let mut denied = issued.clone();
    denied["conditions"] = json!([condition("Denied", "True")]);
    assert_eq!(
        check(&denied, &none),
        "status: Invalid value: non-condition status fields must be empty when denying or failing the PodCertificateRequest"
    );
    assert_eq!(
        check(&json!({"certificateChain": "x"}), &none),
        "status: Invalid value: status is immutable unless transitioning to \"Issued\", \"Denied\", or \"Failed\""
    );
    assert_eq!(
        check(&only("Issued", "False"), &none),
        "status.conditions[0].status: Unsupported value: \"False\": supported values: \"True\""
    );
    assert_eq!(
        check(&only("Other", "True"), &none),
        "status.conditions[0].type: Unsupported value: \"Other\": supported values: \"Issued\", \"Denied\", \"Failed\""
    );
    let both = json!({"conditions": [condition("Denied", "True"), condition("Failed", "True")]});
    assert_eq!(
        check(&both, &none),
        "status.conditions[1].type: Invalid value: \"Failed\": There may be at most one condition with type \"Issued\", \"Denied\", or \"Failed\""
    );
}

#[test]
fn a_certificate_is_for_the_key_and_says_the_times() {
    let key = KeyPair::generate().unwrap();
    let none = json!({});
    let check = |field: &str, value: Value| {
        let mut issued = answered(&key, NOW);
        issued[field] = value;
        answer_faults(&key, &issued, &none)
    };
    let starts = |said: String, start: &str| assert!(said.starts_with(start), "{said}");
    starts(
        check("certificateChain", json!("text")),
        "status.certificateChain: Invalid value: \"text\": issued certificate chain must contain",
    );
    let other = answered(&KeyPair::generate().unwrap(), NOW)["certificateChain"].clone();
    assert!(check("certificateChain", other).ends_with("not issued to the requested public key"));
    assert_eq!(
        check("beginRefreshAt", Value::Null),
        "status.beginRefreshAt: Required value: must be present and in the range [notbefore+10min, notafter-10min]"
    );
    let text = |seconds| json!(Time::from_unix(seconds).to_string());
    starts(
        check("notBefore", text(NOW + 1)),
        "status.notBefore: Invalid value: ",
    );
    starts(
        check("notAfter", text(NOW + 1)),
        "status.notAfter: Invalid value: ",
    );
    for odd in [NOW + 599, NOW + 7200 - 599] {
        starts(
            check("beginRefreshAt", text(odd)),
            "status.beginRefreshAt: Invalid value: ",
        );
    }
    let early = answer_faults(&key, &answered(&key, NOW - 300), &none);
    assert!(early.contains("within 5 minutes"), "{early}");
    assert_eq!(answer_faults(&key, &answered(&key, NOW - 299), &none), "");
}
