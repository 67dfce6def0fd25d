//! Where pods of a set may be: a second opinion, from what the API says of selectors, affinity and taints.

use api::kinds::{DaemonSet, Node};
use api::node_affinity::{NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm};
use api::taints::{TaintEffect, Toleration, TolerationOperator};
use api::{Gate, Gates};

use crate::oracle::covers;

/// What a node is for a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// It has a pod there.
    Runs,
    /// It starts none there, and one that is there stays.
    Stays,
    /// It has none there.
    Leaves,
}

pub(super) fn fit(set: &DaemonSet, node: &Node, gates: Gates) -> Fit {
    let (placement, name) = (&*set.spec.placement, &*node.metadata.name);
    let has = |(key, value): (&str, &str)| node.metadata.labels.get(key) == Some(value);
    let affinity = placement.affinity.as_ref();
    let required = affinity
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|affinity| affinity.required.as_ref());
    let is_meant = placement.node_name.is_empty() || *placement.node_name == *name;
    let is_wanted = required.is_none_or(|required| {
        let mut terms = required.node_selector_terms.iter();
        terms.any(|term| is_met(term, node))
    });
    if !is_meant || !is_wanted || !placement.node_selector.iter().all(has) {
        return Fit::Leaves;
    }
    let repels = |effect: TaintEffect| {
        let mut taints = node.spec.taints.iter();
        taints.any(|taint| {
            let compares = gates.enabled(Gate::TaintTolerationComparisonOperators);
            let own = placement.tolerations.iter().cloned();
            let mut tolerations = own.chain(given(placement.host_network));
            taint.effect == effect && !tolerations.any(|it| covers(&it, taint, compares))
        })
    };
    match (
        repels(TaintEffect::NoExecute),
        repels(TaintEffect::NoSchedule),
    ) {
        (true, _) => Fit::Leaves,
        (false, true) => Fit::Stays,
        (false, false) => Fit::Runs,
    }
}

/// What every daemon pod tolerates, as the documentation of DaemonSets lists it.
fn given(host_network: bool) -> impl Iterator<Item = Toleration> {
    let stays = ["not-ready", "unreachable"].map(|key| (key, TaintEffect::NoExecute));
    let starts = [
        "disk-pressure",
        "memory-pressure",
        "pid-pressure",
        "unschedulable",
    ];
    let starts = starts.map(|key| (key, TaintEffect::NoSchedule));
    let network = ("network-unavailable", TaintEffect::NoSchedule);
    let all = stays.into_iter().chain(starts);
    all.chain(host_network.then_some(network))
        .map(|(key, effect)| Toleration {
            key: format!("node.kubernetes.io/{key}").as_str().into(),
            operator: TolerationOperator::Exists,
            effect,
            ..Toleration::default()
        })
}

/// Does the node meet every requirement of the term? One without any is met by no node.
fn is_met(term: &NodeSelectorTerm, node: &Node) -> bool {
    let labels = term.match_expressions.iter().map(|required| {
        let held = node.metadata.labels.get(&required.key);
        holds(required, held)
    });
    // The name is the only field there is.
    let fields = term.match_fields.iter().map(|required| {
        let is_name = required.key == "metadata.name";
        holds(required, is_name.then_some(&*node.metadata.name))
    });
    let is_empty = term.match_expressions.is_empty() && term.match_fields.is_empty();
    !is_empty && labels.chain(fields).all(|holds| holds)
}

fn holds(required: &NodeSelectorRequirement, held: Option<&str>) -> bool {
    let is_listed = held.is_some_and(|held| required.values.iter().any(|one| **one == *held));
    let number = |text: &str| text.parse::<i64>().ok();
    let numbers = || {
        let limit = required.values.first().and_then(|value| number(value));
        Some((held.and_then(number)?, limit?))
    };
    match &required.operator {
        NodeSelectorOperator::In => is_listed,
        NodeSelectorOperator::NotIn => !is_listed,
        NodeSelectorOperator::Exists => held.is_some(),
        NodeSelectorOperator::DoesNotExist => held.is_none(),
        NodeSelectorOperator::Gt => numbers().is_some_and(|(held, limit)| held > limit),
        NodeSelectorOperator::Lt => numbers().is_some_and(|(held, limit)| held < limit),
        _ => false,
    }
}
