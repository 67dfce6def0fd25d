//! Objects are written again in the version that is stored now. A small controller, behind the gate
//! `StorageVersionMigrator`.
//!
//! **Converges**: each StorageVersionMigration has succeeded or failed; one of a resource runs at a time, the oldest first.
//! One that has succeeded means that no object of the resource is stored in an old version, and if the resource is a custom
//! one, its definition lists the version that is stored and no other.
//!
//! **Triggers**: migrations; time.
//!
//! **Writes**: puts the status of migrations, in turns: `Running`, the revision, `Succeeded` or `Failed`, no longer
//! `Running`; applies nothing to each object, which makes the API server store it again; applies the condition
//! `StorageMigrating` and the stored versions to definitions.
//!
//! **Mirrors** `pkg/controller/storageversionmigrator`. Upstream has three controllers; here one loop gives turns
//! (`runner`, on resources) and another one does the work (on migrations).
//!
//! **The revision**: a migration notes the revision of the server when it begins. Objects that are newer were stored in the
//! right version already. The cache that objects are listed from has to be at least as new.
//!
//! **Deliberate differences**: upstream lists objects from the garbage collector's caches and cannot run without it; here
//! the stream of metadata of the resource is shared with the collector if that runs, and open while a migration needs it;
//! the stored versions of a definition stay if the migration failed, where upstream removes the old ones all the same.

mod actions;
mod definition;
mod invariants;
mod plan;
mod runner;
mod work;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use api::Resource;
use api::kinds::{MigratedResource, StorageVersionMigration};
use parking_lot::Mutex;
use runtime::informer::MetadataStreams;
use runtime::rate_limit::Backoff;
use runtime::{Context, Loop, Runnable};

use crate::Descriptor;
use crate::oracle::View;

pub use invariants::{MigrationOracle, safe};
pub use plan::{Outcome, Step, Turns, plan, plan_turns};

pub const DESCRIPTOR: Descriptor = Descriptor {
    caches: &[View::of::<StorageVersionMigration>()],
    decides_about: &[StorageVersionMigration::TYPE],
    queues: &[
        "resource-version-controller",
        "storage-version-migrator-controller",
    ],
    build: Some(|ctx| Some(controller(ctx, &ctx.environment.streams))),
    oracle: Some(|| Box::<MigrationOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "storage-version-migrator-controller",
        "svm",
        "storage-version-migrator-controller",
    )
    .gated(&["StorageVersionMigrator"])
    .faster(20.0, 100)
};

/// UPSTREAM: five workers, without a flag.
const WORKERS: usize = 5;

/// `streams` are those of kinds that nobody caches.
pub fn controller(context: &Context, streams: &MetadataStreams) -> Runnable {
    let migrations = context.informers.store::<StorageVersionMigration>();
    let turns = Loop::on::<Turn>(context, Backoff::DEFAULT)
        .queue("resource-version-controller")
        .watches::<StorageVersionMigration>(|change, queue| {
            queue.add(Turn(change.object().spec.resource.clone()));
        })
        .reconciler(runner::Runner {
            context: context.clone(),
            migrations: migrations.clone(),
        });
    let work = Loop::on::<api::Key>(context, Backoff::DEFAULT)
        .queue("storage-version-migrator-controller")
        .watches::<StorageVersionMigration>(|change, queue| {
            queue.add(change.object().key());
        })
        .workers(WORKERS)
        .reconciler(work::Migrations {
            context: context.clone(),
            migrations,
            streams: streams.clone(),
            open: Mutex::new(BTreeMap::new()),
        });
    Runnable::together(context.controller, vec![turns.into(), work.into()])
}

/// The resource whose migrations take turns.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Turn(MigratedResource);

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0.resource, self.0.group)
    }
}

/// The migrations of one resource.
fn of_resource(
    migrations: &runtime::Store<StorageVersionMigration>,
    resource: &MigratedResource,
) -> Vec<Arc<StorageVersionMigration>> {
    let mut all = migrations.list();
    all.retain(|one| one.spec.resource == *resource);
    all
}
