//! The events that were emitted already, so that they are not repeated every 15 seconds.
//!
//! Each resync plans every claim and volume again, and one that has not changed still waits for the same reason: its event
//! would add nothing. The API server deletes events after an hour, so each is repeated before that.

use std::time::Duration;

use api::collections::HashMap;
use api::{Key, Meta, Uid};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::claim::Event;

/// Shorter than --event-ttl of API servers, which is an hour.
const REPEAT_AFTER: Duration = Duration::from_secs(55 * 60);

/// The last event of each object that waits.
#[derive(Default)]
pub struct ReportedEvents(Mutex<HashMap<Key, Last>>);

struct Last {
    uid: Uid,
    revision: u64,
    event: Event,
    at: Instant,
}

impl ReportedEvents {
    /// Whether this event has not been emitted for the object as it is; notes it as emitted.
    pub fn is_news(&self, meta: &Meta, event: &Event) -> bool {
        let (mut all, key) = (self.0.lock(), meta.key());
        let is_known = all.get(&key).is_some_and(|last| {
            last.uid == meta.uid
                && last.revision == meta.resource_version
                && last.event == *event
                && last.at.elapsed() < REPEAT_AFTER
        });
        if !is_known {
            let last = Last {
                uid: meta.uid.clone(),
                revision: meta.resource_version,
                event: event.clone(),
                at: Instant::now(),
            };
            all.insert(key, last);
        }
        !is_known
    }

    /// The object is gone, or waits no longer.
    pub fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}
