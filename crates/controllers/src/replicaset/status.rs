//! The status that a set should have. Pure.

use api::conditions::{self, Condition, ConditionStatus};
use api::kinds::ReplicaSetStatus;
use api::labels::Matcher;
use api::{LabelSet, MicroTime};

use super::Outcome;
use super::owner::ReplicaOwner;
use super::snapshot::Snapshot;
use crate::workload::StatusChange;

const REPLICA_FAILURE: &str = "ReplicaFailure";

pub fn compute<K: ReplicaOwner>(
    snapshot: &Snapshot<K>,
    outcome: &Outcome,
    now: MicroTime,
) -> ReplicaSetStatus {
    let owner = &*snapshot.owner;
    let mut status = ReplicaSetStatus {
        replicas: count(snapshot.active.len()),
        fully_labeled_replicas: 0,
        ready_replicas: 0,
        available_replicas: 0,
        terminating_replicas: snapshot.terminating.map(count),
        observed_generation: owner.meta().generation,
        conditions: owner.status().conditions.clone(),
    };
    let template_labels = owner.template().labels();
    let mut fully_labeled = Matcher::new(|labels: &LabelSet| {
        template_labels
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
    });
    for pod in &snapshot.active {
        status.fully_labeled_replicas += i32::from(fully_labeled.of(&pod.metadata.labels));
        status.ready_replicas += i32::from(pod.is_ready());
        status.available_replicas += i32::from(pod.is_available(owner.min_ready_seconds(), now));
    }
    set_failure(&mut status, snapshot, outcome, now);
    status
}

/// The condition appears with the first failure and goes with the first success.
fn set_failure<K: ReplicaOwner>(
    status: &mut ReplicaSetStatus,
    snapshot: &Snapshot<K>,
    outcome: &Outcome,
    now: MicroTime,
) {
    let held = conditions::find(&status.conditions, REPLICA_FAILURE).is_some();
    match &outcome.failure {
        Some(error) if !held => {
            let missing = count(snapshot.active.len()) < snapshot.owner.replicas();
            let reason = if missing {
                "FailedCreate"
            } else {
                "FailedDelete"
            };
            let condition = Condition::new(
                REPLICA_FAILURE,
                ConditionStatus::True,
                reason,
                error.to_string(),
                now.time(),
            );
            conditions::replace(&mut status.conditions, condition);
        }
        None if held => {
            conditions::remove(&mut status.conditions, REPLICA_FAILURE);
        }
        _ => {}
    }
}

/// How the status differs from the one that the owner has.
pub(super) fn change<K: ReplicaOwner>(
    owner: &K,
    status: &ReplicaSetStatus,
    outcome: &Outcome,
) -> StatusChange {
    let held = owner.status();
    let is_moving = outcome.moved && outcome.failure.is_none();
    let counts = [
        (held.ready_replicas, status.ready_replicas),
        (held.available_replicas, status.available_replicas),
    ];
    if held == status {
        StatusChange::None
    } else if is_moving
        || held.observed_generation == status.observed_generation
            && held.conditions == status.conditions
    {
        StatusChange::of_counts(&counts, is_moving)
    } else {
        StatusChange::Now
    }
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
