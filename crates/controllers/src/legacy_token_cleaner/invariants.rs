//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use std::time::Duration;

use api::MicroTime;
use api::kinds::{Secret, ServiceAccount};
use runtime::Store;

use super::PERIOD;
use super::plan::{Limits, Step, candidate, next_step};

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
