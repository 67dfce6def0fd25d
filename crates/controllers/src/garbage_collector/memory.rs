//! What the collector keeps from one term of leadership to the next.
//!
//! Streams of metadata stay open when the lease is lost, so that taking over again lists nothing; the
//! graph is drawn anew from them, because what it was waiting for is no longer known.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;

use api::{ResourceType, Uid};
use runtime::informer::{MetadataStream, MetadataStreams};

use super::graph::Graph;

/// Made once for a process; clones share everything.
#[derive(Clone)]
pub struct Memory {
    graph: GraphHandle,
    streams: MetadataStreams,
    /// Keeps them open between terms.
    held: Arc<Mutex<BTreeMap<ResourceType, Arc<MetadataStream>>>>,
}

impl Memory {
    pub fn new(streams: MetadataStreams) -> Memory {
        Memory {
            graph: GraphHandle::default(),
            streams,
            held: Arc::default(),
        }
    }

    /// A look at the graph, for the debug endpoint.
    pub fn graph(&self) -> GraphHandle {
        self.graph.clone()
    }

    /// Begins a term: nothing is in the graph.
    pub(super) fn begin(&self) {
        *self.graph.lock() = Graph::default();
    }

    /// The stream of a resource, opened when it is asked for the first time.
    pub(super) fn stream(&self, resource: &ResourceType) -> Arc<MetadataStream> {
        let mut held = self.held.lock();
        let stream = held.entry(resource.clone());
        stream.or_insert_with(|| self.streams.of(resource)).clone()
    }

    /// Lets the streams of resources go that are not wanted any more.
    pub(super) fn keep(&self, wanted: impl Fn(&ResourceType) -> bool) {
        self.held.lock().retain(|resource, _| wanted(resource));
    }
}

/// A look at the graph while the collector runs.
#[derive(Clone, Default)]
pub struct GraphHandle(Arc<Mutex<Graph>>);

impl GraphHandle {
    /// Graphviz text: everything, or what hangs together with these objects.
    pub fn to_dot(&self, uids: &[Uid]) -> String {
        self.lock().to_dot(uids)
    }

    pub fn has(&self, uid: &Uid) -> bool {
        self.lock().item(uid).is_some()
    }

    pub fn len(&self) -> usize {
        self.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Graph> {
        self.0.lock()
    }
}
