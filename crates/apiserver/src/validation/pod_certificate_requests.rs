//! PodCertificateRequests: a kubelet asks for a pod, and the signer answers once.

use api::Time;
use api::syntax;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use keys::pem::blocks;
use ring::digest::SHA256;
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use serde_json::Value;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::cluster::signer_name;
use super::metadata;
use super::place::{Errors, Place};
use crate::fields::{list, text};

/// UPSTREAM: pkg/apis/certificates/types.go.
const KEY_MAX: usize = 10 * 1024;
const PROOF_MAX: usize = 10 * 1024;
const REQUEST_MAX: usize = 10 * 1024;
const CHAIN_MAX: usize = 100 * 1024;
const UID_MAX: usize = 128;

/// For how many seconds a certificate is asked for: an hour at least; of signers of Kubernetes a day at most, of others
/// ninety-one days.
const SECONDS_MIN: i64 = 3600;
const SECONDS_MAX_OWN: i64 = 24 * 3600;
const SECONDS_MAX: i64 = 91 * 24 * 3600;

/// How far the beginning of a certificate may be from now, and the time to renew it from its ends, in seconds.
const SKEW: i64 = 5 * 60;
const MARGIN: i64 = 10 * 60;

const ANSWERS: [&str; 3] = ["Issued", "Denied", "Failed"];

pub(super) fn create(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    signer_name(errors, &spec.field("signerName"));
    annotations(errors, &spec.field("unverifiedUserAnnotations"));
    for (name, uid) in [
        ("podName", "podUID"),
        ("serviceAccountName", "serviceAccountUID"),
        ("nodeName", "nodeUID"),
    ] {
        errors.syntax(&spec.field(name), syntax::validate_dns1123_subdomain);
        let uid = spec.field(uid);
        if uid.is_empty() {
            let empty = Value::from("");
            errors.invalid(&uid.showing(&empty), "must not be empty");
        } else if uid.text().len() > UID_MAX {
            errors.too_long(&uid, UID_MAX);
        }
    }
    let seconds = spec.field("maxExpirationSeconds");
    let Some(asked) = seconds.integer() else {
        errors.required(&seconds, "must be set");
        return;
    };
    let most = match is_own(spec.field("signerName").text()) {
        true => SECONDS_MAX_OWN,
        false => SECONDS_MAX,
    };
    if !(SECONDS_MIN..=most).contains(&asked) {
        let detail = format!("must be in the range [{SECONDS_MIN}, {most}]");
        errors.invalid(&seconds, &detail);
    }
    let given = |name| !spec.field(name).is_empty();
    match ["stubPKCS10Request", "pkixPublicKey", "proofOfPossession"].map(given) {
        [true, false, false] => stub(errors, &spec.field("stubPKCS10Request")),
        [false, true, true] => proven_key(errors, &spec),
        _ => errors.invalid_without_value(
            &spec,
            "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set",
        ),
    }
}

/// All that is asked for stays.
pub(super) fn update(errors: &mut Errors, root: &Place<'_>, old: &Value) {
    errors.immutable(&root.field("spec"), &old["spec"]);
}

/// The signer issues, denies or fails, and nothing after that. `now` is in Unix seconds.
pub(super) fn status(errors: &mut Errors, root: &Place<'_>, old: &Value, now: i64) {
    let status = root.field("status");
    let before = errors.0.len();
    answers(errors, &status.field("conditions"));
    if errors.0.len() > before {
        return;
    }
    let is_same = list(root.value, "status.conditions") == list(old, "status.conditions")
        && is_same_certificate(status.value, &old["status"]);
    let fault = match (answer(old), answer(root.value)) {
        (Some(_), _) if !is_same => {
            "immutable after PodCertificateRequest is issued, denied, or failed"
        }
        (None, Some("Issued")) => return issued(errors, &status, old, now),
        (None, Some(_)) if !is_same_certificate(status.value, &Value::Null) => {
            "non-condition status fields must be empty when denying or failing the PodCertificateRequest"
        }
        (None, None) if !is_same => {
            "status is immutable unless transitioning to \"Issued\", \"Denied\", or \"Failed\""
        }
        _ => return,
    };
    errors.invalid_without_value(&status, fault);
}

/// Like those of objects, but for a domain that each key must have.
fn annotations(errors: &mut Errors, place: &Place<'_>) {
    metadata::annotations(errors, place);
    for (key, _) in place.entries().filter(|(key, _)| !key.contains('/')) {
        let shown = Value::from(key.to_lowercase());
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        errors.invalid(&place.showing(&shown), detail);
    }
}

/// UPSTREAM: `kubernetes.io` and what is below it.
fn is_own(signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    domain == "kubernetes.io" || domain.ends_with(".kubernetes.io")
}

fn decoded(place: &Place<'_>) -> Vec<u8> {
    STANDARD.decode(place.text()).unwrap_or_default()
}

/// What a request that is signed by its own key proves: that whoever asks holds the key. Nothing else is read of it.
fn stub(errors: &mut Errors, place: &Place<'_>) {
    let der = decoded(place);
    if der.len() > REQUEST_MAX {
        return errors.too_long(place, REQUEST_MAX);
    }
    let unreadable = "must be a valid PKCS#10 CSR";
    let Ok(([], request)) = X509CertificationRequest::from_der(&der) else {
        return errors.invalid_without_value(place, unreadable);
    };
    match Verifier::of(&request.certification_request_info.subject_pki) {
        Err(Unfit::Unreadable) => errors.invalid_without_value(place, unreadable),
        Err(unfit) => unfit.refuse(errors, place, "P256, P384, or P521"),
        Ok(_) if keys::verify_request(&request).is_err() => {
            errors.invalid_without_value(place, "invalid signature");
        }
        Ok(_) => {}
    }
}

/// UPSTREAM: the way before there were stubs: a key, and the pod's uid signed by it.
fn proven_key(errors: &mut Errors, spec: &Place<'_>) {
    let (key, proof) = (spec.field("pkixPublicKey"), spec.field("proofOfPossession"));
    let (der, signed) = (decoded(&key), decoded(&proof));
    if der.len() > KEY_MAX {
        return errors.too_long(&key, KEY_MAX);
    }
    if signed.len() > PROOF_MAX {
        return errors.too_long(&proof, PROOF_MAX);
    }
    let unreadable = "must be a valid PKIX-serialized public key";
    let Ok(([], parsed)) = SubjectPublicKeyInfo::from_der(&der) else {
        return errors.invalid(&key, unreadable);
    };
    let verifier = match Verifier::of(&parsed) {
        Err(Unfit::Unreadable) => return errors.invalid(&key, unreadable),
        // UPSTREAM: P521 is taken, and not told.
        Err(unfit) => return unfit.refuse(errors, &key, "P256 or P384"),
        Ok(verifier) => verifier,
    };
    let uid = spec.field("podUID").text();
    if !verifier.verifies(&parsed, uid.as_bytes(), &signed) {
        errors.invalid_without_value(&proof, "could not verify proof-of-possession signature");
    }
}

/// Why a key cannot be certified.
enum Unfit {
    /// Go knows no such curve, and reads no such key.
    Unreadable,
    P224,
    Modulus(usize),
    Kind,
}

impl Unfit {
    fn refuse(self, errors: &mut Errors, place: &Place<'_>, curves: &str) {
        match self {
            Unfit::P224 => {
                let shown = Value::from("curve P-224");
                let detail = format!("elliptic public keys must use curve {curves}");
                errors.invalid(&place.showing(&shown), &detail);
            }
            Unfit::Modulus(bits) => {
                let shown = Value::from(format!("{bits}-bit modulus"));
                let detail = "RSA keys must have modulus size 3072 or 4096";
                errors.invalid(&place.showing(&shown), detail);
            }
            // What cannot be read is said by who reads it.
            Unfit::Unreadable | Unfit::Kind => errors.invalid_without_value(
                place,
                "unknown public key type; supported types are Ed25519, ECDSA, and RSA",
            ),
        }
    }
}

/// What verifies a proof by a key.
enum Verifier {
    Ring(&'static dyn VerificationAlgorithm),
    Ecdsa,
}

impl Verifier {
    fn of(key: &SubjectPublicKeyInfo<'_>) -> Result<Verifier, Unfit> {
        const ED25519: &str = "1.3.101.112";
        if key.algorithm.algorithm.to_id_string() == ED25519 {
            return Ok(Verifier::Ring(&signature::ED25519));
        }
        match key.parsed() {
            Ok(PublicKey::RSA(rsa)) => match rsa.key_size() {
                3072 | 4096 => Ok(Verifier::Ring(&signature::RSA_PSS_2048_8192_SHA256)),
                bits => Err(Unfit::Modulus(bits)),
            },
            Ok(PublicKey::EC(_)) => {
                let curve = key.algorithm.parameters.as_ref();
                let curve = curve.and_then(|curve| curve.as_oid().ok());
                match curve.map(|curve| curve.to_id_string()).as_deref() {
                    // P-256, P-384, P-521.
                    Some("1.2.840.10045.3.1.7" | "1.3.132.0.34" | "1.3.132.0.35") => {
                        Ok(Verifier::Ecdsa)
                    }
                    Some("1.3.132.0.33") => Err(Unfit::P224),
                    _ => Err(Unfit::Unreadable),
                }
            }
            _ => Err(Unfit::Kind),
        }
    }

    fn verifies(&self, key: &SubjectPublicKeyInfo<'_>, message: &[u8], signed: &[u8]) -> bool {
        match self {
            Verifier::Ring(algorithm) => {
                let key = UnparsedPublicKey::new(*algorithm, &key.subject_public_key.data);
                key.verify(message, signed).is_ok()
            }
            Verifier::Ecdsa => keys::verify_ecdsa(key, &SHA256, message, signed).is_ok(),
        }
    }
}

/// At most one answer, which is true, and nothing else.
fn answers(errors: &mut Errors, conditions: &Place<'_>) {
    for (index, condition) in conditions.items().enumerate() {
        let (kind, status) = (condition.field("type"), condition.field("status"));
        if !ANSWERS.contains(&kind.text()) {
            errors.not_supported(&kind, &["Issued", "Denied", "Failed"]);
            continue;
        }
        if index > 0 {
            let detail = "There may be at most one condition with type \"Issued\", \"Denied\", or \"Failed\"";
            errors.invalid(&kind, detail);
        }
        errors.one_of(&status, &["True"]);
        errors.need(&condition.field("lastTransitionTime"));
        errors.need(&condition.field("reason"));
    }
}

/// What the signer has answered.
fn answer(request: &Value) -> Option<&str> {
    let mut conditions = list(request, "status.conditions").iter();
    let holds =
        |one: &&Value| ANSWERS.contains(&text(one, "type")) && text(one, "status") == "True";
    conditions.find(holds).map(|one| text(one, "type"))
}

fn is_same_certificate(one: &Value, other: &Value) -> bool {
    [
        "certificateChain",
        "notBefore",
        "beginRefreshAt",
        "notAfter",
    ]
    .iter()
    .all(|field| text(one, field) == text(other, field))
}

fn issued(errors: &mut Errors, status: &Place<'_>, old: &Value, now: i64) {
    let chain = status.field("certificateChain");
    if chain.text().len() > CHAIN_MAX {
        return errors.too_long(&chain, CHAIN_MAX);
    }
    let blocks = blocks(chain.text());
    let [leaf, others @ ..] = blocks.as_slice() else {
        let detail = "issued certificate chain must contain at least one certificate";
        return errors.invalid(&chain, detail);
    };
    if blocks.iter().any(|block| block.label != "CERTIFICATE") {
        let detail = "issued certificate chain must consist entirely of CERTIFICATE PEM blocks";
        return errors.invalid(&chain, detail);
    }
    let Ok(([], leaf)) = X509Certificate::from_der(&leaf.der) else {
        return errors.invalid(&chain, "leaf certificate does not parse as valid X.509");
    };
    if *leaf.public_key().raw != *key_asked_for(old) {
        let detail = "leaf certificate was not issued to the requested public key";
        return errors.invalid(&chain, detail);
    }
    let before = errors.0.len();
    times(errors, status, &old["spec"], &leaf, now);
    let is_certificate = |der: &[u8]| matches!(X509Certificate::from_der(der), Ok(([], _)));
    if errors.0.len() == before && !others.iter().all(|other| is_certificate(&other.der)) {
        let detail = "intermediate certificate does not parse as valid X.509";
        errors.invalid(&chain, detail);
    }
}

/// The `SubjectPublicKeyInfo` in DER.
fn key_asked_for(request: &Value) -> Vec<u8> {
    let bytes = |path| STANDARD.decode(text(request, path)).unwrap_or_default();
    let stub = bytes("spec.stubPKCS10Request");
    match X509CertificationRequest::from_der(&stub) {
        Ok((_, stub)) => stub.certification_request_info.subject_pki.raw.to_vec(),
        Err(_) => bytes("spec.pkixPublicKey"),
    }
}

/// The times that a status says are those of the certificate, which begins now and lasts no longer than was asked for.
fn times(
    errors: &mut Errors,
    status: &Place<'_>,
    spec: &Value,
    leaf: &X509Certificate<'_>,
    now: i64,
) {
    let (from, until) = (status.field("notBefore"), status.field("notAfter"));
    let refresh = status.field("beginRefreshAt");
    let consistent = "must be present and consistent with the issued certificate";
    let within = "must be present and in the range [notbefore+10min, notafter-10min]";
    let before = errors.0.len();
    for (place, detail) in [
        (&from, consistent),
        (&until, consistent),
        (&refresh, within),
    ] {
        if place.is_empty() {
            errors.required(place, detail);
        }
    }
    if errors.0.len() > before {
        return;
    }
    let seconds = |place: &Place<'_>| Time::parse(place.text()).map_or(0, Time::unix);
    let validity = leaf.validity();
    let (begins, ends) = (
        validity.not_before.timestamp(),
        validity.not_after.timestamp(),
    );
    let lifetime = ends - begins;
    let most = spec["maxExpirationSeconds"].as_i64().unwrap_or_default();
    let chain = status.field("certificateChain");
    let shown = Value::from(api::GoDuration::from_secs(lifetime).to_string());
    let lived = chain.showing(&shown);
    if seconds(&from) != begins {
        let detail = "must be set to the NotBefore time encoded in the leaf certificate";
        errors.invalid(&from, detail);
    } else if (begins - now).abs() >= SKEW {
        let detail = "must be set to within 5 minutes of kube-apiserver's current time";
        errors.invalid(&from, detail);
    } else if seconds(&until) != ends {
        let detail = "must be set to the NotAfter time encoded in the leaf certificate";
        errors.invalid(&until, detail);
    } else if lifetime < SECONDS_MIN {
        errors.invalid(&lived, "leaf certificate lifetime must be >= 1 hour");
    } else if lifetime > most {
        let detail =
            format!("leaf certificate lifetime must be <= spec.maxExpirationSeconds ({most})");
        errors.invalid(&lived, &detail);
    } else if seconds(&refresh) < begins + MARGIN {
        errors.invalid(
            &refresh,
            "must be at least 10 minutes after status.notBefore",
        );
    } else if seconds(&refresh) > ends - MARGIN {
        errors.invalid(
            &refresh,
            "must be at least 10 minutes before status.notAfter",
        );
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{
        CertificateParams, KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SignatureAlgorithm,
    };
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
            include_str!("../../../controllers/src/service_account_token/testdata/rsa_pkcs8.pem");
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
        let by_curve = blocks(include_str!("../../../keys/src/testdata/ecdsa.pem"));
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
        let p521 = "MIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQAcBqjFSAy/6oX+gQFiTkgZnzxDZ1FO0JGk2q+9Cp9lkmyCf3MTDluaDPtbfQvNtAB2n2R1+5g3aNCFgcJySrk5MkAzp3JkdPUrkeGoAgMTsdop/PmrLt+vzXXXQhdFRRLqMUz1Rkygy5tC0ktD8STb6G+OTluol2u3iur9x+xZURbR8M=";
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
        let immutable = "status: Invalid value: immutable after PodCertificateRequest is issued, denied, or failed";
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
        let both =
            json!({"conditions": [condition("Denied", "True"), condition("Failed", "True")]});
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
        assert!(
            check("certificateChain", other).ends_with("not issued to the requested public key")
        );
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
}
