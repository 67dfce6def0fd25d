//! Which old sets are forgotten. Pure.

use std::cmp::Ordering;

use api::ObjectId;
use api::kinds::ReplicaSet;

use super::annotations::revision;
use super::limits::history_limit;
use super::plan::{Step, Work};
use super::reason::Reason;
use super::snapshot::by_age;

/// Deletes the oldest revisions beyond `revisionHistoryLimit`, as far as they are empty.
pub(super) fn plan(work: &mut Work<'_>) {
    let Some(limit) = history_limit(work.deployment) else {
        return;
    };
    let mut alive: Vec<&ReplicaSet> = work
        .old
        .iter()
        .filter(|set| !set.metadata.is_terminating())
        .collect();
    let surplus = alive
        .len()
        .saturating_sub(usize::try_from(limit).unwrap_or(0));
    if surplus == 0 {
        return;
    }
    alive.sort_by(|one, two| by_revision(one, two));
    let (mut steps, mut reasons) = (Vec::new(), Vec::new());
    for old in alive.into_iter().take(surplus) {
        let set = ObjectId::of(old);
        if !is_empty(old) {
            reasons.push(Reason::KeptNonEmpty { set });
            continue;
        }
        let revision = revision(old).unwrap_or(0);
        reasons.push(Reason::Forgets {
            set,
            revision,
            limit,
        });
        steps.extend(work.read(old).map(Step::Delete));
    }
    work.steps.append(&mut steps);
    work.reasons.append(&mut reasons);
}

/// By revision where both have one, else by age.
pub(super) fn by_revision(one: &ReplicaSet, two: &ReplicaSet) -> Ordering {
    match (revision(one), revision(two)) {
        (Some(first), Some(second)) if first != second => first.cmp(&second),
        _ => by_age(one, two),
    }
}

fn is_empty(set: &ReplicaSet) -> bool {
    set.replicas() == 0
        && set.status.replicas == 0
        && set.metadata.generation <= set.status.observed_generation
}
