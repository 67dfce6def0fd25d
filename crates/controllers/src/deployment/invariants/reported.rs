//! What the status of a Deployment must say, reckoned from its sets and their pods apart from the code that writes it.

use std::sync::Arc;
use std::time::Duration;

use api::conditions::{self, Condition};
use api::kinds::{Deployment, Pod, ReplicaSet};
use api::{Gate, Gates, Key, MicroTime};

use super::{bounds, owned, revision_of};
use crate::oracle::{count, is_available, says};

const COMPLETE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";

/// What there is to see of a Deployment.
pub struct Seen<'a> {
    /// Those that it controls.
    pub sets: &'a [Arc<ReplicaSet>],
    /// Those of all its sets.
    pub pods: &'a [Arc<Pod>],
    pub gates: Gates,
    pub now: MicroTime,
    /// When there was last anything that may count as progress, as far as its controller may know.
    pub progressed_at: MicroTime,
}

/// The status says what sets and pods say, in every count and every condition. Holds also while something is paused, or
/// keeps a rollout from its end.
pub fn reported(deployment: &Deployment, seen: &Seen<'_>) -> Result<(), String> {
    let meta = &deployment.metadata;
    let is_asked_back = deployment.rollback_to().is_some() && !deployment.spec.paused;
    if meta.is_terminating() || deployment.spec.selector.is_empty() || is_asked_back {
        return Ok(());
    }
    let key = meta.key();
    let counts = seen.counts(deployment);
    check_counts(&key, deployment, seen, &counts)?;
    check_revision(&key, deployment, seen)?;
    check_shares(&key, deployment, seen)?;
    let least = match deployment.spec.strategy.recreate {
        true => deployment.replicas(),
        false => bounds(deployment).0,
    };
    let available = match counts.available >= least {
        true => ("True", "MinimumReplicasAvailable"),
        false => ("False", "MinimumReplicasUnavailable"),
    };
    let told = told(deployment, "Available");
    says(&key, "Available", told, Some(available))?;
    check_progress(&key, deployment, seen, &counts)?;
    // UPSTREAM: while it is paused the failures of its sets are not looked at.
    if !deployment.spec.paused {
        let mut sets = seen.sets.iter();
        let failure = sets.find_map(|set| reason_of(&set.status.conditions, "ReplicaFailure"));
        let told = reason_of(&deployment.status.conditions, "ReplicaFailure");
        says(&key, "ReplicaFailure", told, failure)?;
    }
    Ok(())
}

/// Pods of a Deployment, counted.
struct Counts {
    all: i32,
    updated: i32,
    ready: i32,
    available: i32,
    terminating: i32,
}

impl Seen<'_> {
    /// The set that has the template of the Deployment; of several the oldest.
    fn new_set(&self, deployment: &Deployment) -> Option<&Arc<ReplicaSet>> {
        let template = &deployment.spec.template;
        let same = self.sets.iter();
        let same = same.filter(|set| set.spec.template.same_meaning(template));
        same.min_by_key(|set| (set.metadata.created_at, set.metadata.name.clone()))
    }

    fn pods_of<'a>(&'a self, set: &'a ReplicaSet) -> impl Iterator<Item = &'a Arc<Pod>> {
        let pods = self.pods.iter();
        pods.filter(|pod| pod.metadata.is_controlled_by(&set.metadata.uid))
    }

    fn counts(&self, deployment: &Deployment) -> Counts {
        let sum = |is_counted: &dyn Fn(&ReplicaSet, &Pod) -> bool| -> i32 {
            let sets = self.sets.iter();
            sets.map(|set| count(self.pods_of(set).filter(|pod| is_counted(set, pod))))
                .sum()
        };
        let new = self.new_set(deployment).map(|set| &set.metadata.uid);
        let is_new = |set: &ReplicaSet| new == Some(&set.metadata.uid);
        let is_due =
            |set: &ReplicaSet, pod: &Pod| is_available(pod, set.spec.min_ready_seconds, self.now);
        Counts {
            all: sum(&|_, pod| pod.is_active()),
            updated: sum(&|set, pod| pod.is_active() && is_new(set)),
            ready: sum(&|_, pod| pod.is_active() && pod.is_ready()),
            available: sum(&|set, pod| pod.is_active() && is_due(set, pod)),
            terminating: sum(&|_, pod| pod.is_terminating()),
        }
    }
}

fn check_counts(
    key: &Key,
    deployment: &Deployment,
    seen: &Seen<'_>,
    counts: &Counts,
) -> Result<(), String> {
    let status = &deployment.status;
    let asked: i32 = seen.sets.iter().map(|set| set.replicas()).sum();
    let missing = (asked - counts.available).max(0);
    says(key, "replicas", status.replicas, counts.all)?;
    says(
        key,
        "updatedReplicas",
        status.updated_replicas,
        counts.updated,
    )?;
    says(key, "readyReplicas", status.ready_replicas, counts.ready)?;
    says(
        key,
        "availableReplicas",
        status.available_replicas,
        counts.available,
    )?;
    says(
        key,
        "unavailableReplicas",
        status.unavailable_replicas,
        missing,
    )?;
    let tells = seen
        .gates
        .enabled(Gate::DeploymentReplicaSetTerminatingReplicas);
    let terminating = tells.then_some(counts.terminating);
    says(
        key,
        "terminatingReplicas",
        status.terminating_replicas,
        terminating,
    )?;
    let generation = status.observed_generation;
    says(
        key,
        "observedGeneration",
        generation,
        deployment.metadata.generation,
    )
}

/// The set of the template has the highest revision, and the Deployment shows it.
fn check_revision(key: &Key, deployment: &Deployment, seen: &Seen<'_>) -> Result<(), String> {
    let Some(new) = seen.new_set(deployment) else {
        return Ok(());
    };
    let (uid, newest) = (&new.metadata.uid, revision_of(new));
    let mut others = seen.sets.iter().filter(|set| set.metadata.uid != *uid);
    if let Some(other) = others.find(|other| revision_of(other) >= newest) {
        return Err(format!(
            "{key}: {} has revision {newest}, and {}, which is older, {}",
            new.metadata.name,
            other.metadata.name,
            revision_of(other)
        ));
    }
    let shown = deployment
        .metadata
        .annotation("deployment.kubernetes.io/revision");
    match shown.and_then(|shown| shown.parse().ok()) == Some(newest) {
        true => Ok(()),
        false => Err(format!("{key} shows revision {shown:?} and is at {newest}")),
    }
}

/// Every set that has pods knows for how many the Deployment was last asked, and where a pause keeps several of them they
/// have as many as may be between them.
fn check_shares(key: &Key, deployment: &Deployment, seen: &Seen<'_>) -> Result<(), String> {
    let active: Vec<_> = seen.sets.iter().filter(|set| set.replicas() > 0).collect();
    let wanted = deployment.replicas();
    // UPSTREAM: nothing is shared out between sets that are to be recreated.
    if deployment.spec.strategy.recreate {
        return Ok(());
    }
    for set in &active {
        let known = set
            .metadata
            .annotation("deployment.kubernetes.io/desired-replicas");
        // One that was adopted may know of none.
        if known.is_some_and(|known| known != wanted.to_string()) {
            let name = &set.metadata.name;
            return Err(format!(
                "{key} wants {wanted} pods, and {name} knows of {known:?}"
            ));
        }
    }
    let asked: i32 = active.iter().map(|set| set.replicas()).sum();
    let most = if wanted > 0 { bounds(deployment).1 } else { 0 };
    match deployment.spec.paused && active.len() > 1 && asked != most {
        true => Err(format!(
            "{key} is paused, and its sets ask for {asked} pods instead of {most}"
        )),
        false => Ok(()),
    }
}

/// How long after its deadline a rollout may take to say that it is stuck: UPSTREAM looks again a second later, and
/// requests are tried again.
const SLACK: Duration = Duration::from_secs(30);

fn check_progress(
    key: &Key,
    deployment: &Deployment,
    seen: &Seen<'_>,
    counts: &Counts,
) -> Result<(), String> {
    let told = told(deployment, "Progressing");
    let spec = &deployment.spec;
    let deadline = spec.progress_deadline_seconds;
    let Some(deadline) = deadline.filter(|seconds| *seconds != i32::MAX) else {
        // UPSTREAM: while it is paused nobody takes it away.
        return match spec.paused {
            true => Ok(()),
            false => says(key, "Progressing", told, None),
        };
    };
    let wanted = deployment.replicas();
    let is_complete = (counts.updated, counts.all, counts.available) == (wanted, wanted, wanted);
    let stuck = ("False", TIMED_OUT);
    if spec.paused {
        // UPSTREAM: what was reported as stuck stays so.
        let expected = told.filter(|told| *told == stuck);
        let expected = expected.unwrap_or(("Unknown", "DeploymentPaused"));
        return says(key, "Progressing", told, Some(expected));
    }
    if seen.new_set(deployment).is_none() {
        // None could be created: told with the reason.
        return Ok(());
    }
    if is_complete {
        return says(key, "Progressing", told, Some(("True", COMPLETE)));
    }
    // UPSTREAM: a rollout that was complete once never gets stuck, whatever becomes of its pods.
    if told == Some(("True", COMPLETE)) {
        return Ok(());
    }
    let deadline = Duration::from_secs(u64::try_from(deadline).unwrap_or(0));
    if seen.progressed_at.plus(deadline + SLACK) < seen.now {
        return says(key, "Progressing", told, Some(stuck));
    }
    let is_under_way = told.is_some_and(|told| {
        let reasons = [
            "ReplicaSetUpdated",
            "NewReplicaSetCreated",
            "FoundNewReplicaSet",
        ];
        let resumed = ("Unknown", "DeploymentResumed");
        told.0 == "True" && reasons.contains(&told.1) || told == stuck || told == resumed
    });
    match is_under_way {
        true => Ok(()),
        false => Err(format!(
            "{key}: status says Progressing {told:?}, it is under way"
        )),
    }
}

/// What a write says of a rollout is true: `before` is the Deployment as it was. A rollout that is said to be complete is,
/// as its sets say, and one that is said to be stuck had its time. Holds as long as the controller sees them as they are.
pub fn progressing_is_true(
    before: &Deployment,
    after: &Deployment,
    sets: &[Arc<ReplicaSet>],
    now: MicroTime,
) -> Result<(), String> {
    let key = after.metadata.key();
    let (was, is) = (told(before, "Progressing"), told(after, "Progressing"));
    if was == is {
        return Ok(());
    }
    let held = conditions::find(&before.status.conditions, "Progressing");
    match is {
        Some((_, COMPLETE)) => {
            let template = &after.spec.template;
            let sum = |of: &dyn Fn(&ReplicaSet) -> i32| -> i32 {
                owned(after, sets).map(|set| of(set)).sum()
            };
            let is_new = |set: &ReplicaSet| set.spec.template.same_meaning(template);
            let updated = sum(&|set| set.status.replicas * i32::from(is_new(set)));
            let available = sum(&|set| set.status.available_replicas);
            let all = sum(&|set| set.status.replicas);
            let wanted = after.replicas();
            match (updated, all, available) == (wanted, wanted, wanted) {
                true => Ok(()),
                false => Err(format!(
                    "{key} is said to be complete, with {updated} updated of {all} pods, {available} available, {wanted} wanted"
                )),
            }
        }
        Some((_, TIMED_OUT)) => {
            let since = held
                .and_then(|held| held.last_update_time)
                .unwrap_or_default();
            let allowed = after.spec.progress_deadline_seconds.unwrap_or(0);
            let allowed = Duration::from_secs(u64::try_from(allowed).unwrap_or(0));
            match now < since.micro().plus(allowed) {
                true => Err(format!("{key} is said to be stuck before its time")),
                false => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Status and reason of a condition.
fn told<'a>(deployment: &'a Deployment, type_: &str) -> Option<(&'a str, &'a str)> {
    let held = conditions::find(&deployment.status.conditions, type_)?;
    Some((held.status.as_str(), &*held.reason))
}

fn reason_of<'a>(held: &'a [Condition], type_: &str) -> Option<&'a str> {
    conditions::find(held, type_).map(|held| &*held.reason)
}
