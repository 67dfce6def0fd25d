//! What must hold: always ([`safe`], [`disjoint`]), and once nothing changes any more ([`converged`]).

use std::collections::BTreeMap;

use api::Cidr;
use api::kinds::Node;

/// The node has a range.
pub fn converged(node: &Node) -> Result<(), String> {
    match node.spec.pod_cidrs.is_empty() {
        false => Ok(()),
        true => Err(format!(
            "node {} has no range for its pods",
            node.metadata.name
        )),
    }
}

/// Nothing of a node changes but its ranges, and those only once.
pub fn safe(before: &Node, after: &Node) -> Result<(), String> {
    let name = &after.metadata.name;
    if !before.spec.pod_cidrs.is_empty() && before.spec.pod_cidrs != after.spec.pod_cidrs {
        return Err(format!("the ranges of node {name} were changed"));
    }
    let mut expected = before.clone();
    expected.spec.pod_cidrs = after.spec.pod_cidrs.clone();
    expected.metadata.generation = after.metadata.generation;
    match expected == *after {
        true => Ok(()),
        false => Err(format!("more than the ranges of node {name} was changed")),
    }
}

/// No two nodes share an address.
pub fn disjoint<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Result<(), String> {
    let mut taken: BTreeMap<Cidr, &str> = BTreeMap::new();
    for node in nodes {
        for cidr in node
            .spec
            .pod_cidrs
            .iter()
            .filter_map(|text| Cidr::parse(text))
        {
            if let Some(other) = taken.insert(cidr.masked(), &node.metadata.name) {
                let name = &node.metadata.name;
                return Err(format!("nodes {other} and {name} both have {cidr}"));
            }
        }
    }
    Ok(())
}
