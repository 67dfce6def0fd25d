//! Which workloads come, and how often. What users do with them is in the folders of their controllers.

use api::kinds::{DaemonSet, Deployment, Job, ReplicaSet, ReplicationController, StatefulSet};
use api::{Resource, ResourceType, Rng};
use controllers::oracle::Workloads;

use super::Target;

/// A workload as the generator remembers it.
pub(super) struct Workload {
    pub(super) kind: &'static Workloads,
    pub(super) target: Target,
    /// What it selects by.
    pub(super) app: String,
    pub(super) versions: Vec<usize>,
}

/// Deployments and what they rest on come most often: most users' lives depend on them.
const KINDS: [ResourceType; 10] = [
    Deployment::TYPE,
    Deployment::TYPE,
    Deployment::TYPE,
    ReplicaSet::TYPE,
    StatefulSet::TYPE,
    StatefulSet::TYPE,
    DaemonSet::TYPE,
    ReplicationController::TYPE,
    Job::TYPE,
    Job::TYPE,
];

pub(super) fn draw_kind(rng: &Rng) -> &'static Workloads {
    let kinds: Vec<&Workloads> = KINDS.iter().filter_map(of_kind).collect();
    kinds[rng.below(kinds.len())]
}

fn of_kind(kind: &ResourceType) -> Option<&'static Workloads> {
    all_workloads().find(|workloads| workloads.resource == *kind)
}

/// How users run things, by objects of each kind.
pub(crate) fn all_workloads() -> impl Iterator<Item = &'static Workloads> {
    controllers::built().flat_map(|descriptor| descriptor.workloads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_of_every_kind_come() {
        assert!(KINDS.iter().all(|kind| of_kind(kind).is_some()));
        let left_out = all_workloads().find(|workloads| !KINDS.contains(&workloads.resource));
        assert_eq!(left_out.map(|workloads| &workloads.resource), None);
    }
}
