//! What must hold: of every deletion ([`safe`]), and once nothing changes any more ([`converged`]).

use api::MicroTime;
use api::kinds::PodCertificateRequest;

use super::{DESCRIPTOR, PERIOD};
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct PodCertificateRequestOracle;

impl Oracle for PodCertificateRequestOracle {
    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        match change.gone::<PodCertificateRequest>() {
            Some(gone) => safe(&gone, world.latest_now()),
            None => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let requests = world.store::<PodCertificateRequest>().list();
        let now = world.now();
        requests.iter().try_for_each(|one| converged(one, now))
    }
}

/// As upstream has it.
const AGE_MAX: i64 = 15 * 60;

fn is_old(request: &PodCertificateRequest, now: MicroTime) -> bool {
    now.time().unix() - request.metadata.created_at.unix() >= AGE_MAX
}

/// Nothing young is deleted.
pub fn safe(deleted: &PodCertificateRequest, now: MicroTime) -> Verdict {
    match is_old(deleted, now) {
        true => Ok(()),
        false => Err(format!(
            "{} was deleted, and is not old",
            deleted.metadata.key()
        )),
    }
}

/// What is old is gone within the time between two looks; one may have been missed.
pub fn converged(request: &PodCertificateRequest, now: MicroTime) -> Verdict {
    match is_old(request, now.minus(PERIOD + PERIOD)) {
        true => Err(format!(
            "{} is old and was not deleted",
            request.metadata.key()
        )),
        false => Ok(()),
    }
}
