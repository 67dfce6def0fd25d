//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use api::kinds::Node;

use super::{DESCRIPTOR, select_step, wanted};
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct TtlOracle;

impl Oracle for TtlOracle {
    fn after_write(&self, _world: &World, change: &Change) -> Verdict {
        match change.updated::<Node>() {
            Some((before, after)) => safe(&before, &after),
            None => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let nodes = world.store::<Node>().list();
        let step = select_step(0, nodes.len());
        nodes.iter().try_for_each(|node| converged(node, step))
    }
}

/// The node carries the annotation that suits; `step` is the one that the number of nodes has led to.
pub fn converged(node: &Node, step: usize) -> Result<(), String> {
    match wanted(node, step) {
        Some(seconds) => Err(format!(
            "node {} should say that secrets may be kept for {seconds} s",
            node.metadata.name
        )),
        None => Ok(()),
    }
}

/// Nothing of a node changes but that annotation.
pub fn safe(before: &Node, after: &Node) -> Result<(), String> {
    let mut expected = before.clone();
    expected.metadata.annotations = after.metadata.annotations.clone();
    expected.metadata.resource_version = after.metadata.resource_version;
    match expected == *after {
        true => Ok(()),
        false => Err(format!(
            "more than an annotation of node {} was changed",
            after.metadata.name
        )),
    }
}
