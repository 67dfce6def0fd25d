//! Metadata-only watches of kinds that no controller caches, shared by those that count or collect objects of any kind.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use api::kinds::Metadata;
use api::{Meta, ResourceType};
use client::Client;

use super::metadata::{MetadataInformer, MetadataListener};
use super::registry::Synced;
use super::{Informer, StreamOptions};
use crate::spawn::{Task, spawn};
use crate::stop::{Stop, Stopper};

/// Opens a stream when it is asked for the first time, and closes it when the last one who holds it lets it go. Made
/// once for a process; clones share everything.
#[derive(Clone)]
pub struct MetadataStreams(Arc<Shared>);

struct Shared {
    client: Client,
    options: StreamOptions,
    open: Mutex<BTreeMap<ResourceType, Weak<MetadataStream>>>,
}

/// One stream. It is open for as long as it is referenced.
pub struct MetadataStream {
    informer: Arc<Informer<Metadata>>,
    _stopper: Stopper,
    _task: Task<()>,
}

impl MetadataStreams {
    pub fn new(client: Client, options: StreamOptions) -> MetadataStreams {
        MetadataStreams(Arc::new(Shared {
            client,
            options,
            open: Mutex::default(),
        }))
    }

    /// The stream of a resource.
    pub fn of(&self, resource: &ResourceType) -> Arc<MetadataStream> {
        let mut open = self.0.open.lock();
        if let Some(stream) = open.get(resource).and_then(Weak::upgrade) {
            return stream;
        }
        open.retain(|_, stream| stream.strong_count() > 0);
        let informer = Arc::new(Informer::<Metadata>::of(resource.clone(), true));
        let (client, options) = (self.0.client.clone(), self.0.options.clone());
        let (stopper, stop) = Stop::new();
        let running = informer.clone();
        let stream = Arc::new(MetadataStream {
            informer,
            _stopper: stopper,
            _task: spawn(async move { running.run(client, options, stop).await }),
        });
        open.insert(resource.clone(), Arc::downgrade(&stream));
        stream
    }

    /// Who stops to act stops to listen; the streams stay open.
    pub fn clear_listeners(&self) {
        let open: Vec<_> = self.0.open.lock().values().cloned().collect();
        for stream in open.iter().filter_map(Weak::upgrade) {
            stream.informer.clear_listeners();
        }
    }

    /// The resources with an open stream.
    pub fn resources(&self) -> Vec<ResourceType> {
        let open = self.0.open.lock();
        let held = open.iter().filter(|(_, stream)| stream.strong_count() > 0);
        held.map(|(resource, _)| resource.clone()).collect()
    }
}

impl MetadataInformer for MetadataStream {
    fn on_metadata_change(&self, listener: MetadataListener) {
        self.informer.on_metadata_change(listener);
    }

    fn find_metadata(&self, namespace: &str, name: &str) -> Option<Meta> {
        self.informer.find_metadata(namespace, name)
    }

    fn all_metadata(&self) -> Vec<Meta> {
        self.informer.all_metadata()
    }

    fn metadata_synced(&self) -> Synced {
        self.informer.metadata_synced()
    }

    fn count_in_namespace(&self, namespace: &str) -> usize {
        self.informer.count_in_namespace(namespace)
    }

    fn revision(&self) -> u64 {
        MetadataInformer::revision(&*self.informer)
    }
}
