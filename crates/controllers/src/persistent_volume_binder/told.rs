//! What users were told already.
//!
//! Everything is looked at again every 15 seconds, and what waits then, unchanged, still waits for the same reason: an
//! event that says so again is no news. The API server forgets events after an hour, so it is told again before that.

use std::time::Duration;

use api::collections::HashMap;
use api::{Key, Meta, Uid};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::claim::Event;

/// Shorter than --event-ttl of API servers, which is an hour.
const AGAIN: Duration = Duration::from_secs(55 * 60);

/// The last event of each object that waits.
#[derive(Default)]
pub struct Told(Mutex<HashMap<Key, Last>>);

struct Last {
    uid: Uid,
    revision: u64,
    event: Event,
    at: Instant,
}

impl Told {
    /// Is this event news about the object? It is none the next time.
    pub fn is_news(&self, meta: &Meta, event: &Event) -> bool {
        let (mut all, key) = (self.0.lock(), meta.key());
        let is_known = all.get(&key).is_some_and(|last| {
            last.uid == meta.uid
                && last.revision == meta.resource_version
                && last.event == *event
                && last.at.elapsed() < AGAIN
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
