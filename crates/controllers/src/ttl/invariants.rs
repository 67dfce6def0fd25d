//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use api::kinds::Node;

use super::wanted;

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
