//! Ranges of addresses for the pods of each node. A small controller, with `--allocate-node-cidrs` only.
//!
//! **Converges**: every node has `spec.podCIDRs`, a part of each network in `--cluster-cidr` that no other node has and
//! that no Service has addresses of.
//!
//! **Triggers**: any change of a node; a node that goes gives its ranges back, and enqueues those for which nothing was left.
//!
//! **Writes**: patches `spec.podCIDR` and `spec.podCIDRs` of nodes that have none; emits `CIDRNotAvailable` and
//! `CIDRAssignmentFailed`.
//!
//! **Mirrors** `pkg/controller/nodeipam` with the range allocator. Which parts are taken is known from the nodes: all of
//! them are read before the first range is given out.
//!
//! **Deliberate differences**: a node whose range is not of the cluster's network is told of and passed over, where
//! upstream's process ends at the start. A request of which nobody knows what became is made again with the same ranges,
//! which are not lost. Where one of two networks is exhausted, nothing is taken from the other. Nodes that wait for a range
//! are looked at as soon as one is free.

mod actions;
mod allocator;
mod cidr_set;
mod invariants;
mod oracle;
mod ranges;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::decision::{Line, reasons};
use api::kinds::Node;
use api::{Cidr, Key, ObjectId, Resource};
use client::Patch;
use parking_lot::Mutex;
use runtime::controller::Tick;
use runtime::events::{EventType, ObjectRef};
use runtime::rate_limit::Backoff;
use runtime::{Change, Context, Error, Loop, Next, Reconcile, Report, Runnable, Store};
use serde_json::json;
use tracing::{error, warn};

use crate::Descriptor;
use crate::oracle::View;

pub use cidr_set::{Allocation, CidrSet, CidrSetError};
pub use invariants::{converged, disjoint, safe};
pub use oracle::NodeIpamOracle;
pub use ranges::{Ranges, RangesError};

use allocator::{Allocator, Refusal, Step};

pub const DESCRIPTOR: Descriptor = Descriptor {
    component: "cidrAllocator",
    caches: &[View::of::<Node>()],
    decides_about: &[Node::TYPE],
    queues: &["cidrallocator_node"],
    metrics: &["node_ipam_controller_"],
    build: Some(|ctx| {
        let config = ctx.config;
        match Ranges::read(&config.kube_cloud_shared, &config.node_ipam_controller) {
            Ok(ranges) => Some(controller(ctx, ranges?, WORKERS)),
            Err(error) => {
                error!(%error, "nodes get no ranges of addresses");
                None
            }
        }
    }),
    oracle: Some(|| Box::<NodeIpamOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named("node-ipam-controller", "nodeipam", "node-controller")
};

/// UPSTREAM: thirty, without a flag.
const WORKERS: usize = 30;

/// What was written shows up at once, unless the API server has lost it.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// How often a write is tried before the ranges are given back. Upstream's number.
const TRIES: usize = 3;

pub fn controller(context: &Context, ranges: Ranges, workers: usize) -> Runnable {
    let allocator = Arc::new(Mutex::new(Allocator::new(ranges, &context.metrics)));
    let building = Loop::on::<Key>(context, Backoff::DEFAULT).queue("cidrallocator_node");
    let (queue, releasing) = (building.handle(), allocator.clone());
    let assigning = building
        .watches::<Node>(move |change, queue| match change {
            Change::Added(node) => queue.add(node.key()),
            // A node that has its ranges keeps them, and its status changes often.
            Change::Updated { old, new } if has_the_same(old, new) => {}
            Change::Updated { old, new } => {
                // Ranges are never changed, but an API server that was restored may have lost them.
                if !old.spec.pod_cidrs.is_empty() {
                    let waiting = releasing.lock().gone(old);
                    waiting.into_iter().for_each(|key| queue.add(key));
                }
                queue.add(new.key());
            }
            Change::Deleted(node) => {
                let waiting = releasing.lock().gone(node);
                waiting.into_iter().for_each(|key| queue.add(key));
            }
        })
        .workers(workers);
    let nodes = context.informers.store::<Node>();
    let occupying = Loop::once(context).reads::<Node>().reconciler(Occupying {
        nodes: nodes.clone(),
        allocator: allocator.clone(),
    });
    let assigning = assigning.reconciler(NodeIpam {
        context: context.clone(),
        nodes,
        allocator,
        queue,
    });
    Runnable::from(assigning).prepared_by(occupying)
}

/// Do both have the same ranges?
fn has_the_same(old: &Node, new: &Node) -> bool {
    !new.spec.pod_cidrs.is_empty() && old.spec.pod_cidrs == new.spec.pod_cidrs
}

/// Finds out which ranges are taken, before the first is given out.
struct Occupying {
    nodes: Arc<Store<Node>>,
    allocator: Arc<Mutex<Allocator>>,
}

impl Reconcile<Tick> for Occupying {
    async fn reconcile(&self, _: &Tick, _: &Report<'_>) -> Result<Next, Error> {
        for node in self.nodes.list() {
            if let Err(refusal) = self.allocator.lock().occupy(&node) {
                warn!(%refusal, "a node has a range that is not ours to give");
            }
        }
        Ok(Next::AwaitChange)
    }
}

struct NodeIpam {
    context: Context,
    nodes: Arc<Store<Node>>,
    allocator: Arc<Mutex<Allocator>>,
    queue: Arc<runtime::Queue>,
}

impl Reconcile for NodeIpam {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let Some(node) = self.nodes.get(key) else {
            return Ok(Next::AwaitChange);
        };
        if node.metadata.is_terminating() {
            return Ok(Next::AwaitChange);
        }
        let step = self.allocator.lock().assign(&node);
        let cidrs = match step {
            Ok(Step::Nothing) => return Ok(Next::AwaitChange),
            Ok(Step::Write(cidrs)) => cidrs,
            Err(refusal) => return self.refuse(&node, refusal, report),
        };
        let texts: Vec<String> = cidrs.iter().map(Cidr::to_string).collect();
        let what = format!("gives it the range {} for its pods", texts.join(" and "));
        report.decide(ObjectId::of(&*node), [Line::acts("AssignsRange", what)]);
        match self.write(&node, &texts).await {
            Ok(()) => Ok(Next::After(LOOK_AGAIN)),
            Err(error) => {
                self.emit(&node, "CIDRAssignmentFailed");
                // Of a request that was not answered nobody knows what became: the ranges stay reserved for the node.
                if !error.is_transport() && !error.is_timeout() {
                    let waiting = self.allocator.lock().refused(key);
                    waiting.into_iter().for_each(|key| self.queue.add(key));
                }
                Err(error.into())
            }
        }
    }
}

impl NodeIpam {
    /// Nothing can be given to the node, or what it has is not ours.
    fn refuse(&self, node: &Node, refusal: Refusal, report: &Report<'_>) -> Result<Next, Error> {
        let about = ObjectId::of(node);
        if let Refusal::Exhausted { .. } = &refusal {
            let line = Line::waits(reasons::EXHAUSTED, "waits for a range for its pods")
                .because("all ranges of --cluster-cidr are taken")
                .hint("delete nodes that are gone, or restart with a larger --cluster-cidr");
            report.decide(about, [line]);
            self.emit(node, "CIDRNotAvailable");
            return Err(Error::Retry(refusal.to_string()));
        }
        let line = Line::states(
            "ForeignRange",
            "has a range that this cluster does not give out",
        );
        report.decide(about, [line.because(refusal.to_string())]);
        Err(Error::Terminal(refusal.to_string()))
    }

    /// For this very node: the ranges of one that is gone may be another's before its namesake would get them.
    async fn write(&self, node: &Node, cidrs: &[String]) -> Result<(), client::Error> {
        let meta = &node.metadata;
        let spec = json!({"podCIDR": cidrs.first(), "podCIDRs": cidrs});
        let patch = json!({"metadata": {"uid": meta.uid}, "spec": spec});
        let patch = Patch::Strategic(patch.to_string().into());
        let client = &self.context.client;
        let mut last = Ok(());
        for _ in 0..TRIES {
            let written = client
                .patch(&Node::TYPE, "", &meta.name, None, &patch)
                .await;
            match written {
                Ok(_) => return Ok(()),
                // It is gone, or another has its name.
                Err(error) if error.is_not_found() || error.is_conflict() => return Err(error),
                Err(error) => last = Err(error),
            }
        }
        last
    }

    /// In the words that all of upstream's node controllers use.
    fn emit(&self, node: &Node, status: &'static str) {
        let message = format!("Node {} status is now: {status}", node.metadata.name);
        let about = ObjectRef::of(node);
        let recorder = &self.context.recorder;
        recorder.event(&about, EventType::Normal, status, message);
    }
}
