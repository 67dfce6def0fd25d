//! Takes events from the queue and writes them, one after the other.

use std::sync::Arc;
use std::time::Duration;

use api::{Clock, ResourceType, Rng};
use client::{Client, Error, Patch};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::correlate::Correlator;
use super::event::{Event, Source};
use super::name::Names;
use crate::Stop;

/// Writes the events of one recorder. Spawn [`EventWriter::run`].
pub struct EventWriter {
    client: Client,
    source: Source,
    queue: mpsc::Receiver<Box<Event>>,
    correlator: Correlator,
    clock: Clock,
    names: Arc<Names>,
    rng: Rng,
}

const EVENTS: ResourceType = ResourceType::namespaced("", "v1", "events", "Event");

/// Upstream's patience with a server that does not answer: two minutes in all.
const TRIES: u32 = 12;
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// What is queued when the process stops is worth a moment, but not the grace period.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Whether a write is over, in one way or the other.
enum Attempt {
    Over,
    Unanswered(Error),
}

impl EventWriter {
    pub(super) fn new(
        client: Client,
        source: Source,
        queue: mpsc::Receiver<Box<Event>>,
        clock: Clock,
        names: Arc<Names>,
        rng: Rng,
    ) -> EventWriter {
        EventWriter {
            client,
            source,
            queue,
            correlator: Correlator::new(),
            clock,
            names,
            rng,
        }
    }

    /// Runs until the signal comes or the last recorder is gone. What is queued by then is tried once.
    pub async fn run(mut self, stop: Stop) {
        while let Some(event) = stop.or(self.queue.recv()).await.flatten() {
            if let Some(event) = self.correlate(*event) {
                self.write(&event, &stop).await;
            }
        }
        self.queue.close();
        let _ = tokio::time::timeout(LAST_WORDS, self.drain()).await;
    }

    async fn drain(&mut self) {
        while let Ok(event) = self.queue.try_recv() {
            if let Some(event) = self.correlate(*event)
                && let Attempt::Unanswered(_) = self.attempt(&event).await
            {
                return;
            }
        }
    }

    fn correlate(&mut self, event: Event) -> Option<Event> {
        let (now, wall) = (Instant::now(), self.clock.now());
        self.correlator.correlate(event, now, wall, &self.names)
    }

    /// Tries until the server has answered, whatever the answer is.
    async fn write(&self, event: &Event, stop: &Stop) {
        for tries in 1..=TRIES {
            let Some(attempt) = stop.or(self.attempt(event)).await else {
                // The signal came while the server was silent; it may have taken the event or not.
                return;
            };
            let Attempt::Unanswered(error) = attempt else {
                return;
            };
            let error = client::describe(&error);
            if tries == TRIES {
                tracing::error!(event = event.name, error, "gave up writing an event");
                return;
            }
            tracing::warn!(
                event = event.name,
                error,
                "cannot write an event; will try again"
            );
            // The first wait is random, so that many clients of a server that comes back do not all
            // speak at once.
            let wait = if tries == 1 {
                RETRY_AFTER.mul_f64(self.rng.unit())
            } else {
                RETRY_AFTER
            };
            if stop.or(tokio::time::sleep(wait)).await.is_none() {
                return;
            }
        }
    }

    async fn attempt(&self, event: &Event) -> Attempt {
        let answer = if event.count > 1 {
            match self.update(event).await {
                // The event has expired or was deleted.
                Err(error) if error.is_not_found() => self.create(event).await,
                answer => answer,
            }
        } else {
            self.create(event).await
        };
        match answer {
            Ok(()) => Attempt::Over,
            Err(error) if is_final(&error) => {
                if error.is_already_exists() || error.is_namespace_terminating() {
                    tracing::debug!(event = event.name, %error, "the server refused an event");
                } else {
                    tracing::error!(event = event.name, %error, "the server refused an event");
                }
                Attempt::Over
            }
            Err(error) => Attempt::Unanswered(error),
        }
    }

    async fn create(&self, event: &Event) -> Result<(), Error> {
        let body = event.body(&self.source);
        self.client
            .create(&EVENTS, event.namespace(), body)
            .await
            .map(drop)
    }

    async fn update(&self, event: &Event) -> Result<(), Error> {
        let patch = Patch::Strategic(event.count_patch());
        self.client
            .patch(&EVENTS, event.namespace(), &event.name, None, &patch)
            .await
            .map(drop)
    }
}

/// Whether trying again is of no use: the server has answered, or we cannot even ask.
fn is_final(error: &Error) -> bool {
    error.status().is_some() || matches!(error, Error::InvalidRequest(_))
}
