//! All objects of one resource, and the log of their latest changes.

use super::{Event, Stored};
use api::collections::HashMap;
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::sync::Notify;

/// (group, plural)
pub(crate) type TableKey = (Cow<'static, str>, Cow<'static, str>);

/// So many of the latest changes are kept plain and printed, and so many bytes of them: what watchers that keep up
/// still have to take, and what is likely to be written again soon.
const KEPT_AT_HAND: usize = 1024;
const BYTES_AT_HAND: usize = 8 << 20;

/// What the log of one resource may hold: as many bytes as its objects have, but not less than this, which is
/// thousands of changes of usual objects, and not more than that, which is ten thousand of the largest pods. So what
/// an object was before it was deleted does not stay for long.
const FEWEST_LOG_BYTES: usize = 16 << 20;
const MOST_LOG_BYTES: usize = 64 << 20;

/// What all logs together may hold: definitions make as many resources as someone likes.
const ALL_LOG_BYTES: usize = 256 << 20;

#[derive(Default)]
pub(super) struct Table {
    objects: BTreeMap<Arc<str>, Arc<Stored>>,
    /// The bytes of the objects, unpacked.
    object_bytes: usize,
    /// Oldest first.
    log: VecDeque<Arc<Event>>,
    log_bytes: usize,
    /// How many of the latest changes have not been handed back to be packed, and their bytes.
    at_hand: usize,
    at_hand_bytes: usize,
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
            floor,
            ..Table::default()
        }
    }

    pub(super) fn objects(&self) -> &BTreeMap<Arc<str>, Arc<Stored>> {
        &self.objects
    }

    /// Puts an object in its place; what was there comes back.
    pub(super) fn insert(&mut self, object: Arc<Stored>) -> Option<Arc<Stored>> {
        self.object_bytes += object.body_len();
        let previous = self.objects.insert(object.key.clone(), object);
        self.subtract(previous.as_deref());
        previous
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<Arc<Stored>> {
        let previous = self.objects.remove(key);
        self.subtract(previous.as_deref());
        previous
    }

    /// Takes a write of an object back.
    pub(super) fn restore(&mut self, key: &str, previous: Option<Arc<Stored>>) {
        match previous {
            Some(previous) => self.insert(previous),
            None => self.remove(key),
        };
    }

    fn subtract(&mut self, gone: Option<&Stored>) {
        let bytes = gone.map_or(0, Stored::body_len);
        self.object_bytes = self.object_bytes.saturating_sub(bytes);
    }

    pub(super) fn log(&self) -> &VecDeque<Arc<Event>> {
        &self.log
    }

    pub(super) fn last_revision(&self) -> u64 {
        self.last_revision
    }

    /// Takes changes after a revision out of the log.
    pub(super) fn forget_after(&mut self, revision: u64) {
        while self.last_revision > revision {
            if let Some(event) = self.log.pop_back() {
                self.log_bytes = self.log_bytes.saturating_sub(event.bytes());
                if self.at_hand > 0 {
                    self.at_hand -= 1;
                    self.at_hand_bytes = self.at_hand_bytes.saturating_sub(event.bytes());
                }
            }
            self.last_revision = self.log.back().map_or(0, |event| event.revision);
        }
    }

    /// Adds a change to the log. What watchers that keep up are long past comes back, to be packed.
    pub(super) fn record(&mut self, event: Event, capacity: usize) -> Vec<Arc<Event>> {
        self.last_revision = event.revision;
        self.log_bytes += event.bytes();
        self.at_hand += 1;
        self.at_hand_bytes += event.bytes();
        self.log.push_back(Arc::new(event));
        let most_bytes = self.object_bytes.clamp(FEWEST_LOG_BYTES, MOST_LOG_BYTES);
        while self.log.len() > capacity || self.log_bytes > most_bytes {
            if !self.forget_oldest() {
                break;
            }
        }
        let mut behind = Vec::new();
        // The last one is always at hand.
        while self.at_hand > 1
            && (self.at_hand > KEPT_AT_HAND || self.at_hand_bytes > BYTES_AT_HAND)
        {
            let oldest = &self.log[self.log.len() - self.at_hand];
            self.at_hand -= 1;
            self.at_hand_bytes = self.at_hand_bytes.saturating_sub(oldest.bytes());
            behind.push(oldest.clone());
        }
        behind
    }

    fn forget_oldest(&mut self) -> bool {
        let Some(oldest) = self.log.pop_front() else {
            return false;
        };
        self.floor = oldest.revision;
        self.log_bytes = self.log_bytes.saturating_sub(oldest.bytes());
        if self.at_hand > self.log.len() {
            self.at_hand = self.log.len();
            self.at_hand_bytes = self.at_hand_bytes.saturating_sub(oldest.bytes());
        }
        true
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

    /// Keeps all logs together within bounds: the largest ones forget.
    pub(super) fn bound_logs(&mut self) {
        let mut bytes: usize = self.iter().map(|(_, table)| table.log_bytes).sum();
        while bytes > ALL_LOG_BYTES {
            let tables = self.all.iter_mut().map(|(_, table)| table);
            let Some(largest) = tables.max_by_key(|table| table.log_bytes) else {
                return;
            };
            let before = largest.log_bytes;
            if !largest.forget_oldest() {
                return;
            }
            bytes -= before - largest.log_bytes;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&TableKey, &Table)> {
        self.all.iter().map(|(key, table)| (key, table))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Change, Draft};
    use super::*;
    use serde_json::json;

    /// Writes an object of so many bytes at each of the revisions.
    fn write(table: &mut Table, length: usize, revisions: std::ops::Range<u64>) {
        let kind = crate::kinds::find("", "ConfigMap").unwrap();
        let value = json!({"data": {"a": "x".repeat(length)}});
        let object = Arc::new(Draft::new(kind, &value, None).stored("a/b".into(), 7));
        for revision in revisions {
            let previous = table.insert(object.clone());
            let event = Event::new(revision, Change::Modified, object.clone(), previous);
            table.record(event, 10_000);
        }
    }

    #[test]
    fn the_log_is_bounded_by_bytes() {
        let mut table = Table::new(0);
        write(&mut table, 900_000, 1..600);
        assert!(table.log_bytes <= FEWEST_LOG_BYTES, "{}", table.log_bytes);
        assert!(table.at_hand_bytes <= BYTES_AT_HAND);
        assert_eq!(table.log.len(), 18);
        assert_eq!((table.floor, table.last_revision()), (581, 599));
        write(&mut table, 10, 600..2000);
        assert_eq!(table.at_hand, KEPT_AT_HAND);
        assert_eq!(table.log.len(), 1418, "small ones are kept");
        let bytes: usize = table.log.iter().map(|event| event.bytes()).sum();
        assert_eq!(table.log_bytes, bytes);
        let latest = table.log.iter().rev().take(table.at_hand);
        assert_eq!(
            table.at_hand_bytes,
            latest.map(|event| event.bytes()).sum::<usize>()
        );
        table.forget_after(1990);
        assert_eq!((table.last_revision(), table.log.len()), (1990, 1409));
    }

    #[test]
    fn what_objects_were_goes_with_them() {
        let mut table = Table::new(0);
        let kind = crate::kinds::find("", "ConfigMap").unwrap();
        let text = "x".repeat(1 << 20);
        let objects: Vec<Arc<Stored>> = (1..60)
            .map(|number| {
                let draft = Draft::new(kind, &json!({"data": {"a": text}}), None);
                Arc::new(draft.stored(format!("a/{number}").into(), number))
            })
            .collect();
        for object in &objects {
            table.insert(object.clone());
            table.record(
                Event::new(object.revision, Change::Added, object.clone(), None),
                10_000,
            );
        }
        assert_eq!(table.log.len(), 59, "there is as much to list");
        for (object, revision) in objects.iter().zip(60..) {
            let previous = table.remove(&object.key);
            let last = Arc::new(super::super::with_revision(object, revision));
            table.record(
                Event::new(revision, Change::Deleted, last, previous),
                10_000,
            );
        }
        assert_eq!(table.object_bytes, 0);
        assert!(table.log_bytes <= FEWEST_LOG_BYTES);
    }

    #[test]
    fn all_logs_together_are_bounded() {
        let mut tables = Tables::default();
        for number in 0..30 {
            let key = ("g".into(), format!("plural{number}").into());
            write(tables.get_or_make(&key, 0), 1 << 20, 1..20);
            tables.bound_logs();
        }
        let bytes: usize = tables.iter().map(|(_, table)| table.log_bytes).sum();
        assert!(
            bytes <= ALL_LOG_BYTES && bytes > ALL_LOG_BYTES / 2,
            "{bytes}"
        );
    }
}
