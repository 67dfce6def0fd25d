//! Which objects are as we have written them.
//!
//! One that changes enqueues its service, because somebody may have edited it. Our own writes need not, and one that we have
//! deleted and that the cache still holds must not be counted on.

use api::collections::HashMap;
use api::{Meta, Uid};
use parking_lot::Mutex;
use runtime::expectations::EXPIRY;
use tokio::time::Instant;

/// By uid, what we did last.
#[derive(Default)]
pub struct WriteTracker(Mutex<HashMap<Uid, Own>>);

enum Own {
    /// The revision that our last write gave it.
    Written(u64),
    Deleted(Instant),
}

impl WriteTracker {
    pub fn written(&self, uid: Uid, resource_version: u64) {
        self.0.lock().insert(uid, Own::Written(resource_version));
    }

    /// Before the deletion is asked for, because it may be seen before it is answered.
    pub fn deleting(&self, uid: &Uid) {
        let since = Own::Deleted(Instant::now());
        self.0.lock().insert(uid.clone(), since);
    }

    /// It was not deleted after all.
    pub fn not_deleted(&self, uid: &Uid) {
        self.0.lock().remove(uid);
    }

    /// Is this state of the object our own doing?
    pub fn is_own(&self, meta: &Meta) -> bool {
        match self.0.lock().get(&meta.uid) {
            // An older one is what a server restored from a backup has, or what we wrote before that: worth a look.
            Some(Own::Written(revision)) => *revision == meta.resource_version,
            Some(Own::Deleted(_)) => true,
            None => false,
        }
    }

    /// The object is gone: was that our own doing?
    pub fn gone(&self, meta: &Meta) -> bool {
        let own = self.0.lock().remove(&meta.uid);
        matches!(own, Some(Own::Deleted(_)))
    }

    /// Have we deleted it? For as long as the news of that may be on its way.
    pub fn is_deleted(&self, meta: &Meta) -> bool {
        let held = self.0.lock();
        match held.get(&meta.uid) {
            Some(Own::Deleted(since)) => since.elapsed() <= EXPIRY,
            _ => false,
        }
    }
}
