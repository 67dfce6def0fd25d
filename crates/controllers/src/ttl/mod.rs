//! How long kubelets may keep secrets and config maps, by the size of the cluster. A small controller.
//!
//! **Converges**: every node carries the annotation `node.alpha.kubernetes.io/ttl` with the seconds
//! that suit the number of nodes.
//!
//! **Triggers**: any change of a node.
//!
//! **Writes**: patches that annotation.
//!
//! **Mirrors** `pkg/controller/ttl`. The boundaries overlap, so that a cluster that grows and shrinks
//! around one does not flap.

mod actions;
mod invariants;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use api::decision::Line;
use api::kinds::Node;
use api::{Key, ObjectId, Resource};
use client::Patch;
use runtime::rate_limit::Backoff;
use runtime::{Change, Context, Controller, Error, Loop, Next, Reconcile, Report, Store};
use serde_json::json;

use crate::Descriptor;
use crate::oracle::View;

pub use invariants::{TtlOracle, converged, safe};

pub const DESCRIPTOR: Descriptor = Descriptor {
    caches: &[View::of::<Node>()],
    decides_about: &[Node::TYPE],
    queues: &["ttlcontroller"],
    // UPSTREAM: five workers, without a flag.
    build: Some(|ctx| Some(controller(ctx, 5).into())),
    oracle: Some(|| Box::<TtlOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named("ttl-controller", "ttl", "ttl-controller")
};

const ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

/// Least and most nodes of each step, and the seconds that go with it. Upstream's numbers.
const STEPS: [(usize, usize, u32); 5] = [
    (0, 100, 0),
    (90, 500, 15),
    (450, 1000, 30),
    (900, 2000, 60),
    (1800, usize::MAX, 300),
];

pub fn controller(context: &Context, workers: usize) -> Controller {
    let nodes = context.informers.store::<Node>();
    let step = Arc::new(AtomicUsize::new(0));
    let (counted, current) = (nodes.clone(), step.clone());
    Loop::on::<Key>(context, Backoff::DEFAULT)
        .queue("ttlcontroller")
        .watches::<Node>(move |change, queue| {
            let next = select_step(current.load(Ordering::Relaxed), counted.len());
            current.store(next, Ordering::Relaxed);
            if !matches!(change, Change::Deleted(_)) {
                queue.add(change.object().key());
            }
        })
        .workers(workers)
        .reconciler(TtlController {
            context: context.clone(),
            nodes,
            step,
        })
}

pub struct TtlController {
    context: Context,
    nodes: Arc<Store<Node>>,
    step: Arc<AtomicUsize>,
}

impl Reconcile for TtlController {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let Some(node) = self.nodes.get(key) else {
            return Ok(Next::AwaitChange);
        };
        let Some(seconds) = wanted(&node, self.step.load(Ordering::Relaxed)) else {
            return Ok(Next::AwaitChange);
        };
        let what = format!("lets its kubelet cache secrets and config maps for {seconds} s");
        let line = Line::acts("SetsTtl", what).because("that suits the number of nodes");
        report.decide(ObjectId::of(&*node), [line]);
        let patch = json!({"metadata": {"annotations": {ANNOTATION: seconds.to_string()}}});
        let patch = Patch::Strategic(patch.to_string().into());
        let client = &self.context.client;
        client
            .patch(&Node::TYPE, "", &key.name, None, &patch)
            .await?;
        Ok(Next::AwaitChange)
    }
}

/// The step for so many nodes, coming from another.
pub fn select_step(step: usize, nodes: usize) -> usize {
    let next = next_step(step, nodes);
    if next == step {
        step
    } else {
        select_step(next, nodes)
    }
}

fn next_step(step: usize, nodes: usize) -> usize {
    let (least, most, _) = STEPS[step];
    if nodes > most {
        step + 1
    } else if nodes < least {
        step - 1
    } else {
        step
    }
}

/// The annotation that a node should have, if it has another.
pub fn wanted(node: &Node, step: usize) -> Option<u32> {
    let (_, _, seconds) = STEPS[step];
    let held = node.metadata.annotation(ANNOTATION);
    let held: Option<i64> = held.and_then(|text| text.parse().ok());
    (held != Some(seconds.into())).then_some(seconds)
}
