//! May a pod that was bound to a node run there? A scheduler has asked already; whoever set `nodeName` by hand has not.
//!
//! UPSTREAM: `pkg/kubelet/lifecycle/predicate.go`, in its words.

use std::sync::Arc;

use api::node_affinity::RequiredNodeAffinity;

use super::lifecycle::Rejection;
use crate::node::Node;
use crate::pod::{Amounts, HostPort, Pod};

/// Why the node refuses the pod beside those that it has taken.
pub(super) fn reject(pod: &Pod, node: &Node, neighbours: &[Arc<Pod>]) -> Option<Rejection> {
    let taken: Vec<&Pod> = neighbours
        .iter()
        .map(|other| &**other)
        .filter(|other| other.metadata.uid != pod.metadata.uid)
        .filter(|other| other.status.start_time.is_some() && !other.is_finished())
        .collect();
    lacks(pod, node, &taken)
        .or_else(|| elsewhere(pod, node))
        .or_else(|| port_in_use(pod, &taken))
}

fn lacks(pod: &Pod, node: &Node, taken: &[&Pod]) -> Option<Rejection> {
    let has = &node.status.allocatable;
    if has.pods == 0 {
        // A node that has not said yet what it has.
        return None;
    }
    let pods = i64::try_from(taken.len()).unwrap_or(i64::MAX);
    if pods >= has.pods {
        return Some(out_of("pods", 1, pods, has.pods));
    }
    let wanted = &pod.spec.requests.total;
    if *wanted == Amounts::default() {
        return None;
    }
    let mut used = Amounts::default();
    for other in taken {
        used.add(&other.spec.requests.total);
    }
    let plain = [
        (
            "cpu",
            wanted.milli_cpu,
            used.milli_cpu,
            has.amounts.milli_cpu,
        ),
        ("memory", wanted.memory, used.memory, has.amounts.memory),
        (
            "ephemeral-storage",
            wanted.ephemeral_storage,
            used.ephemeral_storage,
            has.amounts.ephemeral_storage,
        ),
    ];
    let others = wanted.others().iter().map(|(name, amount)| {
        let name = name.as_str();
        (name, *amount, used.other(name), has.amounts.other(name))
    });
    plain
        .into_iter()
        .chain(others)
        .find(|(_, wanted, used, has)| *wanted > 0 && used.saturating_add(*wanted) > *has)
        .map(|(name, wanted, used, has)| out_of(name, wanted, used, has))
}

fn out_of(resource: &str, wanted: i64, used: i64, has: i64) -> Rejection {
    Rejection {
        reason: format!("OutOf{resource}"),
        message: format!(
            "Node didn't have enough resource: {resource}, requested: {wanted}, used: {used}, capacity: {has}"
        ),
    }
}

fn elsewhere(pod: &Pod, node: &Node) -> Option<Rejection> {
    let spec = &pod.spec;
    let required = RequiredNodeAffinity::new(&spec.node_selector, spec.affinity.as_ref());
    let fits = required.matches(node.name(), node.labels());
    (!fits.unwrap_or(false)).then(|| Rejection {
        reason: "NodeAffinity".to_owned(),
        message: "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
            .to_owned(),
    })
}

fn port_in_use(pod: &Pod, taken: &[&Pod]) -> Option<Rejection> {
    let in_use = |port: &HostPort| {
        let mut held = taken.iter().flat_map(|other| &other.spec.host_ports);
        held.any(|other| other.conflicts_with(port))
    };
    pod.spec.host_ports.iter().any(in_use).then(|| Rejection {
        reason: "NodePorts".to_owned(),
        message:
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
                .to_owned(),
    })
}
