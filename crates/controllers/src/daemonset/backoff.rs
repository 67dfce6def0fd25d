//! How soon a failed pod may be replaced again on the same node.
//!
//! A kubelet that rejects the pod would have us make and delete pods as fast as the API server can.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;

use api::collections::HashMap;
use api::kinds::DaemonSet;
use api::{Key, MicroTime, Uid};

/// The first wait, and the longest.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// Waits per set and node. A set of another uid or observed generation starts afresh.
#[derive(Default)]
pub struct FailedPods(Mutex<HashMap<Key, Held>>);

struct Held {
    uid: Uid,
    generation: i64,
    nodes: HashMap<Arc<str>, Wait>,
}

#[derive(Clone, Copy)]
struct Wait {
    since: MicroTime,
    length: Duration,
}

impl FailedPods {
    /// How long a failed pod on this node has to stay; nothing if it may go now.
    pub fn remaining(&self, set: &DaemonSet, node: &str, now: MicroTime) -> Option<Duration> {
        let held = self.lock();
        let wait = held.get(&set.metadata.key())?.of(set)?.get(node)?;
        let passed = now.since(wait.since);
        // UPSTREAM: shorter than, so that a wait of exactly its length is over.
        (passed < wait.length).then(|| wait.length - passed)
    }

    /// A failed pod is being replaced: the next one on this node waits twice as long.
    pub fn replaced(&self, set: &DaemonSet, node: &str, now: MicroTime) {
        let mut held = self.lock();
        let fresh = || Held {
            uid: set.metadata.uid.clone(),
            generation: set.status.observed_generation,
            nodes: HashMap::default(),
        };
        let entry = held.entry(set.metadata.key()).or_insert_with(fresh);
        if entry.of(set).is_none() {
            *entry = fresh();
        }
        // Nodes come and go; what nobody failed on for long is forgotten.
        entry.nodes.retain(|_, wait| !wait.has_expired(now));
        let length = entry
            .nodes
            .get(node)
            .map_or(FIRST, |wait| (wait.length * 2).min(LONGEST));
        entry.nodes.insert(node.into(), Wait { since: now, length });
    }

    pub fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Held>> {
        self.0.lock()
    }
}

impl Held {
    fn of(&self, set: &DaemonSet) -> Option<&HashMap<Arc<str>, Wait>> {
        let same =
            self.uid == set.metadata.uid && self.generation == set.status.observed_generation;
        same.then_some(&self.nodes)
    }
}

impl Wait {
    fn has_expired(self, now: MicroTime) -> bool {
        now.since(self.since) > LONGEST * 2
    }
}
