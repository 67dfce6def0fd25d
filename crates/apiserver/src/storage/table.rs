//! All objects of one resource, and the log of their latest changes.

use super::{Event, Stored};
use api::collections::HashMap;
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::sync::Notify;

/// (group, plural)
pub(crate) type TableKey = (Cow<'static, str>, Cow<'static, str>);

/// So many of the latest changes are kept plain and printed: what watchers that keep up still have to take, and
/// what is likely to be written again soon.
const KEPT_AT_HAND: usize = 1024;

pub(super) struct Table {
    pub(super) objects: BTreeMap<Arc<str>, Arc<Stored>>,
    /// Oldest first.
    pub(super) log: VecDeque<Arc<Event>>,
    /// That of the last change in the log, at hand: every write asks all tables for it.
    last_revision: u64,
    /// Changes up to this revision are no longer in the log.
    pub(super) floor: u64,
    pub(super) changed: Arc<Notify>,
}

impl Table {
    /// A table that starts empty, or is loaded, at a revision: what came before is not known.
    pub(super) fn new(floor: u64) -> Table {
        Table {
            objects: BTreeMap::new(),
            log: VecDeque::new(),
            last_revision: 0,
            floor,
            changed: Arc::new(Notify::new()),
        }
    }

    pub(super) fn last_revision(&self) -> u64 {
        self.last_revision
    }

    /// Takes changes after a revision out of the log.
    pub(super) fn forget_after(&mut self, revision: u64) {
        while self.last_revision > revision {
            self.log.pop_back();
            self.last_revision = self.log.back().map_or(0, |event| event.revision);
        }
    }

    /// Adds a change to the log. What watchers that keep up are long past comes back, to be packed.
    pub(super) fn record(&mut self, event: Event, capacity: usize) -> Option<Arc<Event>> {
        if self.log.len() >= capacity
            && let Some(oldest) = self.log.pop_front()
        {
            self.floor = oldest.revision;
        }
        self.last_revision = event.revision;
        self.log.push_back(Arc::new(event));
        let behind = self.log.len().checked_sub(KEPT_AT_HAND + 1)?;
        Some(self.log[behind].clone())
    }

    /// Index of the first event after a revision.
    pub(super) fn after(&self, revision: u64) -> usize {
        self.log.partition_point(|event| event.revision <= revision)
    }
}

/// All tables, in the order of their keys. Every request looks into several of them, so each is found with one look.
#[derive(Default)]
pub(super) struct Tables {
    all: Vec<(TableKey, Table)>,
    places: HashMap<TableKey, usize>,
}

impl Tables {
    pub(super) fn get(&self, key: &TableKey) -> Option<&Table> {
        let place = self.places.get(key)?;
        self.all.get(*place).map(|(_, table)| table)
    }

    pub(super) fn get_mut(&mut self, key: &TableKey) -> Option<&mut Table> {
        let place = self.places.get(key)?;
        self.all.get_mut(*place).map(|(_, table)| table)
    }

    /// The table of that key, made if there is none: then what came before `floor` is not known.
    pub(super) fn get_or_make(&mut self, key: &TableKey, floor: u64) -> &mut Table {
        let place = match self.places.get(key) {
            Some(place) => *place,
            None => {
                let place = self.all.partition_point(|(other, _)| other < key);
                self.all.insert(place, (key.clone(), Table::new(floor)));
                let keys = self.all.iter().map(|(key, _)| key.clone());
                self.places = keys.zip(0..).collect();
                place
            }
        };
        &mut self.all[place].1
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&TableKey, &Table)> {
        self.all.iter().map(|(key, table)| (key, table))
    }
}
