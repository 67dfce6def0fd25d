//! Which of the nodes that would do is the best?
//!
//! The same criteria as upstream's default profile, with its weights, each on a scale of 0 to 100. Of equal
//! nodes the first in the given order wins, where upstream throws dice.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::node_affinity::PreferredNodes;
use api::taints::{TaintEffect, find_untolerated};

use super::cache::{Cache, NodeState};
use super::filter::Prepared;
use super::topology::{Preferences, Spread};
use crate::node::Node;
use crate::pod::{Pod, Unsatisfiable};

pub(super) type Candidate<'a> = (&'a Arc<Node>, &'a NodeState);

/// UPSTREAM: weights of the default profile.
const TAINTS: i64 = 3;
const NODE_AFFINITY: i64 = 2;
const SPREADING: i64 = 2;
const POD_AFFINITY: i64 = 2;
const RESOURCES: i64 = 1;

/// The index of the best candidate; they are not empty.
pub(super) fn best(
    cache: &Cache,
    pod: &Pod,
    prepared: &Prepared<'_>,
    candidates: &[Candidate<'_>],
) -> usize {
    if candidates.len() == 1 {
        return 0;
    }
    let mut totals = vec![0; candidates.len()];
    let mut add = |weight: i64, scores: Vec<i64>| {
        for (total, score) in totals.iter_mut().zip(scores) {
            *total += weight * score;
        }
    };
    let each =
        |score: &dyn Fn(&Candidate<'_>) -> i64| candidates.iter().map(score).collect::<Vec<i64>>();
    if candidates.iter().any(|(node, _)| has_soft_taints(node)) {
        add(
            TAINTS,
            lowest_first(each(&|(node, _)| soft_taints(pod, node))),
        );
    }
    if let Some(preferred) = preferred_nodes(pod) {
        let scores = each(&|(node, _)| preferred.score(node.name(), node.labels()));
        add(NODE_AFFINITY, highest_first(scores));
    }
    let spread = Spread::of(
        cache,
        pod,
        Unsatisfiable::ScheduleAnyway,
        prepared.required(),
        &BTreeSet::new(),
    );
    if !spread.is_empty() {
        let scores = each(&|(node, _)| spread.iter().map(|one| one.count(node)).sum());
        add(SPREADING, lowest_first(scores));
    } else if let Some(owner) = pod.metadata.controller() {
        // Pods of one controller spread over nodes even if nobody asks for it.
        let scores =
            each(&|(_, state)| i64::from(state.by_owner.get(&owner.uid).copied().unwrap_or(0)));
        add(SPREADING, lowest_first(scores));
    }
    let preferences = Preferences::new(cache, pod);
    if !preferences.is_empty() {
        add(
            POD_AFFINITY,
            highest_first(each(&|(node, _)| preferences.score(node))),
        );
    }
    add(
        RESOURCES,
        each(&|candidate| least_allocated(pod, candidate)),
    );
    add(RESOURCES, each(&|candidate| balanced(pod, candidate)));
    let mut winner = 0;
    for index in 1..totals.len() {
        let pods = |index: usize| candidates[index].1.pods.len();
        let better = totals[index] > totals[winner]
            || (totals[index] == totals[winner] && pods(index) < pods(winner));
        if better {
            winner = index;
        }
    }
    winner
}

fn has_soft_taints(node: &Node) -> bool {
    node.spec
        .taints
        .iter()
        .any(|taint| taint.effect == TaintEffect::PreferNoSchedule)
}

/// Taints that would rather not have the pod.
fn soft_taints(pod: &Pod, node: &Node) -> i64 {
    let soft = node
        .spec
        .taints
        .iter()
        .filter(|taint| taint.effect == TaintEffect::PreferNoSchedule);
    let untolerated = soft.filter(|taint| {
        find_untolerated(
            &pod.spec.tolerations,
            std::slice::from_ref(taint),
            |_| true,
            false,
        )
        .is_some()
    });
    untolerated.count() as i64
}

fn preferred_nodes(pod: &Pod) -> Option<PreferredNodes> {
    let affinity = pod.spec.affinity.as_ref()?.node_affinity.as_ref()?;
    if affinity.preferred.is_empty() {
        return None;
    }
    PreferredNodes::new(&affinity.preferred).ok()
}

/// How much of the node would be left, with the pod on it.
fn least_allocated(pod: &Pod, (node, state): &Candidate<'_>) -> i64 {
    let (cpu, memory) = used_shares(pod, node, state);
    (((1.0 - cpu) + (1.0 - memory)) / 2.0 * 100.0) as i64
}

/// How evenly the pod would fill the node.
fn balanced(pod: &Pod, (node, state): &Candidate<'_>) -> i64 {
    let (cpu, memory) = used_shares(pod, node, state);
    ((1.0 - (cpu - memory).abs() / 2.0) * 100.0) as i64
}

fn used_shares(pod: &Pod, node: &Node, state: &NodeState) -> (f64, f64) {
    let share = |used: i64, has: i64| {
        if has <= 0 {
            1.0
        } else {
            (used as f64 / has as f64).min(1.0)
        }
    };
    let (requests, has) = (&pod.spec.requests, &node.status.allocatable.amounts);
    (
        share(
            state.scored_milli_cpu + requests.scored_milli_cpu,
            has.milli_cpu,
        ),
        share(state.scored_memory + requests.scored_memory, has.memory),
    )
}

/// 100 for the highest, in proportion for the others; the lowest gets 0.
fn highest_first(scores: Vec<i64>) -> Vec<i64> {
    let (low, high) = range(&scores);
    if low == high {
        return vec![0; scores.len()];
    }
    scores
        .into_iter()
        .map(|score| 100 * (score - low) / (high - low))
        .collect()
}

fn lowest_first(scores: Vec<i64>) -> Vec<i64> {
    let (low, high) = range(&scores);
    if low == high {
        return vec![0; scores.len()];
    }
    scores
        .into_iter()
        .map(|score| 100 * (high - score) / (high - low))
        .collect()
}

fn range(scores: &[i64]) -> (i64, i64) {
    let low = scores.iter().copied().min().unwrap_or(0);
    let high = scores.iter().copied().max().unwrap_or(0);
    (low, high)
}
