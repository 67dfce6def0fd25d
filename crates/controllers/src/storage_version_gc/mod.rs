//! What API servers that are gone said about storage. A small controller, behind the gates `APIServerIdentity` and
//! `StorageVersionAPI`.
//!
//! **Converges**: every entry of a StorageVersion is of an API server whose identity lease is in `kube-system`; the common
//! version and its condition follow from those that are left; a StorageVersion of which none is left is gone.
//!
//! **Triggers**: changes of StorageVersions; identity leases that go.
//!
//! **Writes**: puts the status of StorageVersions, deletes them.
//!
//! **Mirrors** `pkg/controller/storageversiongc`, and `SetCommonEncodingVersion` of `k8s.io/apiserver/pkg/storageversion`.
//! Upstream has one queue for leases and one for StorageVersions; here a lease that goes enqueues what names it.
//!
//! **Deliberate differences**: a lease that cannot be read, for another reason than that it is gone, is read again, where
//! upstream removes its entries; deletions carry uid and revision.

mod actions;
mod invariants;
mod plan;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use api::decision::{Line, agree, counted};
use api::kinds::{Lease, StorageVersion};
use api::{Istr, Key, ObjectId, Resource};
use client::DeleteOptions;
use runtime::rate_limit::Backoff;
use runtime::{Change, Context, Controller, Error, Loop, Next, Reconcile, Report, Store};

use crate::Descriptor;
use crate::oracle::View;
use crate::workload::status::put_status;

pub use invariants::{StorageVersionOracle, converged, safe};
pub use plan::{Step, is_identity, plan};

pub const DESCRIPTOR: Descriptor = Descriptor {
    caches: &[View::of::<Lease>(), View::of::<StorageVersion>()],
    decides_about: &[StorageVersion::TYPE],
    queues: &["storage_version_garbage_collector_storageversions"],
    build: Some(|ctx| Some(controller(ctx).into())),
    oracle: Some(|| Box::<StorageVersionOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "storageversion-garbage-collector-controller",
        "storage-version-gc",
        "storage-version-garbage-collector",
    )
    .gated(&["APIServerIdentity", "StorageVersionAPI"])
};

const NAMESPACE: &str = "kube-system";

pub fn controller(context: &Context) -> Controller {
    let versions = context.informers.store::<StorageVersion>();
    let named = versions.clone();
    Loop::on::<Key>(context, Backoff::DEFAULT)
        .queue("storage_version_garbage_collector_storageversions")
        .watches::<StorageVersion>(|change, queue| {
            if !matches!(change, Change::Deleted(_)) {
                queue.add(change.object().key());
            }
        })
        .watches::<Lease>(move |change, queue| {
            let Change::Deleted(lease) = change else {
                return;
            };
            if !is_identity(&lease.metadata) {
                return;
            }
            for version in named.list() {
                let mut entries = version.status.storage_versions.iter();
                if entries.any(|entry| *entry.api_server_id == *lease.metadata.name) {
                    queue.add(version.key());
                }
            }
        })
        .reconciler(StorageVersionCollector {
            context: context.clone(),
            versions,
            leases: context.informers.store::<Lease>(),
        })
}

pub struct StorageVersionCollector {
    context: Context,
    versions: Arc<Store<StorageVersion>>,
    leases: Arc<Store<Lease>>,
}

impl Reconcile for StorageVersionCollector {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let Some(version) = self.versions.get(key) else {
            return Ok(Next::AwaitChange);
        };
        let gone = self.gone(&version).await?;
        let step = plan(&version, &gone, self.context.clock.now().time());
        let servers = counted(gone.len(), "API server");
        let why = format!(
            "{servers} among them {} gone",
            agree(gone.len(), "is", "are")
        );
        let decide = |line: Line| report.decide(ObjectId::of(&*version), [line]);
        let (client, meta) = (&self.context.client, &version.metadata);
        let written = match step {
            Step::Keep => return Ok(Next::AwaitChange),
            Step::Update(status) => {
                decide(Line::acts("RemovesEntries", "removes entries").because(why));
                put_status::<StorageVersion>(client, meta, &status)
                    .await
                    .map(drop)
            }
            Step::Delete => {
                decide(Line::acts("Deletes", "deletes it").because(why));
                let options = DeleteOptions {
                    resource_version: Some(meta.resource_version),
                    ..DeleteOptions::exactly(&meta.uid)
                };
                client
                    .delete(&StorageVersion::TYPE, "", &meta.name, &options)
                    .await
                    .map(drop)
            }
        };
        match written {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(Next::AwaitChange),
        }
    }
}

impl StorageVersionCollector {
    /// The servers among its entries that have no identity any more, by the server's own word and not by the cache's.
    async fn gone(&self, version: &StorageVersion) -> Result<BTreeSet<Istr>, Error> {
        let mut gone = BTreeSet::new();
        for entry in &version.status.storage_versions {
            let id = &entry.api_server_id;
            let cached = self.leases.find(NAMESPACE, id);
            if cached.is_some_and(|lease| is_identity(&lease.metadata)) || gone.contains(id) {
                continue;
            }
            // No lease has an empty name, and asking for it would list them.
            if id.is_empty() {
                gone.insert(id.clone());
                continue;
            }
            match self.context.client.get_as::<Lease>(NAMESPACE, id).await {
                Ok(lease) if is_identity(&lease.metadata) => {}
                Ok(_) => {
                    gone.insert(id.clone());
                }
                Err(error) if error.is_not_found() => {
                    gone.insert(id.clone());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(gone)
    }
}
