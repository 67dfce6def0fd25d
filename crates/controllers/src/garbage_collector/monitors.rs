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
use crate::discovery::Monitor;

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
        self.running
            .retain(|resource, monitor| monitor.is_shared || wanted.contains(resource));
        self.memory.keep(|resource| wanted.contains(resource));
        for resource in wanted {
            if self.running.contains_key(resource) {
                continue;
            }
            let stream = || self.memory.stream(resource) as Arc<dyn MetadataInformer>;
            let monitor = Monitor::of(&self.informers, resource, stream);
            monitor.informer.on_metadata_change(listener(resource));
            self.running.insert(resource.clone(), monitor);
        }
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
