//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use std::collections::BTreeMap;

use api::kinds::{Node, Pod};
use api::taints::{TaintEffect, matching_tolerations};
use api::{MicroTime, Uid};

use super::DESCRIPTOR;
use super::plan::{no_execute, shortest};
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

/// Remembers since when each node has driven pods away.
#[derive(Default)]
pub struct TaintEvictionOracle {
    tainted_since: BTreeMap<Uid, MicroTime>,
}

impl Oracle for TaintEvictionOracle {
    fn observe(&mut self, world: &World, change: &Change) {
        if let Some(node) = change.after::<Node>() {
            let uid = &node.metadata.uid;
            match no_execute(&node).is_empty() {
                true => self.tainted_since.remove(uid),
                false => {
                    let held = self.tainted_since.get(uid).copied();
                    self.tainted_since
                        .insert(uid.clone(), held.unwrap_or_else(|| world.now()))
                }
            };
        }
    }

    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        match (change.ending::<Pod>(), change.before::<Pod>()) {
            (Some(pod), _) => {
                let node = world.store::<Node>().find("", &pod.node_name);
                safe(&pod, node.as_deref(), None, world.now(), false)
            }
            // The condition that says why it goes.
            (None, Some(_)) => Ok(()),
            (None, None) => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        for pod in world.store::<Pod>().list() {
            if let Some(node) = world.store::<Node>().find("", &pod.node_name)
                && let Some(since) = self.tainted_since.get(&node.metadata.uid)
            {
                converged(&pod, &node, *since, world.now(), false)?;
            }
        }
        Ok(())
    }
}

/// Nobody is on a node that has driven them away for longer than they tolerate. `tainted_since` is since when the
/// node has had its taints.
pub fn converged(
    pod: &Pod,
    node: &Node,
    tainted_since: MicroTime,
    now: MicroTime,
    comparison_operators: bool,
) -> Result<(), String> {
    if pod.metadata.is_terminating() {
        return Ok(());
    }
    let (taints, tolerations) = (no_execute(node), &pod.body.tolerations);
    let is_over = match matching_tolerations(tolerations, &taints, comparison_operators) {
        None => true,
        Some(used) => shortest(&used).is_some_and(|time| tainted_since.plus(time) < now),
    };
    let (pod, node) = (pod.metadata.key(), &node.metadata.name);
    match is_over && !taints.is_empty() {
        true => Err(format!("{pod} should have left {node} for its taints")),
        false => Ok(()),
    }
}

/// Nobody was driven away who tolerates the taints of their node, nor before their time: `pod` is what the
/// controller deleted. `tainted_since` is since when the node has been tainted without a break, where that is
/// known.
pub fn safe(
    pod: &Pod,
    node: Option<&Node>,
    tainted_since: Option<MicroTime>,
    now: MicroTime,
    comparison_operators: bool,
) -> Result<(), String> {
    // A node that is gone cannot be asked.
    let Some(node) = node else {
        return Ok(());
    };
    let (taints, tolerations) = (no_execute(node), &pod.body.tolerations);
    let (key, name) = (pod.metadata.key(), &node.metadata.name);
    if taints.is_empty() {
        return Err(format!(
            "{key} was driven away from {name}, which has no taint"
        ));
    }
    let Some(used) = matching_tolerations(tolerations, &taints, comparison_operators) else {
        return Ok(());
    };
    if shortest(&used).is_none() {
        return Err(format!(
            "{key} was driven away from {name} although it tolerates its taints"
        ));
    }
    // Another taint may have set its time before this one.
    let drives = tolerations
        .iter()
        .filter(|held| held.effect.is_unset() || held.effect == TaintEffect::NoExecute);
    let least = shortest(&drives.collect::<Vec<_>>()).unwrap_or_default();
    if tainted_since.is_some_and(|since| now < since.plus(least)) {
        return Err(format!("{key} was driven away from {name} before its time"));
    }
    Ok(())
}
