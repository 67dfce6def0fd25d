//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use std::collections::BTreeSet;
use std::sync::Arc;

use api::kinds::{Node, Pod};

use super::DESCRIPTOR;
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

/// Nothing is left to collect, if every node that is missing has been missing for long. Reckoned apart from the plan.
pub fn converged(pods: &[Arc<Pod>], nodes: &[Arc<Node>], threshold: usize) -> Result<(), String> {
    let known: BTreeSet<&str> = nodes.iter().map(|node| &*node.metadata.name).collect();
    for pod in pods {
        let key = pod.metadata.key();
        match &*pod.node_name {
            "" if pod.metadata.is_terminating() => {
                return Err(format!(
                    "{key} should be gone: it is being deleted and was never scheduled"
                ));
            }
            "" => {}
            node if !known.contains(node) => {
                return Err(format!(
                    "{key} should be gone: its node {node} does not exist"
                ));
            }
            _ => {}
        }
    }
    let finished = pods.iter().filter(|pod| pod.is_finished()).count();
    match threshold > 0 && finished > threshold {
        true => Err(format!(
            "{finished} finished pods are kept, at most {threshold} should be"
        )),
        false => Ok(()),
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
