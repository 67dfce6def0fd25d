//! May a pod that was bound to a node run there? A scheduler has asked already; whoever set `nodeName` by hand has not.
//!
//! UPSTREAM: `pkg/kubelet/lifecycle/predicate.go`, in its words.

use std::sync::Arc;

use api::Uid;
use api::collections::HashSet;
use api::node_affinity::RequiredNodeAffinity;

use super::lifecycle::Rejection;
use crate::node::Node;
use crate::pod::{Amounts, HostPort, Pod};

/// Why the node refuses the pod beside those that it has taken: those that have started, and those that it has
/// `admitted` and whose status is on its way.
pub(super) fn reject(
    pod: &Pod,
    node: &Node,
    neighbours: &[Arc<Pod>],
    admitted: &HashSet<Uid>,
) -> Option<Rejection> {
    let taken = taken(pod, neighbours, admitted);
    lacks(pod, node, &taken)
        .or_else(|| elsewhere(pod, node))
        .or_else(|| port_in_use(pod, &taken))
}

/// Why there is no room for what a pod that runs asks for now.
pub(super) fn lacks_room(pod: &Pod, node: &Node, neighbours: &[Arc<Pod>]) -> Option<String> {
    let taken = taken(pod, neighbours, &HashSet::default());
    lacks(pod, node, &taken).map(|rejection| rejection.message)
}

/// Pods that were taken and have not ended, but for this one.
fn taken<'a>(pod: &Pod, neighbours: &'a [Arc<Pod>], admitted: &HashSet<Uid>) -> Vec<&'a Pod> {
    let has_started =
        |other: &Pod| other.status.start_time.is_some() || admitted.contains(&other.metadata.uid);
    neighbours
        .iter()
        .map(|other| &**other)
        .filter(|other| other.metadata.uid != pod.metadata.uid)
        .filter(|other| has_started(other) && !other.is_finished())
        .collect()
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
    // UPSTREAM: what the node does not know belongs to the cluster.
    let known = |name: &str| has.amounts.others().iter().any(|(held, _)| *held == *name);
    let others = wanted.others().iter().filter(|(name, _)| known(name));
    let others = others.map(|(name, amount)| {
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
