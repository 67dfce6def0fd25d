//! A controller whose caches lag behind: the test fills them by hand, and no stream does.

use std::sync::Arc;
use std::time::Duration;

use api::{Key, Resource};
use runtime::controller::Controller;
use runtime::{Error, Next, Queue};

use crate::World;

/// A controller that is built and does not run: the test says what it sees, and when it looks.
pub struct Lagging {
    pub world: World,
    pub controller: Controller,
}

impl Lagging {
    /// Puts an object of the default namespace (or of none) into the cache as the server has it now.
    pub async fn see<K: Resource>(&self, name: &str) {
        let object = self.world.get(&K::TYPE, name).await;
        let object = object.unwrap_or_else(|| panic!("there is no {} {name}", K::TYPE));
        let object = K::decode(object.to_string().as_bytes())
            .unwrap_or_else(|error| panic!("{object} does not decode: {error}"));
        self.put(object);
    }

    /// Puts an object into the cache that the server need not have.
    pub fn put<K: Resource>(&self, object: K) {
        let informer = self.world.informers.of::<K>();
        informer.store().put(Arc::new(object));
    }

    /// One reconcile of the object of this name in the default namespace.
    pub async fn reconcile(&self, name: &str) -> Result<Next, Error> {
        let key = Key::new("default", name);
        self.controller.reconcile(&key).await
    }
}

/// Whom the queue of a controller that does not run has been told to look at since the last call.
pub async fn enqueued(queue: &Queue) -> String {
    tokio::time::sleep(HEARD).await;
    let mut names = Vec::new();
    while !queue.is_empty() {
        let Some(key) = queue.get().await else {
            break;
        };
        names.push(key.name.to_string());
        queue.done(&key);
    }
    names.sort();
    names.join(" ")
}

/// Longer than a change takes from the server to the queue.
const HEARD: Duration = Duration::from_millis(100);
