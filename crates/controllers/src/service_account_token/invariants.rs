//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use api::kinds::{Secret, ServiceAccount};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use runtime::Store;

use super::{DESCRIPTOR, missing, owner};
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct TokenOracle;

impl Oracle for TokenOracle {
    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        let fills = change.updated::<Secret>().is_some();
        let lists = change.updated::<ServiceAccount>().is_some();
        match change.gone::<Secret>() {
            Some(secret) => safe(&secret, world.store()),
            None if fills || lists => Ok(()),
            None => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let root_ca = BASE64_STANDARD.encode(world.run.root_ca);
        let secrets = world.store::<Secret>().list();
        secrets
            .iter()
            .try_for_each(|secret| converged(secret, world.store(), &root_ca))
    }
}

/// A token secret has an account, and all that it should hold. `root_ca` is in base64; empty for none.
pub fn converged(
    secret: &Secret,
    accounts: &Store<ServiceAccount>,
    root_ca: &str,
) -> Result<(), String> {
    let key = secret.metadata.key();
    if owner(secret).is_none() || secret.metadata.is_terminating() {
        return Ok(());
    }
    if !has_account(secret, accounts) {
        return Err(format!("{key} is a token of an account that is gone"));
    }
    match missing(secret, root_ca) {
        lacks if lacks.any() => Err(format!("token {key} {lacks}")),
        _ => Ok(()),
    }
}

/// No token goes whose account is there: `deleted` is what the controller deleted.
pub fn safe(deleted: &Secret, accounts: &Store<ServiceAccount>) -> Result<(), String> {
    let key = deleted.metadata.key();
    if owner(deleted).is_none() {
        return Err(format!("{key} was deleted, and is no token of an account"));
    }
    match has_account(deleted, accounts) {
        true => Err(format!(
            "token {key} was deleted although its account exists"
        )),
        false => Ok(()),
    }
}

fn has_account(secret: &Secret, accounts: &Store<ServiceAccount>) -> bool {
    let account = owner(secret).and_then(|owner| {
        Some((
            accounts.find(&secret.metadata.namespace, &owner.name)?,
            owner,
        ))
    });
    account.is_some_and(|(account, owner)| owner.means(&account.metadata))
}
