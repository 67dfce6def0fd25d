//! One stream per deletable resource, each feeding the graph.
//!
//! Kinds that other controllers cache are shared with them; for the rest there is an informer of
//! metadata alone. Streams are independent: a kind that cannot be listed waits and retries by
//! itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{Meta, Resource, ResourceType};
use runtime::informer::Synced;
use runtime::{Change, Informer, Informers};

use super::memory::Memory;

/// What an informer has shown.
pub(super) enum Seen<'a> {
    Object {
        old: Option<&'a Meta>,
        new: &'a Meta,
    },
    /// The same as before, once more.
    Again(&'a Meta),
    Gone(&'a Meta),
}

/// Told of everything that is seen of one resource.
pub(super) type Listener = Box<dyn Fn(Seen<'_>) + Send + Sync>;

type Find = Box<dyn Fn(&str, &str) -> Option<Meta> + Send + Sync>;
/// Gives the listener back where nobody caches the kind.
type Attach = Box<dyn Fn(Listener) -> Result<Monitor, Listener> + Send + Sync>;

/// A kind that other controllers cache, if they run: which of them do is known once all are built.
pub struct SharedKind {
    resource: ResourceType,
    attach: Attach,
}

impl SharedKind {
    pub fn of<K: Resource>(informers: &Arc<Informers>) -> SharedKind {
        let informers = Arc::clone(informers);
        SharedKind {
            resource: K::TYPE,
            attach: Box::new(move |listener| match informers.cached::<K>() {
                Some(informer) => Ok(Monitor::watch(&informer, true, listener)),
                None => Err(listener),
            }),
        }
    }
}

struct Monitor {
    /// Others read the stream, too.
    shared: bool,
    synced: Synced,
    find: Find,
}

impl Monitor {
    fn watch<K: Resource>(
        informer: &Arc<Informer<K>>,
        shared: bool,
        listener: Listener,
    ) -> Monitor {
        informer.on_change(move |change| match change {
            Change::Added(new) => listener(Seen::Object {
                old: None,
                new: new.meta(),
            }),
            Change::Updated { old, new } if Arc::ptr_eq(old, new) => {
                listener(Seen::Again(new.meta()));
            }
            Change::Updated { old, new } => listener(Seen::Object {
                old: Some(old.meta()),
                new: new.meta(),
            }),
            Change::Deleted(last) => listener(Seen::Gone(last.meta())),
        });
        let store = informer.store().clone();
        Monitor {
            shared,
            synced: informer.synced(),
            find: Box::new(move |namespace, name| {
                Some(store.find(namespace, name)?.meta().clone())
            }),
        }
    }
}

/// All streams that run now.
pub(super) struct Monitors {
    memory: Memory,
    shared: Vec<SharedKind>,
    running: BTreeMap<ResourceType, Monitor>,
}

impl Monitors {
    pub(super) fn new(memory: Memory, shared: Vec<SharedKind>) -> Monitors {
        Monitors {
            memory,
            shared,
            running: BTreeMap::new(),
        }
    }

    /// Listens to what is wanted, and to nothing else.
    pub(super) fn sync(
        &mut self,
        wanted: &[ResourceType],
        listener: impl Fn(&ResourceType) -> Listener,
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

    fn start(&self, resource: &ResourceType, listener: Listener) -> Monitor {
        let shared = self.shared.iter().find(|kind| kind.resource == *resource);
        let attached = match shared {
            Some(kind) => (kind.attach)(listener),
            None => Err(listener),
        };
        attached.unwrap_or_else(|listener| {
            Monitor::watch(&self.memory.stream(resource), false, listener)
        })
    }

    /// What the cache says about one object.
    pub(super) fn find(
        &self,
        resource: &ResourceType,
        namespace: &str,
        name: &str,
    ) -> Option<Meta> {
        (self.running.get(resource)?.find)(namespace, name)
    }

    pub(super) fn resources(&self) -> Vec<ResourceType> {
        self.running.keys().cloned().collect()
    }

    pub(super) fn synced(&self) -> Vec<Synced> {
        self.running
            .values()
            .map(|monitor| monitor.synced.clone())
            .collect()
    }

    /// Resources whose first listing is not complete.
    pub(super) fn unsynced(&self) -> Vec<String> {
        self.running
            .iter()
            .filter(|(_, monitor)| !monitor.synced.is_done())
            .map(|(resource, _)| resource.to_string())
            .collect()
    }
}
