//! One write in progress: reads see what it already wrote.

use super::{Change, Draft, Event, Store, Stored};
use crate::kinds::Kind;
use bytes::Bytes;
use serde_json::Value;
use std::sync::Arc;

pub(crate) struct Transaction<'a> {
    store: &'a Store,
    /// The revision of the last put, 0 if there was none.
    last: u64,
    /// What fell behind in the logs, to be packed when the next write has its turn.
    behind: Vec<Arc<Event>>,
}

impl<'a> Transaction<'a> {
    pub(super) fn new(store: &'a Store) -> Transaction<'a> {
        Transaction {
            store,
            last: 0,
            behind: Vec::new(),
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
        let previous = table.objects.get(key).cloned();
        // The key is shared between versions of an object, the map and the log.
        let key: Arc<str> = previous
            .as_ref()
            .map_or_else(|| key.into(), |previous| previous.key.clone());
        let object = Arc::new(draft.stored(key.clone(), revision));
        table.objects.insert(key, object.clone());
        let change = if previous.is_some() {
            Change::Modified
        } else {
            Change::Added
        };
        let before = previous.clone();
        let event = Event::new(revision, change, object.clone(), previous);
        self.behind
            .extend(table.record(event, self.store.log_capacity));
        drop(inner);
        self.store.durability.put(kind, &object, before);
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
        table.objects.remove(key);
        let object = last.clone();
        let event = Event::new(revision, Change::Deleted, object, Some(previous));
        self.behind
            .extend(table.record(event, self.store.log_capacity));
        inner.revision = revision;
        drop(inner);
        self.store.durability.remove(kind, before, revision);
        self.last = revision;
        Some(last)
    }

    /// Hands the write over to be made durable; without a disk it is visible now. What comes back with the
    /// revision is to be packed.
    pub(super) fn finish(self) -> (u64, Vec<Arc<Event>>) {
        if self.last == 0 {
            // Nothing written: what was read may still be on its way to the disk.
            return (self.store.read().revision, self.behind);
        }
        if self.store.durability.is_memory() {
            self.store.modify().advance(self.last);
        } else {
            self.store.durability.submit(self.last);
        }
        (self.last, self.behind)
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
