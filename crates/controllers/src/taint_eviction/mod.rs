//! Pods that have to leave their node because of a taint with the effect `NoExecute`. A small controller.
//!
//! **Converges**: no pod is on a node with a `NoExecute` taint that it does not tolerate, or not any longer.
//!
//! **Triggers**: a change of the `NoExecute` taints of a node, for all its pods; a pod that is bound, or whose
//! tolerations change; a pod that is gone; time, when a toleration ends.
//!
//! **Writes**: patches the condition `DisruptionTarget` and deletes the pod; emits `TaintManagerEviction`, also
//! when a deletion that was planned is off.
//!
//! **Mirrors** `pkg/controller/tainteviction`. A toleration's time counts from when this process first saw the
//! taints; a restart, or another leader, starts over.
//!
//! **Deliberate differences**: a deletion that fails is tried again until it works, not five times; it carries the
//! pod's uid, so a namesake that came since is safe, and events do too; a pod that is on its way out for this
//! very reason is not deleted again; the duration metric counts seconds.

mod actions;
mod invariants;
mod plan;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::decision::Line;
use api::kinds::{Node, Pod};
use api::{Clock, Gate, Key, MicroTime, ObjectId, Resource, Uid};
use client::{DeleteOptions, Patch};
use parking_lot::{Mutex, MutexGuard};
use prometheus::{Histogram, IntCounter};
use runtime::events::{EventType, ObjectRef};
use runtime::metrics::Stability;
use runtime::rate_limit::Backoff;
use runtime::{
    Change, Context, Controller, Error, Loop, Metrics, Next, Queue, Reconcile, Report, Store,
};
use serde_json::json;

use crate::Descriptor;
use crate::oracle::View;
use crate::workload::disruption::{disruption_target, is_marked, observed_generation};
use crate::workload::on_node::{by_node, pods_on};

pub use invariants::{TaintEvictionOracle, converged, safe};
pub use plan::{Plan, Reason, Scheduled, no_execute, plan};

pub const DESCRIPTOR: Descriptor = Descriptor {
    component: "taint-eviction-controller",
    caches: &[View::of::<Pod>(), View::of::<Node>()],
    decides_about: &[Pod::TYPE],
    queues: &["noexec_taint_pod"],
    metrics: &["taint_eviction_controller_"],
    build: Some(|ctx| Some(controller(ctx).into())),
    oracle: Some(|| Box::<TaintEvictionOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named("taint-eviction-controller", "", "node-controller")
        .gated(&["SeparateTaintEvictionController"])
};

/// UPSTREAM: eight workers, without a flag.
const WORKERS: usize = 8;

/// The reason that the condition of a pod gives.
const MARK: &str = "DeletionByTaintManager";

pub struct TaintEviction {
    context: Context,
    /// Starts at the time of day and is never set: tolerations are measured by it.
    steady: Clock,
    pods: Arc<Store<Pod>>,
    nodes: Arc<Store<Node>>,
    scheduled: Arc<Evictions>,
    deleted: IntCounter,
    latency: Histogram,
}

/// Pods that are going to leave, with the uid that is meant.
#[derive(Default)]
struct Evictions(Mutex<BTreeMap<Key, (Uid, Scheduled)>>);

pub fn controller(context: &Context) -> Controller {
    let (pods, nodes) = (
        context.informers.store::<Pod>(),
        context.informers.store::<Node>(),
    );
    context.informers.of::<Pod>().add_index(&by_node());
    let scheduled = Arc::new(Evictions::default());
    let (deleted, latency) = measures(&context.metrics);
    let of_pods = Triggers {
        pods: pods.clone(),
        nodes: nodes.clone(),
        scheduled: scheduled.clone(),
    };
    let of_nodes = of_pods.clone();
    Loop::on::<Key>(context, Backoff::DEFAULT)
        .queue("noexec_taint_pod")
        .watches::<Pod>(move |change, queue| of_pods.on_pod(change, queue))
        .watches::<Node>(move |change, queue| of_nodes.on_node(change, queue))
        .workers(WORKERS)
        .reconciler(TaintEviction {
            steady: runtime::clock::steady(&context.clock),
            context: context.clone(),
            pods,
            nodes,
            scheduled,
            deleted,
            latency,
        })
}

#[derive(Clone)]
struct Triggers {
    pods: Arc<Store<Pod>>,
    nodes: Arc<Store<Node>>,
    scheduled: Arc<Evictions>,
}

impl Triggers {
    /// A pod that comes to a node with taints, or tolerates something else than before. Most pods are on nodes without
    /// such taints and enqueue nothing: should a taint come, the node enqueues them.
    fn on_pod(&self, change: Change<'_, Pod>, queue: &Queue) {
        let pod = change.object();
        let enqueues = match change {
            Change::Deleted(pod) => self.scheduled.get(&pod.key()).is_some(),
            Change::Updated { old, new }
                if old.node_name == new.node_name
                    && old.body.tolerations == new.body.tolerations
                    && !is_restored(old, new) =>
            {
                false
            }
            _ => {
                let node = self.nodes.find("", &pod.node_name);
                node.is_some_and(|node| !no_execute(&node).is_empty())
            }
        };
        if enqueues {
            queue.add(pod.key());
        }
    }

    /// A node whose taints have changed enqueues all its pods that this may matter to. A node that is gone enqueues nothing.
    fn on_node(&self, change: Change<'_, Node>, queue: &Queue) {
        let (before, node) = match change {
            Change::Added(node) => (None, node),
            Change::Updated { old, new } => (Some(no_execute(old)), new),
            Change::Deleted(_) => return,
        };
        let taints = no_execute(node);
        if before.is_some_and(|before| before == taints) {
            return;
        }
        for pod in pods_on(&self.pods, &node.metadata.name) {
            let key = pod.key();
            if !taints.is_empty() || self.scheduled.get(&key).is_some() {
                queue.add(key);
            }
        }
    }
}

/// Was the deletion of the pod lost, with the tail of a server that was restored?
fn is_restored(old: &Pod, new: &Pod) -> bool {
    old.metadata.is_terminating() && !new.metadata.is_terminating()
}

fn measures(metrics: &Metrics) -> (IntCounter, Histogram) {
    let deleted = metrics.counter(
        "taint_eviction_controller_pod_deletions_total",
        "Pods that were deleted because of a taint of their node",
        Stability::Alpha,
        &[],
    );
    let latency = metrics.histogram(
        "taint_eviction_controller_pod_deletion_duration_seconds",
        "Time between when a pod has to leave its node and its deletion",
        Stability::Alpha,
        &[],
        // Upstream's buckets.
        &[
            0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0,
        ],
    );
    (
        deleted.with_label_values::<&str>(&[]),
        latency.with_label_values::<&str>(&[]),
    )
}

impl Reconcile for TaintEviction {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let held = self.scheduled.get(key);
        let pod = self.pods.get(key).filter(|pod| !pod.node_name.is_empty());
        let is_same = |uid: &Uid| pod.as_ref().is_some_and(|pod| pod.metadata.uid == *uid);
        let held = held.and_then(|(uid, scheduled)| {
            if is_same(&uid) {
                return Some(scheduled);
            }
            self.call_off(key, &uid);
            None
        });
        let Some(pod) = pod else {
            return Ok(Next::AwaitChange);
        };
        let now = self.steady.now();
        let node = self.nodes.find("", &pod.node_name);
        let operators = self
            .context
            .gates
            .enabled(Gate::TaintTolerationComparisonOperators);
        let plan = plan(&pod, node.as_deref(), held, now, operators);
        // A pod that nothing was or is to happen to is not worth a line.
        if held.is_some() || !matches!(plan, Plan::Stay(_)) {
            report.decide(ObjectId::of(&*pod), [Line::from(&plan)]);
        }
        match plan {
            Plan::Stay(_) => {
                if held.is_some() {
                    self.call_off(key, &pod.metadata.uid);
                }
                Ok(Next::AwaitChange)
            }
            Plan::Leave(scheduled, _) => {
                self.scheduled.set(key, &pod.metadata.uid, scheduled);
                Ok(Next::After(scheduled.at.since(now)))
            }
            Plan::LeaveNow(reason) => {
                if held.is_some() && reason != Reason::TimeIsUp {
                    // UPSTREAM: what was planned for later is off, because it happens now.
                    self.call_off(key, &pod.metadata.uid);
                }
                let due = held.map_or(now, |held| held.at.min(now));
                self.evict(key, &pod, due).await?;
                Ok(Next::AwaitChange)
            }
        }
    }
}

impl TaintEviction {
    /// Nothing comes of what was planned.
    fn call_off(&self, key: &Key, uid: &Uid) {
        self.scheduled.forget(key);
        self.event(key, uid, format!("Cancelling deletion of Pod {key}"));
    }

    async fn evict(&self, key: &Key, pod: &Pod, due: MicroTime) -> Result<(), client::Error> {
        let is_marked = is_marked(pod, MARK);
        if is_marked && pod.metadata.is_terminating() {
            self.scheduled.forget(key);
            return Ok(());
        }
        match self.mark_and_delete(pod, is_marked).await {
            // Somebody was faster.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
            Ok(()) => {
                let message = format!("Marking for deletion Pod {key}");
                self.event(key, &pod.metadata.uid, message);
                self.deleted.inc();
                let late = self.steady.now().since(due);
                self.latency.observe(late.as_secs_f64());
            }
        }
        self.scheduled.forget(key);
        Ok(())
    }

    async fn mark_and_delete(&self, pod: &Pod, is_marked: bool) -> Result<(), client::Error> {
        let (client, meta) = (&self.context.client, &pod.metadata);
        let (namespace, name) = (&meta.namespace, &meta.name);
        if !is_marked {
            let message = "Taint manager: deleting due to NoExecute taint";
            let condition = disruption_target(
                pod,
                MARK,
                message,
                self.context.clock.now(),
                observed_generation(pod, self.context.gates),
            );
            let patch =
                json!({"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}});
            let patch = Patch::Strategic(patch.to_string().into());
            client
                .patch(&Pod::TYPE, namespace, name, Some("status"), &patch)
                .await?;
        }
        let options = DeleteOptions::exactly(&meta.uid);
        client
            .delete(&Pod::TYPE, namespace, name, &options)
            .await
            .map(drop)
    }

    fn event(&self, key: &Key, uid: &Uid, message: String) {
        let pod = ObjectRef::named(&Pod::TYPE, &key.namespace, &key.name, uid.clone());
        let recorder = &self.context.recorder;
        recorder.event(&pod, EventType::Normal, "TaintManagerEviction", message);
    }
}

impl Evictions {
    fn get(&self, key: &Key) -> Option<(Uid, Scheduled)> {
        self.lock().get(key).cloned()
    }

    fn set(&self, key: &Key, uid: &Uid, scheduled: Scheduled) {
        self.lock().insert(key.clone(), (uid.clone(), scheduled));
    }

    fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, (Uid, Scheduled)>> {
        self.0.lock()
    }
}
