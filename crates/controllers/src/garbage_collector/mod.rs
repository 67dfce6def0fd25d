//! The garbage collector: what has lost its owners goes; what is deleted takes its dependents along.
//!
//! **Converges**: no object whose owners are all gone; no dangling reference beside a living owner; no
//! `foregroundDeletion` or `orphan` finalizer on an object whose dependents are dealt with.
//!
//! **Woken by**: every change of every deletable resource that discovery finds, custom ones included;
//! discovery is asked again every 30 seconds.
//!
//! **Writes**: deletes with the uid and the revision as preconditions, patches owner references and
//! finalizers, emits `OwnerRefInvalidNamespace`.
//!
//! **Mirrors** `pkg/controller/garbagecollector`. The graph and the decisions are pure (`graph`,
//! `changes`, `decide`); this file and `attempt` are the IO around them.
//!
//! **Deliberate differences**: upstream reads an object and each of its owners from the API server
//! before every decision. Here the cache answers where a stale answer can do no harm: a deletion carries
//! the revision that the decision was made on, so a changed object is looked at again instead; and an
//! owner that the cache shows alive only ever saves an object. That an owner is *gone* is always the
//! server's word (a deletion seen, or a read that finds nothing). An object that owns itself does not
//! wait for itself.

mod absent;
mod attempt;
mod changes;
mod decide;
mod dot;
mod graph;
mod identity;
mod invariants;
mod memory;
mod monitors;
mod writes;

#[cfg(test)]
mod tests;

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;

use api::{Istr, ResourceType, Uid};
use futures_util::FutureExt;
use futures_util::future::join_all;
use prometheus::IntCounter;
use runtime::events::{EventType, ObjectRef};
use runtime::metrics::Stability;
use runtime::rate_limit::Backoff;
use runtime::{Queue, Stop, Task, spawn};
use tracing::{debug, error, info, warn};

use crate::Tools;
use crate::discovery;

pub use changes::{Wakes, Warning};
pub use decide::{Action, OwnerState, Reason, decide};
pub use graph::Graph;
pub use identity::Identity;
pub use invariants::{converged, kept_its_word, safe};
pub use memory::{GraphHandle, Memory};
pub use monitors::SharedKind;

use monitors::{Listener, Monitors, Seen};

/// The name in `--controllers`.
pub const NAME: &str = "garbage-collector-controller";

/// How often discovery is asked for kinds that came or went. Upstream's number.
const DISCOVERY_PERIOD: Duration = Duration::from_secs(30);

/// How long the workers wait for all first listings; a kind that cannot be listed must not stop the rest.
const INITIAL_SYNC: Duration = Duration::from_secs(30);

/// Events are many, short-lived, and never owners of anything.
const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

/// Build it on a [`Memory`] and [`run`](GarbageCollector::run) it.
pub struct GarbageCollector {
    inner: Arc<Inner>,
    workers: usize,
}

struct Inner {
    tools: Tools,
    memory: Memory,
    graph: GraphHandle,
    served: Mutex<discovery::Known>,
    monitors: Mutex<Monitors>,
    to_delete: Arc<Queue<Uid>>,
    to_orphan: Arc<Queue<Uid>>,
    sync_errors: IntCounter,
}

/// `memory` is what terms have in common; `shared` are the kinds that other controllers cache anyway.
pub fn controller(
    tools: Tools,
    memory: &Memory,
    shared: Vec<SharedKind>,
    workers: usize,
) -> GarbageCollector {
    let queue = |name: &str| {
        let queue = Arc::new(Queue::new(Backoff::DEFAULT));
        queue.measure(&tools.metrics, name);
        queue
    };
    let sync_errors = tools.metrics.counter(
        "garbagecollector_controller_resources_sync_error_total",
        "How often the kinds to watch could not be found out",
        Stability::Alpha,
        &[],
    );
    GarbageCollector {
        inner: Arc::new(Inner {
            graph: memory.graph(),
            memory: memory.clone(),
            served: Mutex::default(),
            monitors: Mutex::new(Monitors::new(memory.clone(), shared)),
            to_delete: queue("garbage_collector_attempt_to_delete"),
            to_orphan: queue("garbage_collector_attempt_to_orphan"),
            sync_errors: sync_errors.with_label_values::<&str>(&[]),
            tools,
        }),
        workers,
    }
}

impl GarbageCollector {
    /// Runs until the signal comes; then finishes what is in hand and returns.
    pub async fn run(self, stop: Stop) {
        let inner = self.inner;
        if stop.or(inner.begin()).await.is_none() {
            return;
        }
        info!(controller = NAME, workers = self.workers, "started");
        let workers: Vec<Task<()>> = (0..self.workers)
            .flat_map(|_| {
                let (deleting, orphaning) = (inner.clone(), inner.clone());
                let (one, two) = (stop.clone(), stop.clone());
                [
                    spawn(async move { deleting.delete_worker(one).await }),
                    spawn(async move { orphaning.orphan_worker(two).await }),
                ]
            })
            .collect();
        let mut again = tokio::time::interval(DISCOVERY_PERIOD);
        again.tick().await;
        while stop.or(again.tick()).await.is_some() {
            stop.or(inner.sync_monitors()).await;
        }
        inner.to_delete.close();
        inner.to_orphan.close();
        for worker in workers {
            // A worker cannot panic: attempts are caught.
            let _ = worker.await;
        }
    }
}

impl Inner {
    /// Finds out what there is, and waits until it is listed, but not forever.
    async fn begin(self: &Arc<Inner>) {
        self.memory.begin();
        let deadline = tokio::time::Instant::now() + INITIAL_SYNC;
        while !self.sync_monitors().await && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let synced = self.lock_monitors().synced();
        let all = join_all(synced.iter().map(|synced| synced.wait()));
        if tokio::time::timeout_at(deadline, all).await.is_err() {
            let missing = self.lock_monitors().unsynced();
            warn!(
                ?missing,
                "not all kinds could be listed, proceeding without them"
            );
        }
    }

    /// Brings the streams in step with discovery; false when it could not be asked.
    async fn sync_monitors(self: &Arc<Inner>) -> bool {
        let before = self.lock_served().clone();
        let known = match discovery::refresh(&self.tools.client, &before).await {
            Ok(known) if !known.found.resources.is_empty() => known,
            Ok(_) => return self.sync_failed("discovery reports no resources"),
            Err(error) => return self.sync_failed(&client::describe(&error)),
        };
        let found = Arc::clone(&known.found);
        if Arc::ptr_eq(&found, &before.found) && found.failed.is_empty() {
            return true;
        }
        if let Some(failure) = found.failure() {
            warn!(
                failure,
                "some groups were not discovered; what is known of them stays"
            );
        }
        let mut wanted: Vec<ResourceType> = found
            .preferred(&["delete", "list", "watch"])
            .map(|served| served.resource.clone())
            .filter(|resource| !IGNORED.contains(&(&*resource.group, &*resource.plural)))
            .collect();
        let mut monitors = self.lock_monitors();
        let unknown = |resource: &ResourceType| {
            found.failed.iter().any(|failed| {
                *failed.group == *resource.group && *failed.version == *resource.version
            })
        };
        wanted.extend(monitors.resources().into_iter().filter(unknown));
        *self.lock_served() = known;
        monitors.sync(&wanted, |resource| self.listener(resource));
        true
    }

    fn sync_failed(&self, reason: &str) -> bool {
        warn!(
            reason,
            "cannot ask for new kinds, going on with those that are known"
        );
        self.sync_errors.inc();
        false
    }

    /// Feeds the graph with what is seen of one resource.
    fn listener(self: &Arc<Inner>, resource: &ResourceType) -> Listener {
        let api_version = Istr::new(&resource.api_version());
        let kind = Istr::new(&resource.kind);
        let kind = self.graph.lock().kind(&api_version, &kind);
        let inner = Arc::downgrade(self);
        Box::new(move |seen| {
            let Some(inner) = inner.upgrade() else {
                return;
            };
            let wakes = match seen {
                Seen::Object { old, new } => inner.graph.lock().observe(kind, old, new),
                Seen::Again(held) => inner.graph.lock().review(kind, held),
                Seen::Gone(last) => inner.graph.lock().gone(kind, last),
            };
            inner.wake(wakes);
        })
    }

    fn wake(&self, wakes: Wakes) {
        for uid in wakes.delete {
            self.to_delete.add(uid);
        }
        for uid in wakes.delete_later {
            self.to_delete.add_rate_limited(uid);
        }
        for uid in wakes.orphan {
            self.to_orphan.add(uid);
        }
        for Warning { dependent, owner } in wakes.warnings {
            let namespace = dependent.namespace.clone();
            let object = ObjectRef {
                api_version: dependent.api_version.to_string().into(),
                kind: dependent.kind.to_string().into(),
                namespace: dependent.namespace,
                name: dependent.name,
                uid: dependent.uid,
                resource_version: 0,
                field_path: "".into(),
            };
            let message = format!("ownerRef {owner} does not exist in namespace {namespace:?}");
            self.tools.recorder.event(
                &object,
                EventType::Warning,
                "OwnerRefInvalidNamespace",
                message,
            );
        }
    }

    async fn delete_worker(self: Arc<Inner>, stop: Stop) {
        while let Some(Some(uid)) = stop.or(self.to_delete.get()).await {
            let attempt = std::panic::AssertUnwindSafe(self.attempt_to_delete(&uid));
            let outcome = attempt.catch_unwind().await;
            settle(&self.to_delete, &uid, outcome);
        }
    }

    async fn orphan_worker(self: Arc<Inner>, stop: Stop) {
        while let Some(Some(uid)) = stop.or(self.to_orphan.get()).await {
            let attempt = std::panic::AssertUnwindSafe(self.attempt_to_orphan(&uid));
            let outcome = attempt.catch_unwind().await;
            settle(&self.to_orphan, &uid, outcome);
        }
    }

    fn lock_monitors(&self) -> MutexGuard<'_, Monitors> {
        self.monitors.lock()
    }

    fn lock_served(&self) -> MutexGuard<'_, discovery::Known> {
        self.served.lock()
    }
}

type Attempt = Result<attempt::Attempted, runtime::Error>;

fn settle(queue: &Queue<Uid>, uid: &Uid, attempt: Result<Attempt, Box<dyn std::any::Any + Send>>) {
    match attempt {
        Ok(Ok(attempt::Attempted::Done)) => queue.forget(uid),
        Ok(Ok(attempt::Attempted::LookAgain)) => queue.add_rate_limited(uid.clone()),
        Ok(Err(error)) => {
            debug!(controller = NAME, %uid, %error, "will retry");
            queue.add_rate_limited(uid.clone());
        }
        Err(_) => {
            error!(controller = NAME, %uid, "attempt panicked");
            queue.add_rate_limited(uid.clone());
        }
    }
    queue.done(uid);
}
