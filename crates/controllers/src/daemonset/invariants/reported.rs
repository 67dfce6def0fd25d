//! What the status of a set must say, counted apart from the code that writes it.

use std::sync::Arc;

use api::kinds::{DaemonSet, DaemonSetStatus, Node, Pod};
use api::{Gates, MicroTime};

use super::placement::{Fit, fit};
use crate::oracle::{count, is_available, says};

/// The status says what nodes and pods say. `pods` are those that the set controls, `hash` is that of its newest revision.
/// Holds also while something keeps the set from having all its pods.
pub fn reported(
    set: &DaemonSet,
    nodes: &[Arc<Node>],
    pods: &[Arc<Pod>],
    hash: &str,
    gates: Gates,
    now: MicroTime,
) -> Result<(), String> {
    if set.metadata.is_terminating() {
        return Ok(());
    }
    let mut seen = DaemonSetStatus::default();
    for node in nodes {
        let senior = senior(set, node, pods);
        if fit(set, node, gates) != Fit::Runs {
            seen.number_misscheduled += count(senior);
            continue;
        }
        seen.desired_number_scheduled += 1;
        let counted = |is_counted: &dyn Fn(&Pod) -> bool| count(senior.filter(|it| is_counted(it)));
        seen.current_number_scheduled += count(senior);
        seen.number_ready += counted(&Pod::is_ready);
        seen.number_available += counted(&|pod| is_available(pod, set.spec.min_ready_seconds, now));
        seen.updated_number_scheduled += counted(&|pod| is_updated(set, pod, hash));
    }
    seen.number_unavailable = seen.desired_number_scheduled - seen.number_available;
    let (key, said) = (set.metadata.key(), &set.status);
    for (field, said, seen) in [
        (
            "desiredNumberScheduled",
            said.desired_number_scheduled,
            seen.desired_number_scheduled,
        ),
        (
            "currentNumberScheduled",
            said.current_number_scheduled,
            seen.current_number_scheduled,
        ),
        (
            "numberMisscheduled",
            said.number_misscheduled,
            seen.number_misscheduled,
        ),
        ("numberReady", said.number_ready, seen.number_ready),
        (
            "updatedNumberScheduled",
            said.updated_number_scheduled,
            seen.updated_number_scheduled,
        ),
        (
            "numberAvailable",
            said.number_available,
            seen.number_available,
        ),
        (
            "numberUnavailable",
            said.number_unavailable,
            seen.number_unavailable,
        ),
    ] {
        says(&key, field, said, seen)?;
    }
    let generation = said.observed_generation;
    says(
        &key,
        "observedGeneration",
        generation,
        set.metadata.generation,
    )
}

/// No more pods are said to be available than have been ready for `minReadySeconds`. Holds as long as the controller
/// sees them as they are.
pub fn counts_in_time(set: &DaemonSet, pods: &[Arc<Pod>], now: MicroTime) -> Result<(), String> {
    let is_due = |pod: &&Arc<Pod>| is_available(pod, set.spec.min_ready_seconds, now);
    let (said, most) = (
        set.status.number_available,
        count(pods.iter().filter(is_due)),
    );
    match said > most {
        true => Err(format!(
            "{}: status says {said} available pods, {most} have been ready for long enough",
            set.metadata.key()
        )),
        false => Ok(()),
    }
}

/// The pod that stands for the set on a node: one that is there before one that is meant for it, then the oldest. What
/// has ended and is on its way out counts no more.
fn senior<'a>(set: &DaemonSet, node: &Node, pods: &'a [Arc<Pod>]) -> Option<&'a Arc<Pod>> {
    let is_here = |pod: &&Arc<Pod>| {
        let is_own = pod.metadata.is_controlled_by(&set.metadata.uid);
        let is_over = pod.is_finished() && pod.metadata.is_terminating();
        is_own && !is_over && pod.target_node() == Some(&*node.metadata.name)
    };
    let here = pods.iter().filter(is_here);
    here.min_by_key(|pod| {
        let meta = &pod.metadata;
        (pod.node_name.is_empty(), meta.created_at, meta.name.clone())
    })
}

/// A pod tells its revision by a hash, and by the number of the template that came before hashes: either will do.
fn is_updated(set: &DaemonSet, pod: &Pod, hash: &str) -> bool {
    let labels = &pod.metadata.labels;
    let number = set
        .metadata
        .annotation("deprecated.daemonset.template.generation");
    let by_hash = !hash.is_empty() && labels.get("controller-revision-hash") == Some(hash);
    by_hash || number.is_some() && labels.get("pod-template-generation") == number
}
