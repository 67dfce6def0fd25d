//! One write in progress: reads see what it already wrote. What is not finished, by an error or a panic, is taken back.

use super::{Change, Draft, Event, Store, Stored, TableKey};
use crate::kinds::Kind;
use bytes::Bytes;
use serde_json::Value;
use std::sync::Arc;

pub(crate) struct Transaction<'a> {
    store: &'a Store,
    /// The revision of the last put, 0 if there was none.
    last: u64,
    /// What was there before each put and removal, oldest first.
    undo: Vec<(TableKey, Arc<str>, Option<Arc<Stored>>)>,
    /// What fell behind in the logs, to be packed when the next write has its turn.
    behind: Vec<Arc<Event>>,
    /// The revision before the first put.
    base: u64,
}

impl<'a> Transaction<'a> {
    pub(super) fn new(store: &'a Store) -> Transaction<'a> {
        Transaction {
            store,
            last: 0,
            undo: Vec::new(),
            behind: Vec::new(),
            base: store.read().revision,
        }
    }

    pub(crate) fn get(&self, kind: &Kind, key: &str) -> Option<Arc<Stored>> {
        self.store.get(kind, key)
    }

    /// Everything whose key starts with the prefix, at the newest revision.
    pub(crate) fn list(&self, kind: &Kind, prefix: &str) -> Vec<Arc<Stored>> {
        self.store.list_newest(kind, prefix)
    }

    /// Stores an object under the next revision, which is written into it.
    pub(crate) fn put(
        &mut self,
        kind: &Kind,
        key: &str,
        value: &Value,
        opaque: Option<&str>,
    ) -> Arc<Stored> {
        self.put_draft(kind, key, Draft::new(kind, value, opaque))
    }

    /// As [`Transaction::put`], with an object that was made ready before.
    pub(crate) fn put_draft(&mut self, kind: &Kind, key: &str, draft: Draft) -> Arc<Stored> {
        let mut inner = self.store.modify();
        let floor = inner.base;
        let revision = inner.revision + 1;
        inner.revision = revision;
        let table = inner.tables.get_or_make(&kind.storage, floor);
        let previous = table.objects().get(key).cloned();
        // The key is shared between versions of an object, the map and the log.
        let key: Arc<str> = previous
            .as_ref()
            .map_or_else(|| key.into(), |previous| previous.key.clone());
        let object = Arc::new(draft.stored(key.clone(), revision));
        table.insert(object.clone());
        let undo = (kind.storage.clone(), key, previous.clone());
        let change = if previous.is_some() {
            Change::Modified
        } else {
            Change::Added
        };
        let before = previous.clone();
        let event = Event::new(revision, change, object.clone(), previous);
        self.behind
            .extend(table.record(event, self.store.log_capacity));
        inner.tables.bound_logs();
        drop(inner);
        self.store.durability.put(kind, &object, before);
        self.undo.push(undo);
        self.last = revision;
        object
    }

    /// Removes an object. Its last state, carrying the revision of the deletion, is what watchers see.
    pub(crate) fn remove(&mut self, kind: &Kind, key: &str) -> Option<Arc<Stored>> {
        let previous = self.get(kind, key)?;
        let revision = self.store.read().revision + 1;
        let last = Arc::new(with_revision(&previous, revision));
        let before = previous.clone();
        let mut inner = self.store.modify();
        let table = inner.tables.get_mut(&kind.storage)?;
        table.remove(key);
        let undo = (
            kind.storage.clone(),
            last.key.clone(),
            Some(previous.clone()),
        );
        let object = last.clone();
        let event = Event::new(revision, Change::Deleted, object, Some(previous));
        self.behind
            .extend(table.record(event, self.store.log_capacity));
        inner.tables.bound_logs();
        inner.revision = revision;
        drop(inner);
        self.store.durability.remove(kind, before, revision);
        self.undo.push(undo);
        self.last = revision;
        Some(last)
    }

    /// Hands the write over to be made durable; without a disk it is visible now. What comes back with the
    /// revision is to be packed.
    pub(super) fn finish(mut self) -> (u64, Vec<Arc<Event>>) {
        let behind = std::mem::take(&mut self.behind);
        self.undo.clear();
        if self.last == 0 {
            // Nothing written: what was read may still be on its way to the disk.
            return (self.store.read().revision, behind);
        }
        if self.store.durability.is_memory() {
            self.store.modify().advance(self.last);
        } else {
            self.store.durability.submit(self.last);
        }
        (self.last, behind)
    }
}

impl Drop for Transaction<'_> {
    /// Takes back what was written. Nobody was shown it: it was never durable. Its revisions are not used again.
    fn drop(&mut self) {
        if self.undo.is_empty() {
            return;
        }
        let mut inner = self.store.modify();
        for (table, key, previous) in self.undo.drain(..).rev() {
            if let Some(table) = inner.tables.get_mut(&table) {
                table.restore(&key, previous);
                table.forget_after(self.base);
            }
        }
        drop(inner);
        self.store.durability.forget_after(self.base);
    }
}

/// The same object, saying that it is of another revision.
pub(crate) fn with_revision(stored: &Stored, revision: u64) -> Stored {
    let old = stored.body();
    let mut body = Vec::with_capacity(old.len() + 1);
    match super::working::revision(&old) {
        Some(digits) => {
            body.extend_from_slice(&old[..digits.start]);
            body.extend_from_slice(revision.to_string().as_bytes());
            body.extend_from_slice(&old[digits.end..]);
        }
        None => body.extend_from_slice(&old),
    }
    stored.revised(revision, Bytes::from(body.into_boxed_slice()))
}

#[cfg(test)]
mod tests {
    use super::super::{Tail, disk};
    use super::*;
    use serde_json::json;

    fn check(store: &Store, advance: impl Fn(u64)) {
        let kind = crate::kinds::find("", "ConfigMap").unwrap();
        let value = |text: &str| json!({"metadata": {"name": "a"}, "data": {"k": text}});
        let written: Result<_, ()> =
            store.write(|transaction| Ok(transaction.put(kind, "kept", &value("1"), None).body()));
        let (before, revision) = written.unwrap();
        advance(revision);
        let spoil = |transaction: &mut Transaction<'_>| {
            transaction.put(kind, "kept", &value("2"), None);
            transaction.put(kind, "new", &value("1"), None);
            transaction.remove(kind, "kept");
            assert!(transaction.get(kind, "kept").is_none());
        };
        let failed: Result<((), u64), &str> = store.write(|transaction| {
            spoil(transaction);
            Err("no")
        });
        assert_eq!(failed, Err("no"));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _: Result<((), u64), ()> = store.write(|transaction| {
                spoil(transaction);
                panic!("on purpose")
            });
        }));
        assert!(panicked.is_err());
        assert_eq!(store.get(kind, "kept").unwrap().body(), before);
        assert!(store.get(kind, "new").is_none());
        let written: Result<_, ()> =
            store.write(|transaction| Ok(transaction.put(kind, "last", &value("1"), None)));
        let (last, after) = written.unwrap();
        advance(after);
        let Tail::Events(events, _) = store.tail(kind, revision, 10) else {
            panic!("the log reaches back")
        };
        let seen: Vec<u64> = events.iter().map(|event| event.revision).collect();
        assert_eq!(seen, [last.revision], "of the others nobody hears");
    }

    #[test]
    fn what_fails_is_taken_back_as_a_whole() {
        let store = Store::in_memory(100);
        check(&store, |_| {});
    }

    #[test]
    fn what_fails_does_not_reach_the_disk_either() {
        let disk = super::super::Durability::Disk(disk::Disk::detached());
        let store = Store::new(disk, 100, 1, 1);
        check(&store, |revision| store.modify().advance(revision));
        assert_eq!(store.durability.queued(), ["kept", "last"]);
    }
}
