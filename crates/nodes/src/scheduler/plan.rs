//! Where a pod goes: pure, from what the cache says.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Istr;

use super::cache::Cache;
use super::delayed::Choice;
use super::devices::{ClaimWrite, Devices, claims_of};
use super::filter::{Prepared, Rejection};
use super::preempt::{self, Preemption};
use super::score::{self, Candidate};
use super::volumes::Volumes;
use crate::node::Node;
use crate::pod::Pod;

/// What should happen to a pod.
#[derive(Debug, PartialEq)]
pub(super) enum Plan {
    Bind {
        node: Istr,
        /// What claims need to get their volumes, which they must have first.
        volumes: Choice,
        /// Claims for devices that have to be written first.
        devices: Vec<ClaimWrite>,
    },
    /// A claim for devices that it names is not there yet: it is not looked at, and nothing is said.
    Hold,
    /// No node will do for now.
    Wait {
        message: String,
        /// See [`Rejection::helped_by`].
        helped_by: u8,
        /// Pods that have to leave a node so that this one can go there.
        preemption: Option<Preemption>,
    },
}

/// What plans look up besides pods and nodes.
pub(super) trait Objects: Volumes {
    /// None where devices are not looked at.
    fn devices(&self) -> Option<&dyn Devices>;
}

/// UPSTREAM: large clusters are not searched to the end. A part of the nodes that would do is enough to find
/// a good one, at least 100, and a smaller part the more nodes there are.
fn enough(nodes: usize) -> usize {
    if nodes < 100 {
        return nodes;
    }
    let percent = 50_usize.saturating_sub(nodes / 125).max(5);
    (nodes * percent / 100).max(100)
}

/// Plans one pod. The search begins at the `start`th node and says where the next one should begin, so that
/// all nodes get their turn.
pub(super) fn plan(cache: &Cache, objects: &dyn Objects, pod: &Pod, start: usize) -> (Plan, usize) {
    let devices = objects.devices();
    if devices.is_some_and(|devices| claims_of(pod, devices).is_none()) {
        return (Plan::Hold, start);
    }
    let nodes: Vec<Candidate<'_>> = cache.nodes().collect();
    if nodes.is_empty() {
        let plan = Plan::Wait {
            message: "no nodes available to schedule pods".to_owned(),
            helped_by: Rejection::BY_NODE,
            preemption: None,
        };
        return (plan, 0);
    }
    let prepared = match Prepared::new(cache, objects, pod, BTreeSet::new()) {
        Ok(prepared) => prepared,
        Err(rejection) => return (nowhere(nodes.len(), &rejection), start),
    };
    let mut fitting: Vec<Candidate<'_>> = Vec::new();
    let mut rejections: BTreeMap<Istr, Rejection> = BTreeMap::new();
    let wanted = enough(nodes.len());
    let mut looked_at = 0;
    // A node that was cleared for this pod comes before all others.
    let nominated = cache.node(&pod.status.nominated_node_name);
    if let Some((state, node)) = nominated.and_then(|state| Some((state, state.node.as_ref()?)))
        && prepared.check(node, state).is_ok()
    {
        return (bind(&prepared, node), start);
    }
    for index in 0..nodes.len() {
        let (node, state) = nodes[(start + index) % nodes.len()];
        looked_at += 1;
        match prepared.check(node, state) {
            Ok(()) => fitting.push((node, state)),
            Err(rejection) => {
                rejections.insert(Istr::from(node.name()), rejection);
            }
        }
        if fitting.len() >= wanted {
            break;
        }
    }
    let next_start = (start + looked_at) % nodes.len();
    if fitting.is_empty() {
        let has_claims = prepared.devices().has_claims();
        let plan = unschedulable(cache, objects, pod, &rejections, has_claims);
        return (plan, next_start);
    }
    if nodes.len() < 100 {
        // Small enough to be searched whole: then equal nodes are taken by name.
        fitting.sort_by(|(one, _), (two, _)| one.name().cmp(two.name()));
    }
    let winner = fitting[score::best(cache, pod, &prepared, &fitting)].0;
    (bind(&prepared, winner), next_start)
}

fn bind(prepared: &Prepared<'_>, node: &Arc<Node>) -> Plan {
    Plan::Bind {
        node: Istr::from(node.name()),
        volumes: prepared.volumes().choose(node).unwrap_or_default(),
        devices: prepared.device_writes(node),
    }
}

/// The pod itself rules out every node.
fn nowhere(nodes: usize, rejection: &Rejection) -> Plan {
    let reason = rejection.reasons.join(", ");
    let after = if rejection.helped_by & Rejection::BY_DEVICES != 0 {
        format!(
            "no new claims to deallocate, preemption: 0/{nodes} nodes are available: {nodes} Preemption is not helpful for scheduling."
        )
    } else {
        // UPSTREAM: what is not found is the state of the plugin for device claims, which was never asked.
        "not found".to_owned()
    };
    Plan::Wait {
        message: format!("0/{nodes} nodes are available: {reason}. {after}"),
        helped_by: rejection.helped_by,
        preemption: None,
    }
}

fn unschedulable(
    cache: &Cache,
    objects: &dyn Objects,
    pod: &Pod,
    rejections: &BTreeMap<Istr, Rejection>,
    has_claims: bool,
) -> Plan {
    let mut message = available(rejections.len(), &count_reasons(rejections.values()));
    let outcome = preempt::plan(cache, objects, pod, rejections);
    let preemption = match outcome {
        Ok(preemption) => Some(preemption),
        Err(explanation) => {
            // UPSTREAM: the plugin for device claims is asked first, and says so even if there are none.
            let claims = match has_claims {
                true => "still not schedulable",
                false => "no new claims to deallocate",
            };
            message = format!("{message} {claims}, preemption: {explanation}");
            None
        }
    };
    Plan::Wait {
        message,
        helped_by: rejections.values().fold(0, |all, one| all | one.helped_by),
        preemption,
    }
}

pub(super) fn count_reasons<'a>(
    rejections: impl Iterator<Item = &'a Rejection>,
) -> Vec<(Cow<'static, str>, usize)> {
    let mut counts: BTreeMap<Cow<'static, str>, usize> = BTreeMap::new();
    for reason in rejections.flat_map(|one| &one.reasons) {
        *counts.entry(reason.clone()).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}

/// `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s).`
pub(super) fn available(nodes: usize, reasons: &[(Cow<'static, str>, usize)]) -> String {
    let mut counted: Vec<String> = reasons
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    // UPSTREAM: sorted as text, counts first.
    counted.sort();
    format!("0/{nodes} nodes are available: {}.", counted.join(", "))
}
