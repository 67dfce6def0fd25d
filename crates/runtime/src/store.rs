//! What the caches say: the objects of one kind, with any number of indexes.
//!
//! Objects sit in numbered slots behind an `Arc`; the primary table and the indexes hold slot
//! numbers, four bytes each. Slots are given out in order and index buckets are sorted, so what a
//! reader sees depends only on the sequence of events.

mod by_labels;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::Arc;

use api::collections::HashMap;
use api::collections::KeyedState;
use api::{Istr, Key, LabelSet, Meta, Resource, Uid};
use by_labels::ByLabels;
use hashbrown::HashTable;

/// The objects of one kind.
pub struct Store<K> {
    inner: RwLock<Inner<K>>,
}

/// A named way to find objects by something other than their key.
pub struct Index<K> {
    pub name: &'static str,
    /// Calls back with each value under which the object is found.
    pub values: fn(&K, &mut dyn FnMut(IndexValue)),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum IndexValue {
    Uid(Uid),
    Text(Istr),
    /// Something within a namespace.
    In(Istr, Istr),
}

struct Inner<K> {
    slots: Vec<Option<Slot<K>>>,
    free: BTreeSet<u32>,
    by_key: HashTable<u32>,
    by_namespace: HashMap<Istr, BTreeSet<u32>>,
    indexes: Vec<Bucketed<K>>,
    by_labels: Option<ByLabels>,
    resource_version: u64,
    relist: u32,
}

struct Slot<K> {
    object: Arc<K>,
    /// The listing in which the object was last seen; see [`Store::begin_relist`].
    relist: u32,
}

struct Bucketed<K> {
    index: Index<K>,
    buckets: HashMap<IndexValue, BTreeSet<u32>>,
}

impl<K> Clone for Index<K> {
    fn clone(&self) -> Index<K> {
        Index {
            name: self.name,
            values: self.values,
        }
    }
}

impl<K: Resource> Store<K> {
    pub fn new() -> Store<K> {
        Store {
            inner: RwLock::new(Inner {
                slots: Vec::new(),
                free: BTreeSet::new(),
                by_key: HashTable::new(),
                by_namespace: HashMap::default(),
                indexes: Vec::new(),
                by_labels: None,
                resource_version: 0,
                relist: 0,
            }),
        }
    }

    /// Adds an index; a second one of the same name is the same index. Existing objects are
    /// indexed at once.
    pub fn add_index(&self, index: &Index<K>) {
        let mut inner = self.write();
        if inner
            .indexes
            .iter()
            .any(|held| held.index.name == index.name)
        {
            return;
        }
        let mut bucketed = Bucketed {
            index: index.clone(),
            buckets: HashMap::default(),
        };
        for (number, slot) in inner.slots.iter().enumerate() {
            if let Some(slot) = slot {
                bucketed.insert(&slot.object, number as u32);
            }
        }
        inner.indexes.push(bucketed);
    }

    /// Adds the index that [`Store::labelled`] reads; a second one is the same.
    pub fn index_labels(&self) {
        let mut inner = self.write();
        if inner.by_labels.is_some() {
            return;
        }
        let mut by_labels = ByLabels::default();
        for (number, slot) in inner.slots.iter().enumerate() {
            if let Some(slot) = slot {
                by_labels.insert(slot.object.meta(), number as u32);
            }
        }
        inner.by_labels = Some(by_labels);
    }

    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.find(&key.namespace, &key.name)
    }

    pub fn find(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let inner = self.read();
        let number = inner.lookup(namespace, name)?;
        inner.object(number).cloned()
    }

    /// All objects, in slot order.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.read()
            .slots
            .iter()
            .flatten()
            .map(|slot| slot.object.clone())
            .collect()
    }

    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let inner = self.read();
        inner.collect(inner.by_namespace.get(namespace))
    }

    pub fn count_in_namespace(&self, namespace: &str) -> usize {
        let inner = self.read();
        inner.by_namespace.get(namespace).map_or(0, BTreeSet::len)
    }

    /// The objects of a namespace that `keep` accepts; the others are not touched.
    pub fn select(&self, namespace: &str, mut keep: impl FnMut(&K) -> bool) -> Vec<Arc<K>> {
        let inner = self.read();
        let numbers = inner.by_namespace.get(namespace).into_iter().flatten();
        numbers
            .filter_map(|number| inner.object(*number))
            .filter(|object| keep(object))
            .cloned()
            .collect()
    }

    /// The objects of a namespace whose labels `selects` accepts.
    pub fn labelled(&self, namespace: &str, selects: impl FnMut(&LabelSet) -> bool) -> Vec<Arc<K>> {
        let inner = self.read();
        let by_labels = inner.by_labels.as_ref();
        let by_labels = by_labels.expect("the store indexes labels where somebody selects by them");
        let numbers = by_labels.select(namespace, selects);
        numbers
            .into_iter()
            .filter_map(|number| inner.object(number).cloned())
            .collect()
    }

    /// The objects that `index` finds under `value`.
    pub fn by(&self, index: &Index<K>, value: &IndexValue) -> Vec<Arc<K>> {
        let inner = self.read();
        inner.collect(inner.bucketed(index).buckets.get(value))
    }

    pub fn count_by(&self, index: &Index<K>, value: &IndexValue) -> usize {
        let inner = self.read();
        inner
            .bucketed(index)
            .buckets
            .get(value)
            .map_or(0, BTreeSet::len)
    }

    pub fn len(&self) -> usize {
        self.read().by_key.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The newest revision that this store reflects.
    pub fn resource_version(&self) -> u64 {
        self.read().resource_version
    }

    pub(crate) fn advance(&self, resource_version: u64) {
        let mut inner = self.write();
        inner.resource_version = inner.resource_version.max(resource_version);
    }

    /// Sets the revision to what a listing says, even if it is lower than before: the server may
    /// have been restored from a backup.
    pub(crate) fn reset_version(&self, resource_version: u64) {
        self.write().resource_version = resource_version;
    }

    /// Puts an object in and returns what it replaces.
    pub fn put(&self, object: Arc<K>) -> Option<Arc<K>> {
        self.write().put(object)
    }

    pub fn remove(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.write().remove(namespace, name)
    }

    /// Starts a new listing: what is not put in before [`Store::end_relist`] is gone from the server.
    pub(crate) fn begin_relist(&self) {
        self.write().relist += 1;
    }

    /// Removes and returns what the listing did not contain.
    pub(crate) fn end_relist(&self) -> Vec<Arc<K>> {
        let mut inner = self.write();
        let relist = inner.relist;
        let stale: Vec<Arc<K>> = inner
            .slots
            .iter()
            .flatten()
            .filter(|slot| slot.relist != relist)
            .map(|slot| slot.object.clone())
            .collect();
        for object in &stale {
            let meta = object.meta();
            inner.remove(&meta.namespace, &meta.name);
        }
        stale
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner<K>> {
        self.inner.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner<K>> {
        self.inner.write()
    }
}

impl<K: Resource> Default for Store<K> {
    fn default() -> Store<K> {
        Store::new()
    }
}

impl<K: Resource> Inner<K> {
    fn object(&self, number: u32) -> Option<&Arc<K>> {
        self.slots[number as usize]
            .as_ref()
            .map(|slot| &slot.object)
    }

    fn lookup(&self, namespace: &str, name: &str) -> Option<u32> {
        self.by_key
            .find(hash(namespace, name), |number| {
                self.object(*number)
                    .is_some_and(|object| is_named(object.meta(), namespace, name))
            })
            .copied()
    }

    fn collect(&self, bucket: Option<&BTreeSet<u32>>) -> Vec<Arc<K>> {
        bucket
            .into_iter()
            .flatten()
            .filter_map(|number| self.object(*number).cloned())
            .collect()
    }

    fn bucketed(&self, index: &Index<K>) -> &Bucketed<K> {
        self.indexes
            .iter()
            .find(|held| held.index.name == index.name)
            .unwrap_or_else(|| panic!("index {} was never added to this store", index.name))
    }

    fn put(&mut self, object: Arc<K>) -> Option<Arc<K>> {
        let meta = object.meta();
        self.resource_version = self.resource_version.max(meta.resource_version);
        let relist = self.relist;
        match self.lookup(&meta.namespace, &meta.name) {
            Some(number) => {
                let slot = self.slots[number as usize].as_mut().expect("found by key");
                slot.relist = relist;
                let old = std::mem::replace(&mut slot.object, object.clone());
                for bucketed in &mut self.indexes {
                    bucketed.replace(&old, &object, number);
                }
                let (before, after) = (old.meta(), object.meta());
                if let Some(by_labels) = &mut self.by_labels
                    && before.labels != after.labels
                {
                    by_labels.remove(before, number);
                    by_labels.insert(after, number);
                }
                Some(old)
            }
            None => {
                self.insert(object, relist);
                None
            }
        }
    }

    fn insert(&mut self, object: Arc<K>, relist: u32) {
        let number = match self.free.pop_first() {
            Some(number) => number,
            None => {
                self.slots.push(None);
                u32::try_from(self.slots.len() - 1).expect("fewer than four billion objects")
            }
        };
        let meta = object.meta();
        self.by_namespace
            .entry(meta.namespace.clone())
            .or_default()
            .insert(number);
        for bucketed in &mut self.indexes {
            bucketed.insert(&object, number);
        }
        if let Some(by_labels) = &mut self.by_labels {
            by_labels.insert(meta, number);
        }
        let key_hash = hash(&meta.namespace, &meta.name);
        self.slots[number as usize] = Some(Slot { object, relist });
        let Inner { by_key, slots, .. } = self;
        by_key.insert_unique(key_hash, number, |held| {
            let slot = slots[*held as usize]
                .as_ref()
                .expect("keyed slots are full");
            let meta = slot.object.meta();
            hash(&meta.namespace, &meta.name)
        });
    }

    fn remove(&mut self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let number = self.lookup(namespace, name)?;
        if let Ok(entry) = self
            .by_key
            .find_entry(hash(namespace, name), |held| *held == number)
        {
            entry.remove();
        }
        let object = self.slots[number as usize].take()?.object;
        self.free.insert(number);
        if let Some(bucket) = self.by_namespace.get_mut(namespace) {
            bucket.remove(&number);
            if bucket.is_empty() {
                self.by_namespace.remove(namespace);
            }
        }
        for bucketed in &mut self.indexes {
            bucketed.remove(&object, number);
        }
        if let Some(by_labels) = &mut self.by_labels {
            by_labels.remove(object.meta(), number);
        }
        Some(object)
    }
}

impl<K> Bucketed<K> {
    fn insert(&mut self, object: &K, number: u32) {
        let buckets = &mut self.buckets;
        (self.index.values)(object, &mut |value| {
            buckets.entry(value).or_default().insert(number);
        });
    }

    fn remove(&mut self, object: &K, number: u32) {
        let buckets = &mut self.buckets;
        (self.index.values)(object, &mut |value| {
            if let Some(bucket) = buckets.get_mut(&value) {
                bucket.remove(&number);
                if bucket.is_empty() {
                    buckets.remove(&value);
                }
            }
        });
    }

    /// Most updates leave an object under the same values.
    fn replace(&mut self, old: &K, new: &K, number: u32) {
        let mut before: Vec<IndexValue> = Vec::new();
        (self.index.values)(old, &mut |value| before.push(value));
        let mut after: Vec<IndexValue> = Vec::new();
        (self.index.values)(new, &mut |value| after.push(value));
        if before != after {
            self.remove(old, number);
            self.insert(new, number);
        }
    }
}

fn hash(namespace: &str, name: &str) -> u64 {
    KeyedState.hash_one((namespace, name))
}

fn is_named(meta: &Meta, namespace: &str, name: &str) -> bool {
    *meta.name == *name && meta.namespace == namespace
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::kinds::Pod;
    use proptest::prelude::*;

    const BY_NODE: Index<Pod> = Index {
        name: "node",
        values: |pod, found| found(IndexValue::Text(pod.node_name.clone())),
    };

    fn pod(name: &str, node: &str) -> Arc<Pod> {
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"ns"}},"spec":{{"nodeName":"{node}"}}}}"#
        );
        Arc::new(Pod::decode(json.as_bytes()).unwrap())
    }

    fn names(pods: &[Arc<Pod>]) -> Vec<String> {
        pods.iter()
            .map(|pod| pod.metadata.name.to_string())
            .collect()
    }

    #[test]
    fn indexes_follow_updates_and_removals() {
        let store = Store::new();
        store.add_index(&BY_NODE);
        store.put(pod("a", "n1"));
        store.put(pod("b", "n1"));
        assert!(store.put(pod("a", "n2")).is_some());
        let on = |node: &str| names(&store.by(&BY_NODE, &IndexValue::Text(node.into())));
        assert_eq!((on("n1"), on("n2")), (vec!["b".into()], vec!["a".into()]));
        store.remove("ns", "a");
        assert!(on("n2").is_empty() && store.find("ns", "a").is_none());
        assert_eq!(names(&store.in_namespace("ns")), ["b"]);
    }

    /// One thread does both here: a reader that held the store would stop the writer for good.
    #[test]
    fn what_was_read_stays_unchanged_and_blocks_no_writer() {
        let store = Store::new();
        store.add_index(&BY_NODE);
        store.put(pod("a", "n1"));
        let node = IndexValue::Text("n1".into());
        let (listed, on_node) = (store.list(), store.by(&BY_NODE, &node));
        store.put(pod("a", "n2"));
        store.put(pod("b", "n1"));
        let placed = |pods: &[Arc<Pod>]| pods[0].node_name.to_string();
        assert_eq!((listed.len(), placed(&listed)), (1, "n1".into()));
        assert_eq!((on_node.len(), placed(&on_node)), (1, "n1".into()));
        assert_eq!(names(&store.by(&BY_NODE, &node)), ["b"]);
    }

    fn labelled(name: &str, namespace: &str, app: &str) -> Arc<Pod> {
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","labels":{{"app":"{app}"}}}}}}"#
        );
        Arc::new(Pod::decode(json.as_bytes()).unwrap())
    }

    #[test]
    fn objects_are_indexed_by_labels_and_each_label_set_is_matched_once() {
        let store = Store::new();
        store.put(labelled("early", "ns", "web"));
        store.index_labels();
        for (name, app) in [("a", "db"), ("b", "web"), ("c", "web"), ("d", "web")] {
            store.put(labelled(name, "ns", app));
        }
        store.put(labelled("elsewhere", "other", "web"));
        let asked = std::cell::Cell::new(0);
        let of = |app: &str| {
            asked.set(0);
            let found = store.labelled("ns", |labels| {
                asked.set(asked.get() + 1);
                labels.get("app") == Some(app)
            });
            names(&found)
        };
        assert_eq!(of("web"), ["early", "b", "c", "d"]);
        assert_eq!(asked.get(), 2);
        store.put(labelled("b", "ns", "db"));
        store.remove("ns", "c");
        store.begin_relist();
        for (name, app) in [("early", "web"), ("a", "db"), ("b", "db")] {
            store.put(labelled(name, "ns", app));
        }
        store.end_relist();
        assert_eq!(
            (of("web"), of("db")),
            (vec!["early".into()], vec!["a".into(), "b".into()])
        );
        store.remove("ns", "early");
        assert_eq!((of("web").len(), asked.get()), (0, 1));
    }

    #[test]
    fn a_late_index_sees_what_is_there() {
        let store = Store::new();
        store.put(pod("a", "n1"));
        store.add_index(&BY_NODE);
        assert_eq!(store.count_by(&BY_NODE, &IndexValue::Text("n1".into())), 1);
    }

    #[test]
    fn a_round_removes_what_it_did_not_see() {
        let store = Store::new();
        store.put(pod("kept", "n"));
        store.put(pod("gone", "n"));
        store.begin_relist();
        store.put(pod("kept", "n"));
        store.put(pod("new", "n"));
        assert_eq!(names(&store.end_relist()), ["gone"]);
        assert_eq!(store.len(), 2);
    }

    proptest! {
        /// Whatever happens to the store, its indexes agree with its objects.
        #[test]
        fn indexes_agree_with_objects(steps in prop::collection::vec((0..8_usize, 0..4_usize), 0..60)) {
            let store = Store::new();
            store.add_index(&BY_NODE);
            for (name, node) in steps {
                if node == 3 {
                    store.remove("ns", &format!("p{name}"));
                } else {
                    store.put(pod(&format!("p{name}"), &format!("n{node}")));
                }
            }
            let mut found = 0;
            for node in 0..3 {
                let node = format!("n{node}");
                let bucket = store.by(&BY_NODE, &IndexValue::Text(node.as_str().into()));
                for pod in &bucket {
                    prop_assert_eq!(pod.node_name.as_str(), node.as_str());
                }
                found += bucket.len();
            }
            prop_assert_eq!(found, store.len());
            prop_assert_eq!(store.list().len(), store.len());
        }
    }
}
