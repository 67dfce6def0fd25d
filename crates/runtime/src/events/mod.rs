//! Events: what a person reads to learn what happened to an object.
//!
//! They are core/v1 events, made, merged and limited as upstream's recorder does it, because people
//! and tools know its habits: `kubectl describe` shows counts, and an object that fails in a loop
//! does not flood etcd. A [`Recorder`] never blocks its controller: events wait in a bounded queue,
//! the [`EventWriter`] writes one after the other, and what does not fit is dropped and counted.

mod correlate;
mod event;
mod name;
mod object;
mod writer;

pub use object::ObjectRef;
pub use writer::EventWriter;

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use api::{Clock, Rng};
use client::Client;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::metrics::EventMetrics;
use event::{Event, Source};
use name::Names;

/// Records events for one component, such as `replicaset-controller`. Cheap to clone.
#[derive(Clone)]
pub struct Recorder(Arc<Inner>);

struct Inner {
    clock: Clock,
    names: Arc<Names>,
    /// Boxed: a queue keeps room for 32 of what it holds, and mostly holds nothing.
    queue: mpsc::Sender<Box<Event>>,
    dropped: AtomicU64,
    metrics: OnceLock<EventMetrics>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    Normal,
    Warning,
}

/// Upstream's number too: some seconds of a busy controller.
const QUEUED: usize = 1000;

/// One line in the log for so many lost events, lest the log drown instead of the API server.
const DROPS_PER_LOG_LINE: u64 = 1000;

impl Recorder {
    /// The recorder, and the writer whose [`EventWriter::run`] the caller spawns. `host` is empty for
    /// components that are not bound to a node.
    pub fn new(
        component: &str,
        host: &str,
        client: Client,
        clock: Clock,
        rng: Rng,
    ) -> (Recorder, EventWriter) {
        let (sender, receiver) = mpsc::channel(QUEUED);
        let names = Arc::new(Names::new(rng.fork()));
        let source = Source {
            component: component.to_owned(),
            host: host.to_owned(),
        };
        let writer = EventWriter::new(
            client,
            source,
            receiver,
            clock.clone(),
            Arc::clone(&names),
            rng.fork(),
        );
        let recorder = Recorder(Arc::new(Inner {
            clock,
            names,
            queue: sender,
            dropped: AtomicU64::new(0),
            metrics: OnceLock::new(),
        }));
        (recorder, writer)
    }

    /// Counts dropped events there too, for this recorder and all its clones.
    pub fn with_metrics(self, metrics: EventMetrics) -> Recorder {
        // A second handle would count under another name what the first one counts already.
        let _ = self.0.metrics.set(metrics);
        self
    }

    /// Says that something happened to `object`. Returns at once.
    pub fn event(
        &self,
        object: &ObjectRef,
        event_type: EventType,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) {
        let event = self.compose(object, event_type, reason.into(), message.into());
        if let Err(error) = self.0.queue.try_send(Box::new(event)) {
            self.on_drop(matches!(error, TrySendError::Full(_)));
        }
    }

    /// The same for those who would rather be slowed down than not be heard, such as simulated kubelets:
    /// waits while too many events are queued.
    pub async fn event_in_turn(
        &self,
        object: &ObjectRef,
        event_type: EventType,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) {
        let event = self.compose(object, event_type, reason.into(), message.into());
        if self.0.queue.send(Box::new(event)).await.is_err() {
            self.on_drop(false);
        }
    }

    fn compose(
        &self,
        object: &ObjectRef,
        event_type: EventType,
        reason: Cow<'static, str>,
        message: String,
    ) -> Event {
        tracing::debug!(
            kind = &*object.kind,
            namespace = &*object.namespace,
            name = &*object.name,
            reason = &*reason,
            message = &*message,
            "event"
        );
        let now = self.0.clock.now();
        Event {
            name: self.0.names.next(&object.name, now),
            object: object.clone(),
            event_type,
            reason,
            message,
            first_at: now.time(),
            last_at: now.time(),
            count: 1,
            combined: false,
        }
    }

    /// How many events were dropped because too many were waiting, or because the writer has ended.
    pub fn dropped(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }

    fn on_drop(&self, full: bool) {
        let before = self.0.dropped.fetch_add(1, Ordering::Relaxed);
        if let Some(metrics) = self.0.metrics.get() {
            metrics.on_drop();
        }
        // Without a writer the process is about to end: the event is dropped.
        if full && before.is_multiple_of(DROPS_PER_LOG_LINE) {
            tracing::warn!(
                dropped = before + 1,
                "events are made faster than the API server takes them; dropping them"
            );
        }
    }
}

#[cfg(test)]
mod tests;
