//! Which changes wake which keys: the rules that all controllers with owned objects share.
//!
//! Upstream writes these handlers out four times. Here they are one value that says who the owners
//! are and how they select ([`Owns`]); [`crate::Loop::owns`] does the rest.

use std::sync::Arc;
use std::time::Duration;

use api::{Key, LabelSet, OwnerRef, Resource};

use crate::expectations::Expectations;
use crate::informer::Change;
use crate::queue::Queue;
use crate::store::{Index, IndexValue, Store};

/// How owners of kind `O` own objects of kind `K`.
pub struct Owns<K, O> {
    /// Does the owner's selector match these labels? Orphans wake every owner that does.
    selects: fn(&O, &LabelSet) -> bool,
    /// Told of creations and deletions as they are seen.
    expectations: Option<Arc<Expectations>>,
    /// How long the owner of a new object may wait, if it can do nothing more than count it.
    added_after: fn(&O, &K) -> Option<Duration>,
    /// A second wake-up after an update, for what only time decides.
    again_after: fn(&O, old: &K, new: &K) -> Option<Duration>,
    /// How long any change may wait, so that many of them are one reconcile.
    batch: Duration,
    /// Is the owner finished, so that it does not matter to it which objects are deleted?
    is_finished: fn(&O) -> bool,
}

impl<K: Resource, O: Resource> Owns<K, O> {
    pub fn selected_by(selects: fn(&O, &LabelSet) -> bool) -> Owns<K, O> {
        Owns {
            selects,
            expectations: None,
            added_after: |_, _| None,
            again_after: |_, _, _| None,
            batch: Duration::ZERO,
            is_finished: |_| false,
        }
    }

    #[must_use]
    pub fn expecting(mut self, expectations: &Arc<Expectations>) -> Owns<K, O> {
        self.expectations = Some(expectations.clone());
        self
    }

    #[must_use]
    pub fn added_after(mut self, delay: fn(&O, &K) -> Option<Duration>) -> Owns<K, O> {
        self.added_after = delay;
        self
    }

    #[must_use]
    pub fn again_after(
        mut self,
        delay: fn(&O, old: &K, new: &K) -> Option<Duration>,
    ) -> Owns<K, O> {
        self.again_after = delay;
        self
    }

    #[must_use]
    pub fn finished(mut self, is_finished: fn(&O) -> bool) -> Owns<K, O> {
        self.is_finished = is_finished;
        self
    }

    #[must_use]
    pub fn batched(mut self, batch: Duration) -> Owns<K, O> {
        self.batch = batch;
        self
    }
}

/// Wakes the owner of kind `O` of each object of kind `K` that changes.
pub(crate) struct Owned<K: Resource, O: Resource> {
    pub(crate) owners: Arc<Store<O>>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) owns: Owns<K, O>,
}

impl<K: Resource, O: Resource> Owned<K, O> {
    pub(crate) fn on_change(&self, change: Change<'_, K>) {
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
                    if let Some(expectations) = &self.owns.expectations {
                        expectations.creation_observed(&key);
                    }
                    let delay = (self.owns.added_after)(&owner, object);
                    self.queue.add_after(key, delay.unwrap_or(self.owns.batch));
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
            self.wake(owner.key());
        }
        match after.controller() {
            Some(reference) => {
                if let Some(owner) = self.resolve(&after.namespace, reference) {
                    self.wake(owner.key());
                    if let Some(delay) = (self.owns.again_after)(&owner, old, new) {
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
        let owner = self.resolve(&meta.namespace, reference);
        if let Some(owner) = owner.filter(|owner| !(self.owns.is_finished)(owner)) {
            let key = owner.key();
            if let Some(expectations) = &self.owns.expectations {
                expectations.deletion_observed(&key, &object.key());
            }
            self.wake(key);
        }
    }

    fn wake(&self, key: Key) {
        self.queue.add_after(key, self.owns.batch);
    }

    fn resolve(&self, namespace: &str, reference: &OwnerRef) -> Option<Arc<O>> {
        resolve_owner(&self.owners, namespace, reference)
    }

    fn wake_all_matching(&self, object: &K) {
        let meta = object.meta();
        for owner in self.owners.in_namespace(&meta.namespace) {
            if (self.owns.selects)(&owner, &meta.labels) {
                self.wake(owner.key());
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

#[cfg(test)]
mod tests {
    use super::*;
    use api::kinds::{Pod, ReplicaSet};

    use crate::rate_limit::Backoff;

    // Upstream: TestDeletionTimestamp.
    #[test]
    fn a_deletion_is_observed_when_it_begins_and_once() {
        let (owners, queue) = (
            Arc::new(Store::new()),
            Arc::new(Queue::new(Backoff::DEFAULT)),
        );
        let expectations = Arc::new(Expectations::default());
        let set = br#"{"metadata":{"name":"web","namespace":"ns","uid":"u"}}"#;
        owners.put(Arc::new(ReplicaSet::decode(set).unwrap()));
        let owned = Owned {
            owners,
            queue: queue.clone(),
            owns: Owns::<Pod, ReplicaSet>::selected_by(|_, _| true).expecting(&expectations),
        };
        let pod = |name: &str, deleted: &str| {
            let owner = r#"{"kind":"ReplicaSet","name":"web","uid":"u","controller":true}"#;
            let deleted = match deleted {
                "" => "null".to_string(),
                second => format!("\"2024-01-01T00:00:{second}Z\""),
            };
            let pod = format!(
                r#"{{"metadata":{{"name":"{name}","namespace":"ns","uid":"{name}","deletionTimestamp":{deleted},"ownerReferences":[{owner}]}}}}"#
            );
            Arc::new(Pod::decode(pod.as_bytes()).unwrap())
        };
        let (key, first) = (Key::new("ns", "web"), Key::new("ns", "first"));
        let expects = |name: &Key| expectations.expect_deletions(&key, [name.clone()]);

        // One that is on its way out when it is seen for the first time is no creation.
        expectations.expect(&key, 1, [first.clone()]);
        owned.on_change(Change::Added(&pod("first", "01")));
        assert!(!expectations.satisfied(&key), "a creation is still awaited");
        owned.on_change(Change::Added(&pod("another", "")));
        assert!(expectations.satisfied(&key));

        expects(&first);
        let (alive, dying) = (pod("first", ""), pod("first", "01"));
        let begins = Change::Updated {
            old: &alive,
            new: &dying,
        };
        owned.on_change(begins);
        assert!(expectations.satisfied(&key) && queue.len() == 1);

        // Neither another change of a pod that is going, nor its end, stand for a second pod.
        expects(&Key::new("ns", "second"));
        let later = pod("first", "02");
        owned.on_change(Change::Updated {
            old: &dying,
            new: &later,
        });
        owned.on_change(Change::Deleted(&later));
        assert!(!expectations.satisfied(&key));
        owned.on_change(Change::Deleted(&pod("second", "")));
        assert!(expectations.satisfied(&key));
    }
}
