//! The rolling update: which old pods make room, and where new ones start beside them. Pure.

use std::sync::Arc;

use api::MicroTime;
use api::int_or_string::IntOrString;
use api::kinds::{DaemonSet, Pod};

use super::plan::{Creation, Deletion, Plan, name};
use super::reason::{Note, WhyCreate, WhyDelete};
use super::snapshot::Snapshot;

/// What the update does now; every node has what it should have.
pub fn plan(snapshot: &Snapshot, now: MicroTime) -> Plan {
    let mut plan = Plan::default();
    let set = &*snapshot.set;
    if set.spec.update_strategy.on_delete {
        let outdated = snapshot
            .all_pods()
            .filter(|pod| !snapshot.is_updated(pod))
            .count();
        if outdated > 0 {
            plan.notes.push(Note::OnDelete { outdated });
        }
        return plan;
    }
    let desired = i32::try_from(snapshot.desired()).unwrap_or(i32::MAX);
    let rolling = Rolling {
        snapshot,
        now,
        nodes: nodes(snapshot),
    };
    let surge = max_surge(set, desired);
    if surge > 0 {
        rolling.surge(surge as usize, desired as usize, plan)
    } else {
        rolling.replace(max_unavailable(set, desired) as usize, plan)
    }
}

/// How many nodes may have a second pod.
pub fn max_surge(set: &DaemonSet, desired: i32) -> i32 {
    let strategy = &set.spec.update_strategy;
    if strategy.on_delete {
        return 0;
    }
    scaled(strategy.max_surge.as_ref(), desired)
}

/// How many nodes may be without an available pod. When neither that nor a surge is allowed, one:
/// nothing would ever move otherwise.
pub fn max_unavailable(set: &DaemonSet, desired: i32) -> i32 {
    let most = scaled(set.spec.update_strategy.max_unavailable.as_ref(), desired);
    match most {
        0 if desired > 0 && max_surge(set, desired) == 0 => 1,
        most => most,
    }
}

/// The API server lets nothing through that is neither a number nor a percentage.
fn scaled(value: Option<&IntOrString>, desired: i32) -> i32 {
    let scaled = value.map_or(Ok(0), |value| value.scaled(desired, true));
    scaled.unwrap_or(0).max(0)
}

struct Rolling<'a> {
    snapshot: &'a Snapshot,
    now: MicroTime,
    nodes: Vec<(&'a Arc<str>, OnNode<'a>)>,
}

/// The pods of a node that are not on their way out.
enum OnNode<'a> {
    /// Several of a kind: placing will sort it out.
    Crowded,
    Pods {
        new: Option<&'a Arc<Pod>>,
        old: Option<&'a Arc<Pod>>,
    },
}

/// Nodes that have pods, and nodes that should.
fn nodes(snapshot: &Snapshot) -> Vec<(&Arc<str>, OnNode<'_>)> {
    let missing = snapshot
        .nodes
        .iter()
        .filter(|(node, (_, verdict))| verdict.should_run() && snapshot.on(node).is_empty());
    let mut names: Vec<&Arc<str>> = missing
        .map(|(node, _)| node)
        .chain(snapshot.pods.keys())
        .collect();
    names.sort();
    names
        .into_iter()
        .map(|node| (node, on_node(snapshot, snapshot.on(node))))
        .collect()
}

fn on_node<'a>(snapshot: &Snapshot, pods: &'a [Arc<Pod>]) -> OnNode<'a> {
    let (mut new, mut old) = (None, None);
    for pod in pods.iter().filter(|pod| !pod.metadata.is_terminating()) {
        let place = if snapshot.is_updated(pod) {
            &mut new
        } else {
            &mut old
        };
        if place.replace(pod).is_some() {
            return OnNode::Crowded;
        }
    }
    OnNode::Pods { new, old }
}

impl Rolling<'_> {
    fn is_available(&self, pod: &Pod) -> bool {
        pod.is_available(self.snapshot.set.spec.min_ready_seconds, self.now)
    }

    /// Without surge: deletes old pods so that at most `most` nodes are without an available one.
    /// Old pods that are not available lose nothing and go at once.
    fn replace(&self, most: usize, mut plan: Plan) -> Plan {
        let mut unavailable = 0;
        let mut candidates = Vec::new();
        for (node, pods) in &self.nodes {
            match pods {
                OnNode::Pods {
                    new: None,
                    old: Some(old),
                } => {
                    let mut deletion = Deletion {
                        pod: (*old).clone(),
                        node: (*node).clone(),
                        why: WhyDelete::Outdated,
                    };
                    if self.is_available(old) {
                        candidates.push(deletion);
                    } else {
                        deletion.why = WhyDelete::OutdatedUnavailable;
                        plan.delete.push(deletion);
                        unavailable += 1;
                    }
                }
                OnNode::Pods {
                    new: Some(new),
                    old: None,
                } => unavailable += usize::from(!self.is_available(new)),
                _ => unavailable += 1,
            }
        }
        let room = most.saturating_sub(unavailable).min(candidates.len());
        let left = candidates.len() - room;
        plan.delete.extend(candidates.into_iter().take(room));
        if left > 0 {
            plan.notes.push(Note::UpdateAwaitsBudget {
                left,
                unavailable: unavailable + room,
                most,
            });
        }
        plan
    }

    /// With surge: starts new pods beside old ones on at most `most` nodes, and deletes an old pod
    /// when the new one beside it is available.
    fn surge(&self, most: usize, desired: usize, mut plan: Plan) -> Plan {
        let (mut surging, mut available) = (0, 0);
        let (mut candidates, mut displaced) = (Vec::new(), Vec::new());
        for (node, pods) in &self.nodes {
            let OnNode::Pods { new, old } = pods else {
                surging += 1;
                continue;
            };
            if let Some(pod) = old.or(*new) {
                available += usize::from(self.is_available(pod));
            }
            let Some(old) = old else {
                continue;
            };
            let deletion = |why| Deletion {
                pod: (*old).clone(),
                node: (*node).clone(),
                why,
            };
            let creation = |why| Creation {
                node: (*node).clone(),
                why,
            };
            match (new, self.snapshot.verdict(node)) {
                (Some(new), _) if self.is_available(new) => {
                    plan.delete
                        .push(deletion(WhyDelete::Superseded { by: name(new) }));
                }
                (Some(_), _) => surging += 1,
                // The node is gone; its pods will follow.
                (None, None) => {}
                (None, Some(verdict)) => match (verdict.should_run(), self.is_available(old)) {
                    (true, true) => candidates.push(creation(WhyCreate::Surge { old: name(old) })),
                    (true, false) => {
                        let why = WhyCreate::Replaces { old: name(old) };
                        plan.create.push(creation(why));
                    }
                    (false, true) => displaced.push(deletion(WhyDelete::Displaced)),
                    (false, false) => plan.delete.push(deletion(WhyDelete::Displaced)),
                },
            }
        }
        // Who surges expects to lose nothing: a pod whose node is no longer wanted goes only when
        // another one is available in its stead.
        let spare = available.saturating_sub(desired);
        plan.delete.extend(displaced.into_iter().take(spare));
        let room = most.saturating_sub(surging).min(candidates.len());
        let left = candidates.len() - room;
        plan.create.extend(candidates.into_iter().take(room));
        if left > 0 {
            plan.notes.push(Note::UpdateAwaitsSurge {
                left,
                surging: surging + room,
                most,
            });
        }
        plan
    }
}
