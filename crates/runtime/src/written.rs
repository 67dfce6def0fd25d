//! Read your own writes.
//!
//! Resource versions are comparable within a kind. After a write the key remembers the revision
//! that the server answered; a reconcile whose cache is older than that would decide on a state
//! that this controller itself has already changed, so it is put back until the cache has caught up.

use std::sync::{Mutex, PoisonError};

use api::Key;
use api::collections::HashMap;

/// The newest revision each key wrote, for one kind of object.
#[derive(Default)]
pub struct Written(Mutex<HashMap<Key, u64>>);

impl Written {
    pub fn note(&self, key: &Key, resource_version: u64) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = held.entry(key.clone()).or_insert(0);
        *newest = (*newest).max(resource_version);
    }

    /// Has a cache at `cached` seen what the key wrote? A revision that was seen is forgotten.
    pub fn seen(&self, key: &Key, cached: u64) -> bool {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match held.get(key) {
            Some(newest) if *newest > cached => false,
            Some(_) => {
                held.remove(key);
                true
            }
            None => true,
        }
    }

    pub fn forget(&self, key: &Key) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(key);
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
}
