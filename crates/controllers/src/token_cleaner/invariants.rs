//! What must hold: of every deletion ([`safe`]), and once nothing changes any more ([`converged`]).

use api::MicroTime;
use api::kinds::Secret;

use super::DESCRIPTOR;
use crate::bootstrap_token::{Expiration, NAMESPACE, is_token};
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct TokenCleanerOracle;

impl Oracle for TokenCleanerOracle {
    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        match change.gone::<Secret>() {
            Some(gone) => safe(&gone, world.latest_now()),
            None => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let secrets = world.store::<Secret>().in_namespace(NAMESPACE);
        secrets
            .iter()
            .try_for_each(|secret| converged(secret, world.now()))
    }
}

/// No token is there that has expired.
pub fn converged(secret: &Secret, now: MicroTime) -> Verdict {
    match is_token(secret) && Expiration::of(secret).is_past(now) {
        true => Err(format!(
            "token {} has expired and is there",
            secret.metadata.key()
        )),
        false => Ok(()),
    }
}

/// Nothing is deleted but tokens that have expired.
pub fn safe(deleted: &Secret, now: MicroTime) -> Verdict {
    match is_token(deleted) && Expiration::of(deleted).is_past(now) {
        true => Ok(()),
        false => Err(format!(
            "{} was deleted, and is good",
            deleted.metadata.key()
        )),
    }
}
