//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use api::Meta;
use api::kinds::{Namespace, ServiceAccount};
use runtime::Store;

use super::{DEFAULT_ACCOUNTS, DESCRIPTOR};
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct ServiceAccountOracle;

impl Oracle for ServiceAccountOracle {
    fn after_write(&self, _world: &World, change: &Change) -> Verdict {
        match change.created::<ServiceAccount>() {
            Some(created) => safe(&created.metadata, &DEFAULT_ACCOUNTS),
            None => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let wanted = DEFAULT_ACCOUNTS.map(str::to_owned);
        let namespaces = world.store::<Namespace>().list();
        let accounts = world.store::<ServiceAccount>();
        namespaces
            .iter()
            .try_for_each(|namespace| converged(namespace, accounts, &wanted))
    }
}

/// Every namespace that is there to stay has each of the accounts.
pub fn converged(
    namespace: &Namespace,
    accounts: &Store<ServiceAccount>,
    wanted: &[String],
) -> Result<(), String> {
    let name = &namespace.metadata.name;
    let is_missing = |account: &&String| accounts.find(name, account).is_none();
    match wanted.iter().find(is_missing) {
        Some(account) if !namespace.metadata.is_terminating() => {
            Err(format!("namespace {name} has no service account {account}"))
        }
        _ => Ok(()),
    }
}

/// Nothing is made but the accounts that every namespace is to have: `made` was created by the controller.
pub fn safe(made: &Meta, wanted: &[impl AsRef<str>]) -> Result<(), String> {
    match wanted.iter().any(|name| *made.name == *name.as_ref()) {
        true => Ok(()),
        false => Err(format!("nobody asked for service account {}", made.key())),
    }
}
