//! What the collector keeps from one term of leadership to the next.
//!
//! Streams of metadata stay open when the lease is lost, so that taking over again lists nothing; the
//! graph is drawn anew from them, because what it was waiting for is no longer known.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;

use api::kinds::Metadata;
use api::{ResourceType, Uid};
use client::Client;
use runtime::informer::StreamOptions;
use runtime::stop::Stopper;
use runtime::{Informer, Stop, Task, spawn};

use super::graph::Graph;

/// Made once for a process; clones share everything.
#[derive(Clone)]
pub struct Memory {
    graph: GraphHandle,
    streams: Arc<Streams>,
}

struct Streams {
    client: Client,
    options: StreamOptions,
    stop: Stop,
    /// Ends all streams with the last clone.
    _stopper: Stopper,
    open: Mutex<BTreeMap<ResourceType, Stream>>,
}

struct Stream {
    informer: Arc<Informer<Metadata>>,
    _task: Task<()>,
}

impl Memory {
    /// `client` is the one that streams of metadata are read with.
    pub fn new(client: Client, options: StreamOptions) -> Memory {
        let (stopper, stop) = Stop::new();
        Memory {
            graph: GraphHandle::default(),
            streams: Arc::new(Streams {
                client,
                options,
                stop,
                _stopper: stopper,
                open: Mutex::default(),
            }),
        }
    }

    /// A look at the graph, for the debug endpoint.
    pub fn graph(&self) -> GraphHandle {
        self.graph.clone()
    }

    /// Who stops to act stops to listen; the streams stay open.
    pub fn clear_listeners(&self) {
        for stream in self.streams.lock().values() {
            stream.informer.clear_listeners();
        }
    }

    /// Begins a term: nobody listens, and nothing is in the graph.
    pub(super) fn begin(&self) {
        self.clear_listeners();
        *self.graph.lock() = Graph::default();
    }

    /// The stream of a resource, opened when it is asked for the first time.
    pub(super) fn stream(&self, resource: &ResourceType) -> Arc<Informer<Metadata>> {
        let mut open = self.streams.lock();
        if let Some(stream) = open.get(resource) {
            return stream.informer.clone();
        }
        let informer = Arc::new(Informer::<Metadata>::of(resource.clone(), true));
        let (client, options) = (self.streams.client.clone(), self.streams.options.clone());
        let (running, stop) = (informer.clone(), self.streams.stop.clone());
        let stream = Stream {
            informer: informer.clone(),
            _task: spawn(async move { running.run(client, options, stop).await }),
        };
        open.insert(resource.clone(), stream);
        informer
    }

    /// Closes the streams of resources that are not wanted any more.
    pub(super) fn keep(&self, wanted: impl Fn(&ResourceType) -> bool) {
        self.streams.lock().retain(|resource, _| wanted(resource));
    }
}

impl Streams {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ResourceType, Stream>> {
        self.open.lock()
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
