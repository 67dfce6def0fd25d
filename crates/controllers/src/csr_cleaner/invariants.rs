//! What must hold: of every deletion ([`safe`]), and once nothing changes any more ([`converged`]).

use api::MicroTime;
use api::kinds::CertificateSigningRequest;

use super::plan::deadline;
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
    match deadline(deleted) {
        Some(deadline) if deadline.is_past(now) => Ok(()),
        _ => Err(format!(
            "request {} was deleted, and is not old",
            deleted.metadata.name
        )),
    }
}

/// What is old is gone within the time between two looks; one may have been missed.
pub fn converged(request: &CertificateSigningRequest, now: MicroTime) -> Verdict {
    let seen = now.minus(PERIOD + PERIOD);
    match deadline(request) {
        Some(deadline) if deadline.is_past(seen) => Err(format!(
            "request {} is old and was not deleted",
            request.metadata.name
        )),
        _ => Ok(()),
    }
}
