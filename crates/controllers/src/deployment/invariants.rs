//! What must hold: always ([`safe`], [`scaled_in_proportion`], [`rolled_back`], [`progressing_is_true`]), and once nothing changes
//! any more ([`converged`], [`reported()`]).

mod reported;

use std::sync::Arc;

use api::IntOrString;
use api::kinds::{Deployment, ReplicaSet};

pub use reported::{Seen, progressing_is_true, reported};

const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";

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
    let limit = deployment.spec.revision_history_limit;
    let is_complete =
        new.status.available_replicas == wanted && old.iter().all(|set| set.status.replicas == 0);
    if let Some(limit) = limit.filter(|limit| *limit != i32::MAX)
        && old.len() > usize::try_from(limit).unwrap_or(0)
        && is_complete
    {
        let count = old.len();
        return Err(format!("{} keeps {count} old sets of {limit}", meta.key()));
    }
    if deployment.rollback_to().is_some() {
        return Err(format!("{} still asks for a rollback", meta.key()));
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
    // UPSTREAM: a new size is shared out set by set, so in the midst of it there may be too few.
    if !has_shared_out(deployment, sets) {
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

/// Has each set with pods been given its share of the size that the Deployment has now?
pub fn has_shared_out(deployment: &Deployment, sets: &[Arc<ReplicaSet>]) -> bool {
    let wanted = deployment.replicas().to_string();
    owned(deployment, sets).all(|set| {
        let desired = set.metadata.annotation(DESIRED);
        set.replicas() == 0 || desired.is_none_or(|desired| desired == wanted)
    })
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

/// A Deployment that gets another size while several sets have pods gives each of them its share: `before` and `after` are
/// the first set that was resized for that, `sets` all of them after it. Each keeps its part of the whole, rounded, and
/// what is left over by that goes to the largest.
///
/// Holds for rolling updates, as long as the controller sees the sets as they are.
pub fn scaled_in_proportion(
    deployment: &Deployment,
    sets: &[Arc<ReplicaSet>],
    before: &ReplicaSet,
    after: &ReplicaSet,
) -> Result<(), String> {
    let (desired, most) = (DESIRED, "deployment.kubernetes.io/max-replicas");
    let noted = |set: &ReplicaSet, key: &str| set.metadata.annotation(key)?.parse::<i32>().ok();
    let wanted = deployment.replicas();
    let mut others: Vec<&ReplicaSet> = owned(deployment, sets).map(|set| &**set).collect();
    others.retain(|set| set.metadata.uid != before.metadata.uid && set.replicas() > 0);
    let all: i32 = others.iter().map(|set| set.replicas()).sum::<i32>() + before.replicas();
    // All of them were last given their size together, and are whole.
    let mut sizes = others
        .iter()
        .copied()
        .chain([before])
        .map(|set| noted(set, most));
    let were_shared = sizes.all(|size| size == Some(all));
    let is_resized =
        noted(before, desired) != Some(wanted) && noted(after, desired) == Some(wanted);
    // UPSTREAM: a new set that has all pods that are wanted takes over, whatever was shared.
    let template = &deployment.spec.template;
    let has_all = |set: &ReplicaSet| {
        set.spec.template.same_meaning(template) && set.status.available_replicas == wanted
    };
    let takes_over = others.iter().copied().chain([before]).any(has_all);
    if deployment.spec.strategy.recreate
        || others.is_empty()
        || before.replicas() == 0
        || !were_shared
        || !is_resized
        || takes_over
    {
        return Ok(());
    }
    let allowed = if wanted > 0 { bounds(deployment).1 } else { 0 };
    let share = f64::from(before.replicas()) * f64::from(allowed) / f64::from(all);
    // Half a pod for its own rounding and half for that of each set.
    let slack = 0.5 + 0.5 * (others.len() + 1) as f64;
    match (f64::from(after.replicas()) - share).abs() > slack {
        true => Err(format!(
            "{}: {} had {} of {all} pods and gets {} of {allowed}",
            deployment.metadata.key(),
            before.metadata.name,
            before.replicas(),
            after.replicas()
        )),
        false => Ok(()),
    }
}

/// A controller changes a Deployment's template only to go back to the revision that was asked for, and it does go back.
/// `before` and `after` are the Deployment. Holds as long as the controller sees it and its sets as they are.
pub fn rolled_back(
    before: &Deployment,
    after: &Deployment,
    sets: &[Arc<ReplicaSet>],
) -> Result<(), String> {
    let key = after.metadata.key();
    let (was, is) = (&before.spec.template, &after.spec.template);
    let Some(asked) = before.rollback_to() else {
        return match is.same_meaning(was) {
            true => Ok(()),
            false => Err(format!(
                "{key} got another template, which nobody asked for"
            )),
        };
    };
    if after.rollback_to().is_some() {
        return Ok(());
    }
    let mut revisions: Vec<i64> = owned(after, sets).map(|set| revision_of(set)).collect();
    revisions.sort_unstable_by(|one, two| two.cmp(one));
    // None means the last one before the present.
    let wanted = match asked.revision {
        0 => revisions.get(1).copied().unwrap_or(0),
        revision => revision,
    };
    let mut sets = owned(after, sets);
    let target = sets.find(|set| wanted > 0 && revision_of(set) == wanted);
    let expected = target.map_or(was, |set| &set.spec.template);
    match is.same_meaning(expected) {
        true => Ok(()),
        false => Err(format!(
            "{key} was to go back to revision {wanted}, and did not"
        )),
    }
}

/// The number of the rollout that a set is of; none is 0.
fn revision_of(set: &ReplicaSet) -> i64 {
    let text = set.metadata.annotation("deployment.kubernetes.io/revision");
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
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
