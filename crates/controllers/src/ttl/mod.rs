//! How long kubelets may keep secrets and config maps, by the size of the cluster.
//!
//! **Converges**: every node carries the annotation `node.alpha.kubernetes.io/ttl` with the seconds
//! that suit the number of nodes.
//!
//! **Woken by**: any change of a node.
//!
//! **Writes**: patches that annotation.
//!
//! **Mirrors** `pkg/controller/ttl`. The boundaries overlap, so that a cluster that grows and shrinks
//! around one does not flap.

mod invariants;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use api::kinds::Node;
use api::{Key, Resource};
use client::Patch;
use futures_util::future::BoxFuture;
use runtime::controller::Controller;
use runtime::rate_limit::Backoff;
use runtime::{Change, Error, Informers, Next, Queue, Reconcile, Store, mutation};
use serde_json::json;

use crate::Tools;

pub use invariants::{converged, safe};

/// The name in `--controllers`.
pub const NAME: &str = "ttl-controller";

const ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

/// Least and most nodes of each step, and the seconds that go with it. Upstream's numbers.
const STEPS: [(usize, usize, u32); 5] = [
    (0, 100, 0),
    (90, 500, 15),
    (450, 1000, 30),
    (900, 2000, 60),
    (1800, usize::MAX, 300),
];

pub struct TtlController {
    tools: Tools,
    nodes: Arc<Store<Node>>,
    step: Arc<AtomicUsize>,
}

pub fn controller(informers: &Informers, tools: Tools, workers: usize) -> Controller {
    let informer = informers.of::<Node>();
    let queue = Arc::new(Queue::new(Backoff::DEFAULT));
    let step = Arc::new(AtomicUsize::new(0));
    {
        let (queue, step, nodes) = (queue.clone(), step.clone(), informer.store().clone());
        informer.on_change(move |change| {
            let settled = settle(step.load(Ordering::Relaxed), nodes.len());
            step.store(settled, Ordering::Relaxed);
            if !matches!(change, Change::Deleted(_)) {
                queue.add(change.object().key());
            }
        });
    }
    Controller {
        name: NAME,
        queue,
        workers,
        retries_max: None,
        waits_for: vec![informer.synced()],
        metrics: None,
        reconciler: Arc::new(TtlController {
            tools,
            nodes: informer.store().clone(),
            step,
        }),
    }
}

/// The step for so many nodes, coming from another.
pub fn settle(step: usize, nodes: usize) -> usize {
    let next = next_step(step, nodes);
    if next == step {
        step
    } else {
        settle(next, nodes)
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

impl Reconcile for TtlController {
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, Error>> {
        Box::pin(self.sync(key))
    }
}

impl TtlController {
    async fn sync(&self, key: &Key) -> Result<Next, Error> {
        let Some(node) = self.nodes.get(key) else {
            return Ok(Next::AwaitChange);
        };
        let is_foreign = node.metadata.annotation(ANNOTATION).is_some();
        if is_foreign && mutation::on("keep-foreign-annotations") {
            return Ok(Next::AwaitChange);
        }
        let Some(seconds) = wanted(&node, self.step.load(Ordering::Relaxed)) else {
            return Ok(Next::AwaitChange);
        };
        let line = format!("may keep secrets for {seconds} s, by the size of the cluster");
        let now = self.tools.clock.now();
        self.tools
            .decisions
            .record(NAME, key, now, [line].into_iter());
        let patch = json!({"metadata": {"annotations": {ANNOTATION: seconds.to_string()}}});
        let patch = Patch::Strategic(patch.to_string().into());
        let client = &self.tools.client;
        client
            .patch(&Node::TYPE, "", &key.name, None, &patch)
            .await?;
        Ok(Next::AwaitChange)
    }
}
