//! Scaling while more than one set has pods: each gets its share. Pure.
//!
//! Growing the new set alone, or shrinking the old ones alone, would hasten the rollout and with it
//! the damage that a bad template does. So all active sets grow and shrink in proportion.

use std::cmp::Ordering;

use api::kinds::{Deployment, ReplicaSet};

use super::annotations;
use super::limits::{is_saturated, max_surge, most_replicas};
use super::plan::{Which, Work};
use super::reason::Why;
use super::snapshot::by_age;

pub(super) fn plan(work: &mut Work<'_>) {
    let wanted = work.deployment.replicas();
    if let Some(only) = active_or_latest(work) {
        let noted = work.set(only).map(|set| {
            set.replicas() == 0
                || annotations::count(set, annotations::DESIRED_REPLICAS)
                    .is_none_or(|desired| desired == wanted)
        });
        if noted == Some(false) {
            work.scale_or_note(only, wanted, Why::Resized);
        } else {
            work.scale(only, wanted, Why::Resized);
        }
        return;
    }
    if work
        .new
        .as_ref()
        .is_some_and(|new| is_saturated(work.deployment, new))
    {
        for which in work.active() {
            if which != Which::New {
                work.scale(which, 0, Why::Saturated);
            }
        }
        return;
    }
    if !work.deployment.spec.strategy.recreate {
        scale_in_proportion(work);
    }
}

/// The only set with pods, or the newest if none has any.
fn active_or_latest(work: &Work<'_>) -> Option<Which> {
    match work.active().as_slice() {
        [] if work.new.is_some() => Some(Which::New),
        [] => work.old.len().checked_sub(1).map(Which::Old),
        [only] => Some(*only),
        _ => None,
    }
}

fn scale_in_proportion(work: &mut Work<'_>) {
    let deployment = work.deployment;
    let allowed = match deployment.replicas() {
        wanted if wanted > 0 => most_replicas(deployment),
        _ => 0,
    };
    let mut active = work.active();
    let present: i32 = active
        .iter()
        .filter_map(|which| work.set(*which))
        .map(ReplicaSet::replicas)
        .sum();
    let to_add = allowed - present;
    active.sort_by(|one, two| match (work.set(*one), work.set(*two)) {
        (Some(one), Some(two)) => by_size(one, two, to_add > 0),
        _ => Ordering::Equal,
    });
    let mut added = 0;
    let mut sizes = Vec::with_capacity(active.len());
    for which in &active {
        let Some(set) = work.set(*which) else {
            continue;
        };
        let share = share(set, deployment, to_add, added);
        sizes.push((*which, set.replicas() + share));
        added += share;
    }
    // What rounding leaves over goes to the largest.
    if let Some((_, size)) = sizes.first_mut() {
        *size = (*size + to_add - added).max(0);
    }
    for (which, size) in sizes {
        work.scale_or_note(which, size, Why::Resized);
    }
}

/// Largest first. Of equal ones the newer grow first, and the older shrink first.
fn by_size(one: &ReplicaSet, two: &ReplicaSet, growing: bool) -> Ordering {
    let by_age = by_age(one, two);
    two.replicas()
        .cmp(&one.replicas())
        .then(if growing { by_age.reverse() } else { by_age })
}

/// How many pods the set gets (or loses, if negative) of the `to_add` pods, of which `added` are
/// given away already.
pub(super) fn share(set: &ReplicaSet, deployment: &Deployment, to_add: i32, added: i32) -> i32 {
    if set.replicas() == 0 || to_add == 0 || to_add == added {
        return 0;
    }
    let fraction = fraction(set, deployment);
    let allowed = to_add - added;
    if to_add > 0 {
        fraction.min(allowed)
    } else {
        fraction.max(allowed)
    }
}

/// By how much the set changes if it keeps its part of the whole.
fn fraction(set: &ReplicaSet, deployment: &Deployment) -> i32 {
    let (size, wanted) = (set.replicas(), deployment.replicas());
    if wanted == 0 {
        return -size;
    }
    let most = wanted + max_surge(deployment);
    let most_before = annotations::count(set, annotations::MAX_REPLICAS)
        .filter(|most| *most != 0)
        // Somebody has removed the annotation: the present size is the best guess.
        .unwrap_or(deployment.status.replicas);
    if most_before == 0 {
        return 0;
    }
    let new_size = f64::from(size) * f64::from(most) / f64::from(most_before);
    new_size.round() as i32 - size
}
