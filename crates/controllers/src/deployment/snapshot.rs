//! What the caches say about one Deployment.

use std::sync::Arc;

use api::kinds::{Deployment, Pod, ReplicaSet};
use api::{Gates, Uid};
use runtime::triggers::by_controller;
use runtime::{IndexValue, Store};

pub struct Snapshot {
    pub deployment: Arc<Deployment>,
    /// The sets that belong to it, oldest first.
    pub sets: Vec<Arc<ReplicaSet>>,
    /// Pods of each of these sets that still run, or may; looked at for `Recreate` alone.
    pub unfinished_pods: Vec<usize>,
    pub gates: Gates,
}

impl Snapshot {
    pub fn new(
        deployment: Arc<Deployment>,
        mut sets: Vec<Arc<ReplicaSet>>,
        pods: &Store<Pod>,
        gates: Gates,
    ) -> Snapshot {
        sets.sort_by(|one, two| by_age(one, two));
        let unfinished_pods = if deployment.spec.strategy.recreate {
            sets.iter()
                .map(|set| unfinished(pods, &set.metadata.uid))
                .collect()
        } else {
            Vec::new()
        };
        Snapshot {
            deployment,
            sets,
            unfinished_pods,
            gates,
        }
    }
}

/// Oldest first, and by name within a second.
pub(super) fn by_age(one: &ReplicaSet, two: &ReplicaSet) -> std::cmp::Ordering {
    let (one, two) = (&one.metadata, &two.metadata);
    (one.created_at, &one.name).cmp(&(two.created_at, &two.name))
}

/// Pods of a set that have not ended; one whose node is unreachable may still run, so it counts.
pub(super) fn unfinished(pods: &Store<Pod>, set: &Uid) -> usize {
    pods.by(&by_controller(), &IndexValue::Uid(set.clone()))
        .iter()
        .filter(|pod| !pod.is_finished())
        .count()
}
