//! Which changes enqueue whom.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use api::kinds::{DeviceTaintRule, Pod, ResourceClaim, ResourceSlice, SCHEDULING_GROUP};
use api::taints::TaintEffect;
use api::{Gate, Key, Resource, Uid};
use parking_lot::Mutex;
use runtime::{Change, Context, Index, IndexValue, Queue, Store};

use super::plan::{BY_POOL, Eviction, Known, pod_eviction, pool_of};

/// What a sync is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Item {
    Pod(Key),
    Rule(Key),
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::Pod(key) => write!(f, "pod:{key}"),
            Item::Rule(key) => write!(f, "rule:{key}"),
        }
    }
}

/// Claims by the pools of their devices.
const CLAIMS_BY_POOL: Index<ResourceClaim> = Index {
    name: "pool",
    values: |claim, found| {
        let results = claim.status.allocation.iter();
        let results = results.flat_map(|allocation| allocation.devices.results.iter());
        results.for_each(|result| found(pool_of(&result.driver, &result.pool)));
    },
};

const PODS_BY_GROUP: Index<Pod> = Index {
    name: "pod group",
    values: |pod, found| {
        if let Some(group) = pod.pod_group() {
            let namespace = pod.metadata.namespace.clone();
            found(IndexValue::In(namespace, group.clone()));
        }
    },
};

/// The caches, and what is due.
pub struct Caches {
    pub pods: Arc<Store<Pod>>,
    pub claims: Arc<Store<ResourceClaim>>,
    pub slices: Arc<Store<ResourceSlice>>,
    /// None where rules mean nothing.
    pub rules: Option<Arc<Store<DeviceTaintRule>>>,
    pub has_groups: bool,
    pub scheduled: Evictions,
}

/// Pods that are going to be evicted, with the uid that is meant.
#[derive(Default)]
pub struct Evictions(Mutex<BTreeMap<Key, (Uid, Eviction)>>);

impl Evictions {
    pub fn get(&self, key: &Key) -> Option<(Uid, Eviction)> {
        self.0.lock().get(key).cloned()
    }

    pub fn set(&self, key: &Key, uid: &Uid, eviction: Eviction) {
        let mut held = self.0.lock();
        held.insert(key.clone(), (uid.clone(), eviction));
    }

    pub fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}

impl Caches {
    pub fn new(context: &Context) -> Caches {
        let informers = &context.informers;
        let has_groups = context.gates.enabled(Gate::DRAWorkloadResourceClaims);
        if has_groups {
            informers.of::<Pod>().add_index(&PODS_BY_GROUP);
        }
        informers.of::<ResourceClaim>().add_index(&CLAIMS_BY_POOL);
        informers.of::<ResourceSlice>().add_index(&BY_POOL);
        let has_rules = context.gates.enabled(Gate::DRADeviceTaintRules);
        Caches {
            pods: informers.store::<Pod>(),
            claims: informers.store::<ResourceClaim>(),
            slices: informers.store::<ResourceSlice>(),
            rules: has_rules.then(|| informers.store::<DeviceTaintRule>()),
            has_groups,
            scheduled: Evictions::default(),
        }
    }

    pub fn known(&self) -> Known<'_> {
        let rules = self.rules.iter().flat_map(|rules| rules.list());
        Known {
            claims: &self.claims,
            slices: &self.slices,
            rules: rules.filter(|rule| evicts(rule)).collect(),
            has_groups: self.has_groups,
        }
    }

    /// UPSTREAM: pods change often; it matters when they are bound, and when they learn of their claims.
    pub fn on_pod(&self, change: &Change<'_, Pod>, queue: &Queue<Item>) {
        let pod = change.object();
        if pod.claims().is_empty() {
            return;
        }
        match change {
            Change::Deleted(pod) => {
                if self.scheduled.get(&pod.key()).is_some() {
                    queue.add(Item::Pod(pod.key()));
                }
            }
            Change::Updated { old, new }
                if old.node_name == new.node_name
                    && old.claims() == new.claims()
                    && !is_restored(old, new) => {}
            _ => self.enqueue(pod, &self.known(), queue),
        }
    }

    pub fn on_claim(&self, change: &Change<'_, ResourceClaim>, queue: &Queue<Item>) {
        let known = self.known();
        if let Change::Updated { old, new } = change
            && old.status.reserved_for != new.status.reserved_for
        {
            self.enqueue_consumers(old, &known, queue);
        }
        self.enqueue_consumers(change.object(), &known, queue);
    }

    pub fn on_slice(&self, change: &Change<'_, ResourceSlice>, queue: &Queue<Item>) {
        let slice = change.object();
        let had_taints = matches!(change, Change::Updated { old, .. } if has_taints(old));
        let pool = pool_of(&slice.spec.driver, &slice.spec.pool.name);
        let siblings = self.slices.by(&BY_POOL, &pool);
        let matters = had_taints || has_taints(slice) || siblings.iter().any(|it| has_taints(it));
        if !matters {
            return;
        }
        let known = self.known();
        for claim in self.claims.by(&CLAIMS_BY_POOL, &pool) {
            self.enqueue_consumers(&claim, &known, queue);
        }
    }

    pub fn on_rule(&self, change: &Change<'_, DeviceTaintRule>, queue: &Queue<Item>) {
        let old = match change {
            Change::Updated { old, new } if old.metadata.uid == new.metadata.uid => {
                if old.spec == new.spec {
                    return;
                }
                Some(old)
            }
            Change::Updated { old, .. } => Some(old),
            _ => None,
        };
        let rule = change.object();
        queue.add(Item::Rule(rule.key()));
        if !evicts(rule) && !old.is_some_and(|old| evicts(old)) {
            return;
        }
        let known = self.known();
        for claim in self.claims.list() {
            self.enqueue_consumers(&claim, &known, queue);
        }
    }

    fn enqueue_consumers(&self, claim: &ResourceClaim, known: &Known<'_>, queue: &Queue<Item>) {
        let namespace = &claim.metadata.namespace;
        for consumer in &claim.status.reserved_for {
            if consumer.api_group.is_empty() && consumer.resource == "pods" {
                let pod = self.pods.find(namespace, &consumer.name);
                if let Some(pod) = pod.filter(|pod| pod.metadata.uid == consumer.uid) {
                    self.enqueue(&pod, known, queue);
                }
            } else if consumer.api_group == SCHEDULING_GROUP
                && consumer.resource == "podgroups"
                && self.has_groups
            {
                let group = IndexValue::In(namespace.clone(), consumer.name.clone());
                for pod in self.pods.by(&PODS_BY_GROUP, &group) {
                    self.enqueue(&pod, known, queue);
                }
            }
        }
    }

    /// Only if something is due, or was: most devices have no taints.
    fn enqueue(&self, pod: &Pod, known: &Known<'_>, queue: &Queue<Item>) {
        let key = pod.key();
        if self.scheduled.get(&key).is_some() || pod_eviction(pod, known).is_some() {
            queue.add(Item::Pod(key));
        }
    }
}

fn evicts(rule: &DeviceTaintRule) -> bool {
    rule.spec.taint.effect == TaintEffect::NoExecute
}

fn has_taints(slice: &ResourceSlice) -> bool {
    let mut taints = slice.spec.devices.iter().flat_map(|it| it.taints.iter());
    taints.any(|taint| taint.effect == TaintEffect::NoExecute)
}

/// Was the deletion of the pod lost, with the tail of a server that was restored?
fn is_restored(old: &Pod, new: &Pod) -> bool {
    old.metadata.is_terminating() && !new.metadata.is_terminating()
}
