//! What the server remembers: objects, one revision counter, and a bounded log of changes for watches.
//!
//! There is one writer at a time, so a read-modify-write needs no retry loop and every revision is one
//! change. Readers take a short shared lock and clone reference-counted objects; nobody waits for a slow
//! watcher, because watchers read the log at their own pace and are told `410` when it has moved past them.

mod database;
mod disk;
mod draft;
mod event;
mod object;
mod packed;
mod record;
mod reopen;
mod repair;
mod reserve;
mod snapshot;
mod table;
mod transaction;
mod working;

pub(crate) use database::{Found, open};
pub use database::{is_ours, stranger};
pub(crate) use disk::Durability;
pub(crate) use draft::{Draft, encode_body};
pub(crate) use event::{Change, Event};
pub(crate) use object::{Stored, behind_version, split_key};
pub(crate) use packed::Packed;
pub use repair::{Repaired, repair};
pub(crate) use reserve::is_modest;
pub(crate) use snapshot::Tail;
pub(crate) use table::TableKey;
pub(crate) use transaction::{Transaction, with_revision};

use crate::kinds::Kind;
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::sync::Arc;
use table::{Table, Tables};
use tokio::sync::Notify;

pub(crate) struct Store {
    core: Arc<Core>,
    durability: Durability,
    log_capacity: usize,
}

/// What the thread that commits to disk shares with the store.
struct Core {
    /// Held by the one write in progress.
    writer: Mutex<()>,
    inner: RwLock<Inner>,
}

struct Inner {
    /// The last revision given out.
    revision: u64,
    /// The last revision that would survive a crash. Watches and reads show nothing newer.
    durable: u64,
    /// What happened up to this revision, before the server was opened, is in no log.
    base: u64,
    tables: Tables,
    /// Woken when `durable` moves. With a disk, those who wait for a commit wait for their batch instead.
    progress: Arc<Notify>,
}

/// Objects of one kind as they were at one revision.
pub(crate) struct Page {
    pub(crate) items: Vec<Arc<Stored>>,
    pub(crate) revision: u64,
    /// How many more matched the prefix after the page, if it was cut short.
    pub(crate) remaining: u64,
}

/// Why a revision cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// Older than the log reaches.
    Compacted { floor: u64 },
}

impl Store {
    pub(crate) fn in_memory(log_capacity: usize) -> Arc<Store> {
        // Revision 1 is taken, so that "0" keeps its meaning of "any".
        Arc::new(Store::new(Durability::Memory, log_capacity, 1, 0))
    }

    /// A store on what a data directory holds. `kind_of` tells the kind of a table, as far as it is known.
    pub(crate) fn on_disk(
        mut found: Found,
        log_capacity: usize,
        kind_of: impl Fn(&TableKey) -> Option<Arc<Kind>>,
    ) -> Arc<Store> {
        let revision = found.revision;
        let disk = disk::Disk::new(found.data.reserve());
        let store = Store::new(Durability::Disk(disk), log_capacity, revision, revision);
        for row in std::mem::take(&mut found.rows) {
            let kind = kind_of(&row.table);
            let mut inner = store.modify();
            let table = inner.tables.get_or_make(&row.table, revision);
            let loaded = Stored::load(kind.as_deref(), &row.key, row.revision, row.body);
            let object = Arc::new(loaded);
            table.insert(object);
        }
        if let Durability::Disk(disk) = &store.durability {
            disk.start(&store.core, found);
        }
        Arc::new(store)
    }

    fn new(durability: Durability, log_capacity: usize, revision: u64, base: u64) -> Store {
        let inner = Inner {
            revision,
            durable: revision,
            base,
            tables: Tables::default(),
            progress: Arc::new(Notify::new()),
        };
        Store {
            core: Arc::new(Core {
                writer: Mutex::new(()),
                inner: RwLock::new(inner),
            }),
            durability,
            log_capacity,
        }
    }

    pub(crate) fn visible_revision(&self) -> u64 {
        self.read().durable
    }

    pub(crate) fn get(&self, kind: &Kind, key: &str) -> Option<Arc<Stored>> {
        self.read()
            .tables
            .get(&kind.storage)?
            .objects()
            .get(key)
            .cloned()
    }

    /// The number of objects in each table.
    pub(crate) fn counts(&self) -> Vec<(TableKey, usize)> {
        self.read()
            .tables
            .iter()
            .map(|(key, table)| (key.clone(), table.objects().len()))
            .collect()
    }

    /// The last revision at which anything of a kind changed, or that of opening if nothing did.
    pub(crate) fn last_change(&self, kind: &Kind) -> u64 {
        let inner = self.read();
        let logged = inner
            .tables
            .get(&kind.storage)
            .map_or(0, Table::last_revision);
        logged.max(inner.base)
    }

    /// Runs a write. What it puts is visible to later writes at once, and to everyone else once it is durable,
    /// which the returned revision lets the caller wait for.
    pub(crate) fn write<T, E>(
        &self,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<(T, u64), E> {
        let writer = lock(&self.core.writer);
        let mut transaction = Transaction::new(self);
        // What it has written by the time of an error is taken back.
        let value = body(&mut transaction)?;
        let (revision, behind) = transaction.finish();
        drop(writer);
        behind.iter().for_each(|event| event.pack());
        Ok((value, revision))
    }

    /// Why only writes that need no more room are taken, if that is so.
    pub(crate) fn is_short(&self) -> Option<String> {
        self.durability.is_short()
    }

    /// Why nothing can be written any more, or soon.
    pub(crate) fn shortage(&self) -> Option<String> {
        self.durability.shortage()
    }

    /// Waits until everything up to that revision would survive a crash.
    pub(crate) async fn durable(&self, revision: u64) -> Result<(), disk::WriteFailed> {
        if self.durability.is_memory() {
            return Ok(());
        }
        loop {
            let batch = self.durability.batch_of(revision);
            let progress = batch.unwrap_or_else(|| self.read().progress.clone());
            let notified = progress.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            self.durability.check(revision)?;
            if self.read().durable >= revision {
                return Ok(());
            }
            notified.await;
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.core.inner.read()
    }

    fn modify(&self) -> RwLockWriteGuard<'_, Inner> {
        self.core.modify()
    }
}

impl Core {
    fn modify(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write()
    }
}

impl Inner {
    /// Makes everything visible up to `revision` and wakes who waits for it.
    fn advance(&mut self, revision: u64) {
        let from = self.durable;
        self.durable = revision;
        for (_, table) in self.tables.iter() {
            if table.last_revision() > from {
                table.changed.notify_waiters();
            }
        }
        self.progress.notify_waiters();
    }
}

/// A poisoned lock means that a write panicked half way; the state it guards is still consistent, because
/// puts are applied one by one and each is complete.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
