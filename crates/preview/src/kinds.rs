//! The kinds whose course a preview follows: a line of [`KINDS`] each.

use api::kinds::{
    CronJob, DaemonSet, Deployment, HorizontalPodAutoscaler, Job, Pod, ReplicaSet,
    ReplicationController, StatefulSet,
};
use api::{Resource, ResourceType};
use explain::group_of;
use runtime::Informers;
use serde_json::Value;

use crate::facts::{Gathered, text};
use crate::log::Log;
use crate::rollout;

/// How objects of a kind are followed.
pub struct Kind {
    pub resource: ResourceType,
    pub(crate) course: Course,
}

pub(crate) enum Course {
    /// It is done at some time.
    Completes(Completion),
    /// It acts for as long as it is there. What goes by metrics does nothing where nobody says what these are.
    Endless { by_metrics: bool },
}

/// How it is seen that objects of a kind are done.
pub(crate) struct Completion {
    pub(crate) is_complete: fn(&Value) -> bool,
    /// How many pods it wants.
    pub(crate) wanted: fn(&Value) -> i64,
    /// What the pods of the current template carry; none where the kind tells no templates apart.
    pub(crate) current_hash: fn(&Gathered, &Value) -> Option<String>,
    /// How many pods have the current template, where others may be meant to keep the old one.
    pub(crate) updated: fn(&Value) -> Option<i64>,
    /// What a drain takes away from it is replaced, so that it is complete again.
    pub(crate) recovers: bool,
    pub(crate) listen: fn(&Log, &Informers),
}

static KINDS: [Kind; 9] = [
    Kind {
        resource: Deployment::TYPE,
        course: Course::Completes(Completion {
            is_complete: rollout::is_deployment_complete,
            wanted: rollout::replicas,
            current_hash: Gathered::hash_of_deployment,
            updated: keep_none,
            recovers: true,
            listen: Log::listen_to_deployments,
        }),
    },
    Kind {
        resource: ReplicaSet::TYPE,
        course: Course::Completes(Completion {
            is_complete: rollout::is_replica_set_complete,
            wanted: rollout::replicas,
            current_hash: no_templates,
            updated: keep_none,
            recovers: true,
            listen: Log::listen_to_sets,
        }),
    },
    Kind {
        resource: ReplicationController::TYPE,
        course: Course::Completes(Completion {
            is_complete: rollout::is_replica_set_complete,
            wanted: rollout::replicas,
            current_hash: no_templates,
            updated: keep_none,
            recovers: true,
            listen: Log::listen_to_status::<ReplicationController>,
        }),
    },
    Kind {
        resource: StatefulSet::TYPE,
        course: Course::Completes(Completion {
            is_complete: rollout::is_stateful_set_complete,
            wanted: rollout::replicas,
            current_hash: |_, set| Some(text(set, "/status/updateRevision").to_owned()),
            updated: rollout::updated_of_stateful_set,
            recovers: true,
            listen: Log::listen_to_status::<StatefulSet>,
        }),
    },
    Kind {
        resource: DaemonSet::TYPE,
        course: Course::Completes(Completion {
            is_complete: rollout::is_daemon_set_complete,
            wanted: rollout::nodes_wanted,
            current_hash: Gathered::hash_of_daemon_set,
            updated: |set| Some(rollout::updated_of_daemon_set(set)),
            recovers: true,
            listen: Log::listen_to_status::<DaemonSet>,
        }),
    },
    Kind {
        resource: Job::TYPE,
        course: Course::Completes(Completion {
            is_complete: rollout::is_job_complete,
            wanted: rollout::completions,
            current_hash: no_templates,
            updated: keep_none,
            // It has its own end.
            recovers: false,
            listen: Log::listen_to_jobs,
        }),
    },
    Kind {
        resource: Pod::TYPE,
        course: Course::Completes(Completion {
            is_complete: rollout::is_pod_complete,
            wanted: rollout::replicas,
            current_hash: no_templates,
            updated: keep_none,
            // One that nobody owns goes for good.
            recovers: false,
            listen: Log::listen_to_pods,
        }),
    },
    Kind {
        resource: CronJob::TYPE,
        course: Course::Endless { by_metrics: false },
    },
    Kind {
        resource: HorizontalPodAutoscaler::TYPE,
        course: Course::Endless { by_metrics: true },
    },
];

fn no_templates(_: &Gathered, _: &Value) -> Option<String> {
    None
}

fn keep_none(_: &Value) -> Option<i64> {
    None
}

impl Kind {
    pub(crate) fn all() -> impl Iterator<Item = &'static Kind> {
        KINDS.iter()
    }

    /// How an object is followed; none for what is not. A custom resource that is merely called like a workload is none.
    pub fn of(object: &Value) -> Option<&'static Kind> {
        let (group, kind) = (group_of(object), text(object, "/kind"));
        let mut all = KINDS.iter();
        all.find(|one| one.resource.kind == kind && one.resource.group == group)
    }

    pub(crate) fn completion(&self) -> Option<&Completion> {
        match &self.course {
            Course::Completes(completion) => Some(completion),
            Course::Endless { .. } => None,
        }
    }

    pub(crate) fn is_endless(&self) -> bool {
        self.completion().is_none()
    }

    /// It does nothing where nobody says what metrics are.
    pub fn goes_by_metrics(&self) -> bool {
        matches!(self.course, Course::Endless { by_metrics: true })
    }

    pub(crate) fn is<K: Resource>(&self) -> bool {
        self.resource == K::TYPE
    }
}

/// The kinds that a preview of these manifests has to know of the present state: those that complete, and what their
/// controllers go by. What is endless acts by itself, so it counts only where the preview is about it.
pub fn kinds_of_state<'a>(
    manifests: impl Iterator<Item = &'a Value> + Clone,
    has_metrics: bool,
) -> Vec<ResourceType> {
    let is_wanted = |kind: &&Kind| {
        let mut applied = manifests.clone();
        !kind.is_endless()
            || kind.goes_by_metrics() && has_metrics
            || applied.any(|object| object["kind"] == *kind.resource.kind)
    };
    let mut found: Vec<ResourceType> = Vec::new();
    for kind in KINDS.iter().filter(is_wanted) {
        let explained = explain::Kind::all().find(|one| one.resource == kind.resource);
        let inputs = explained.map_or(&[][..], |explained| explained.inputs);
        for resource in inputs.iter().chain([&kind.resource]) {
            if !found.contains(resource) {
                found.push(resource.clone());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use api::kinds::WORKLOADS;

    use super::*;

    /// A controller whose decisions are shown decides about kinds that are followed, and nothing else is.
    #[test]
    fn what_is_followed_is_what_controllers_in_previews_decide_about() {
        let shown = controllers::ALL.iter().filter(|one| one.in_preview);
        let decided: BTreeSet<(ResourceType, bool)> = shown
            .flat_map(|one| {
                one.decides_about
                    .iter()
                    .map(|kind| (kind.clone(), one.reads_metrics))
            })
            .collect();
        // Pods are watched; what their controllers decide is told with their owners.
        let followed = KINDS.iter().filter(|kind| !kind.is::<Pod>());
        let followed: BTreeSet<(ResourceType, bool)> = followed
            .map(|kind| (kind.resource.clone(), kind.goes_by_metrics()))
            .collect();
        assert_eq!(followed, decided);
    }

    #[test]
    fn all_workloads_complete_and_are_explained() {
        for workload in &WORKLOADS {
            let known = KINDS.iter().find(|kind| kind.resource == workload.resource);
            let completes = known.is_some_and(|kind| !kind.is_endless());
            assert!(completes, "{}", workload.resource);
        }
        for kind in &KINDS {
            let mut explained = explain::Kind::all();
            let is_explained = explained.any(|one| one.resource == kind.resource);
            assert!(is_explained, "{}", kind.resource);
        }
    }
}
