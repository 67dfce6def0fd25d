//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use std::time::Duration;

use api::MicroTime;
use api::kinds::{Secret, ServiceAccount};
use runtime::Store;

use super::plan::{Limits, Step, candidate, next_step};
use super::{DESCRIPTOR, PERIOD};
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct LegacyTokenOracle;

impl Oracle for LegacyTokenOracle {
    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        let now = world.latest_now();
        match (change.gone::<Secret>(), change.updated::<Secret>()) {
            (Some(secret), _) => safe(&secret, world.store(), clean_up_period(world), now),
            // Marked, or no longer.
            (None, Some(_)) => Ok(()),
            (None, None) => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let (period, now) = (clean_up_period(world), world.now());
        let secrets = world.store::<Secret>().list();
        // No pod of the simulator mounts a secret.
        secrets
            .iter()
            .try_for_each(|secret| converged(secret, world.store(), false, period, now))
    }
}

fn clean_up_period(world: &World) -> Duration {
    let config = &world.run.config.legacy_sa_token_cleaner;
    config.clean_up_period.to_std()
}

/// A token that was due for something a day ago and some has got it: the cleaner looks once a day. `mounted`
/// says whether a pod uses it.
pub fn converged(
    secret: &Secret,
    accounts: &Store<ServiceAccount>,
    mounted: bool,
    clean_up_period: Duration,
    now: MicroTime,
) -> Result<(), String> {
    // A look a day, and another one for a day that began in between: labels count days.
    let limits = Limits::new(now.minus(PERIOD + PERIOD), clean_up_period);
    let Some(candidate) = candidate(secret, accounts, &limits).filter(|_| !mounted) else {
        return Ok(());
    };
    match next_step(&candidate, &limits) {
        Step::Wait => Ok(()),
        step => Err(format!(
            "{} should have been {step:?}",
            secret.metadata.key()
        )),
    }
}

/// No token goes that was not marked for long enough, or is not a token that was made for everyone: `deleted`
/// is what the cleaner deleted.
pub fn safe(
    deleted: &Secret,
    accounts: &Store<ServiceAccount>,
    clean_up_period: Duration,
    now: MicroTime,
) -> Result<(), String> {
    let limits = Limits::new(now, clean_up_period);
    let key = deleted.metadata.key();
    match candidate(deleted, accounts, &limits).map(|found| next_step(&found, &limits)) {
        Some(Step::Delete) => Ok(()),
        Some(step) => Err(format!("{key} was deleted, and should have been {step:?}")),
        None => Err(format!("{key} was deleted, and had to be kept")),
    }
}
