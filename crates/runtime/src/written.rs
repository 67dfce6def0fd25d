//! Read your own writes.
//!
//! Resource versions are comparable within a kind. After a write the key remembers the revision
//! that the server answered; a reconcile whose cache is older than that would decide on a state
//! that this controller itself has already changed, so it is put back until the cache has caught up.
//!
//! An API server that was restored from a backup counts on from a lower revision, and a cache would
//! never catch up. So a write is waited for no longer than an expectation is.

use parking_lot::Mutex;

use api::Key;
use api::collections::HashMap;
use tokio::time::Instant;

use crate::expectations::EXPIRY;

/// The newest revision each key wrote, for one kind of object.
#[derive(Default)]
pub struct Written(Mutex<HashMap<Key, Newest>>);

struct Newest {
    resource_version: u64,
    at: Instant,
}

impl Written {
    pub fn note(&self, key: &Key, resource_version: u64) {
        let mut held = self.0.lock();
        let newest = held.entry(key.clone()).or_insert(Newest {
            resource_version,
            at: Instant::now(),
        });
        newest.resource_version = newest.resource_version.max(resource_version);
        newest.at = Instant::now();
    }

    /// Has a cache at `cached` seen what the key wrote? A revision that was seen is forgotten.
    pub fn seen(&self, key: &Key, cached: u64) -> bool {
        if crate::mutation::on("skip-expectations") {
            return true;
        }
        let mut held = self.0.lock();
        let waiting = held.get(key).is_some_and(|newest| {
            newest.resource_version > cached && newest.at.elapsed() <= EXPIRY
        });
        if !waiting {
            held.remove(key);
        }
        !waiting
    }

    pub fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_older_than_the_write_has_not_seen_it() {
        let written = Written::default();
        let key = Key::new("ns", "web");
        assert!(written.seen(&key, 0));
        written.note(&key, 10);
        written.note(&key, 7);
        assert!(!written.seen(&key, 9));
        assert!(written.seen(&key, 10));
        assert!(written.seen(&key, 3), "once seen it is settled");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cache_that_never_catches_up_is_not_waited_for_forever() {
        let written = Written::default();
        let key = Key::new("ns", "web");
        written.note(&key, 1000);
        tokio::time::sleep(EXPIRY).await;
        assert!(!written.seen(&key, 10));
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        assert!(written.seen(&key, 10), "the server counts on from a backup");
    }
}
