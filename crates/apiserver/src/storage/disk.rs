//! Making writes survive a crash: one commit for all writes that wait.
//!
//! A write is applied in memory at once, where later writes see it, and queued. One thread takes whatever is
//! queued, commits it in one durable transaction, and only then makes it visible to readers and watchers. If a commit
//! fails (a full disk), everything that was not yet durable is undone and its writers are told. From then on the server
//! is not ready and takes only what needs no more room, such as deletions, for which a reserve is given up; once that
//! can be held again, it takes everything.

use super::database::{Data, Found, Write};
use super::record;
use super::reserve::{Reserve, is_modest};
use super::table::TableKey;
use super::{Core, Stored, lock};
use crate::kinds::Kind;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::Notify;

/// How many failed ranges are remembered for writers that have not yet looked: they look at once.
const FAILURES_KEPT: usize = 1024;

/// How often it is tried whether there is room again.
const PROBE_PERIOD: Duration = Duration::from_secs(1);

pub(crate) enum Durability {
    /// Everything is gone when the process ends.
    Memory,
    Disk(Disk),
}

#[derive(Clone, Debug, thiserror::Error)]
#[error("the write could not be made durable: {0}")]
pub(crate) struct WriteFailed(String);

pub(crate) struct Disk {
    queue: Arc<Queue>,
    reserve: Arc<Reserve>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    wake: Condvar,
}

#[derive(Default)]
struct QueueState {
    operations: Vec<Operation>,
    /// Operations up to this revision belong to finished transactions.
    submitted: u64,
    /// Operations up to this revision are in the batch that is being committed, or in an earlier one.
    taken: u64,
    /// Woken when the batch that is being committed has ended, and for the one after it. Who waits for a later
    /// batch is not woken by an earlier one.
    committing: Arc<Notify>,
    gathering: Arc<Notify>,
    closed: bool,
    /// Revisions (after, up to and including) that were undone, and why.
    failures: Vec<(u64, u64, WriteFailed)>,
    /// Why the last commit failed, until there is room for more again.
    short: Option<WriteFailed>,
}

/// What the committer has to do next.
enum Work {
    /// Operations of complete transactions, and the revision of the last one.
    Commit(Vec<Operation>, u64),
    /// Try whether there is room again.
    Probe,
}

/// One put or removal, with what it takes to undo it.
struct Operation {
    table: TableKey,
    revision: u64,
    key: Arc<str>,
    object: Option<Arc<Stored>>,
    previous: Option<Arc<Stored>>,
}

impl Durability {
    pub(super) fn is_memory(&self) -> bool {
        matches!(self, Durability::Memory)
    }

    pub(super) fn put(&self, kind: &Kind, object: &Arc<Stored>, previous: Option<Arc<Stored>>) {
        let (key, object, revision) = (object.key.clone(), Some(object.clone()), object.revision);
        self.queue(Operation {
            table: kind.storage.clone(),
            revision,
            key,
            object,
            previous,
        });
    }

    pub(super) fn remove(&self, kind: &Kind, previous: Arc<Stored>, revision: u64) {
        let (key, previous) = (previous.key.clone(), Some(previous));
        self.queue(Operation {
            table: kind.storage.clone(),
            revision,
            key,
            object: None,
            previous,
        });
    }

    fn queue(&self, operation: Operation) {
        if let Durability::Disk(disk) = self {
            lock(&disk.queue.state).operations.push(operation);
        }
    }

    /// A transaction has failed: what it wrote after that revision is not committed.
    pub(super) fn forget_after(&self, revision: u64) {
        if let Durability::Disk(disk) = self {
            let mut state = lock(&disk.queue.state);
            state
                .operations
                .retain(|operation| operation.revision <= revision);
        }
    }

    #[cfg(test)]
    pub(super) fn queued(&self) -> Vec<String> {
        let Durability::Disk(disk) = self else {
            return Vec::new();
        };
        let state = lock(&disk.queue.state);
        let keys = state.operations.iter();
        keys.map(|operation| operation.key.to_string()).collect()
    }

    /// A transaction is complete: its operations may be committed.
    pub(super) fn submit(&self, revision: u64) {
        if let Durability::Disk(disk) = self {
            let mut state = lock(&disk.queue.state);
            state.submitted = revision;
            disk.queue.wake.notify_one();
        }
    }

    /// What is woken when the batch of a revision has ended; nothing without a disk.
    pub(super) fn batch_of(&self, revision: u64) -> Option<Arc<Notify>> {
        let Durability::Disk(disk) = self else {
            return None;
        };
        let state = lock(&disk.queue.state);
        Some(if revision > state.taken {
            state.gathering.clone()
        } else {
            state.committing.clone()
        })
    }

    /// Why only writes that need no more room are taken.
    pub(crate) fn is_short(&self) -> Option<String> {
        let Durability::Disk(disk) = self else {
            return None;
        };
        let state = lock(&disk.queue.state);
        state.short.as_ref().map(ToString::to_string)
    }

    /// Why nothing can be written any more, or soon.
    pub(super) fn shortage(&self) -> Option<String> {
        let Durability::Disk(disk) = self else {
            return None;
        };
        self.is_short().or_else(|| disk.reserve.shortage())
    }

    /// Whether a revision was undone.
    pub(super) fn check(&self, revision: u64) -> Result<(), WriteFailed> {
        let Durability::Disk(disk) = self else {
            return Ok(());
        };
        let state = lock(&disk.queue.state);
        let failed = state
            .failures
            .iter()
            .find(|(after, to, _)| *after < revision && revision <= *to);
        failed.map_or(Ok(()), |(_, _, why)| Err(why.clone()))
    }
}

impl Disk {
    /// Ready to commit to what was found; [`Disk::start`] must follow.
    pub(super) fn new(reserve: Reserve) -> Disk {
        Disk {
            queue: Arc::new(Queue::default()),
            reserve: Arc::new(reserve),
            thread: Mutex::new(None),
        }
    }

    /// Without a disk, for tests.
    #[cfg(test)]
    pub(crate) fn detached() -> Disk {
        Disk::new(Reserve::beside(std::path::Path::new("/nonexistent/file")))
    }

    /// Starts the thread that commits for a store.
    #[allow(
        clippy::disallowed_methods,
        reason = "commits block for a millisecond each; virtual time never uses a disk"
    )]
    pub(super) fn start(&self, core: &Arc<Core>, found: Found) {
        let (queue, core) = (self.queue.clone(), core.clone());
        let mut committer = Committer {
            queue,
            core,
            data: found.data,
            reserve: self.reserve.clone(),
        };
        // A server starts on a full disk too: how else would anyone delete something.
        if let Err(error) = self.reserve.hold() {
            committer.refuse_growth(WriteFailed(error.to_string()));
        }
        let thread = std::thread::spawn(move || committer.run());
        *lock(&self.thread) = Some(thread);
    }
}

impl Drop for Disk {
    /// Waits for the last commit, so that the file can be opened again.
    fn drop(&mut self) {
        lock(&self.queue.state).closed = true;
        self.queue.wake.notify_all();
        if let Some(thread) = lock(&self.thread).take() {
            // A panic of the committer has nothing to add here: its writers were told.
            let _ = thread.join();
        }
    }
}

struct Committer {
    queue: Arc<Queue>,
    core: Arc<Core>,
    data: Data,
    reserve: Arc<Reserve>,
}

impl Committer {
    fn run(&mut self) {
        while let Some(work) = self.next() {
            match work {
                Work::Commit(batch, revision) => self.commit(batch, revision),
                Work::Probe => self.probe(),
            }
        }
    }

    fn commit(&mut self, batch: Vec<Operation>, revision: u64) {
        let mut written = self.data.write(rows(&batch), revision);
        if written.is_err() && is_modest_batch(&batch) && self.reserve.release() {
            written = self.data.write(rows(&batch), revision);
        }
        match written {
            Ok(()) => {
                self.core.modify().advance(revision);
                let ended = lock(&self.queue.state).committing.clone();
                ended.notify_waiters();
            }
            Err(error) => {
                let why = WriteFailed(error.to_string());
                self.refuse_growth(why.clone());
                undo(&self.core, &self.queue, batch, &why);
            }
        }
    }

    fn refuse_growth(&mut self, why: WriteFailed) {
        let before = lock(&self.queue.state).short.replace(why.clone());
        if before.is_none() {
            tracing::error!(
                error = %why,
                "The disk is full or does not work: only deletions and changes that need no more room are taken"
            );
        }
    }

    /// Takes everything again if the reserve can be held and a commit works.
    fn probe(&mut self) {
        let held = self.reserve.hold().map_err(|error| error.to_string());
        let works = held.and_then(|()| self.data.probe().map_err(|error| error.to_string()));
        match works {
            Ok(()) => {
                lock(&self.queue.state).short = None;
                tracing::info!("The disk has room again: everything is taken");
            }
            Err(error) => tracing::debug!(error, "The disk is still full or does not work"),
        }
    }

    /// Waits for complete transactions; `None` when the store is gone and nothing is left.
    fn next(&mut self) -> Option<Work> {
        let mut state = lock(&self.queue.state);
        loop {
            let submitted = state.submitted;
            let count = state
                .operations
                .partition_point(|operation| operation.revision <= submitted);
            if count > 0 {
                let later = state.operations.split_off(count);
                let batch = std::mem::replace(&mut state.operations, later);
                state.taken = submitted;
                state.committing = std::mem::take(&mut state.gathering);
                return Some(Work::Commit(batch, submitted));
            }
            if state.closed {
                return None;
            }
            if state.short.is_none() {
                self.queue.wake.wait(&mut state);
            } else if self
                .queue
                .wake
                .wait_for(&mut state, PROBE_PERIOD)
                .timed_out()
            {
                return Some(Work::Probe);
            }
        }
    }
}

/// Whether all of it takes hardly more room than it gives back.
fn is_modest_batch(batch: &[Operation]) -> bool {
    let bytes =
        |object: &Option<Arc<Stored>>| object.as_ref().map_or(0, |object| object.body_len());
    batch
        .iter()
        .all(|operation| is_modest(bytes(&operation.previous), bytes(&operation.object)))
}

/// The last state of each object of a batch, in the order of keys: that touches every page of the database once.
fn rows(batch: &[Operation]) -> impl Iterator<Item = Write> {
    let keyed = batch.iter().map(|operation| {
        let key = record::key_of(&operation.table, &operation.key);
        (key, &operation.object)
    });
    let last: BTreeMap<String, &Option<Arc<Stored>>> = keyed.collect();
    last.into_iter().map(|(key, object)| {
        let row = object
            .as_ref()
            .map(|object| (object.revision, object.body()));
        (key, row)
    })
}

/// Takes back everything that is not durable, the failed batch and whatever was built on it.
fn undo(core: &Core, queue: &Queue, batch: Vec<Operation>, why: &WriteFailed) {
    let _writer = lock(&core.writer);
    let mut inner = core.modify();
    let mut state = lock(&queue.state);
    let mut operations = batch;
    operations.append(&mut state.operations);
    let durable = inner.durable;
    for operation in operations.into_iter().rev() {
        let Some(table) = inner.tables.get_mut(&operation.table) else {
            continue;
        };
        table.restore(&operation.key, operation.previous);
        table.forget_after(durable);
    }
    // Revisions are not used again: a writer that still waits for one must not take another's for its own.
    state.failures.push((durable, inner.revision, why.clone()));
    if state.failures.len() > FAILURES_KEPT {
        state.failures.remove(0);
    }
    state.committing.notify_waiters();
    state.gathering.notify_waiters();
    tracing::error!(error = %why, "writes were undone because they could not be made durable");
}

#[cfg(test)]
mod tests {
    use super::super::{Store, Tail};
    use super::*;
    use serde_json::json;

    #[test]
    fn what_cannot_be_committed_is_undone_and_its_writers_are_told() {
        // No thread commits here, so that the test decides how it goes.
        let store = Store::new(Durability::Disk(Disk::detached()), 100, 1, 1);
        let kind = crate::kinds::find("", "ConfigMap").expect("it is built in");
        let put = |name: &str, text: &str| {
            let value = json!({"metadata": {"name": name}, "data": {"k": text}});
            let written: Result<_, ()> =
                store.write(|transaction| Ok(transaction.put(kind, name, &value, None)));
            written.expect("puts do not fail").1
        };
        let Durability::Disk(disk) = &store.durability else {
            unreachable!("it was made so")
        };
        let kept = put("kept", "1");
        lock(&disk.queue.state).operations.clear();
        store.modify().advance(kept);

        let (changed, added) = (put("kept", "2"), put("lost", "1"));
        assert!(
            matches!(store.tail(kind, kept, 10), Tail::Events(events, _) if events.is_empty()),
            "not visible yet"
        );
        undo(
            &store.core,
            &disk.queue,
            Vec::new(),
            &WriteFailed("the disk is full".into()),
        );

        assert_eq!(
            store.get(kind, "kept").map(|object| object.revision),
            Some(kept)
        );
        assert!(store.get(kind, "lost").is_none());
        for failed in [changed, added] {
            assert!(store.durability.check(failed).is_err());
        }
        let next = put("next", "1");
        assert!(next > added, "revisions are not used twice");
        assert!(store.durability.check(next).is_ok());
        store.modify().advance(next);
        let Tail::Events(events, _) = store.tail(kind, kept, 10) else {
            panic!("the log reaches back")
        };
        assert_eq!(
            events
                .iter()
                .map(|event| event.revision)
                .collect::<Vec<_>>(),
            [next]
        );
    }
}
