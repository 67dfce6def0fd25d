//! The kinds whose controllers make pods from a template that they hold: what explains, predicts or draws workloads
//! asks here which kinds are some.

use super::{DaemonSet, Deployment, Job, ReplicaSet, ReplicationController, StatefulSet};
use crate::{Resource, ResourceType};

pub struct Workload {
    pub resource: ResourceType,
    /// A change of its template replaces its pods, as far as its strategy allows.
    pub rolls_out: bool,
}

pub static WORKLOADS: [Workload; 6] = [
    Workload::rolling(Deployment::TYPE),
    Workload::steady(ReplicaSet::TYPE),
    Workload::steady(ReplicationController::TYPE),
    Workload::rolling(StatefulSet::TYPE),
    Workload::rolling(DaemonSet::TYPE),
    Workload::steady(Job::TYPE),
];

impl Workload {
    const fn rolling(resource: ResourceType) -> Workload {
        Workload {
            resource,
            rolls_out: true,
        }
    }

    const fn steady(resource: ResourceType) -> Workload {
        Workload {
            resource,
            rolls_out: false,
        }
    }

    /// The workload of this kind; a custom resource that is called like one is none.
    pub fn of(group: &str, kind: &str) -> Option<&'static Workload> {
        let mut all = WORKLOADS.iter();
        all.find(|one| one.resource.group == group && one.resource.kind == kind)
    }
}
