//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use std::sync::Arc;

use api::kinds::{Deployment, ReplicaSet};

use super::limits::{history_limit, is_complete, most_replicas, must_stay_available};

/// Nothing is left to do: one set has the template and all pods, the others are empty and no more
/// than the history holds, and the status says so.
pub fn converged(deployment: &Deployment, sets: &[Arc<ReplicaSet>]) -> Result<(), String> {
    let meta = &deployment.metadata;
    if meta.is_terminating() || deployment.spec.paused || deployment.spec.selector.is_empty() {
        return Ok(());
    }
    let (new, old) = split(deployment, sets);
    let wanted = deployment.replicas();
    let [new] = new.as_slice() else {
        let count = new.len();
        return Err(format!(
            "{} has {count} ReplicaSets of its template",
            meta.key()
        ));
    };
    if new.replicas() != wanted {
        let have = new.replicas();
        return Err(format!(
            "{} wants {wanted} pods, its set {have}",
            meta.key()
        ));
    }
    if let Some(left) = old.iter().find(|set| set.replicas() > 0) {
        return Err(format!(
            "{} still wants pods of {}",
            meta.key(),
            left.metadata.name
        ));
    }
    if let Some(limit) = history_limit(deployment)
        && old.len() > usize::try_from(limit).unwrap_or(0)
        && is_complete(deployment, &deployment.status)
    {
        let count = old.len();
        return Err(format!("{} keeps {count} old sets of {limit}", meta.key()));
    }
    let status = &deployment.status;
    let said = (
        status.replicas,
        status.updated_replicas,
        status.observed_generation,
    );
    let pods: i32 = owned(deployment, sets).map(|set| set.status.replicas).sum();
    let seen = (pods, new.status.replicas, meta.generation);
    if said != seen {
        return Err(format!(
            "{}: status says (replicas, updated, generation) {said:?}, the sets say {seen:?}",
            meta.key()
        ));
    }
    Ok(())
}

/// Never more pods asked for than `spec.replicas` and surge allow; `most_before` is the largest such
/// number that the Deployment has had, for as long as it has not been resized yet.
///
/// Holds for rolling updates whose sets nobody else scales.
pub fn safe(
    deployment: &Deployment,
    sets: &[Arc<ReplicaSet>],
    most_before: i32,
) -> Result<(), String> {
    let key = deployment.metadata.key();
    let asked: i32 = owned(deployment, sets).map(|set| set.replicas()).sum();
    let most = most_replicas(deployment).max(most_before);
    if asked > most {
        return Err(format!(
            "{key} asks for {asked} pods, at most {most} are allowed"
        ));
    }
    let (new, _) = split(deployment, sets);
    if new.len() > 1 {
        let count = new.len();
        return Err(format!("{key} has {count} ReplicaSets of one template"));
    }
    Ok(())
}

/// A rollout takes away no pod that must stay: the sets ask for enough that `available` can reach
/// the minimum again.
pub fn keeps_enough(deployment: &Deployment, sets: &[Arc<ReplicaSet>]) -> Result<(), String> {
    if deployment.spec.strategy.recreate {
        return Ok(());
    }
    let asked: i32 = owned(deployment, sets).map(|set| set.replicas()).sum();
    let least = must_stay_available(deployment);
    if asked < least {
        let key = deployment.metadata.key();
        return Err(format!("{key} asks for {asked} pods, {least} must stay"));
    }
    Ok(())
}

fn owned<'a>(
    deployment: &'a Deployment,
    sets: &'a [Arc<ReplicaSet>],
) -> impl Iterator<Item = &'a Arc<ReplicaSet>> {
    let uid = &deployment.metadata.uid;
    sets.iter()
        .filter(move |set| set.metadata.is_controlled_by(uid) && !set.metadata.is_terminating())
}

/// Sets of the current template, and the others.
fn split<'a>(
    deployment: &'a Deployment,
    sets: &'a [Arc<ReplicaSet>],
) -> (Vec<&'a Arc<ReplicaSet>>, Vec<&'a Arc<ReplicaSet>>) {
    let template = &deployment.spec.template;
    owned(deployment, sets).partition(|set| set.spec.template.same_meaning(template))
}
