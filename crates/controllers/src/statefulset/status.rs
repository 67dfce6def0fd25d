//! The status that a set should have. Pure.

use api::MicroTime;
use api::kinds::{Pod, StatefulSet, StatefulSetStatus};

use super::identity::revision;
use crate::workload::StatusChange;

use super::snapshot::{Snapshot, is_running_and_ready};

/// Counts the pods that were there when the sync began, less those that it deleted for an update.
pub fn compute(
    snapshot: &Snapshot,
    deleted_for_update: usize,
    now: MicroTime,
) -> StatefulSetStatus {
    let set = &*snapshot.set;
    let revisions = &snapshot.revisions;
    let mut status = StatefulSetStatus {
        observed_generation: set.metadata.generation,
        current_revision: (&*revisions.current.metadata.name).into(),
        update_revision: (&*revisions.update.metadata.name).into(),
        collision_count: Some(revisions.collision_count),
        conditions: set.status.conditions.clone(),
        ..StatefulSetStatus::default()
    };
    for pod in snapshot.pods() {
        count(&mut status, pod, set.spec.min_ready_seconds, now);
    }
    if set.metadata.is_terminating() {
        // UPSTREAM: only then pods without a place count.
        for pod in &snapshot.misnamed {
            count(&mut status, pod, set.spec.min_ready_seconds, now);
        }
    }
    // UPSTREAM: whatever revision they had.
    status.current_replicas -= i32::try_from(deleted_for_update).unwrap_or(i32::MAX);
    complete_update(set, &mut status);
    status
}

fn count(status: &mut StatefulSetStatus, pod: &Pod, min_ready_seconds: i32, now: MicroTime) {
    status.replicas += 1;
    if is_running_and_ready(pod) {
        status.ready_replicas += 1;
        status.available_replicas += i32::from(pod.is_available(min_ready_seconds, now));
    }
    if !pod.metadata.is_terminating() {
        let held = revision(pod);
        status.current_replicas += i32::from(status.current_revision == held);
        status.updated_replicas += i32::from(status.update_revision == held);
    }
}

/// When every pod is of the update revision and ready, that is the current one from now on.
fn complete_update(set: &StatefulSet, status: &mut StatefulSetStatus) {
    let all = set.replicas();
    let complete = !set.spec.update_strategy.on_delete
        && status.updated_replicas == all
        && status.ready_replicas == all
        && status.replicas == all;
    if complete {
        status.current_replicas = status.updated_replicas;
        status.current_revision = status.update_revision.clone();
    }
}

/// How the status differs from the one that the set has.
pub(super) fn change(set: &StatefulSet, status: &StatefulSetStatus) -> StatusChange {
    if !differs(set, status) {
        StatusChange::None
    } else if differs_in_counts_alone(set, status) {
        let held = &set.status;
        let counts = [
            (held.ready_replicas, status.ready_replicas),
            (held.available_replicas, status.available_replicas),
            (held.updated_replicas, status.updated_replicas),
        ];
        StatusChange::of_counts(&counts, false)
    } else {
        StatusChange::Now
    }
}

/// Is the status worth a write?
fn differs(set: &StatefulSet, status: &StatefulSetStatus) -> bool {
    let held = &set.status;
    // Upstream writes a greater generation alone. A server that was restored from a backup may have a smaller one than
    // the status says; a cache that is merely behind shows a status that is no newer than its generation.
    // UPSTREAM: the collision count alone is not; a new revision comes with it anyway.
    status.observed_generation != held.observed_generation
        || (
            status.replicas,
            status.current_replicas,
            status.ready_replicas,
        ) != (held.replicas, held.current_replicas, held.ready_replicas)
        || (status.updated_replicas, status.available_replicas)
            != (held.updated_replicas, held.available_replicas)
        || status.current_revision != held.current_revision
        || status.update_revision != held.update_revision
}

/// Do only the counts differ? Then the write can wait for more of them.
fn differs_in_counts_alone(set: &StatefulSet, status: &StatefulSetStatus) -> bool {
    let held = &set.status;
    // Without `rollingUpdate` this one decides the revision of the next pod: if it were late, an update
    // would delete the pod that it has just made, over and over.
    let decides = !set.spec.update_strategy.has_rolling_update
        && status.current_replicas != held.current_replicas;
    !decides
        && status.observed_generation == held.observed_generation
        && status.current_revision == held.current_revision
        && status.update_revision == held.update_revision
}
