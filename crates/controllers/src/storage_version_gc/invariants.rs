//! What must hold: of every write ([`safe`]), and once nothing changes any more ([`converged`]).

use api::Meta;
use api::kinds::{Lease, StorageVersion};
use runtime::Store;

use super::plan::is_identity;
use super::{DESCRIPTOR, NAMESPACE};
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct StorageVersionOracle;

impl Oracle for StorageVersionOracle {
    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        match change.before::<StorageVersion>() {
            Some(before) => {
                let after = change.after::<StorageVersion>();
                safe(&before, after.as_deref(), world.store())
            }
            None => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let versions = world.store::<StorageVersion>().list();
        let mut versions = versions.iter();
        versions.try_for_each(|version| converged(version, world.store()))
    }
}

fn is_there(id: &str, leases: &Store<Lease>) -> bool {
    let lease = leases.find(NAMESPACE, id);
    lease.is_some_and(|lease| is_identity(&lease.metadata))
}

/// Every entry is of a server that is there.
pub fn converged(version: &StorageVersion, leases: &Store<Lease>) -> Verdict {
    let mut entries = version.status.storage_versions.iter();
    match entries.find(|entry| !is_there(&entry.api_server_id, leases)) {
        Some(entry) => Err(format!(
            "{} has an entry of {}, which is gone",
            version.metadata.name, entry.api_server_id
        )),
        None => Ok(()),
    }
}

/// No entry is removed whose server is there; `after` is none for one that was deleted.
pub fn safe(
    before: &StorageVersion,
    after: Option<&StorageVersion>,
    leases: &Store<Lease>,
) -> Verdict {
    let left = after.map_or(&[][..], |after| &after.status.storage_versions);
    let removed = before.status.storage_versions.iter();
    let mut removed = removed.filter(|entry| !left.contains(entry));
    match removed.find(|entry| is_there(&entry.api_server_id, leases)) {
        Some(entry) => {
            let Meta { name, .. } = &before.metadata;
            let id = &entry.api_server_id;
            Err(format!("{name} lost the entry of {id}, which is there"))
        }
        None => Ok(()),
    }
}
