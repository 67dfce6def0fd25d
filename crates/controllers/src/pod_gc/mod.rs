//! Pods that nobody will ever clean up by themselves. A small controller.
//!
//! **Converges**: at most `--terminated-pod-gc-threshold` finished pods; no pod on a node that does not
//! exist; no terminating pod that was never scheduled, or whose node is out of service.
//!
//! **Triggers**: time alone, every 20 seconds.
//!
//! **Writes**: sets the phase of a pod that is not finished to `Failed` (with the condition
//! `DisruptionTarget` for pods of a node that is gone) and deletes it without grace.
//!
//! **Mirrors** `pkg/controller/podgc`.
//!
//! **Deliberate differences**: a pod that fits several reasons is deleted once, and with its uid as
//! precondition, so a namesake that came since is safe.

mod invariants;
mod plan;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::decision::Line;
use api::kinds::{Node, Pod};
use api::{Gates, Istr, MicroTime, ObjectId, Resource};
use client::{DeleteOptions, Patch};
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use prometheus::IntCounterVec;
use runtime::controller::Tick;
use runtime::metrics::Stability;
use runtime::{Context, Controller, Error, Loop, Next, Reconcile, Report, Store};
use serde_json::json;
use tokio::time::Instant;

use crate::Descriptor;
use crate::oracle::View;
use crate::workload::disruption::{disruption_target, observed_generation};

pub use invariants::{PodGcOracle, converged, safe};
pub use plan::{Collect, Reason, plan};

pub const DESCRIPTOR: Descriptor = Descriptor {
    caches: &[View::of::<Pod>(), View::of::<Node>()],
    decides_about: &[Pod::TYPE],
    queues: &["orphaned_pods_nodes"],
    metrics: &["pod_gc_collector_"],
    build: Some(|ctx| {
        let threshold = ctx.config.pod_gc_controller.terminated_pod_threshold;
        Some(controller(ctx, threshold).into())
    }),
    oracle: Some(|| Box::<PodGcOracle>::default()),
    ..Descriptor::named(
        "pod-garbage-collector-controller",
        "podgc",
        "pod-garbage-collector",
    )
};

/// Upstream's number: garbage is in no hurry.
const PERIOD: Duration = Duration::from_secs(20);

/// How long a node has to be missing before its pods are orphans. Upstream's number: a node that comes
/// back by then keeps its pods.
const QUARANTINE: Duration = Duration::from_secs(40);

/// Pods that are deleted at the same time; flow control has the last word.
const AT_ONCE: usize = 50;

pub struct PodCollector {
    context: Context,
    pods: Arc<Store<Pod>>,
    nodes: Arc<Store<Node>>,
    threshold: usize,
    /// Nodes that pods name and nobody has: since when.
    missing: Mutex<BTreeMap<Istr, Instant>>,
    deleted: IntCounterVec,
    failed: IntCounterVec,
}

/// `threshold` is `--terminated-pod-gc-threshold`; 0 or less keeps all finished pods.
pub fn controller(context: &Context, threshold: i32) -> Controller<Tick> {
    let counter = |name: &str, help: &str| {
        let labels = &["namespace", "reason"];
        context
            .metrics
            .counter(name, help, Stability::Alpha, labels)
    };
    Loop::every(context, PERIOD, Duration::ZERO)
        .queue("orphaned_pods_nodes")
        .reads::<Pod>()
        .reads::<Node>()
        .reconciler(PodCollector {
            context: context.clone(),
            pods: context.informers.store::<Pod>(),
            nodes: context.informers.store::<Node>(),
            threshold: usize::try_from(threshold).unwrap_or(0),
            missing: Mutex::default(),
            deleted: counter(
                "pod_gc_collector_force_delete_pods_total",
                "Pods that were deleted by force",
            ),
            failed: counter(
                "pod_gc_collector_force_delete_pod_errors_total",
                "Pods that could not be deleted by force",
            ),
        })
}

/// How many pods of missing nodes are explained one by one: the same goes for the others.
const EXPLAINED_MAX: usize = 100;

impl Reconcile<Tick> for PodCollector {
    async fn reconcile(&self, _: &Tick, report: &Report<'_>) -> Result<Next, Error> {
        self.collect(report).await;
        Ok(Next::AwaitChange)
    }
}

impl PodCollector {
    async fn collect(&self, report: &Report<'_>) {
        let (pods, nodes) = (self.pods.list(), self.nodes.list());
        let now = self.context.clock.now();
        let gone = self.gone_nodes(&pods, now, report).await;
        let collected = plan(&pods, &nodes, &gone, self.threshold);
        stream::iter(collected)
            .map(|one| self.delete(one, now, report))
            .buffer_unordered(AT_ONCE)
            .collect::<Vec<()>>()
            .await;
    }

    /// Nodes that have been missing long enough and that the server does not know either.
    async fn gone_nodes(
        &self,
        pods: &[Arc<Pod>],
        now: MicroTime,
        report: &Report<'_>,
    ) -> BTreeSet<Istr> {
        let due = self.due_nodes(pods, now, report);
        let mut gone = BTreeSet::new();
        for name in due {
            if self.nodes.find("", &name).is_some() {
                continue;
            }
            match self.context.client.get(&Node::TYPE, "", &name).await {
                Ok(_) => {}
                Err(error) if error.is_not_found() => {
                    gone.insert(name);
                }
                Err(error) => {
                    tracing::warn!(node = &*name, %error, "cannot tell whether the node exists");
                }
            }
        }
        gone
    }

    /// Nodes whose quarantine is over; counting starts over if they stay missing.
    fn due_nodes(&self, pods: &[Arc<Pod>], now: MicroTime, report: &Report<'_>) -> Vec<Istr> {
        let mut missing = self.missing.lock();
        for pod in pods {
            if !pod.node_name.is_empty() && self.nodes.find("", &pod.node_name).is_none() {
                let name = pod.node_name.clone();
                missing.entry(name).or_insert_with(Instant::now);
            }
        }
        let due: Vec<Istr> = missing
            .iter()
            .filter(|(_, since)| since.elapsed() >= QUARANTINE)
            .map(|(name, _)| name.clone())
            .collect();
        missing.retain(|name, _| !due.contains(name));
        self.explain_quarantine(pods, &missing, now, report);
        due
    }

    /// Says of the first pods of missing nodes until when they are left alone.
    fn explain_quarantine(
        &self,
        pods: &[Arc<Pod>],
        missing: &BTreeMap<Istr, Instant>,
        now: MicroTime,
        report: &Report<'_>,
    ) {
        let waiting = pods.iter().filter_map(|pod| {
            let passed = missing.get(&pod.node_name)?.elapsed();
            Some((pod, now.plus(QUARANTINE.saturating_sub(passed)).time()))
        });
        for (pod, until) in waiting.take(EXPLAINED_MAX) {
            let line = Line::waits("NodeMissing", "is deleted")
                .because("its node is missing; it is kept if the node comes back");
            report.decide(ObjectId::of(&**pod), [line.until(until)]);
        }
    }

    async fn delete(&self, one: Collect, now: MicroTime, report: &Report<'_>) {
        let Collect { pod, reason } = one;
        let labels = [&*pod.metadata.namespace, reason.label()];
        self.deleted.with_label_values(&labels).inc();
        let line = Line::acts(reason.name(), "deletes it").because(reason.to_string());
        report.decide(ObjectId::of(&*pod), [line]);
        if let Err(error) = self.mark_and_delete(&pod, reason, now).await {
            let pod = pod.key();
            tracing::warn!(%pod, %reason, %error, "cannot delete a pod, will try again");
            self.failed.with_label_values(&labels).inc();
        }
    }

    async fn mark_and_delete(
        &self,
        pod: &Pod,
        reason: Reason,
        now: MicroTime,
    ) -> Result<(), client::Error> {
        let (client, meta) = (&self.context.client, &pod.metadata);
        if !pod.is_finished() {
            let patch = Patch::Strategic(
                failed_status(pod, reason, now, self.context.gates)
                    .to_string()
                    .into(),
            );
            client
                .patch(
                    &Pod::TYPE,
                    &meta.namespace,
                    &meta.name,
                    Some("status"),
                    &patch,
                )
                .await?;
        }
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            ..DeleteOptions::exactly(&meta.uid)
        };
        let deleted = client
            .delete(&Pod::TYPE, &meta.namespace, &meta.name, &options)
            .await;
        match deleted {
            // Somebody was faster.
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            other => other.map(drop),
        }
    }
}

/// The patch that says that the pod has failed, and why where there is more to say.
fn failed_status(pod: &Pod, reason: Reason, now: MicroTime, gates: Gates) -> serde_json::Value {
    let mut status = json!({"phase": "Failed"});
    let generation = observed_generation(pod, gates);
    if let Some(generation) = generation {
        status["observedGeneration"] = json!(generation);
    }
    if reason == Reason::NodeGone {
        let message = "PodGC: node no longer exists";
        status["conditions"] = json!([disruption_target(
            pod,
            "DeletionByPodGC",
            message,
            now,
            generation
        )]);
    }
    json!({"metadata": {"uid": pod.metadata.uid}, "status": status})
}
