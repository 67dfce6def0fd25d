//! The status that a set should have. Pure.

use api::MicroTime;
use api::kinds::{DaemonSet, DaemonSetStatus};

use super::pods::by_seniority;
use super::snapshot::Snapshot;

/// Counts nodes, by the senior pod on each. `acted` says whether the set was looked after in this
/// round; if not, its generation has not been observed.
pub fn compute(snapshot: &Snapshot, acted: bool, now: MicroTime) -> DaemonSetStatus {
    let set = &*snapshot.set;
    let mut status = DaemonSetStatus {
        observed_generation: if acted {
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

/// Do only the counts differ? Then the write can wait for more of them.
pub(super) fn differs_in_counts_alone(set: &DaemonSet, status: &DaemonSetStatus) -> bool {
    set.status.observed_generation == status.observed_generation
}
