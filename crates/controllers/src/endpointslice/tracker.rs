//! Which slices are as we have written them.
//!
//! A slice that changes wakes its service, because somebody may have edited it. Our own writes need not, and a slice that
//! we have deleted and that the cache still holds must not be counted on.

use api::Uid;
use api::collections::HashMap;
use api::kinds::EndpointSlice;
use parking_lot::Mutex;
use runtime::expectations::EXPIRY;
use tokio::time::Instant;

#[derive(Default)]
pub struct Tracker(Mutex<HashMap<Uid, Own>>);

enum Own {
    /// The revision that our last write gave it.
    Written(u64),
    Deleted(Instant),
}

impl Tracker {
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

    /// Is this state of the slice our own doing?
    pub fn is_own(&self, slice: &EndpointSlice) -> bool {
        let meta = &slice.metadata;
        match self.0.lock().get(&meta.uid) {
            Some(Own::Written(revision)) => *revision >= meta.resource_version,
            Some(Own::Deleted(_)) => true,
            None => false,
        }
    }

    /// The slice is gone: was that our own doing?
    pub fn gone(&self, slice: &EndpointSlice) -> bool {
        let own = self.0.lock().remove(&slice.metadata.uid);
        matches!(own, Some(Own::Deleted(_)))
    }

    /// Have we deleted it? For as long as the news of that may be on its way.
    pub fn is_deleted(&self, slice: &EndpointSlice) -> bool {
        let held = self.0.lock();
        match held.get(&slice.metadata.uid) {
            Some(Own::Deleted(since)) => since.elapsed() <= EXPIRY,
            _ => false,
        }
    }
}
