//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use api::Quantity;
use api::amounts::{self, Amounts};
use api::kinds::ResourceQuota;

/// The quota says what its spec says, and that so much is used of it. What nobody can count is not in `sum`.
pub fn converged(quota: &ResourceQuota, sum: &Amounts) -> Result<(), String> {
    let key = quota.metadata.key();
    if quota.status.hard.as_ref() != Some(&quota.spec.hard) {
        return Err(format!("quota {key} does not enforce what its spec says"));
    }
    let none = Amounts::new();
    let used = quota.status.used.as_ref().unwrap_or(&none);
    let mut wrong = sum.clone();
    wrong.retain(|name, amount| used.get(name) != Some(amount));
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "quota {key} says that {} is used, and it is {}",
            amounts::show(used.iter().filter(|(name, _)| wrong.contains_key(*name))),
            amounts::show(&wrong)
        )),
    }
}

/// Nothing of a quota changes but its status.
pub fn safe(before: &ResourceQuota, after: &ResourceQuota) -> Result<(), String> {
    let mut expected = before.clone();
    expected.status = after.status.clone();
    match expected == *after {
        true => Ok(()),
        false => Err(format!(
            "more than the status of quota {} was changed",
            after.metadata.key()
        )),
    }
}

/// What was granted fits into what was enforced.
pub fn fits(before: &ResourceQuota, after: &ResourceQuota) -> Result<(), String> {
    let (Some(hard), Some(old), Some(new)) =
        (&before.status.hard, &before.status.used, &after.status.used)
    else {
        return Ok(());
    };
    let exceeds = |(name, used): &(&api::Istr, &Quantity)| {
        old.get(*name).is_some_and(|old| old < *used)
            && hard.get(*name).is_some_and(|hard| hard < *used)
    };
    match new.iter().find(exceeds) {
        None => Ok(()),
        Some((name, used)) => Err(format!(
            "{used} of {name} was granted, which quota {} does not allow",
            after.metadata.key()
        )),
    }
}
