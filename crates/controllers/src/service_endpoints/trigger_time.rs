//! Since when the endpoints of a service have been due for a change.
//!
//! The oldest of the times that are new since the last sync: of pods that became ready or unready, and of the service
//! itself. Consumers measure by it how long a change takes to reach them.

use api::collections::HashMap;
use api::hash::Digest;
use api::kinds::{Pod, Service};
use api::{Key, Resource, Time};
use parking_lot::Mutex;
use std::sync::Arc;

/// What each service's last sync saw.
#[derive(Default)]
pub struct TriggerTimes(Mutex<HashMap<Key, Seen>>);

#[derive(Default)]
struct Seen {
    service: Time,
    /// By a digest of the pod's name, in the order of the last sync, which is most often the order of the next.
    pods: Vec<(u64, Time)>,
}

impl TriggerTimes {
    /// The time to publish with a sync of these pods; none if nothing with a time has changed.
    pub fn observe(&self, service: &Service, pods: &[Arc<Pod>]) -> Option<Time> {
        let key = service.key();
        let before = self.0.lock().remove(&key);
        let created_at = service.metadata.created_at;
        let mut seen = Seen {
            service: created_at,
            pods: Vec::with_capacity(pods.len()),
        };
        for pod in pods {
            if let Some(at) = pod.status.ready_changed_at {
                let name = Digest::new().text(&pod.metadata.name).finish();
                seen.pods.push((name, at));
            }
        }
        let triggered_at = match &before {
            None => Some(created_at).filter(|at| *at != Time::default()),
            Some(before) => seen.oldest_since(before),
        };
        self.0.lock().insert(key, seen);
        triggered_at
    }

    pub fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}

impl Seen {
    fn oldest_since(&self, before: &Seen) -> Option<Time> {
        let mut by_name: Option<HashMap<u64, Time>> = None;
        let mut oldest: Option<Time> = None;
        let mut take = |at: Time| oldest = Some(oldest.map_or(at, |held| held.min(at)));
        for (index, (name, at)) in self.pods.iter().enumerate() {
            let last = match before.pods.get(index) {
                Some((same, last)) if same == name => Some(*last),
                _ => by_name
                    .get_or_insert_with(|| before.pods.iter().copied().collect())
                    .get(name)
                    .copied(),
            };
            if last.is_none_or(|last| *at > last) {
                take(*at);
            }
        }
        if self.service > before.service {
            take(self.service);
        }
        oldest
    }
}
