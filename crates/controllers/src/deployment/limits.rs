//! How far a rollout may go: the numbers that `maxSurge` and `maxUnavailable` come to.

use api::int_or_string::{Fenceposts, resolve_fenceposts};
use api::kinds::{Deployment, DeploymentStatus, ReplicaSet};

use super::annotations;

/// Pods above `spec.replicas` that a rolling update may have; none with `Recreate`.
pub(super) fn max_surge(deployment: &Deployment) -> i32 {
    fenceposts(deployment).max_surge
}

/// Pods below `spec.replicas` that a rolling update may be short of; none with `Recreate`.
pub fn max_unavailable(deployment: &Deployment) -> i32 {
    let replicas = deployment.replicas();
    if replicas == 0 {
        return 0;
    }
    fenceposts(deployment).max_unavailable.min(replicas)
}

/// The most pods that the Deployment may have at any time.
pub fn most_replicas(deployment: &Deployment) -> i32 {
    deployment.replicas().saturating_add(max_surge(deployment))
}

pub(super) fn must_stay_available(deployment: &Deployment) -> i32 {
    deployment.replicas() - max_unavailable(deployment)
}

fn fenceposts(deployment: &Deployment) -> Fenceposts {
    const NONE: Fenceposts = Fenceposts {
        max_surge: 0,
        max_unavailable: 0,
    };
    let strategy = &deployment.spec.strategy;
    if strategy.recreate {
        return NONE;
    }
    // The API server lets nothing through that does not resolve.
    resolve_fenceposts(
        strategy.max_surge.as_ref(),
        strategy.max_unavailable.as_ref(),
        deployment.replicas(),
    )
    .unwrap_or(NONE)
}

/// How many pods the new set may have, with `others` in the remaining sets.
pub(super) fn new_set_size(deployment: &Deployment, current: i32, others: i32) -> i32 {
    let replicas = deployment.replicas();
    if deployment.spec.strategy.recreate {
        return replicas;
    }
    let room = most_replicas(deployment) - current - others;
    if room <= 0 {
        return current;
    }
    current + room.min(replicas - current)
}

/// All pods are of the new template and available, and no old ones are left.
pub(super) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let replicas = deployment.replicas();
    status.updated_replicas == replicas
        && status.replicas == replicas
        && status.available_replicas == replicas
        && status.observed_generation >= deployment.metadata.generation
}

/// The set owns all the pods that are wanted, knows it, and all are available.
pub(super) fn is_saturated(deployment: &Deployment, set: &ReplicaSet) -> bool {
    let replicas = deployment.replicas();
    annotations::count(set, annotations::DESIRED_REPLICAS) == Some(replicas)
        && set.replicas() == replicas
        && set.status.available_replicas == replicas
}

/// `progressDeadlineSeconds`, unless it says "never".
pub(super) fn progress_deadline(deployment: &Deployment) -> Option<i32> {
    deployment
        .spec
        .progress_deadline_seconds
        .filter(|seconds| *seconds != i32::MAX)
}

/// `revisionHistoryLimit`, unless it says "all".
pub(super) fn history_limit(deployment: &Deployment) -> Option<i32> {
    deployment
        .spec
        .revision_history_limit
        .filter(|limit| *limit != i32::MAX)
}
