//! Preemption: which pods of lower priority would have to leave, and where that costs least.
//!
//! Disruption budgets are not looked at: here nobody is woken at night.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::{Istr, Key, Resource};

use super::cache::{Cache, NodeState};
use super::filter::{Prepared, Rejection};
use super::plan::{Objects, available, count_reasons};
use crate::node::Node;
use crate::pod::Pod;

#[derive(Debug, PartialEq)]
pub(super) struct Preemption {
    pub(super) node: Istr,
    pub(super) victims: Vec<Arc<Pod>>,
}

const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";
const NOT_ELIGIBLE: &str = "not eligible due to preemptionPolicy=Never.";
const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
const ALREADY: &str = "not eligible due to a terminating pod on the nominated node.";

/// UPSTREAM: a tenth of the nodes is tried, at least 100.
fn candidates_wanted(nodes: usize) -> usize {
    (nodes / 10).max(100)
}

/// The cheapest preemption, or why there is none.
pub(super) fn plan(
    cache: &Cache,
    objects: &dyn Objects,
    pod: &Pod,
    rejections: &BTreeMap<Istr, Rejection>,
) -> Result<Preemption, String> {
    if pod.spec.never_preempts {
        return Err(NOT_ELIGIBLE.to_owned());
    }
    if waits_for_victims(cache, pod) {
        return Err(ALREADY.to_owned());
    }
    let mut unhelpful: Vec<Rejection> = Vec::new();
    let mut options: Vec<Preemption> = Vec::new();
    for (name, rejection) in rejections {
        if !rejection.is_resolvable {
            unhelpful.push(Rejection::lasting(NOT_HELPFUL, 0));
            continue;
        }
        let Some(state) = cache.node(name) else {
            continue;
        };
        let Some(node) = &state.node else {
            continue;
        };
        match victims_on(cache, objects, pod, node, state) {
            Ok(victims) => options.push(Preemption {
                node: name.clone(),
                victims,
            }),
            Err(reason) => unhelpful.push(reason),
        }
        if options.len() >= candidates_wanted(rejections.len()) {
            break;
        }
    }
    options
        .into_iter()
        .min_by_key(cost)
        .ok_or_else(|| available(rejections.len(), &count_reasons(unhelpful.iter())))
}

/// Victims of an earlier attempt are on their way out already.
fn waits_for_victims(cache: &Cache, pod: &Pod) -> bool {
    let Some(state) = cache.node(&pod.status.nominated_node_name) else {
        return false;
    };
    state
        .pods
        .values()
        .any(|other| other.metadata.is_terminating() && other.spec.priority < pod.spec.priority)
}

/// The fewest and least important pods that have to leave the node.
fn victims_on(
    cache: &Cache,
    objects: &dyn Objects,
    pod: &Pod,
    node: &Node,
    state: &NodeState,
) -> Result<Vec<Arc<Pod>>, Rejection> {
    let mut lower: Vec<&Arc<Pod>> = state
        .pods
        .values()
        .filter(|other| other.spec.priority < pod.spec.priority)
        .collect();
    if lower.is_empty() {
        return Err(Rejection::lasting(NO_VICTIMS, 0));
    }
    let mut gone: BTreeSet<Key> = lower.iter().map(|other| other.key()).collect();
    fits(cache, objects, pod, node, state, &gone)?;
    // The most important ones are the first to be spared; of equals, those that run longest.
    lower.sort_by_key(|other| {
        (
            Reverse(other.spec.priority),
            other.status.start_time,
            other.key(),
        )
    });
    for other in &lower {
        let key = other.key();
        gone.remove(&key);
        if fits(cache, objects, pod, node, state, &gone).is_err() {
            gone.insert(key);
        }
    }
    let victims = lower
        .into_iter()
        .filter(|other| gone.contains(&other.key()))
        .cloned();
    Ok(victims.collect())
}

fn fits(
    cache: &Cache,
    objects: &dyn Objects,
    pod: &Pod,
    node: &Node,
    state: &NodeState,
    gone: &BTreeSet<Key>,
) -> Result<(), Rejection> {
    Prepared::new(cache, objects, pod, gone.clone())?.check(node, state)
}

/// UPSTREAM: what matters most first: the most important victim, the sum of all, their number.
fn cost(option: &Preemption) -> (i32, i64, usize, Istr) {
    let priorities = || option.victims.iter().map(|victim| victim.spec.priority);
    (
        priorities().max().unwrap_or(i32::MIN),
        priorities()
            .map(|priority| i64::from(priority) + i64::from(i32::MAX))
            .sum(),
        option.victims.len(),
        option.node.clone(),
    )
}
