//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).
//!
//! Which toleration covers which taint is reckoned apart from the code that the controller goes by.

use std::collections::BTreeMap;
use std::time::Duration;

use api::kinds::{Node, Pod};
use api::taints::{Taint, TaintEffect, Toleration};
use api::{MicroTime, Uid};

use super::DESCRIPTOR;
use crate::oracle::{Change, LAG, Oracle, REACTION, Verdict, World, covers, no_business};

/// Remembers which taints of each node have driven pods away, and since when pods are on their nodes.
#[derive(Default)]
pub struct TaintEvictionOracle {
    /// By the name of the node.
    nodes: BTreeMap<String, Tainted>,
    bound_at: BTreeMap<Uid, MicroTime>,
}

#[derive(Default)]
struct Tainted {
    /// Those that drive pods away at this moment.
    taints: Vec<Taint>,
    /// Since when there have been some without a break, and since when it is these.
    since: MicroTime,
    changed_at: MicroTime,
    /// Those that did before, and until when.
    past: Vec<(MicroTime, Vec<Taint>)>,
}

impl Oracle for TaintEvictionOracle {
    fn observe(&mut self, world: &World, change: &Change) {
        let now = world.now();
        if let Some(pod) = change.after::<Pod>() {
            let is_bound = |pod: &Pod| !pod.node_name.is_empty();
            if is_bound(&pod) && !change.before::<Pod>().is_some_and(|pod| is_bound(&pod)) {
                self.bound_at.insert(pod.metadata.uid.clone(), now);
            }
        }
        let (before, after) = (change.before::<Node>(), change.after::<Node>());
        let Some(node) = after.as_ref().or(before.as_ref()) else {
            return;
        };
        let held = self.nodes.entry(node.metadata.name.to_string());
        let held = held.or_default();
        let taints = after.as_deref().map(driving).unwrap_or_default();
        let is_same = |one: &Taint, two: &Taint| one.is_same(two) && one.value == two.value;
        let same = taints.len() == held.taints.len()
            && taints
                .iter()
                .all(|taint| held.taints.iter().any(|it| is_same(it, taint)));
        if same {
            return;
        }
        if held.taints.is_empty() {
            // What was read anew after the server lost changes may have been there for any time.
            let was_there = before.is_some_and(|before| !driving(&before).is_empty());
            held.since = if was_there { MicroTime::default() } else { now };
        }
        held.changed_at = now;
        let gone = std::mem::replace(&mut held.taints, taints);
        held.past.retain(|(until, _)| now.since(*until) <= LAG);
        held.past.push((now, gone));
    }

    fn forget_lost(&mut self) {
        self.nodes.clear();
    }

    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        match (change.ending::<Pod>(), change.before::<Pod>()) {
            (Some(pod), _) => self.check_evicted(world, &pod),
            // The condition that says why it goes.
            (None, Some(_)) => Ok(()),
            (None, None) => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        self.even_if_paused(world)
    }

    fn even_if_paused(&self, world: &World) -> Verdict {
        for pod in world.store::<Pod>().list() {
            let Some(node) = world.store::<Node>().find("", &pod.node_name) else {
                continue;
            };
            let tainted_at = self.nodes.get(&*node.metadata.name);
            let tainted_at = tainted_at.map(|held| held.changed_at);
            let bound_at = self.bound_at.get(&pod.metadata.uid).copied();
            let since = [tainted_at, bound_at, Some(world.run.led_since)];
            let since = since.into_iter().flatten().max().unwrap_or_default();
            let since = since.plus(SLACK + world.delay());
            converged(&pod, &node, since, world.now(), false)?;
        }
        Ok(())
    }
}

/// How long an eviction may take once it is due: conflicts, and requests that are tried again.
const SLACK: Duration = Duration::from_secs(30);

impl TaintEvictionOracle {
    /// Was it one of the taints that the controller may have seen?
    fn check_evicted(&self, world: &World, pod: &Pod) -> Verdict {
        let now = world.now();
        let Some(node) = world.store::<Node>().find("", &pod.node_name) else {
            // A node that is gone cannot be asked.
            return Ok(());
        };
        let Some(held) = self.nodes.get(&*node.metadata.name) else {
            return safe(pod, Some(&node), None, now, false);
        };
        let may_lag = world.may_lag::<Node>() || world.may_lag::<Pod>();
        // A break that it did not see is none.
        let has_lagged = world.has_lagged_since::<Node>(held.since);
        let since = (!may_lag && !has_lagged).then_some(held.since);
        let verdict = safe(pod, Some(&node), since, world.latest_now(), false);
        let window = if may_lag { LAG } else { REACTION };
        let mut past = held.past.iter();
        let is_excused = past.any(|(until, taints)| {
            let mut seen = Node::clone(&node);
            seen.spec.taints.clone_from(taints);
            now.since(*until) <= window && safe(pod, Some(&seen), None, now, false).is_ok()
        });
        if is_excused { Ok(()) } else { verdict }
    }
}

/// Nobody is on a node that has driven them away for longer than they tolerate. `tainted_since` is since when the
/// node has had its taints.
pub fn converged(
    pod: &Pod,
    node: &Node,
    tainted_since: MicroTime,
    now: MicroTime,
    comparison_operators: bool,
) -> Result<(), String> {
    let taints = driving(node);
    if pod.metadata.is_terminating() || taints.is_empty() {
        return Ok(());
    }
    let due = match stays(pod, &taints, comparison_operators) {
        Stays::ForEver => return Ok(()),
        Stays::For(time) => tainted_since.plus(time),
        Stays::Not => tainted_since,
    };
    match due < now {
        true => Err(format!(
            "{} should have left {} for its taints",
            pod.metadata.key(),
            node.metadata.name
        )),
        false => Ok(()),
    }
}

/// Nobody was driven away who tolerates the taints of their node, nor before their time: `pod` is what the
/// controller deleted. `tainted_since` is since when the node has been tainted without a break, where that is
/// known.
pub fn safe(
    pod: &Pod,
    node: Option<&Node>,
    tainted_since: Option<MicroTime>,
    now: MicroTime,
    comparison_operators: bool,
) -> Result<(), String> {
    // A node that is gone cannot be asked.
    let Some(node) = node else {
        return Ok(());
    };
    let taints = driving(node);
    let (key, name) = (pod.metadata.key(), &node.metadata.name);
    if taints.is_empty() {
        return Err(format!(
            "{key} was driven away from {name}, which has no taint"
        ));
    }
    match stays(pod, &taints, comparison_operators) {
        Stays::Not => return Ok(()),
        Stays::ForEver => {
            return Err(format!(
                "{key} was driven away from {name} although it tolerates its taints"
            ));
        }
        Stays::For(_) => {}
    }
    // Another taint may have set its time before this one.
    let tolerations = pod.body.tolerations.iter();
    let drives =
        tolerations.filter(|it| it.effect.is_unset() || it.effect == TaintEffect::NoExecute);
    let least = drives.filter_map(time_of).min().unwrap_or_default();
    if tainted_since.is_some_and(|since| now < since.plus(least)) {
        return Err(format!("{key} was driven away from {name} before its time"));
    }
    Ok(())
}

/// How long a pod may stay where these taints are.
enum Stays {
    Not,
    For(Duration),
    ForEver,
}

fn stays(pod: &Pod, taints: &[Taint], comparison_operators: bool) -> Stays {
    let mut least = None;
    for taint in taints {
        let mut tolerations = pod.body.tolerations.iter();
        let Some(used) = tolerations.find(|it| covers(it, taint, comparison_operators)) else {
            return Stays::Not;
        };
        least = [least, time_of(used)].into_iter().flatten().min();
    }
    least.map_or(Stays::ForEver, Stays::For)
}

fn time_of(toleration: &Toleration) -> Option<Duration> {
    let seconds = toleration.toleration_seconds?;
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// The taints of a node that drive pods away.
fn driving(node: &Node) -> Vec<Taint> {
    let taints = node.spec.taints.iter().cloned();
    taints
        .filter(|taint| taint.effect == TaintEffect::NoExecute)
        .collect()
}
