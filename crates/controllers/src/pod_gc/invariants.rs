//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use std::collections::BTreeSet;
use std::sync::Arc;

use api::kinds::{Node, Pod};

use super::DESCRIPTOR;
use super::plan::plan;
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct PodGcOracle;

impl Oracle for PodGcOracle {
    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        match (change.ending::<Pod>(), change.before::<Pod>()) {
            (Some(pod), _) => safe(&pod, &world.store::<Node>().list()),
            // Its phase is written before it is deleted, and one that is being deleted is removed by force.
            (None, Some(_)) => Ok(()),
            (None, None) => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let (pods, nodes) = (world.store::<Pod>().list(), world.store::<Node>().list());
        let threshold = world.run.config.pod_gc_controller.terminated_pod_threshold;
        converged(&pods, &nodes, usize::try_from(threshold).unwrap_or(0))
    }
}

/// Nothing is left to collect, if every node that is missing has been missing for long.
pub fn converged(pods: &[Arc<Pod>], nodes: &[Arc<Node>], threshold: usize) -> Result<(), String> {
    let known: BTreeSet<&str> = nodes.iter().map(|node| &*node.metadata.name).collect();
    let gone = pods
        .iter()
        .map(|pod| pod.node_name.clone())
        .filter(|name| !name.is_empty() && !known.contains(&**name))
        .collect();
    match plan(pods, nodes, &gone, threshold).first() {
        Some(one) => Err(format!(
            "{} should be gone: {}",
            one.pod.metadata.key(),
            one.reason
        )),
        None => Ok(()),
    }
}

/// No pod goes that runs on a node which is there: `pod` is what the controller deleted.
pub fn safe(pod: &Pod, nodes: &[Arc<Node>]) -> Result<(), String> {
    let has_node = nodes
        .iter()
        .any(|node| *node.metadata.name == *pod.node_name);
    if has_node && !pod.is_finished() && !pod.metadata.is_terminating() {
        return Err(format!(
            "{} was deleted although it runs on {}, which exists",
            pod.metadata.key(),
            pod.node_name
        ));
    }
    Ok(())
}
