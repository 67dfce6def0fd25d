//! Pods by the node that they are bound to.

use std::sync::Arc;

use api::Istr;
use api::kinds::Pod;
use runtime::{Index, IndexValue, Store};

/// Finds pods by the node that they are bound to.
pub const fn by_node() -> Index<Pod> {
    Index {
        name: "node",
        values: |pod: &Pod, found| {
            if !pod.node_name.is_empty() {
                found(IndexValue::Text(pod.node_name.clone()));
            }
        },
    }
}

/// The pods that are bound to a node. The store needs the index [`by_node`].
pub fn pods_on(pods: &Store<Pod>, node: &str) -> Vec<Arc<Pod>> {
    pods.by(&by_node(), &IndexValue::Text(Istr::new(node)))
}
