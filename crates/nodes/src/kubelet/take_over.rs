//! Nodes that somebody else creates: a kubelet that finds its Node object there adds what it knows of itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::{Cidr, Istr};
use client::Patch;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::config::{Config, NODE_HOST_BITS, default_labels, node_addresses};
use crate::node::Node;

/// Which share of the ranges each node has: the nth node has the nth part of the pods' range, and the nth address.
pub(super) struct Shares {
    pods: Option<Cidr>,
    /// The nodes that are registered have those before it.
    first: u128,
    given: Mutex<BTreeMap<Istr, u128>>,
}

impl Shares {
    pub(super) fn new(config: &Config) -> Shares {
        Shares {
            pods: config.pod_range,
            first: config.nodes.len() as u128,
            given: Mutex::default(),
        }
    }

    /// The share of a node that has none yet: the first that nobody has.
    fn of(&self, node: &Node, nodes: &[Arc<Node>]) -> u128 {
        let mut given = self.given.lock();
        if let Some(index) = given.get(node.name()) {
            return *index;
        }
        given.retain(|name, _| nodes.iter().any(|node| node.name() == &**name));
        let taken: BTreeSet<u128> = nodes
            .iter()
            .flat_map(|node| self.taken_by(node))
            .chain(given.values().copied())
            .collect();
        let free = (self.first..).find(|index| !taken.contains(index));
        let index = free.unwrap_or(self.first);
        given.insert(Istr::from(node.name()), index);
        index
    }

    fn taken_by(&self, node: &Node) -> impl Iterator<Item = u128> {
        let ranges = node.spec.pod_cidrs.iter();
        let mut ranges = ranges.filter_map(|range| Cidr::parse(range));
        let part = ranges.find_map(|range| self.pods?.index_of(&range.nth(0)));
        let address = node.internal_ip().parse().ok();
        let address = address.and_then(|address| node_addresses().index_of(&address));
        let part = part.map(|offset| offset >> NODE_HOST_BITS);
        // As they are given out: the first two addresses of the range are left out.
        part.into_iter()
            .chain(address.and_then(|offset| offset.checked_sub(2)))
    }

    /// What a kubelet adds to a Node that it did not create, and the ranges that the cloud or node-ipam would give it.
    pub(super) fn claim(&self, node: &Node, nodes: &[Arc<Node>], annotations: &Value) -> Patch {
        let mut labels = default_labels(node.name());
        labels.retain(|key, _| !node.labels().contains_key(key));
        let mut body = json!({
            "metadata": {
                "resourceVersion": node.metadata.resource_version.to_string(),
                "labels": labels,
                "annotations": annotations,
            },
        });
        let range = self
            .pods
            .filter(|_| node.spec.pod_cidrs.is_empty())
            .and_then(|pods| pods.part(self.of(node, nodes), NODE_HOST_BITS));
        if let Some(range) = range {
            let range = range.to_string();
            body["spec"] = json!({"podCIDR": range, "podCIDRs": [range]});
        }
        Patch::Merge(body.to_string().into())
    }

    pub(super) fn addresses(&self, node: &Node, nodes: &[Arc<Node>]) -> Value {
        let address = node_addresses().nth(self.of(node, nodes) + 2);
        addresses(node.name(), &address.to_string())
    }
}

/// What a node says where it is.
pub(super) fn addresses(name: &str, address: &str) -> Value {
    json!([
        {"type": "InternalIP", "address": address},
        {"type": "Hostname", "address": name},
    ])
}
