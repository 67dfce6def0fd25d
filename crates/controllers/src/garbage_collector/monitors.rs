//! One stream per deletable resource, each feeding the graph.
//!
//! Kinds that other controllers cache are shared with them; for the rest there is an informer of
//! metadata alone. Streams are independent: a kind that cannot be listed waits and retries by
//! itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{Meta, ResourceType};
use runtime::Informers;
use runtime::informer::{MetadataInformer, MetadataListener, Synced};

use super::memory::Memory;

struct Monitor {
    /// Others read the stream, too.
    shared: bool,
    informer: Arc<dyn MetadataInformer>,
}

/// All streams that run now.
pub(super) struct Monitors {
    memory: Memory,
    informers: Arc<Informers>,
    running: BTreeMap<ResourceType, Monitor>,
}

impl Monitors {
    pub(super) fn new(memory: Memory, informers: Arc<Informers>) -> Monitors {
        Monitors {
            memory,
            informers,
            running: BTreeMap::new(),
        }
    }

    /// Listens to what is wanted, and to nothing else.
    pub(super) fn sync(
        &mut self,
        wanted: &[ResourceType],
        listener: impl Fn(&ResourceType) -> MetadataListener,
    ) {
        // A shared stream costs nothing to keep, and listening twice would be a waste.
        self.running
            .retain(|resource, monitor| monitor.shared || wanted.contains(resource));
        self.memory.keep(|resource| wanted.contains(resource));
        for resource in wanted {
            if self.running.contains_key(resource) {
                continue;
            }
            let monitor = self.start(resource, listener(resource));
            self.running.insert(resource.clone(), monitor);
        }
    }

    /// Kinds that others cache are shared: which ones is known once all controllers are built.
    fn start(&self, resource: &ResourceType, listener: MetadataListener) -> Monitor {
        let (shared, informer) = match self.informers.of_resource(resource) {
            Some(informer) => (true, informer),
            None => (
                false,
                self.memory.stream(resource) as Arc<dyn MetadataInformer>,
            ),
        };
        informer.on_metadata_change(listener);
        Monitor { shared, informer }
    }

    /// What the cache says about one object.
    pub(super) fn find(
        &self,
        resource: &ResourceType,
        namespace: &str,
        name: &str,
    ) -> Option<Meta> {
        let monitor = self.running.get(resource)?;
        monitor.informer.find_metadata(namespace, name)
    }

    pub(super) fn resources(&self) -> Vec<ResourceType> {
        self.running.keys().cloned().collect()
    }

    pub(super) fn synced(&self) -> Vec<Synced> {
        self.running
            .values()
            .map(|monitor| monitor.informer.metadata_synced())
            .collect()
    }

    /// Resources whose first listing is not complete.
    pub(super) fn unsynced(&self) -> Vec<String> {
        self.running
            .iter()
            .filter(|(_, monitor)| !monitor.informer.metadata_synced().is_done())
            .map(|(resource, _)| resource.to_string())
            .collect()
    }
}
