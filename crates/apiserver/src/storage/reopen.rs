//! The store as a whole: what is in it, what happened to it, and a copy as a restart would find it.

use std::sync::Arc;

use super::{Change, Durability, Event, Inner, Store, Stored, TableKey, table::Tables};

/// How far revisions jump when changes were lost: nobody can have seen so many.
pub(super) const BUMP: u64 = 1_000_000;

impl Store {
    /// Every change after a revision, oldest first, as far as the logs reach.
    pub(crate) fn events_after(&self, revision: u64) -> Vec<(TableKey, Arc<Event>)> {
        let inner = self.read();
        let mut found = inner.events_after(revision);
        found.retain(|(_, event)| event.revision <= inner.durable);
        found
    }

    pub(crate) fn all_objects(&self) -> Vec<(TableKey, Arc<Stored>)> {
        let inner = self.read();
        let all = inner.tables.iter().flat_map(|(key, table)| {
            let objects = table.objects().values();
            objects.map(|object| (key.clone(), object.clone()))
        });
        all.collect()
    }

    /// A store in memory with the same objects but for the last `lost` changes, and with no log.
    pub(crate) fn reopened(&self, lost: u64) -> Arc<Store> {
        let inner = self.read();
        let mut tables = Tables::default();
        let revision = match lost {
            0 => inner.revision,
            _ => inner.revision + BUMP,
        };
        for (key, table) in inner.tables.iter() {
            let copy = tables.get_or_make(key, revision);
            let objects = table.objects().values();
            objects.for_each(|object| drop(copy.insert(object.clone())));
        }
        let survived = inner.revision.saturating_sub(lost);
        for (key, event) in inner.events_after(survived).iter().rev() {
            let Some(table) = tables.get_mut(key) else {
                continue;
            };
            let before = match event.change {
                Change::Added => None,
                Change::Modified | Change::Deleted => event.previous.clone(),
            };
            table.restore(&event.object.key, before);
        }
        let store = Store::new(Durability::Memory, self.log_capacity, revision, revision);
        store.modify().tables = tables;
        Arc::new(store)
    }
}

impl Inner {
    fn events_after(&self, revision: u64) -> Vec<(TableKey, Arc<Event>)> {
        let mut found: Vec<(TableKey, Arc<Event>)> = Vec::new();
        for (key, table) in self.tables.iter() {
            if table.last_revision() > revision {
                let events = table.log().range(table.after(revision)..);
                found.extend(events.map(|event| (key.clone(), event.clone())));
            }
        }
        found.sort_by_key(|(_, event)| event.revision);
        found
    }
}
