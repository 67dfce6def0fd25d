//! What must hold: always ([`created_alone`]), always but for adopted pods ([`safe`]), and once nothing changes any more
//! ([`converged`], [`reported()`], [`history_bounded`]).

mod placement;
mod reported;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::int_or_string::IntOrString;
use api::kinds::{ControllerRevision, DaemonSet, Node, Phase, Pod};
use api::{Gates, Key, LabelSet, MicroTime, Resource, Uid};

use super::DESCRIPTOR;
use crate::oracle::{
    Change, Losses, Oracle, Verdict, World, adopted, deletes_only_its_own, end_state_line, released,
};
use placement::{Fit, fit};
pub use reported::{counts_in_time, reported};

const AVAILABLE: &str = "no pod of a DaemonSet counts as available before its time";

#[derive(Default)]
pub struct DaemonSetOracle {
    /// When labels or taints of a node last changed, or a node came or went.
    nodes_changed_at: MicroTime,
    /// When the controller last had a reason of its own to look at each set: it or one of its pods changed.
    enqueued_at: BTreeMap<Uid, MicroTime>,
    losses: Losses,
}

impl Oracle for DaemonSetOracle {
    fn observe(&mut self, world: &World, change: &Change) {
        self.losses.observe(world, change);
        let (before, after) = (change.before::<Node>(), change.after::<Node>());
        if before.is_some() || after.is_some() {
            let told = |node: &Node| (node.metadata.labels.clone(), node.spec.taints.clone());
            if before.as_deref().map(told) != after.as_deref().map(told) {
                self.nodes_changed_at = world.now();
            }
            return;
        }
        let (before, after) = (change.before::<Pod>(), change.after::<Pod>());
        let is_told = before.as_deref().map(counts_as) != after.as_deref().map(counts_as);
        let (pod, set) = (after.or(before).filter(|_| is_told), change.after());
        let owner = pod.as_ref().and_then(|pod| pod.metadata.controller());
        let set = set.map(|set: Arc<DaemonSet>| set.metadata.uid.clone());
        if let Some(uid) = set.or(owner.map(|owner| owner.uid.clone())) {
            self.enqueued_at.insert(uid, world.now());
        }
    }

    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        deletes_only_its_own(DESCRIPTOR.name, &DaemonSet::TYPE.kind, change)?;
        if let Some(set) = change.after::<DaemonSet>() {
            return self.check_available(world, &set);
        }
        let Some(pod) = change.created::<Pod>() else {
            return Ok(());
        };
        let Some(owner) = pod.metadata.controller() else {
            return Ok(());
        };
        let found = world
            .store::<DaemonSet>()
            .find(&pod.metadata.namespace, &owner.name);
        match found {
            Some(set) if world.unacknowledged(&owner.uid) == 0 => {
                created_alone(&set, &world.owned_by(&owner.uid), &pod)
            }
            _ => Ok(()),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let sets = world.store::<DaemonSet>().list();
        sets.iter().try_for_each(|set| check_at_rest(world, set))?;
        released(world, selects_revision)?;
        self.in_time(world)?;
        self.even_if_paused(world)
    }

    fn in_time(&self, world: &World) -> Verdict {
        adopted(world, selects_pod)?;
        adopted(world, selects_revision)
    }

    fn even_if_paused(&self, world: &World) -> Verdict {
        for set in world.store::<DaemonSet>().list() {
            let is_alive = world.is_namespace_alive(&set.metadata.namespace);
            if is_alive && self.has_seen_nodes(world, &set) {
                let seen = Seen::of(world, &set);
                reported(
                    &set,
                    &seen.nodes,
                    &seen.pods,
                    &seen.hash,
                    seen.gates,
                    seen.now,
                )?;
            }
        }
        released(world, selects_pod)
    }

    fn exists(&self, world: &World, key: &Key) -> Option<bool> {
        Some(world.store::<DaemonSet>().get(key).is_some())
    }

    fn end_state(&self, world: &World) -> Vec<String> {
        let line = |set: &Arc<DaemonSet>| {
            let rolls = !set.spec.update_strategy.on_delete;
            let wanted = set.status.desired_number_scheduled;
            end_state_line(world, "daemonset", &set.metadata, wanted, rolls)
        };
        world.store::<DaemonSet>().list().iter().map(line).collect()
    }
}

impl DaemonSetOracle {
    /// The controller wrote the status of a set: does it count nobody too early?
    fn check_available(&self, world: &World, set: &Arc<DaemonSet>) -> Verdict {
        let (pods, sight) = self.losses.counted(world, set);
        let now = world.latest_now();
        world.check(AVAILABLE, sight, || counts_in_time(set, &pods, now))
    }

    /// Has the controller looked at the set since the nodes are as they are?
    ///
    /// UPSTREAM: a node that changes enqueues only sets that have a pod to create or to delete there. One that merely counts
    /// otherwise, because a taint lets its pod stay, says so when it is looked at for another reason.
    fn has_seen_nodes(&self, world: &World, set: &DaemonSet) -> bool {
        let enqueued_at = self.enqueued_at.get(&set.metadata.uid).copied();
        let seen_at = self.nodes_changed_at.plus(world.reaction() + world.delay());
        enqueued_at.is_some_and(|enqueued_at| enqueued_at > seen_at)
    }
}

/// What of a pod its set counts: why a container waits, for one, is nothing that enqueues the controller.
fn counts_as(pod: &Pod) -> (Phase, bool, bool, LabelSet) {
    let meta = &pod.metadata;
    (
        pod.status.phase,
        pod.is_ready(),
        meta.is_terminating(),
        meta.labels.clone(),
    )
}

fn selects_pod(set: &DaemonSet, pod: &Pod) -> bool {
    set.spec.selector.matches(&pod.metadata.labels)
}

fn selects_revision(set: &DaemonSet, held: &ControllerRevision) -> bool {
    set.spec.selector.matches(&held.metadata.labels)
}

/// What there is to see of a set.
struct Seen {
    nodes: Vec<Arc<Node>>,
    pods: Vec<Arc<Pod>>,
    revisions: Vec<Arc<ControllerRevision>>,
    /// Of the newest revision.
    hash: String,
    gates: Gates,
    now: MicroTime,
}

impl Seen {
    fn of(world: &World, set: &DaemonSet) -> Seen {
        let uid = &set.metadata.uid;
        let revisions = world.owned_by::<ControllerRevision>(uid);
        let newest = revisions.iter().max_by_key(|held| held.revision);
        let hash = newest.and_then(|held| held.metadata.labels.get("controller-revision-hash"));
        Seen {
            hash: hash.unwrap_or_default().to_owned(),
            nodes: world.store::<Node>().list(),
            pods: world.owned_by(uid),
            revisions,
            gates: world.run.gates,
            now: world.now(),
        }
    }
}

fn check_at_rest(world: &World, set: &Arc<DaemonSet>) -> Verdict {
    let seen = Seen::of(world, set);
    history_bounded(set, &seen.pods, &seen.revisions)?;
    converged(
        set,
        &seen.nodes,
        &seen.pods,
        &seen.hash,
        seen.gates,
        seen.now,
    )
}

/// Nothing is left to do: one pod on each node that should have one, none that must not be there,
/// all of the current revision unless they are only updated by hand, and a status that says so.
pub fn converged(
    set: &DaemonSet,
    nodes: &[Arc<Node>],
    pods: &[Arc<Pod>],
    hash: &str,
    gates: Gates,
    now: MicroTime,
) -> Result<(), String> {
    let key = set.metadata.key();
    if set.metadata.is_terminating() {
        return Ok(());
    }
    let active = active_by_node(set, pods);
    for node in nodes {
        let name = &*node.metadata.name;
        let (held, fit) = (active.get(name).map_or(0, Vec::len), fit(set, node, gates));
        let is_right = match fit {
            Fit::Runs => held == 1,
            Fit::Stays => held <= 1,
            Fit::Leaves => held == 0,
        };
        if !is_right {
            return Err(format!("{key} has {held} pods on {name}: {fit:?}"));
        }
    }
    reported(set, nodes, pods, hash, gates, now)?;
    let status = &set.status;
    let updated = status.updated_number_scheduled == status.desired_number_scheduled;
    if !updated && !set.spec.update_strategy.on_delete {
        return Err(format!("{key} has pods of old revisions: {status:?}"));
    }
    Ok(())
}

/// Once nothing changes any more no old revision is kept beyond the limit but for those that pods have. `revisions` are
/// those that the set controls.
pub fn history_bounded(
    set: &DaemonSet,
    pods: &[Arc<Pod>],
    revisions: &[Arc<ControllerRevision>],
) -> Result<(), String> {
    let limit = set.spec.revision_history_limit.unwrap_or(10);
    let old = revisions.len().saturating_sub(1);
    let Some(newest) = revisions.iter().max_by_key(|held| held.revision) else {
        return Ok(());
    };
    let is_used = |held: &ControllerRevision| {
        let hash = held.metadata.labels.get("controller-revision-hash");
        let mut pods = pods.iter().map(|pod| &pod.metadata.labels);
        pods.any(|labels| labels.get("controller-revision-hash") == hash)
    };
    let mut others = revisions
        .iter()
        .filter(|held| held.metadata.uid != newest.metadata.uid);
    if old > usize::try_from(limit).unwrap_or(0) && others.any(|held| !is_used(held)) {
        return Err(format!(
            "{} keeps {old} old revisions, of which not all are in use; its limit is {limit}",
            set.metadata.key()
        ));
    }
    Ok(())
}

/// Never two active pods on one node, and with a surge never three.
pub fn safe(set: &DaemonSet, pods: &[Arc<Pod>]) -> Result<(), String> {
    let strategy = &set.spec.update_strategy;
    let surges = match &strategy.max_surge {
        Some(IntOrString::Int(number)) => *number > 0,
        Some(IntOrString::Text(text)) => text.trim_end_matches('%').parse() != Ok(0),
        None => false,
    };
    let most = if surges && !strategy.on_delete { 2 } else { 1 };
    for (node, held) in active_by_node(set, pods) {
        if held.len() > most {
            let names: Vec<&str> = held.iter().map(|pod| &*pod.metadata.name).collect();
            let key = set.metadata.key();
            return Err(format!("{key} has several pods on {node}: {names:?}"));
        }
    }
    Ok(())
}

/// A pod is made on a node that has none yet, or with a surge one: `made` was just created. Pods that were
/// adopted may crowd a node until the controller has deleted all but one: the scheduler places them.
pub fn created_alone(set: &DaemonSet, pods: &[Arc<Pod>], made: &Pod) -> Result<(), String> {
    let prefix = format!("{}-", set.metadata.name);
    let born_here = |pod: &&Arc<Pod>| {
        pod.target_node() == made.target_node() && pod.metadata.name.starts_with(&*prefix)
    };
    let neighbours: Vec<Arc<Pod>> = pods.iter().filter(born_here).cloned().collect();
    safe(set, &neighbours)
}

fn active_by_node<'a>(
    set: &DaemonSet,
    pods: &'a [Arc<Pod>],
) -> BTreeMap<&'a str, Vec<&'a Arc<Pod>>> {
    let mut found: BTreeMap<&str, Vec<&Arc<Pod>>> = BTreeMap::new();
    for pod in pods {
        if !pod.is_active() || !pod.metadata.is_controlled_by(&set.metadata.uid) {
            continue;
        }
        if let Some(node) = pod.target_node() {
            found.entry(node).or_default().push(pod);
        }
    }
    found
}
