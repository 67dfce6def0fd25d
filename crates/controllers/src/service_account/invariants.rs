//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use api::Meta;
use api::kinds::{Namespace, ServiceAccount};
use runtime::Store;

use super::missing;

/// Every namespace that is there to stay has each of the accounts.
pub fn converged(
    namespace: &Namespace,
    accounts: &Store<ServiceAccount>,
    wanted: &[String],
) -> Result<(), String> {
    match missing(namespace, accounts, wanted).first() {
        Some(account) => Err(format!(
            "namespace {} has no service account {account}",
            namespace.metadata.name
        )),
        None => Ok(()),
    }
}

/// Nothing is made but the accounts that every namespace is to have: `made` was created by the controller.
pub fn safe(made: &Meta, wanted: &[String]) -> Result<(), String> {
    match wanted.iter().any(|name| *made.name == **name) {
        true => Ok(()),
        false => Err(format!("nobody asked for service account {}", made.key())),
    }
}
