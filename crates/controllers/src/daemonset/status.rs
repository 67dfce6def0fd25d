//! The status that a set should have. Pure.

use api::MicroTime;
use api::kinds::{DaemonSet, DaemonSetStatus};

use super::apply::Outcome;
use super::pods::by_seniority;
use super::snapshot::Snapshot;
use crate::workload::StatusChange;

/// Counts nodes, by the senior pod on each. As long as the set may not act, its generation has not been observed.
pub fn compute(snapshot: &Snapshot, now: MicroTime) -> DaemonSetStatus {
    let set = &*snapshot.set;
    let mut status = DaemonSetStatus {
        observed_generation: if snapshot.may_act {
            set.metadata.generation
        } else {
            set.status.observed_generation
        },
        collision_count: set.status.collision_count,
        conditions: set.status.conditions.clone(),
        ..DaemonSetStatus::default()
    };
    for (name, (_, verdict)) in &snapshot.nodes {
        let senior = snapshot
            .on(name)
            .iter()
            .min_by(|one, two| by_seniority(one, two));
        if !verdict.should_run() {
            status.number_misscheduled += i32::from(senior.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some(pod) = senior else {
            continue;
        };
        let available = pod.is_available(set.spec.min_ready_seconds, now);
        status.current_number_scheduled += 1;
        status.number_ready += i32::from(pod.is_ready());
        status.number_available += i32::from(available);
        status.updated_number_scheduled += i32::from(snapshot.is_updated(pod));
    }
    status.number_unavailable = status.desired_number_scheduled - status.number_available;
    status
}

/// The same on top of another state of the set: of a set that may not act yet the server knows which generation was observed.
pub fn on(set: &DaemonSet, snapshot: &Snapshot, status: &DaemonSetStatus) -> DaemonSetStatus {
    DaemonSetStatus {
        observed_generation: match snapshot.may_act {
            true => status.observed_generation,
            false => set.status.observed_generation,
        },
        ..status.clone()
    }
}

/// How the status differs from the one that the set has.
pub(super) fn change(set: &DaemonSet, status: &DaemonSetStatus, outcome: &Outcome) -> StatusChange {
    let held = &set.status;
    let is_moving = outcome.moved && outcome.failure.is_none();
    let counts = [
        (held.number_ready, status.number_ready),
        (held.number_available, status.number_available),
        (
            held.updated_number_scheduled,
            status.updated_number_scheduled,
        ),
    ];
    if held == status {
        StatusChange::None
    } else if is_moving || held.observed_generation == status.observed_generation {
        StatusChange::of_counts(&counts, is_moving)
    } else {
        StatusChange::Now
    }
}
