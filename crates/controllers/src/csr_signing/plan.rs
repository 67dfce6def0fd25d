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
    /// Nobody has approved it, and to do so would be in vain: the signer's rules forbid it.
    Forbidden(String),
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
    if request.is_failed() {
        return Step::Leave(Reason::Failed);
    }
    let name = &request.spec.signer_name;
    let signer = Signer::named(name);
    if !request.is_approved() {
        // Servers verify signatures when requests are created.
        let in_vain =
            signer.and_then(|signer| check(request, signer, Request::can_be_verified).err());
        return Step::Leave(in_vain.map_or(Reason::Pending, Reason::from));
    }
    let Some(signer) = signer else {
        return Step::Leave(Reason::OtherSigner(name.to_string()));
    };
    if !has_authority(signer) {
        return Step::Leave(Reason::NoAuthority(signer));
    }
    match check(request, signer, Request::verify_signature) {
        Ok(parsed) => Step::Sign(signer, Box::new(parsed)),
        Err(Unsignable::Forbidden(message)) => Step::Fail { signer, message },
        Err(Unsignable::Malformed(error)) => Step::Leave(Reason::Malformed(error)),
    }
}

/// Why a request gets no certificate, approved or not.
enum Unsignable {
    /// In the signer's words.
    Forbidden(String),
    Malformed(MalformedRequest),
}

fn check(
    request: &CertificateSigningRequest,
    signer: Signer,
    verify: impl Fn(&Request) -> Result<(), MalformedRequest>,
) -> Result<Request, Unsignable> {
    let spec = &request.spec;
    let parsed = Request::parse(&spec.request).map_err(Unsignable::Malformed)?;
    let allowed = signer.validate(&parsed, &spec.usages);
    allowed.map_err(Unsignable::Forbidden)?;
    verify(&parsed).map_err(Unsignable::Malformed)?;
    Ok(parsed)
}

impl From<Unsignable> for Reason {
    fn from(unsignable: Unsignable) -> Reason {
        match unsignable {
            Unsignable::Forbidden(message) => Reason::Forbidden(message),
            Unsignable::Malformed(error) => Reason::Malformed(error),
        }
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
            Reason::Forbidden(message) => {
                Line::states(reasons::FORBIDDEN, "will be refused if it is approved")
                    .because(message.clone())
                    .hint("create another request that its signer allows")
            }
            Reason::Denied => Line::states("Denied", "will not be signed").because("it was denied"),
            Reason::Failed => Line::states("Failed", "will not be signed")
                .because("its signer has refused it before"),
            Reason::OtherSigner(name) => Line::states("OtherSigner", "is not signed here")
                .because(format!("signer {name:?} is not a built-in one"))
                .hint("make sure that a signer for that name runs"),
            Reason::NoAuthority(signer) => Line::waits(reasons::NO_AUTHORITY, "cannot be signed")
                .because(format!("no CA is given for signer {}", signer.name()))
                .hint(format!(
                    "{} names its certificate, and {} its key",
                    signer.flag("cert-file"),
                    signer.flag("key-file")
                )),
            Reason::Malformed(error) => Line::states(reasons::MALFORMED, "can never be signed")
                .because(error.to_string())
                .hint(error.hint()),
        }
    }
}
