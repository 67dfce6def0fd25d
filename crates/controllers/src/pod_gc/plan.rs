//! Which pods go, and why. Pure.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use api::Istr;
use api::kinds::{Node, Phase, Pod};

/// A pod that goes.
#[derive(Clone, Debug)]
pub struct Collect {
    pub pod: Arc<Pod>,
    pub reason: Reason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    TooManyFinished,
    NodeOutOfService,
    NodeGone,
    NeverScheduled,
}

/// The taint by which an operator says that a node will not come back.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// `gone` are nodes that are known not to exist. Each pod goes at most once.
pub fn plan(
    pods: &[Arc<Pod>],
    nodes: &[Arc<Node>],
    gone: &BTreeSet<Istr>,
    threshold: usize,
) -> Vec<Collect> {
    let mut collected = too_many_finished(pods, threshold);
    let mut taken: BTreeSet<_> = collected
        .iter()
        .map(|one| one.pod.metadata.uid.clone())
        .collect();
    let out_of_service: BTreeSet<&str> = nodes
        .iter()
        .filter(|node| is_out_of_service(node))
        .map(|node| &*node.metadata.name)
        .collect();
    let reasons: [(Reason, &dyn Fn(&Pod) -> bool); 3] = [
        (Reason::NodeOutOfService, &|pod| {
            pod.metadata.is_terminating() && out_of_service.contains(&*pod.node_name)
        }),
        (Reason::NodeGone, &|pod| gone.contains(&pod.node_name)),
        (Reason::NeverScheduled, &|pod| {
            pod.metadata.is_terminating() && pod.node_name.is_empty()
        }),
    ];
    for (reason, applies) in reasons {
        let mut found: Vec<Arc<Pod>> = pods
            .iter()
            .filter(|pod| applies(pod) && taken.insert(pod.metadata.uid.clone()))
            .cloned()
            .collect();
        found.sort_by(|one, two| age_order(one).cmp(&age_order(two)));
        collected.extend(found.into_iter().map(|pod| Collect { pod, reason }));
    }
    collected
}

/// Finished pods beyond the threshold: evicted ones first, then the oldest.
fn too_many_finished(pods: &[Arc<Pod>], threshold: usize) -> Vec<Collect> {
    if threshold == 0 {
        return Vec::new();
    }
    let mut finished: Vec<&Arc<Pod>> = pods.iter().filter(|pod| pod.is_finished()).collect();
    let surplus = finished.len().saturating_sub(threshold);
    finished.sort_by(|one, two| age_order(one).cmp(&age_order(two)));
    finished
        .into_iter()
        .take(surplus)
        .map(|pod| Collect {
            pod: pod.clone(),
            reason: Reason::TooManyFinished,
        })
        .collect()
}

fn age_order(pod: &Pod) -> (bool, api::Time, &str) {
    let evicted = pod.status.phase == Phase::Failed && pod.status.reason == "Evicted";
    (!evicted, pod.metadata.created_at, &pod.metadata.name)
}

fn is_out_of_service(node: &Node) -> bool {
    let ready = node
        .status
        .conditions
        .iter()
        .any(|condition| condition.type_ == "Ready" && condition.is_true());
    !ready
        && node
            .spec
            .taints
            .iter()
            .any(|taint| taint.key == OUT_OF_SERVICE)
}

impl Reason {
    /// Upstream's word for it in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Reason::TooManyFinished => "terminated",
            Reason::NodeOutOfService => "out-of-service",
            Reason::NodeGone => "orphaned",
            Reason::NeverScheduled => "unscheduled",
        }
    }
}

impl Reason {
    /// Its name in decisions.
    pub fn name(self) -> &'static str {
        match self {
            Reason::TooManyFinished => "TooManyFinished",
            Reason::NodeOutOfService => "NodeOutOfService",
            Reason::NodeGone => "NodeGone",
            Reason::NeverScheduled => "NeverScheduled",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::TooManyFinished => {
                "it has finished, and there are more finished pods than the threshold allows"
            }
            Reason::NodeOutOfService => "it is terminating on a node that is out of service",
            Reason::NodeGone => "its node no longer exists",
            Reason::NeverScheduled => "it is terminating without ever having had a node",
        })
    }
}
