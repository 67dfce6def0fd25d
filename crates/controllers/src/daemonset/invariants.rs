//! What must hold: always ([`born_alone`]), always but for adopted pods ([`safe`]), and once nothing changes any more ([`converged`], [`history_bounded`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use api::kinds::{ControllerRevision, DaemonSet, Node, Pod};
use api::{Gates, Key, MicroTime, Resource};

use super::DESCRIPTOR;
use super::eligibility::Eligibility;
use super::plan::allows_surge;
use super::snapshot::Snapshot;
use super::status::compute;
use crate::oracle::{
    Change, Oracle, Verdict, World, deletes_only_its_own, end_state_line, released,
};

#[derive(Default)]
pub struct DaemonSetOracle;

impl Oracle for DaemonSetOracle {
    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        deletes_only_its_own(DESCRIPTOR.name, &DaemonSet::TYPE.kind, change)?;
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
                born_alone(&set, &world.owned_by(&owner.uid), &pod)
            }
            _ => Ok(()),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let sets = world.store::<DaemonSet>().list();
        sets.iter().try_for_each(|set| check_at_rest(world, set))?;
        self.settled(world)
    }

    fn settled(&self, world: &World) -> Verdict {
        released(world, |set: &DaemonSet, labels| {
            set.spec.selector.matches(labels)
        })
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

fn check_at_rest(world: &World, set: &Arc<DaemonSet>) -> Verdict {
    let uid = &set.metadata.uid;
    let revisions = world.owned_by::<ControllerRevision>(uid);
    let newest = revisions.iter().max_by_key(|held| held.revision);
    let hash = newest.and_then(|held| held.metadata.labels.get("controller-revision-hash"));
    let (nodes, pods) = (world.store::<Node>().list(), world.owned_by::<Pod>(uid));
    history_bounded(set, &pods, &revisions)?;
    let (gates, now) = (world.run.gates, world.now());
    converged(set, &nodes, &pods, hash.unwrap_or_default(), gates, now)
}

/// Nothing is left to do: one pod on each node that should have one, none that must not be there,
/// all of the current revision unless they are only updated by hand, and a status that says so.
pub fn converged(
    set: &Arc<DaemonSet>,
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
    let eligibility = Eligibility::new(set, gates);
    let active = active_by_node(set, pods);
    for node in nodes {
        let verdict = eligibility.verdict(node);
        let name = &*node.metadata.name;
        let held = active.get(name).map_or(0, Vec::len);
        let fits = match (verdict.should_run(), verdict.may_stay()) {
            (true, _) => held == 1,
            (false, true) => held <= 1,
            (false, false) => held == 0,
        };
        if !fits {
            return Err(format!("{key} has {held} pods on {name}: {verdict:?}"));
        }
    }
    let owned: Vec<Arc<Pod>> = pods
        .iter()
        .filter(|pod| pod.metadata.is_controlled_by(&set.metadata.uid))
        .cloned()
        .collect();
    let snapshot = Snapshot::new(set.clone(), nodes.to_vec(), owned, hash, true, gates);
    let status = compute(&snapshot, now);
    if status != set.status {
        return Err(format!(
            "{key}: status says {:?}, the pods say {status:?}",
            set.status
        ));
    }
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
    let most = if allows_surge(set) { 2 } else { 1 };
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
pub fn born_alone(set: &DaemonSet, pods: &[Arc<Pod>], made: &Pod) -> Result<(), String> {
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
