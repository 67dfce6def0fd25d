//! What must hold: of every deletion ([`safe`]), and once nothing changes any more ([`converged`]).

use api::kinds::{
    CERTIFICATE_APPROVED, CERTIFICATE_DENIED, CERTIFICATE_FAILED, CertificateSigningRequest,
};
use api::{MicroTime, Time};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::{DESCRIPTOR, PERIOD};
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct CleanerOracle;

impl Oracle for CleanerOracle {
    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        match change.gone::<CertificateSigningRequest>() {
            Some(gone) => safe(&gone, world.latest_now()),
            None => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let requests = world.store::<CertificateSigningRequest>().list();
        requests
            .iter()
            .try_for_each(|request| converged(request, world.now()))
    }
}

/// Nothing is deleted that somebody may still wait for.
pub fn safe(deleted: &CertificateSigningRequest, now: MicroTime) -> Verdict {
    match is_old(deleted, now.time()) {
        true => Ok(()),
        false => Err(format!(
            "request {} was deleted, and is not old",
            deleted.metadata.name
        )),
    }
}

/// Reckoned apart from the plan: nobody needs it who has not come for an hour (a day, while it waits for somebody), nor one
/// whose certificate has ended.
fn is_old(request: &CertificateSigningRequest, now: Time) -> bool {
    let hours = |since: Option<Time>| since.map(|since| (now.unix() - since.unix()) / 3600);
    let conditions = &request.status.conditions;
    let hours_since = |type_: &str| {
        let condition = conditions.iter().find(|held| *held.type_ == *type_);
        condition.and_then(|held| hours(held.last_update_time))
    };
    let is_issued = !request.status.certificate.is_empty();
    let created = hours(Some(request.metadata.created_at));
    let approved = hours_since(CERTIFICATE_APPROVED);
    hours_since(CERTIFICATE_DENIED) >= Some(1)
        || hours_since(CERTIFICATE_FAILED) >= Some(1)
        || approved >= Some(if is_issued { 1 } else { 24 })
        || conditions.is_empty() && created >= Some(24)
        || approved.is_some() && is_issued && has_ended(request, now)
}

fn has_ended(request: &CertificateSigningRequest, now: Time) -> bool {
    let pem = BASE64_STANDARD.decode(&*request.status.certificate);
    let read = pem.ok().and_then(|pem| {
        let (_, block) = x509_parser::pem::parse_x509_pem(&pem).ok()?;
        let (_, certificate) = x509_parser::parse_x509_certificate(&block.contents).ok()?;
        Some(certificate.validity().not_after.timestamp())
    });
    read.is_some_and(|end| end < now.unix())
}

/// What is old is gone within the time between two looks; one may have been missed.
pub fn converged(request: &CertificateSigningRequest, now: MicroTime) -> Verdict {
    let seen = now.minus(PERIOD + PERIOD);
    match is_old(request, seen.time()) {
        true => Err(format!(
            "request {} is old and was not deleted",
            request.metadata.name
        )),
        false => Ok(()),
    }
}
