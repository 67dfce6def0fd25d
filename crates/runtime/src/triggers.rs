//! Which changes wake which keys: the rules that all controllers with owned objects share.
//!
//! Upstream writes these handlers out four times. Here they are one value that says who the owners
//! are and how they select; [`Owned::watch`] does the rest.

use std::sync::Arc;
use std::time::Duration;

use api::{Key, LabelSet, OwnerRef, Resource};

use crate::expectations::Expectations;
use crate::informer::{Change, Informer};
use crate::queue::Queue;
use crate::store::{Index, IndexValue, Store};

/// Wakes the owner of kind `O` of each object of kind `K` that changes.
pub struct Owned<K: Resource, O: Resource> {
    pub owners: Arc<Store<O>>,
    pub queue: Arc<Queue>,
    /// Does the owner's selector match these labels? Orphans wake every owner that does.
    pub selects: fn(&O, &LabelSet) -> bool,
    /// Told of creations and deletions as they are seen.
    pub expectations: Option<Arc<Expectations>>,
    /// How long the owner of a new object may wait, if it can do nothing more than count it.
    pub added_after: fn(&O, &K) -> Option<Duration>,
    /// A second wake-up after an update, for what only time decides.
    pub again_after: fn(&O, old: &K, new: &K) -> Option<Duration>,
}

impl<K: Resource, O: Resource> Owned<K, O> {
    pub fn watch(self, informer: &Informer<K>) {
        informer.on_change(move |change| self.on_change(change));
    }

    fn on_change(&self, change: Change<'_, K>) {
        match change {
            // A restart may show us an object that is already on its way out: that is no creation.
            Change::Added(object) if object.meta().is_terminating() => self.deleted(object),
            Change::Added(object) => self.added(object),
            Change::Updated { old, new } => self.updated(old, new),
            Change::Deleted(object) => self.deleted(object),
        }
    }

    fn added(&self, object: &K) {
        let meta = object.meta();
        match meta.controller() {
            Some(reference) => {
                if let Some(owner) = self.resolve(&meta.namespace, reference) {
                    let key = owner.key();
                    if let Some(expectations) = &self.expectations {
                        expectations.creation_observed(&key);
                    }
                    match (self.added_after)(&owner, object) {
                        Some(delay) => self.queue.add_after(key, delay),
                        None => self.queue.add(key),
                    }
                }
            }
            None if crate::mutation::on("ignore-new-orphans") => {}
            None => self.wake_all_matching(object),
        }
    }

    fn updated(&self, old: &Arc<K>, new: &Arc<K>) {
        if Arc::ptr_eq(old, new) {
            // A resync: owners are woken by their own.
            return;
        }
        let (before, after) = (old.meta(), new.meta());
        let relabeled = before.labels != after.labels;
        if after.is_terminating() {
            // Graceful deletion: its owner need not wait until the object is really gone.
            self.deleted(new);
            if relabeled {
                self.deleted(old);
            }
            return;
        }
        let moved = before.controller() != after.controller();
        if moved
            && let Some(reference) = before.controller()
            && let Some(owner) = self.resolve(&before.namespace, reference)
        {
            self.queue.add(owner.key());
        }
        match after.controller() {
            Some(reference) => {
                if let Some(owner) = self.resolve(&after.namespace, reference) {
                    self.queue.add(owner.key());
                    if let Some(delay) = (self.again_after)(&owner, old, new) {
                        self.queue.add_after(owner.key(), delay);
                    }
                }
            }
            None if relabeled || moved => self.wake_all_matching(new),
            None => {}
        }
    }

    fn deleted(&self, object: &K) {
        let meta = object.meta();
        let Some(reference) = meta.controller() else {
            return;
        };
        if let Some(owner) = self.resolve(&meta.namespace, reference) {
            let key = owner.key();
            if let Some(expectations) = &self.expectations {
                expectations.deletion_observed(&key, &object.key());
            }
            self.queue.add(key);
        }
    }

    fn resolve(&self, namespace: &str, reference: &OwnerRef) -> Option<Arc<O>> {
        resolve_owner(&self.owners, namespace, reference)
    }

    fn wake_all_matching(&self, object: &K) {
        let meta = object.meta();
        for owner in self.owners.in_namespace(&meta.namespace) {
            if (self.selects)(&owner, &meta.labels) {
                self.queue.add(owner.key());
            }
        }
    }
}

/// The owner that a reference means: same kind, name and uid.
pub fn resolve_owner<O: Resource>(
    owners: &Store<O>,
    namespace: &str,
    reference: &OwnerRef,
) -> Option<Arc<O>> {
    if reference.kind != *O::TYPE.kind {
        return None;
    }
    let owner = owners.find(namespace, &reference.name)?;
    (owner.meta().uid == reference.uid).then_some(owner)
}

/// The owner of a new object is woken at once.
pub fn at_once<K, O>(_: &O, _: &K) -> Option<Duration> {
    None
}

/// No second wake-up.
pub fn never<K, O>(_: &O, _: &K, _: &K) -> Option<Duration> {
    None
}

/// Wakes each object of kind `K` itself on any change, and forgets what is expected of deleted ones.
pub fn watch_self<K: Resource>(
    informer: &Informer<K>,
    queue: &Arc<Queue>,
    on_delete: impl Fn(&Key) + Send + Sync + 'static,
) {
    let queue = queue.clone();
    informer.on_change(move |change| {
        let key = change.object().key();
        if let Change::Deleted(_) = change {
            on_delete(&key);
        }
        queue.add(key);
    });
}

/// Finds objects by the uid of their controller, and orphans by namespace.
pub const fn by_controller<K: Resource>() -> Index<K> {
    Index {
        name: "controller",
        values: |object: &K, found| {
            let meta = object.meta();
            found(match meta.controller() {
                Some(owner) => IndexValue::Uid(owner.uid.clone()),
                None => IndexValue::Text(meta.namespace.clone()),
            });
        },
    }
}
