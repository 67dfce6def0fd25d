//! What must hold once nothing changes any more.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::kinds::{Node, Pod};

use super::plan::plan;

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
