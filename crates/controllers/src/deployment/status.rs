//! The status that a Deployment should have. Pure.

use std::time::Duration;

use api::conditions::{self, Condition, ConditionStatus, ExtraTime};
use api::kinds::{Deployment, DeploymentStatus, ReplicaSet};
use api::{Gate, Gates, MicroTime, Time};

use super::limits::{is_complete, must_stay_available, progress_deadline};
use super::plan::{After, Report};

pub(super) const AVAILABLE: &str = "Available";
pub(super) const PROGRESSING: &str = "Progressing";
pub(super) const REPLICA_FAILURE: &str = "ReplicaFailure";

pub(super) const PAUSED: &str = "DeploymentPaused";
pub(super) const RESUMED: &str = "DeploymentResumed";
pub(super) const NEW_SET: &str = "NewReplicaSetCreated";
pub(super) const FOUND_NEW_SET: &str = "FoundNewReplicaSet";
pub(super) const NEW_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
pub(super) const SET_UPDATED: &str = "ReplicaSetUpdated";
pub(super) const CREATE_FAILED: &str = "ReplicaSetCreateError";
pub(super) const TIMED_OUT: &str = "ProgressDeadlineExceeded";

pub fn compute(
    deployment: &Deployment,
    after: &After,
    gates: Gates,
    now: MicroTime,
) -> DeploymentStatus {
    let mut status = match after.report {
        Report::AsIs => return after.status.clone(),
        Report::Counts | Report::Progress => count(deployment, after, gates, now),
    };
    if after.report == Report::Progress {
        compute_progressing(deployment, after, &mut status, now);
        report_failures(after, &mut status);
    }
    status
}

fn count(deployment: &Deployment, after: &After, gates: Gates, now: MicroTime) -> DeploymentStatus {
    let sum = |of: fn(&ReplicaSet) -> i32| after.sets().map(of).sum::<i32>();
    let available = sum(|set| set.status.available_replicas);
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: sum(|set| set.status.replicas),
        updated_replicas: after.new.as_ref().map_or(0, |set| set.status.replicas),
        ready_replicas: sum(|set| set.status.ready_replicas),
        available_replicas: available,
        // Negative while sets are shrinking: then none is missing.
        unavailable_replicas: (sum(ReplicaSet::replicas) - available).max(0),
        terminating_replicas: if gates.enabled(Gate::DeploymentReplicaSetTerminatingReplicas) {
            terminating(after)
        } else {
            None
        },
        conditions: after.status.conditions.clone(),
        collision_count: after.status.collision_count,
    };
    let condition = if available >= must_stay_available(deployment) {
        (
            ConditionStatus::True,
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        )
    } else {
        (
            ConditionStatus::False,
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    };
    let (value, reason, message) = condition;
    let available = dated(AVAILABLE, value, reason, message.into(), now);
    conditions::replace_keeping_transition(&mut status.conditions, available);
    status
}

/// Unknown as soon as one set that was looked at does not say; sets that nobody has looked at yet
/// have none.
fn terminating(after: &After) -> Option<i32> {
    after
        .sets()
        .filter(|set| {
            set.status.observed_generation != 0 || set.status.terminating_replicas.is_some()
        })
        .map(|set| set.status.terminating_replicas)
        .sum()
}

fn compute_progressing(
    deployment: &Deployment,
    after: &After,
    status: &mut DeploymentStatus,
    now: MicroTime,
) {
    if progress_deadline(deployment).is_none() {
        conditions::remove(&mut status.conditions, PROGRESSING);
        return;
    }
    let held = conditions::find(&after.status.conditions, PROGRESSING);
    let rests = status.replicas == status.updated_replicas
        && held.is_some_and(|held| held.reason == NEW_SET_AVAILABLE);
    if rests {
        return;
    }
    let who = match &after.new {
        Some(set) => format!("ReplicaSet \"{}\"", set.metadata.name),
        None => format!("Deployment \"{}\"", deployment.metadata.name),
    };
    if is_complete(deployment, status) {
        let message = format!("{who} has successfully progressed.");
        let condition = dated(
            PROGRESSING,
            ConditionStatus::True,
            NEW_SET_AVAILABLE,
            message,
            now,
        );
        conditions::replace_keeping_transition(&mut status.conditions, condition);
    } else if progressed(&after.status, status) {
        let message = format!("{who} is progressing.");
        let mut condition = dated(
            PROGRESSING,
            ConditionStatus::True,
            SET_UPDATED,
            message,
            now,
        );
        // Progress is news also when the reason stays: its time is what the deadline counts from.
        if let Some(held) = held.filter(|held| held.is_true()) {
            condition.last_transition_time = held.last_transition_time;
        }
        conditions::remove(&mut status.conditions, PROGRESSING);
        status.conditions.push(condition);
    } else if timed_out(deployment, status, now) {
        let message = format!("{who} has timed out progressing.");
        let condition = dated(PROGRESSING, ConditionStatus::False, TIMED_OUT, message, now);
        conditions::replace_keeping_transition(&mut status.conditions, condition);
    }
}

/// More new pods, fewer old ones, or more that are ready or available.
pub(super) fn progressed(before: &DeploymentStatus, now: &DeploymentStatus) -> bool {
    let old = |status: &DeploymentStatus| status.replicas - status.updated_replicas;
    now.updated_replicas > before.updated_replicas
        || old(now) < old(before)
        || now.ready_replicas > before.ready_replicas
        || now.available_replicas > before.available_replicas
}

pub(super) fn timed_out(
    deployment: &Deployment,
    status: &DeploymentStatus,
    now: MicroTime,
) -> bool {
    let Some(deadline) = progress_deadline(deployment) else {
        return false;
    };
    let Some(held) = conditions::find(&status.conditions, PROGRESSING) else {
        return false;
    };
    if held.reason == NEW_SET_AVAILABLE {
        // The cache may not show yet that a new rollout has begun.
        return false;
    }
    held.reason == TIMED_OUT || now.since(last_progress(held)) > seconds(deadline)
}

/// What sets say about pods that they cannot make, the new set first.
fn report_failures(after: &After, status: &mut DeploymentStatus) {
    let failure = after
        .new
        .iter()
        .chain(after.sets())
        .find_map(|set| conditions::find(&set.status.conditions, REPLICA_FAILURE));
    match failure {
        Some(held) => {
            let condition = Condition {
                last_update_time: held.last_transition_time,
                extra_time: ExtraTime::Update,
                ..held.clone()
            };
            conditions::replace_keeping_transition(&mut status.conditions, condition);
        }
        None => {
            conditions::remove(&mut status.conditions, REPLICA_FAILURE);
        }
    }
}

/// When the deadline for progress passes, for a Deployment that has made none since.
pub(super) fn deadline_at(deployment: &Deployment, status: &DeploymentStatus) -> Option<Time> {
    let deadline = progress_deadline(deployment)?;
    let held = conditions::find(&status.conditions, PROGRESSING)?;
    // A rollout that was complete once never times out, whatever its pods do. Upstream looks again
    // and again all the same.
    if is_complete(deployment, status)
        || held.reason == TIMED_OUT
        || held.reason == NEW_SET_AVAILABLE
    {
        return None;
    }
    Some(last_progress(held).micro().plus(seconds(deadline)).time())
}

/// How long to wait before looking for progress again.
pub(super) fn until_deadline(at: Time, now: MicroTime) -> Duration {
    let left = at.micro().since(now);
    // UPSTREAM: a second more, since the condition's time has no fractions.
    left + Duration::from_secs(1)
}

/// Do only counts and times differ? Then the write can wait for more of them.
pub(super) fn differs_in_counts_alone(held: &DeploymentStatus, status: &DeploymentStatus) -> bool {
    let telling = |status: &DeploymentStatus| -> Vec<_> {
        let condition =
            |one: &Condition| (one.type_.clone(), one.status.clone(), one.reason.clone());
        status.conditions.iter().map(condition).collect()
    };
    held.observed_generation == status.observed_generation
        && held.collision_count == status.collision_count
        && telling(held) == telling(status)
}

/// A condition with the two times that Deployments keep.
pub(super) fn dated(
    type_: &str,
    value: ConditionStatus,
    reason: &str,
    message: String,
    now: MicroTime,
) -> Condition {
    Condition::new(type_, value, reason, message, now.time())
        .updated_at(ExtraTime::Update, now.time())
}

fn last_progress(condition: &Condition) -> Time {
    condition.last_update_time.unwrap_or_default()
}

fn seconds(number: i32) -> Duration {
    Duration::from_secs(u64::try_from(number).unwrap_or(0))
}

impl After {
    /// Old sets, then the new one.
    pub(super) fn sets(&self) -> impl Iterator<Item = &ReplicaSet> {
        self.old.iter().chain(&self.new)
    }
}
