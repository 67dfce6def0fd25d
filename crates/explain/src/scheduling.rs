//! Why no node takes a pod, by its node selector, its tolerations and the nodes. What the scheduler says is shown, and
//! nothing is concluded from its words.

use api::kinds::Node;
use api::node_affinity::{Affinity, RequiredNodeAffinity};
use api::taints::{Taint, TaintEffect, Toleration, find_untolerated};
use serde::Deserialize;
use serde_json::Value;

use crate::facts::Facts;
use crate::json::{condition, labels, list, text};

/// What the nodes lack that a pod asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// Nodes would do, but the pod keeps away from others.
    AntiAffinity,
    /// Nodes would do, if they had room.
    Room,
    /// Nodes would do, if the pod tolerated their taints.
    Taints,
    /// No node has the labels.
    Labels,
}

/// What is in the way of a pod; none where no nodes were read.
pub(crate) fn obstacle(facts: &Facts, pod: &Value) -> Option<Obstacle> {
    obstacle_among(pod, facts.of_kind("Node"))
}

/// Does the pod wait for room alone?
pub fn lacks_room<'a>(pod: &Value, nodes: impl Iterator<Item = &'a Value>) -> bool {
    obstacle_among(pod, nodes) == Some(Obstacle::Room)
}

/// Did the scheduler find no node for any of the pods?
pub fn has_unschedulable_pods(facts: &Facts) -> bool {
    let is_unschedulable = |pod: &Value| {
        condition(pod, "PodScheduled").is_some_and(|held| text(held, "/reason") == "Unschedulable")
    };
    facts.all_of_kind("Pod").any(is_unschedulable)
}

fn obstacle_among<'a>(pod: &Value, nodes: impl Iterator<Item = &'a Value>) -> Option<Obstacle> {
    let nodes: Vec<Node> = nodes
        .filter_map(|node| Node::deserialize(node).ok())
        .collect();
    if nodes.is_empty() {
        return None;
    }
    let affinity = pod.pointer("/spec/affinity");
    let affinity = affinity.and_then(|affinity| Affinity::deserialize(affinity).ok());
    let required = RequiredNodeAffinity::new(&labels(pod, "/spec/nodeSelector"), affinity.as_ref());
    let labelled = nodes.iter().filter(|node| {
        let fits = required.matches(&node.metadata.name, &node.metadata.labels);
        fits.unwrap_or(false)
    });
    let labelled: Vec<&Node> = labelled.collect();
    let tolerations = list(pod, "/spec/tolerations").iter();
    let tolerations = tolerations.filter_map(|one| Toleration::deserialize(one).ok());
    let tolerations: Vec<Toleration> = tolerations.collect();
    let keeps_off = |taint: &Taint| taint.effect != TaintEffect::PreferNoSchedule;
    let is_open =
        |node: &&Node| find_untolerated(&tolerations, &node.spec.taints, keeps_off, true).is_none();
    Some(
        match (
            labelled.iter().copied().any(|node| is_open(&node)),
            labelled.is_empty(),
        ) {
            (true, _) if keeps_away(pod) => Obstacle::AntiAffinity,
            (true, _) => Obstacle::Room,
            (false, false) => Obstacle::Taints,
            (false, true) => Obstacle::Labels,
        },
    )
}

/// Does it refuse to share a node, or whatever its terms name, with others?
fn keeps_away(pod: &Value) -> bool {
    !list(pod, ANTI_AFFINITY).is_empty()
}

/// The terms of pods that a pod must not run beside.
pub(crate) const ANTI_AFFINITY: &str =
    "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution";
