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
mod tests;
