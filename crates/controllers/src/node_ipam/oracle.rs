//! Checks the ranges of all nodes.

use api::kinds::Node;

use super::{DESCRIPTOR, converged, disjoint, safe};
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct NodeIpamOracle;

impl Oracle for NodeIpamOracle {
    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        let Some((before, after)) = change.updated::<Node>() else {
            return no_business(DESCRIPTOR.name, change);
        };
        safe(&before, &after)?;
        let nodes = world.store::<Node>().list();
        disjoint(nodes.iter().map(|node| &**node))
    }

    fn at_rest(&self, world: &World) -> Verdict {
        if !world.run.config.kube_cloud_shared.allocate_node_cidrs {
            return Ok(());
        }
        let nodes = world.store::<Node>().list();
        nodes.iter().try_for_each(|node| converged(node))
    }
}
