//! The newest that is known of an object: what the cache says, or what our own last write came to.
//!
//! Two loops decide about claims and volumes, and each writes both. What one has written the other, and its own next
//! sync, must see before the informers do: else two claims get one volume.

use std::sync::Arc;

use api::collections::HashMap;
use api::{Key, Resource};
use parking_lot::Mutex;
use runtime::Store;
use runtime::expectations::EXPIRY;
use tokio::time::Instant;

pub(crate) struct Latest<K> {
    store: Arc<Store<K>>,
    written: Mutex<HashMap<Key, Written<K>>>,
}

struct Written<K> {
    object: Arc<K>,
    at: Instant,
}

impl<K: Resource> Latest<K> {
    pub fn new(store: Arc<Store<K>>) -> Latest<K> {
        Latest {
            store,
            written: Mutex::default(),
        }
    }

    pub fn store(&self) -> &Store<K> {
        &self.store
    }

    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        let cached = self.store.get(key);
        let mut written = self.written.lock();
        let Some(ours) = written.get(key) else {
            return cached;
        };
        // Nothing is created here, so what the cache lacks is gone. A server that was restored from a backup counts on
        // from a lower revision: what we wrote before is not believed for ever.
        let is_newer = cached.as_ref().is_some_and(|cached| {
            let (cached, ours) = (cached.meta(), ours.object.meta());
            cached.uid == ours.uid && cached.resource_version < ours.resource_version
        });
        if is_newer && ours.at.elapsed() <= EXPIRY {
            return Some(ours.object.clone());
        }
        written.remove(key);
        cached
    }

    pub fn note(&self, object: Arc<K>) {
        let written = Written {
            at: Instant::now(),
            object: object.clone(),
        };
        self.written.lock().insert(object.key(), written);
    }
}
