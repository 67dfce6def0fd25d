//! Nodes that fall silent: what becomes of them and of their pods.
//!
//! **Converges**: a node that has given no sign of life for longer than its grace period says so in its
//! conditions; a node carries the `NoSchedule` taints that its conditions and `spec.unschedulable` ask for;
//! a node that is down carries `not-ready:NoExecute` or `unreachable:NoExecute`, as fast as the rate of its
//! zone allows; a node that is ready carries neither; old names of labels say what the new ones say.
//!
//! **Woken by**: time, every `--node-monitor-period`, for the health of all nodes; any change of a node, for its
//! taints and labels; a pod that is bound to a node; a node's turn to be tainted.
//!
//! **Writes**: patches conditions, taints and labels of nodes; sets `Ready` of the pods of a node that went down
//! to false; emits `RegisteredNode`, `RemovingNode` and `NodeNotReady`. Driving pods away is the taint eviction
//! controller's business.
//!
//! **Mirrors** `pkg/controller/nodelifecycle`. What was seen when is this process's memory alone: after a restart
//! every node has its whole grace period again, and taints that drive pods away are taken off and put on anew.
//! There are four loops as there: [`monitor`] for health, [`tainter`] for turns, and one each for nodes and pods.
//!
//! **Deliberate differences**: a node's taints come and go in one patch instead of up to four requests each, made
//! from the cache and guarded by its resource version; a node that waits for its taint keeps its place; a write
//! that fails is tried again instead of waiting for the next change of the node; a pod is marked not ready by a
//! patch of that condition.

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

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::kinds::{Lease, Node, Pod};
use api::{Clock, Key, MicroTime, Resource, Uid};
use futures_util::future::BoxFuture;
use runtime::controller::Controller;
use runtime::rate_limit::Backoff;
use runtime::{Change, Error, Informer, Informers, Next, Queue, Reconcile, Store};

use crate::Tools;
use crate::workload::on_node::by_node;

pub use health::{Look, Patience, Seen, Silenced, look};
pub use invariants::{converged, safe};
pub use zones::Rates;

use metrics::LifecycleMetrics;
use waiting::Waiting;
use zones::{State, Zones};

/// The name in `--controllers`.
pub const NAME: &str = "node-lifecycle-controller";

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

/// The loops of this controller: they run together.
pub struct Loops {
    /// Taints and labels of nodes; upstream's queue `node_lifecycle_controller`.
    pub nodes: Controller,
    /// Pods that came to a node that is down; upstream's queue `node_lifecycle_controller_pods`.
    pub pods: Controller,
    /// The health of all nodes, in the rhythm of the monitor period.
    pub monitor: Controller,
    /// One key for each zone that has nodes waiting for their taint.
    pub tainter: Controller,
}

pub(crate) struct Lifecycle {
    tools: Tools,
    /// Starts at the time of day and is never set: what we remember is measured by it.
    steady: Clock,
    settings: Settings,
    nodes: Arc<Store<Node>>,
    pods: Arc<Store<Pod>>,
    leases: Arc<Store<Lease>>,
    turns: Arc<Queue>,
    memory: Mutex<Memory>,
    metrics: LifecycleMetrics,
}

/// What this process has seen; another one starts without it.
#[derive(Default)]
struct Memory {
    /// Nodes that the last look found, by name.
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

pub fn controller(informers: &Informers, tools: Tools, settings: Settings) -> Loops {
    let (nodes, pods, leases) = (
        informers.of::<Node>(),
        informers.of::<Pod>(),
        informers.of::<Lease>(),
    );
    pods.add_index(&by_node());
    let queue = || Arc::new(Queue::new(Backoff::DEFAULT));
    let (of_nodes, of_pods, rounds, turns) = (queue(), queue(), queue(), queue());
    {
        let queue = of_nodes.clone();
        nodes.on_change(move |change| {
            if !matches!(change, Change::Deleted(_)) {
                queue.add(change.object().key());
            }
        });
    }
    watch_bindings(&pods, nodes.store().clone(), of_pods.clone());
    // There is one round, and the first is due at once.
    rounds.add(Key::new("", "health"));
    let shared = Arc::new(Lifecycle {
        steady: runtime::clock::steady(&tools.clock),
        metrics: LifecycleMetrics::new(&tools.metrics),
        tools,
        settings,
        nodes: nodes.store().clone(),
        pods: pods.store().clone(),
        leases: leases.store().clone(),
        turns: turns.clone(),
        memory: Mutex::default(),
    });
    let waits_for = || vec![nodes.synced(), pods.synced(), leases.synced()];
    let part = |queue, workers, reconciler| Controller {
        name: NAME,
        queue,
        workers,
        retries_max: None,
        waits_for: waits_for(),
        metrics: None,
        reconciler,
    };
    let of = |task| {
        Arc::new(Loop {
            task,
            shared: shared.clone(),
        })
    };
    Loops {
        nodes: part(of_nodes, NODE_WORKERS, of(Task::Node)),
        pods: part(of_pods, POD_WORKERS, of(Task::Pod)),
        monitor: part(rounds, 1, of(Task::Monitor)),
        tainter: part(turns, 1, of(Task::Turn)),
    }
}

/// Wakes pods that come to a node which is not ready.
fn watch_bindings(pods: &Informer<Pod>, nodes: Arc<Store<Node>>, queue: Arc<Queue>) {
    pods.on_change(move |change| {
        let pod = match change {
            Change::Added(pod) => pod,
            Change::Updated { old, new } if old.node_name != new.node_name => new,
            _ => return,
        };
        let is_ready = |node: Arc<Node>| node.ready().is_some_and(|ready| ready.is_true());
        if !pod.node_name.is_empty() && !nodes.find("", &pod.node_name).is_some_and(is_ready) {
            queue.add(pod.key());
        }
    });
}

struct Loop {
    task: Task,
    shared: Arc<Lifecycle>,
}

#[derive(Clone, Copy)]
enum Task {
    Node,
    Pod,
    Monitor,
    Turn,
}

impl Reconcile for Loop {
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, Error>> {
        let shared = &self.shared;
        match self.task {
            Task::Node => Box::pin(shared.sync_node(key)),
            Task::Pod => Box::pin(shared.sync_pod(key)),
            Task::Monitor => Box::pin(async {
                shared.look_at_all().await;
                Ok(Next::After(shared.settings.period.max(SHORTEST_PERIOD)))
            }),
            Task::Turn => Box::pin(async { Ok(shared.take_turns(&key.name).await) }),
        }
    }
}

/// No flag makes the monitor a busy loop.
const SHORTEST_PERIOD: Duration = Duration::from_millis(10);

impl Lifecycle {
    /// Gives a node the taints and labels that its conditions and labels ask for.
    async fn sync_node(&self, key: &Key) -> Result<Next, Error> {
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
        let said = (!change.is_empty()).then(|| change.to_string());
        let labelled = labels
            .iter()
            .map(|(label, value)| format!("labels it {label}={value}"));
        self.tell(key, said.into_iter().chain(labelled));
        match self.edit(node, writes::scheduling_patch).await {
            // It is gone, and so is its trouble.
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
            // A node that nobody has looked at yet takes care of its pods at the first look.
            ready.is_some_and(|ready| *ready != api::conditions::ConditionStatus::True)
        };
        if is_down && self.nodes.find("", &pod.node_name).is_some() {
            self.mark_pods_unready([pod]).await?;
        }
        Ok(Next::AwaitChange)
    }

    fn tell(&self, node: &Key, lines: impl Iterator<Item = String>) {
        let now = self.tools.clock.now();
        self.tools.decisions.record(NAME, node, now, lines);
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock()
    }
}

impl Memory {
    /// Whether these are the nodes of the last round, in zones that are known.
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
