//! What comes next for a request. Pure.

use std::time::Duration;

use api::decision::{Line, reasons};
use api::kinds::CertificateSigningRequest;

use crate::certificates::{MalformedRequest, Request, Signer};

/// What comes next for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Sign(Signer, Box<Request>),
    /// The signer's rules forbid it; the message is upstream's.
    Fail {
        signer: Signer,
        message: String,
    },
    Leave(Reason),
}

/// Why nothing is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    Issued,
    Pending,
    Denied,
    Failed,
    /// Somebody else signs for this name, or nobody does.
    OtherSigner(String),
    /// The signer is one of ours, and has no CA.
    NoAuthority(Signer),
    Malformed(MalformedRequest),
}

/// `has_authority` says for which signers there is a CA.
pub fn next_step(
    request: &CertificateSigningRequest,
    has_authority: impl Fn(Signer) -> bool,
) -> Step {
    if request.is_issued() {
        return Step::Leave(Reason::Issued);
    }
    if request.is_denied() {
        return Step::Leave(Reason::Denied);
    }
    if !request.is_approved() {
        return Step::Leave(Reason::Pending);
    }
    if request.is_failed() {
        return Step::Leave(Reason::Failed);
    }
    let spec = &request.spec;
    let Some(signer) = Signer::named(&spec.signer_name) else {
        return Step::Leave(Reason::OtherSigner(spec.signer_name.to_string()));
    };
    if !has_authority(signer) {
        return Step::Leave(Reason::NoAuthority(signer));
    }
    let parsed = match Request::parse(&spec.request) {
        Ok(parsed) => parsed,
        Err(error) => return Step::Leave(Reason::Malformed(error)),
    };
    if let Err(message) = signer.validate(&parsed, &spec.usages) {
        return Step::Fail { signer, message };
    }
    match parsed.verify_signature() {
        Ok(()) => Step::Sign(signer, Box::new(parsed)),
        Err(error) => Step::Leave(Reason::Malformed(error)),
    }
}

/// How long a certificate is to live, of what was asked for and what the cluster gives at most.
pub fn duration(requested: Option<i32>, most: Duration) -> Duration {
    // UPSTREAM: twice the time by which certificates are dated back; also where the cluster gives less.
    const LEAST: Duration = Duration::from_secs(10 * 60);
    let Some(seconds) = requested else {
        return most;
    };
    let requested = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    if requested > most {
        most
    } else {
        requested.max(LEAST)
    }
}

impl From<&Reason> for Line {
    fn from(reason: &Reason) -> Line {
        match reason {
            Reason::Issued => Line::states("Issued", "the certificate was issued"),
            Reason::Pending => Line::waits("Pending", "waits to be approved")
                .because("nothing is signed that is not approved")
                .hint("kubectl certificate approve NAME, or deny it"),
            Reason::Denied => Line::states("Denied", "will not be signed").because("it was denied"),
            Reason::Failed => Line::states("Failed", "will not be signed")
                .because("its signer has refused it before"),
            Reason::OtherSigner(name) => Line::states("OtherSigner", "is not signed here")
                .because(format!("signer {name:?} is none of Kubernetes' own"))
                .hint("see to it that somebody signs for that name"),
            Reason::NoAuthority(signer) => Line::waits(reasons::NO_AUTHORITY, "cannot be signed")
                .because(format!("no CA is given for signer {}", signer.name()))
                .hint("--cluster-signing-cert-file and --cluster-signing-key-file give one"),
            Reason::Malformed(error) => {
                Line::states(reasons::MALFORMED, "cannot be signed").because(error.to_string())
            }
        }
    }
}
