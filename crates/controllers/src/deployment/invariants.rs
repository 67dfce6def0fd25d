//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use std::sync::Arc;

use api::IntOrString;
use api::kinds::{Deployment, ReplicaSet};

use super::limits::{history_limit, is_complete};

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
    let most = bounds(deployment).1.max(most_before);
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

/// A rollout takes away no pod that must stay: the sets ask for enough that availability can reach
/// the minimum again, less what the statuses have promised beyond that ([`surplus`]). `least_before` is the smallest minimum that the Deployment has had, for as long as
/// its controller may not know better.
pub fn keeps_enough(
    deployment: &Deployment,
    sets: &[Arc<ReplicaSet>],
    least_before: i32,
) -> Result<(), String> {
    if deployment.spec.strategy.recreate || deployment.metadata.is_terminating() {
        return Ok(());
    }
    let asked: i32 = owned(deployment, sets).map(|set| set.replicas()).sum();
    let least = bounds(deployment).0.min(least_before);
    if asked < least {
        let key = deployment.metadata.key();
        return Err(format!("{key} asks for {asked} pods, {least} must stay"));
    }
    Ok(())
}

/// How many pods a set's status says to be available beyond those that the set asks for.
///
/// UPSTREAM: a rollout takes them for pods that stay, although the set is about to delete them, and takes as
/// many more from old sets. So the floor holds for what the statuses say, not for what the sets ask for.
pub fn surplus(set: &ReplicaSet) -> i32 {
    (set.status.available_replicas - set.replicas()).max(0)
}

/// With the strategy Recreate a set gets pods only when no other set has any.
pub fn recreates(
    deployment: &Deployment,
    sets: &[Arc<ReplicaSet>],
    grown: &ReplicaSet,
    has_pods: impl Fn(&ReplicaSet) -> bool,
) -> Result<(), String> {
    let meta = &deployment.metadata;
    if !deployment.spec.strategy.recreate {
        return Ok(());
    }
    let mut others = owned(deployment, sets).filter(|set| set.metadata.uid != grown.metadata.uid);
    match others.find(|set| has_pods(set)) {
        Some(other) => Err(format!(
            "{} is to be recreated, but {} gets pods while {} still has some",
            meta.key(),
            grown.metadata.name,
            other.metadata.name
        )),
        None => Ok(()),
    }
}

/// The fewest pods that must stay and the most that may be, reckoned here and not by the code that is
/// being judged: surge rounds up, unavailability down, and not both may be zero.
pub fn bounds(deployment: &Deployment) -> (i32, i32) {
    let (strategy, replicas) = (&deployment.spec.strategy, deployment.replicas());
    if strategy.recreate {
        return (0, replicas);
    }
    let share = |amount: Option<&IntOrString>, up: bool| match amount {
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::Text(text)) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            let hundredths = percent * i64::from(replicas);
            let whole = hundredths / 100 + i64::from(up && hundredths % 100 > 0);
            i32::try_from(whole).unwrap_or(i32::MAX)
        }
        None => 0,
    };
    let surge = share(strategy.max_surge.as_ref(), true);
    let mut unavailable = share(strategy.max_unavailable.as_ref(), false);
    if surge == 0 && unavailable == 0 {
        unavailable = 1;
    }
    let least = replicas - unavailable.min(replicas);
    (least, replicas.saturating_add(surge))
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
