//! Which services a change of a pod concerns.
//!
//! Pods of one template share their labels, so the services that select them are found once for all of them, until
//! a service changes.

use std::sync::Arc;

use api::collections::HashMap;
use api::kinds::{Pod, Service};
use api::{Istr, Key, LabelSet, Resource};
use parking_lot::Mutex;
use runtime::{Change, Context, Store};

pub struct Membership {
    services: Arc<Store<Service>>,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    /// How often services have changed: what was found before such a change is not kept after it.
    version: u64,
    by_labels: HashMap<(Istr, LabelSet), Arc<[Key]>>,
}

/// Pods with labels of their own, such as those of a StatefulSet, must not make this grow for ever.
const LABEL_SETS: usize = 4096;

impl Membership {
    pub fn new(context: &Context) -> Arc<Membership> {
        let informer = context.informers.of::<Service>();
        let membership = Arc::new(Membership {
            services: informer.store().clone(),
            found: Mutex::default(),
        });
        let held = membership.clone();
        informer.on_change(move |change| match change {
            Change::Updated { old, new } if old.spec.selector == new.spec.selector => {}
            _ => held.forget(),
        });
        membership
    }

    /// The services that have to look again at their pods after this change.
    pub fn concerned(&self, change: &Change<'_, Pod>) -> Vec<Key> {
        match change {
            Change::Added(pod) | Change::Deleted(pod) => self.selecting(pod).to_vec(),
            Change::Updated { old, new } if Arc::ptr_eq(old, new) => Vec::new(),
            Change::Updated { old, new } => self.updated(old, new),
        }
    }

    fn updated(&self, old: &Pod, new: &Pod) -> Vec<Key> {
        let (changed, relabeled) = (is_changed(old, new), is_relabeled(old, new));
        if !relabeled {
            return match changed {
                true => self.selecting(new).to_vec(),
                false => Vec::new(),
            };
        }
        let (before, after) = (self.selecting(old), self.selecting(new));
        // One that selects the pod before and after need not know unless more than labels has changed.
        let left = before.iter().filter(|key| !after.contains(key));
        let has = after.iter().filter(|key| changed || !before.contains(key));
        left.chain(has).cloned().collect()
    }

    fn selecting(&self, pod: &Pod) -> Arc<[Key]> {
        let meta = &pod.metadata;
        let wanted = (meta.namespace.clone(), meta.labels.clone());
        let version = {
            let found = self.found.lock();
            if let Some(keys) = found.by_labels.get(&wanted) {
                return keys.clone();
            }
            found.version
        };
        let selects = |service: &Service| service.selects(&meta.labels);
        let services = self.services.select(&meta.namespace, selects);
        let keys: Arc<[Key]> = services.iter().map(|service| service.key()).collect();
        let mut found = self.found.lock();
        if found.version == version {
            if found.by_labels.len() >= LABEL_SETS {
                found.by_labels.clear();
            }
            found.by_labels.insert(wanted, keys.clone());
        }
        keys
    }

    fn forget(&self) {
        let mut found = self.found.lock();
        found.version += 1;
        found.by_labels.clear();
    }
}

/// Could its endpoint be another one now?
fn is_changed(old: &Pod, new: &Pod) -> bool {
    old.metadata.deleted_at != new.metadata.deleted_at
        || old.status.ready != new.status.ready
        || old.status.ips != new.status.ips
        || old.is_finished() != new.is_finished()
}

/// Could other services select it now, or call it by another name?
fn is_relabeled(old: &Pod, new: &Pod) -> bool {
    old.metadata.labels != new.metadata.labels
        || old.hostname() != new.hostname()
        || old.body.subdomain != new.body.subdomain
}
