//! What the caches say about one set.

use std::sync::Arc;

use api::kinds::Pod;
use api::{Gate, Gates, Selector};
use runtime::triggers::by_controller;
use runtime::{IndexValue, Store};

use super::owner::ReplicaOwner;
use crate::workload::candidates;

pub struct Snapshot<K> {
    pub owner: Arc<K>,
    /// Pods that belong to the set and count.
    pub active: Vec<Arc<Pod>>,
    /// Pods of the set that are on their way out; `None` where the kind does not count them.
    pub terminating: Option<usize>,
    /// What was created or deleted before has shown up.
    pub may_act: bool,
    pub gates: Gates,
}

impl<K: ReplicaOwner> Snapshot<K> {
    pub fn new(
        owner: Arc<K>,
        selector: &Selector,
        active: Vec<Arc<Pod>>,
        leaving: &[Arc<Pod>],
        may_act: bool,
        gates: Gates,
    ) -> Snapshot<K> {
        let counts =
            K::COUNTS_TERMINATING && gates.enabled(Gate::DeploymentReplicaSetTerminatingReplicas);
        let uid = &owner.meta().uid;
        let terminating = counts.then(|| {
            leaving
                .iter()
                .filter(|pod| pod.is_terminating())
                .filter(|pod| {
                    pod.metadata.is_controlled_by(uid) && selector.matches(&pod.metadata.labels)
                })
                .count()
        });
        Snapshot {
            owner,
            active,
            terminating,
            may_act,
            gates,
        }
    }
}

/// Pods of all sets that have the same controller as this one: the whole of a Deployment, say.
pub(super) fn related<K: ReplicaOwner>(
    owner: &K,
    sets: &Store<K>,
    pods: &Store<Pod>,
) -> Vec<Arc<Pod>> {
    // UPSTREAM: a set that nobody controls is related to nothing, not even to its own pods.
    let Some(controller) = owner.meta().controller() else {
        return Vec::new();
    };
    let sets = sets.by(&by_controller(), &IndexValue::Uid(controller.uid.clone()));
    let mut related: Vec<Arc<Pod>> = sets.iter().flat_map(|set| selected(&**set, pods)).collect();
    // An orphan that two sets select is still one pod.
    related.sort_by(|one, other| one.metadata.uid.cmp(&other.metadata.uid));
    related.dedup_by(|one, other| one.metadata.uid == other.metadata.uid);
    related
}

fn selected<K: ReplicaOwner>(set: &K, pods: &Store<Pod>) -> Vec<Arc<Pod>> {
    let Ok(selector) = set.selector() else {
        return Vec::new();
    };
    let mut found = candidates(set.meta(), pods);
    found.retain(|pod| selector.matches(&pod.metadata.labels));
    found
}
