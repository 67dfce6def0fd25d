//! Nodes whose kubelet stops posting status: what becomes of them and of their pods. Plain `Reconcile`s
//! that share a memory.
//!
//! **Converges**: a node that has given no sign of life for longer than its grace period says so in its
//! conditions; a node carries the `NoSchedule` taints that its conditions and `spec.unschedulable` ask for;
//! a node that is down carries `not-ready:NoExecute` or `unreachable:NoExecute`, as fast as the rate of its
//! zone allows; a node that is ready carries neither; old names of labels say what the new ones say.
//!
//! **Triggers**: time, every `--node-monitor-period`, for the health of all nodes; any change of a node, for its
//! taints and labels; a pod that is bound to a node; a zone whose rate limit allows another taint.
//!
//! **Writes**: patches conditions, taints and labels of nodes; sets `Ready` of the pods of a node that went down
//! to false; emits `RegisteredNode`, `RemovingNode` and `NodeNotReady`. Driving pods away is the taint eviction
//! controller's business.
//!
//! **Mirrors** `pkg/controller/nodelifecycle`. What was seen when is this process's memory alone: after a restart
//! every node has its whole grace period again, and taints that drive pods away are taken off and put on anew.
//! There are four loops as there: [`monitor`] for health, [`tainter`] for taints that drive pods away, and one each for nodes and pods.
//!
//! **Deliberate differences**: a node's taints come and go in one patch instead of up to four requests each, made
//! from the cache and guarded by its resource version; a node that waits for its taint keeps its place; a write
//! that fails is tried again instead of waiting for the next change of the node; a pod is marked not ready by a
//! patch of that condition; a node that is ready by the time that a conflict is resolved is not tainted as down.

mod actions;
mod health;
mod invariants;
mod metrics;
mod monitor;
mod tainter;
mod taints;
mod waiting;
mod writes;
mod zones;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::decision::Line;
use api::kinds::{Lease, Node, Pod};
use api::{Clock, Gate, Key, MicroTime, ObjectId, Resource, Uid};
use parking_lot::{Mutex, MutexGuard};
use runtime::controller::Tick;
use runtime::rate_limit::Backoff;
use runtime::{
    Change, Context, Controller, Error, Loop, Next, Queue, Reconcile, Report, Runnable, Store,
};

use crate::oracle::View;
use crate::workload::on_node::by_node;
use crate::{Config, Descriptor, taint_eviction};

pub use health::{Health, Patience, Seen, UnknownCondition, health_of};
pub use invariants::{NodeLifecycleOracle, converged, safe};
pub use zones::Rates;

use metrics::LifecycleMetrics;
use waiting::Waiting;
use zones::{State, Zones};

pub const DESCRIPTOR: Descriptor = Descriptor {
    component: "node-controller",
    caches: &[View::of::<Node>(), View::of::<Pod>(), View::of::<Lease>()],
    decides_about: &[Node::TYPE],
    queues: &[
        "node_lifecycle_controller",
        "node_lifecycle_controller_pods",
    ],
    metrics: &["node_collector_"],
    build: Some(|ctx| {
        let loops = controller(ctx, Settings::of(ctx.config));
        let mut loops = loops.into_runnables();
        // UPSTREAM: where the gate is off, which only older versions allow, evicting is part of this one.
        if !ctx.gates.enabled(Gate::SeparateTaintEvictionController) {
            loops.push(taint_eviction::controller(ctx).into());
        }
        Some(Runnable::together(ctx.controller, loops))
    }),
    oracle: Some(|| Box::<NodeLifecycleOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "node-lifecycle-controller",
        "nodelifecycle",
        "node-controller",
    )
};

/// UPSTREAM: eight workers for nodes and four for pods, without flags.
const NODE_WORKERS: usize = 8;
const POD_WORKERS: usize = 4;

/// Where kubelets keep their leases.
const LEASES: &str = "kube-node-lease";

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// `--node-monitor-period`
    pub period: Duration,
    pub patience: Patience,
    pub rates: Rates,
}

impl Settings {
    fn of(config: &Config) -> Settings {
        let lifecycle = &config.node_lifecycle_controller;
        Settings {
            period: config.kube_cloud_shared.node_monitor_period.to_std(),
            patience: Patience {
                monitor: lifecycle.monitor_grace_period.to_std(),
                startup: lifecycle.startup_grace_period.to_std(),
            },
            rates: Rates {
                usual: lifecycle.eviction_rate,
                secondary: lifecycle.secondary_eviction_rate,
                large_zone: lifecycle.large_cluster_size_threshold,
                unhealthy_share: lifecycle.unhealthy_zone_threshold,
            },
        }
    }
}

/// The loops of this controller: they run together.
pub struct Loops {
    /// Taints and labels of nodes; upstream's queue `node_lifecycle_controller`.
    pub nodes: Controller,
    /// Pods that came to a node that is down; upstream's queue `node_lifecycle_controller_pods`.
    pub pods: Controller,
    /// The health of all nodes, every monitor period.
    pub monitor: Controller<Tick>,
    /// One key for each zone that has nodes waiting for their taint.
    pub tainter: Controller,
}

impl Loops {
    pub fn into_runnables(self) -> Vec<Runnable> {
        vec![
            self.nodes.into(),
            self.pods.into(),
            self.monitor.into(),
            self.tainter.into(),
        ]
    }
}

pub(crate) struct Lifecycle {
    context: Context,
    /// Starts at the time of day and is never set: what we remember is measured by it.
    steady: Clock,
    settings: Settings,
    nodes: Arc<Store<Node>>,
    pods: Arc<Store<Pod>>,
    leases: Arc<Store<Lease>>,
    zones_to_taint: Arc<Queue>,
    memory: Mutex<Memory>,
    metrics: LifecycleMetrics,
}

/// What this process has seen; another one starts without it.
#[derive(Default)]
struct Memory {
    /// Nodes that the last check found, by name.
    known: BTreeMap<Arc<str>, Uid>,
    seen: BTreeMap<Arc<str>, Seen>,
    /// Nodes that went down while their pods could not be marked.
    unmarked: BTreeSet<Arc<str>>,
    zones: Zones<Zone>,
}

struct Zone {
    state: State,
    waiting: Waiting,
}

pub fn controller(context: &Context, settings: Settings) -> Loops {
    let informers = &context.informers;
    informers.of::<Pod>().add_index(&by_node());
    let of_nodes = Loop::on::<Key>(context, Backoff::DEFAULT)
        .queue("node_lifecycle_controller")
        .watches::<Node>(|change, queue| {
            if !matches!(change, Change::Deleted(_)) {
                queue.add(change.object().key());
            }
        })
        .workers(NODE_WORKERS);
    let nodes = informers.store::<Node>();
    let of_pods = Loop::on::<Key>(context, Backoff::DEFAULT)
        .queue("node_lifecycle_controller_pods")
        .watches::<Pod>(move |change, queue| enqueue_unready(&change, &nodes, queue))
        .workers(POD_WORKERS);
    let period = settings.period.max(SHORTEST_PERIOD);
    let monitor = Loop::every(context, period, Duration::ZERO);
    let tainter = Loop::on::<Key>(context, Backoff::DEFAULT);
    let lifecycle = Arc::new(Lifecycle {
        steady: runtime::clock::steady(&context.clock),
        metrics: LifecycleMetrics::new(&context.metrics),
        context: context.clone(),
        settings,
        nodes: informers.store::<Node>(),
        pods: informers.store::<Pod>(),
        leases: informers.store::<Lease>(),
        zones_to_taint: tainter.handle(),
        memory: Mutex::default(),
    });
    fn reading_all<K: runtime::controller::LoopKey>(part: Loop<(), K>) -> Loop<(), K> {
        part.reads::<Node>().reads::<Pod>().reads::<Lease>()
    }
    Loops {
        nodes: reading_all(of_nodes).reconciler(Nodes(lifecycle.clone())),
        pods: reading_all(of_pods).reconciler(Pods(lifecycle.clone())),
        monitor: reading_all(monitor).reconciler(Monitor(lifecycle.clone())),
        tainter: reading_all(tainter).reconciler(Tainter(lifecycle)),
    }
}

/// Enqueues pods that come to a node which is not ready.
fn enqueue_unready(change: &Change<'_, Pod>, nodes: &Store<Node>, queue: &Queue) {
    let pod = match change {
        Change::Added(pod) => pod,
        Change::Updated { old, new } if old.node_name != new.node_name => new,
        _ => return,
    };
    let is_ready = |node: Arc<Node>| node.ready().is_some_and(|ready| ready.is_true());
    if !pod.node_name.is_empty() && !nodes.find("", &pod.node_name).is_some_and(is_ready) {
        queue.add(pod.key());
    }
}

struct Nodes(Arc<Lifecycle>);
struct Pods(Arc<Lifecycle>);
struct Monitor(Arc<Lifecycle>);
struct Tainter(Arc<Lifecycle>);

impl Reconcile for Nodes {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        self.0.sync_node(key, report).await
    }
}

impl Reconcile for Pods {
    async fn reconcile(&self, key: &Key, _: &Report<'_>) -> Result<Next, Error> {
        self.0.sync_pod(key).await
    }
}

impl Reconcile<Tick> for Monitor {
    async fn reconcile(&self, _: &Tick, report: &Report<'_>) -> Result<Next, Error> {
        self.0.monitor_node_health(report).await;
        Ok(Next::AwaitChange)
    }
}

impl Reconcile for Tainter {
    async fn reconcile(&self, zone: &Key, report: &Report<'_>) -> Result<Next, Error> {
        Ok(self.0.taint_next(&zone.name, report).await)
    }
}

/// No flag makes the monitor a busy loop.
const SHORTEST_PERIOD: Duration = Duration::from_millis(10);

impl Lifecycle {
    /// Gives a node the taints and labels that its conditions and labels ask for.
    async fn sync_node(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let Some(node) = self.nodes.get(key) else {
            return Ok(Next::AwaitChange);
        };
        let (change, labels) = (
            taints::scheduling(&node),
            taints::labels(&node.metadata.labels),
        );
        if change.is_empty() && labels.is_empty() {
            return Ok(Next::AwaitChange);
        }
        let tainted = (!change.is_empty()).then(|| change.line("its conditions ask for it"));
        let labelled = labels.iter().map(|(label, value)| {
            let what = format!("labels it {label}={value}");
            Line::acts("Labels", what).because("the new name of that label says so")
        });
        let lines = tainted.into_iter().chain(labelled);
        report.decide(ObjectId::of(&*node), lines);
        match self.edit(node, writes::scheduling_patch).await {
            // It is gone, and so is what was wrong with it.
            Err(error) if error.is_not_found() => Ok(Next::AwaitChange),
            other => Ok(other.map(|_| Next::AwaitChange)?),
        }
    }

    /// A pod that comes to a node which is down is as unready as those that were there before.
    async fn sync_pod(&self, key: &Key) -> Result<Next, Error> {
        let Some(pod) = self.pods.get(key) else {
            return Ok(Next::AwaitChange);
        };
        let is_down = {
            let memory = self.memory();
            let ready = memory
                .seen
                .get(&*pod.node_name)
                .and_then(|seen| seen.ready.as_ref());
            // A node that nobody has looked at yet takes care of its pods at the first check.
            ready.is_some_and(|ready| *ready != api::conditions::ConditionStatus::True)
        };
        if is_down && self.nodes.find("", &pod.node_name).is_some() {
            self.mark_pods_unready([pod]).await?;
        }
        Ok(Next::AwaitChange)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock()
    }
}

impl Memory {
    /// Whether these are the nodes of the last sync, in zones that are known.
    fn knows(&self, nodes: &[Arc<Node>]) -> bool {
        let is_known = |node: &Arc<Node>| {
            let meta = &node.metadata;
            self.known.get(&meta.name) == Some(&meta.uid)
                && self.zones.contains_key(&taints::zone(node))
        };
        nodes.len() == self.known.len() && nodes.iter().all(is_known)
    }

    /// The zone of that name, which is new if nobody has seen it before.
    fn zone(&mut self, name: &str, rates: &Rates, now: MicroTime) -> &mut Zone {
        self.zones.entry(name.to_owned()).or_insert_with(|| Zone {
            state: State::Initial,
            waiting: Waiting::new(rates.usual, now),
        })
    }
}
