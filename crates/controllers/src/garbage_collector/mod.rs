//! The garbage collector: what has lost its owners is deleted; what is deleted takes its dependents along. Plain `Reconcile`s:
//! three loops over a graph.
//!
//! **Converges**: no object whose owners are all gone; no dangling reference beside a living owner; no
//! `foregroundDeletion` or `orphan` finalizer on an object whose dependents are dealt with.
//!
//! **Triggers**: every change of every deletable resource that discovery finds, custom ones included;
//! discovery is asked again every 30 seconds, and at once when somebody is owned by a kind that nobody knows.
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
mod actions;
mod attempt;
mod changes;
mod decide;
mod departed;
mod dot;
mod graph;
mod identity;
mod invariants;
mod memory;
mod monitors;
mod writes;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::{Istr, ResourceType, Uid};
use futures_util::future::join_all;
use parking_lot::Mutex;
use prometheus::IntCounter;
use runtime::controller::Tick;
use runtime::events::{EventType, ObjectRef};
use runtime::informer::{MetadataChange, MetadataListener};
use runtime::metrics::Stability;
use runtime::rate_limit::Backoff;
use runtime::{Context, Error, Loop, Next, Queue, Reconcile, Report, Runnable};
use tokio::time::Instant;
use tracing::warn;

use crate::{Descriptor, discovery};

pub use changes::{ToEnqueue, Warning};
pub use decide::{Action, OwnerState, Reason, decide};
pub use graph::Graph;
pub use identity::Identity;
pub use invariants::{GarbageCollectorOracle, converged, kept_its_word, safe};
pub use memory::{GraphHandle, Memory};

use departed::Departed;
use monitors::Monitors;

pub const DESCRIPTOR: Descriptor = Descriptor {
    component: "garbage-collector-controller",
    queues: &[
        "garbage_collector_attempt_to_delete",
        "garbage_collector_attempt_to_orphan",
    ],
    metrics: &["garbagecollector_controller_"],
    build: Some(|ctx| {
        let config = &ctx.config.garbage_collector_controller;
        if !config.enable_garbage_collector {
            return None;
        }
        let workers = ctx.workers(config.concurrent_syncs);
        Some(controller(ctx, &ctx.environment.collector, workers))
    }),
    oracle: Some(|| Box::<GarbageCollectorOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "garbage-collector-controller",
        "garbagecollector",
        "generic-garbage-collector",
    )
    .faster(2.0, 1)
};

/// How often discovery is asked for kinds that came or went. Upstream's number.
const DISCOVERY_PERIOD: Duration = Duration::from_secs(30);

/// An unknown kind is a reason to ask discovery at once, but not more often than this, whatever owners people make up.
const DISCOVERY_AT_MOST: Duration = Duration::from_secs(2);

/// How long the workers wait for all first listings; a kind that cannot be listed must not stop the rest.
const INITIAL_SYNC: Duration = Duration::from_secs(30);

/// Events are many, short-lived, and never owners of anything.
const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

/// `memory` is what terms have in common.
pub fn controller(context: &Context, memory: &Memory, workers: usize) -> Runnable {
    let sync_errors = context.metrics.counter(
        "garbagecollector_controller_resources_sync_error_total",
        "How often the kinds to watch could not be found out",
        Stability::Alpha,
        &[],
    );
    let deleting = Loop::on::<Uid>(context, Backoff::DEFAULT)
        .queue("garbage_collector_attempt_to_delete")
        .workers(workers);
    let orphaning = Loop::on::<Uid>(context, Backoff::DEFAULT)
        .queue("garbage_collector_attempt_to_orphan")
        .workers(workers);
    let discovering = Loop::every(context, DISCOVERY_PERIOD, DISCOVERY_PERIOD);
    let collector = Arc::new(Collector {
        graph: memory.graph(),
        memory: memory.clone(),
        served: Mutex::default(),
        departed: Mutex::default(),
        discovering: tokio::sync::Mutex::new(None),
        monitors: Mutex::new(Monitors::new(memory.clone(), context.informers.clone())),
        to_delete: deleting.handle(),
        to_orphan: orphaning.handle(),
        sync_errors: sync_errors.with_label_values::<&str>(&[]),
        context: context.clone(),
    });
    let loops = vec![
        deleting.reconciler(Deleting(collector.clone())).into(),
        orphaning.reconciler(Orphaning(collector.clone())).into(),
        discovering
            .reconciler(Discovering(collector.clone()))
            .into(),
    ];
    let preparing = Loop::once(context).reconciler(Preparing(collector));
    Runnable::together(context.controller, loops).prepared_by(preparing)
}

struct Collector {
    context: Context,
    memory: Memory,
    graph: GraphHandle,
    served: Mutex<discovery::Known>,
    /// Kinds that were served a short while ago.
    departed: Mutex<Departed>,
    /// When discovery was asked last; held while it is.
    discovering: tokio::sync::Mutex<Option<Instant>>,
    monitors: Mutex<Monitors>,
    to_delete: Arc<Queue<Uid>>,
    to_orphan: Arc<Queue<Uid>>,
    sync_errors: IntCounter,
}

struct Preparing(Arc<Collector>);
struct Deleting(Arc<Collector>);
struct Orphaning(Arc<Collector>);
struct Discovering(Arc<Collector>);

impl Reconcile<Tick> for Preparing {
    async fn reconcile(&self, _: &Tick, _: &Report<'_>) -> Result<Next, Error> {
        self.0.sync_first().await;
        Ok(Next::AwaitChange)
    }
}

impl Reconcile<Uid> for Deleting {
    async fn reconcile(&self, uid: &Uid, report: &Report<'_>) -> Result<Next, Error> {
        self.0.attempt_to_delete(uid, report).await
    }
}

impl Reconcile<Uid> for Orphaning {
    async fn reconcile(&self, uid: &Uid, _: &Report<'_>) -> Result<Next, Error> {
        self.0.attempt_to_orphan(uid).await
    }
}

impl Reconcile<Tick> for Discovering {
    async fn reconcile(&self, _: &Tick, _: &Report<'_>) -> Result<Next, Error> {
        self.0.sync_monitors().await;
        Ok(Next::AwaitChange)
    }
}

impl Collector {
    /// Finds out what there is, and waits until it is listed, but not forever.
    async fn sync_first(self: &Arc<Collector>) {
        self.memory.begin();
        let deadline = Instant::now() + INITIAL_SYNC;
        while !self.sync_monitors().await && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let synced = self.monitors.lock().synced();
        let all = join_all(synced.iter().map(|synced| synced.wait()));
        if tokio::time::timeout_at(deadline, all).await.is_err() {
            let missing = self.monitors.lock().unsynced();
            warn!(
                ?missing,
                "not all kinds could be listed, proceeding without them"
            );
        }
    }

    /// Asks discovery out of turn, unless that was done a moment ago.
    async fn sync_soon(self: &Arc<Collector>) {
        let mut last = self.discovering.lock().await;
        if last.is_none_or(|last| last.elapsed() >= DISCOVERY_AT_MOST) {
            self.sync_monitors_at(&mut last).await;
        }
    }

    /// Brings the streams in step with discovery; false when it could not be asked.
    async fn sync_monitors(self: &Arc<Collector>) -> bool {
        let mut last = self.discovering.lock().await;
        self.sync_monitors_at(&mut last).await
    }

    async fn sync_monitors_at(self: &Arc<Collector>, last: &mut Option<Instant>) -> bool {
        *last = Some(Instant::now());
        let before = self.served.lock().clone();
        let Some(known) = discovery::refresh_or_warn(&self.context.client, &before).await else {
            self.sync_errors.inc();
            return false;
        };
        let found = Arc::clone(&known.found);
        if Arc::ptr_eq(&found, &before.found) && found.failed.is_empty() {
            return true;
        }
        let mut wanted: Vec<ResourceType> = found
            .preferred(&["delete", "list", "watch"])
            .map(|served| served.resource.clone())
            .filter(|resource| !IGNORED.contains(&(&*resource.group, &*resource.plural)))
            .collect();
        let mut monitors = self.monitors.lock();
        let running = monitors.resources().into_iter();
        wanted.extend(running.filter(|resource| found.is_unknown(resource)));
        let gone = before.found.missing_from(&found);
        *self.served.lock() = known;
        monitors.sync(&wanted, |resource| self.listener(resource));
        drop(monitors);
        self.part_with(gone);
        true
    }

    /// Owners of kinds that are gone are asked for once more, by the name that their kind had.
    fn part_with(&self, gone: Vec<ResourceType>) {
        let graph = self.graph.lock();
        let waiting: Vec<Uid> = gone
            .iter()
            .flat_map(|kind| graph.unseen_of(&kind.api_version(), &kind.kind))
            .collect();
        drop(graph);
        self.departed.lock().add(gone, Instant::now());
        for uid in waiting {
            self.to_delete.add(uid);
        }
    }

    /// Feeds the graph with what is seen of one resource.
    fn listener(self: &Arc<Collector>, resource: &ResourceType) -> MetadataListener {
        let api_version = Istr::new(&resource.api_version());
        let kind = Istr::new(&resource.kind);
        let kind = self.graph.lock().kind(&api_version, &kind);
        let collector = Arc::downgrade(self);
        Box::new(move |change| {
            let Some(collector) = collector.upgrade() else {
                return;
            };
            let mut graph = collector.graph.lock();
            let to_enqueue = match change {
                MetadataChange::Added(new) => graph.observe(kind, None, new),
                MetadataChange::Updated { old, new } => graph.observe(kind, Some(old), new),
                MetadataChange::Resynced(held) => graph.review(kind, held),
                MetadataChange::Deleted(last) => graph.gone(kind, last),
            };
            drop(graph);
            collector.enqueue(to_enqueue);
        })
    }

    fn enqueue(&self, to_enqueue: ToEnqueue) {
        for uid in to_enqueue.delete {
            self.to_delete.add(uid);
        }
        for uid in to_enqueue.delete_later {
            self.to_delete.add_rate_limited(uid);
        }
        for uid in to_enqueue.orphan {
            self.to_orphan.add(uid);
        }
        for Warning { dependent, owner } in to_enqueue.warnings {
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
            self.context.recorder.event(
                &object,
                EventType::Warning,
                "OwnerRefInvalidNamespace",
                message,
            );
        }
    }
}
