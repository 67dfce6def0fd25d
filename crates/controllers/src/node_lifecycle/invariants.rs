//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use std::sync::Arc;

use api::conditions::ConditionStatus;
use api::kinds::{Node, Pod};
use api::taints::{Taint, TaintEffect};

use super::DESCRIPTOR;
use super::taints::{self, NOT_READY, UNREACHABLE};
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct NodeLifecycleOracle;

impl Oracle for NodeLifecycleOracle {
    fn after_write(&self, _world: &World, change: &Change) -> Verdict {
        let is_node = change.updated::<Node>().is_some();
        // It says of the pods of a node that they are not ready.
        let is_pod = change.updated::<Pod>().is_some();
        match is_node || is_pod {
            true => Ok(()),
            false => no_business(DESCRIPTOR.name, change),
        }
    }

    fn after_any_write(&self, _world: &World, change: &Change) -> Verdict {
        match change.updated::<Node>() {
            Some((before, after)) => safe(&before, &after),
            None => Ok(()),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        // In the end every kubelet posts its status.
        converged(&world.store::<Node>().list(), |_| true)
    }
}

/// Every node says what is known of it and carries the taints that go with that. `heard` is whether a node gave a
/// sign of life lately.
pub fn converged(nodes: &[Arc<Node>], heard: impl Fn(&Node) -> bool) -> Result<(), String> {
    let anybody_ready = nodes
        .iter()
        .any(|node| node.ready().is_some_and(|ready| ready.is_true()));
    for node in nodes {
        let name = &node.metadata.name;
        let change = taints::scheduling(node);
        if !change.is_empty() {
            return Err(format!(
                "node {name} lacks what the controller does: {change}"
            ));
        }
        let Some(ready) = node.ready() else {
            continue;
        };
        if !heard(node) && ready.status != ConditionStatus::Unknown {
            return Err(format!(
                "node {name} is silent and still says Ready={}",
                ready.status
            ));
        }
        let change = match taints::eviction(&ready.status) {
            // Where nobody is ready, nobody is driven away.
            Some(change) if anybody_ready => change,
            Some(_) => continue,
            None => taints::REACHABLE.clone(),
        };
        if change
            .applied(&node.spec.taints, Default::default())
            .is_some()
        {
            return Err(format!(
                "node {name} lacks what the controller does: {change}"
            ));
        }
    }
    Ok(())
}

/// What a write of this controller may do to a node: `before` is the node as it was. Nobody is tainted who is
/// ready, nobody is both unreachable and not ready, and nobody else's taint is touched.
pub fn safe(before: &Node, after: &Node) -> Result<(), String> {
    let name = &before.metadata.name;
    let drives = |taint: &&Taint| {
        taint.effect == TaintEffect::NoExecute
            && (taint.key == NOT_READY || taint.key == UNREACHABLE)
    };
    let gained = |taint: &&Taint| !taints::has(&before.spec.taints, taint);
    let mut new = after.spec.taints.iter().filter(drives).filter(gained);
    if let Some(taint) = new.next() {
        if before.ready().is_some_and(|ready| ready.is_true()) {
            return Err(format!("node {name} is ready and got the taint {taint}"));
        }
        if after.spec.taints.iter().filter(drives).count() > 1 {
            return Err(format!("node {name} is both not ready and unreachable"));
        }
    }
    let foreign = |taint: &&Taint| !taint.key.starts_with("node.kubernetes.io/");
    let mut others = before.spec.taints.iter().filter(foreign);
    match others.find(|taint| !taints::has(&after.spec.taints, taint)) {
        Some(taint) => Err(format!(
            "node {name} lost the taint {taint}, which is somebody else's"
        )),
        None => Ok(()),
    }
}
