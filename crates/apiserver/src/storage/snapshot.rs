//! Reading many objects: lists as of any revision that the log still reaches, and the log itself.

use super::{Change, Event, Inner, Page, Store, Stored, Unreadable};
use crate::kinds::Kind;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use tokio::sync::Notify;

/// What a watcher finds in the log.
pub(crate) enum Tail {
    /// The next changes, at most as many as asked for, and the revision up to which they are complete.
    Events(Vec<Arc<Event>>, u64),
    /// The log no longer reaches back to where the watcher was.
    Behind { floor: u64 },
}

impl Store {
    /// Everything whose key starts with the prefix, as writers see it.
    pub(crate) fn list_newest(&self, kind: &Kind, prefix: &str) -> Vec<Arc<Stored>> {
        let inner = self.read();
        let Some(table) = inner.tables.get(&kind.storage) else {
            return Vec::new();
        };
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let matching = table
            .objects()
            .range::<str, _>(from)
            .take_while(|(key, _)| key.starts_with(prefix));
        matching.map(|(_, object)| object.clone()).collect()
    }

    /// Objects as they were at `revision` (the newest durable one if none is given) whose key starts with the
    /// prefix and is at least `start`, for which `keep` holds, at most `limit` of them (0: all).
    pub(crate) fn list(
        &self,
        kind: &Kind,
        prefix: &str,
        start: &str,
        limit: usize,
        revision: Option<u64>,
        keep: &dyn Fn(&Stored) -> bool,
    ) -> Result<Page, Unreadable> {
        let inner = self.read();
        let revision = revision.unwrap_or(inner.durable);
        let Some(table) = inner.tables.get(&kind.storage) else {
            return Ok(Page {
                items: Vec::new(),
                revision,
                remaining: 0,
            });
        };
        if revision < table.floor {
            return Err(Unreadable::Compacted { floor: table.floor });
        }
        let undone = undone(&inner, kind, revision);
        let from = if start > prefix { start } else { prefix };
        let mut page = Page {
            items: Vec::new(),
            revision,
            remaining: 0,
        };
        let mut add = |object: &Arc<Stored>| {
            if !keep(object) {
                return;
            }
            if limit == 0 || page.items.len() < limit {
                page.items.push(object.clone());
            } else {
                page.remaining += 1;
            }
        };
        let range = (Bound::Included(from), Bound::Unbounded);
        let current = table
            .objects()
            .range::<str, _>(range)
            .take_while(|(key, _)| key.starts_with(prefix));
        if undone.is_empty() {
            current.for_each(|(_, object)| add(object));
        } else {
            // Merge: what changed since then replaces what is there now.
            let mut merged: BTreeMap<&str, &Arc<Stored>> =
                current.map(|(key, object)| (&**key, object)).collect();
            for (key, before) in undone
                .iter()
                .filter(|(key, _)| ***key >= *from && key.starts_with(prefix))
            {
                match before {
                    Some(object) => merged.insert(key, object),
                    None => merged.remove(&**key),
                };
            }
            merged.into_values().for_each(add);
        }
        Ok(page)
    }

    /// The changes of a kind after a revision, oldest first, at most `limit`.
    pub(crate) fn tail(&self, kind: &Kind, revision: u64, limit: usize) -> Tail {
        let inner = self.read();
        let Some(table) = inner.tables.get(&kind.storage) else {
            return Tail::Events(Vec::new(), inner.durable);
        };
        if revision < table.floor {
            return Tail::Behind { floor: table.floor };
        }
        let durable = inner.durable;
        let visible = table
            .log()
            .range(table.after(revision)..)
            .take_while(|event| event.revision <= durable);
        let events: Vec<_> = visible.take(limit).cloned().collect();
        let complete = if events.len() < limit {
            durable
        } else {
            events.last().map_or(durable, |e| e.revision)
        };
        Tail::Events(events, complete)
    }

    /// What is woken when a kind changes.
    pub(crate) fn changes(&self, kind: &Kind) -> Arc<Notify> {
        if let Some(table) = self.read().tables.get(&kind.storage) {
            return table.changed.clone();
        }
        let mut inner = self.modify();
        let base = inner.base;
        let table = inner.tables.get_or_make(&kind.storage, base);
        table.changed.clone()
    }
}

/// The state at `revision` of each key that changed after it; `None` if it did not exist.
fn undone(inner: &Inner, kind: &Kind, revision: u64) -> BTreeMap<Arc<str>, Option<Arc<Stored>>> {
    let Some(table) = inner.tables.get(&kind.storage) else {
        return BTreeMap::new();
    };
    let mut undone = BTreeMap::new();
    for event in table.log().range(table.after(revision)..) {
        // The first change after the revision says what was before it.
        undone
            .entry(event.object.key.clone())
            .or_insert_with(|| match event.change {
                Change::Added => None,
                Change::Modified | Change::Deleted => event.previous.clone(),
            });
    }
    undone
}
