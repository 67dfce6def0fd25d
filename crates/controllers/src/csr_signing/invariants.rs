//! What must hold: of every certificate and refusal ([`safe`]), and once nothing changes any more ([`converged`]).

use api::kinds::CertificateSigningRequest;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::DESCRIPTOR;
use crate::certificates::{Request, Signer};
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct SigningOracle;

impl Oracle for SigningOracle {
    fn after_write(&self, _world: &World, change: &Change) -> Verdict {
        match change.updated::<CertificateSigningRequest>() {
            Some((before, after)) => safe(&before, &after),
            None => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let requests = world.store::<CertificateSigningRequest>().list();
        requests.iter().try_for_each(|request| converged(request))
    }
}

/// What was approved is signed or refused, if one of Kubernetes' own signers can read it.
pub fn converged(request: &CertificateSigningRequest) -> Verdict {
    let is_open = request.is_approved() && !request.is_denied();
    let is_done = request.is_issued() || request.is_failed();
    let is_readable = || {
        let asked = Request::parse(&request.spec.request);
        asked.is_ok_and(|asked| asked.verify_signature().is_ok())
    };
    let is_ours = || Signer::named(&request.spec.signer_name).is_some();
    match is_open && !is_done && is_ours() && is_readable() {
        false => Ok(()),
        true => Err(format!(
            "request {} is approved and was neither signed nor refused",
            request.metadata.name
        )),
    }
}

/// Nothing is signed that is not approved, nothing that was denied or has failed, nothing twice; and a certificate is for
/// the key that was sent, and for no authority.
pub fn safe(before: &CertificateSigningRequest, after: &CertificateSigningRequest) -> Verdict {
    let fail = |problem: &str| Err(format!("request {}: {problem}", before.metadata.name));
    if !before.is_approved() || before.is_denied() {
        return fail("it was not approved, or denied, and its status was written");
    }
    if before.is_failed() || before.is_issued() {
        return fail("it was dealt with before");
    }
    if before.spec != after.spec {
        return fail("what was asked for has changed");
    }
    let asked = Request::parse(&after.spec.request).map_err(|error| error.to_string())?;
    let Some(signer) = Signer::named(&after.spec.signer_name) else {
        return fail("it is for a signer that is not a built-in one");
    };
    let is_allowed = signer.validate(&asked, &after.spec.usages).is_ok();
    if !after.is_issued() {
        return match after.is_failed() && !is_allowed {
            true => Ok(()),
            false => fail("its status was written without a certificate or a reason to refuse it"),
        };
    }
    if !is_allowed {
        return fail("it was signed against the rules of its signer");
    }
    if before.status.conditions != after.status.conditions {
        return fail("its conditions were changed by its signer");
    }
    match check_certificate(after, &asked) {
        Ok(()) => Ok(()),
        Err(problem) => fail(problem),
    }
}

fn check_certificate(
    request: &CertificateSigningRequest,
    asked: &Request,
) -> Result<(), &'static str> {
    let pem = BASE64_STANDARD.decode(&*request.status.certificate);
    let pem = pem.map_err(|_| "its certificate is not base64")?;
    let (rest, block) =
        x509_parser::pem::parse_x509_pem(&pem).map_err(|_| "its certificate is not PEM")?;
    if block.label != "CERTIFICATE" || !rest.is_empty() {
        return Err("its certificate is not one PEM block");
    }
    let (_, certificate) = x509_parser::parse_x509_certificate(&block.contents)
        .map_err(|_| "its certificate cannot be parsed")?;
    if certificate.public_key().raw != asked.public_key {
        return Err("its certificate is for another key");
    }
    if certificate.is_ca() {
        return Err("its certificate makes it an authority");
    }
    let mut names = certificate.subject().iter_common_name();
    let name = names.next().and_then(|name| name.as_str().ok());
    if name.unwrap_or_default() != asked.subject.common_name {
        return Err("its certificate is for another name");
    }
    Ok(())
}
