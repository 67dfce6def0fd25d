//! The two ways from an old template to a new one. Pure.

use api::ObjectId;
use api::kinds::ReplicaSet;

use super::history;
use super::limits::{is_complete, most_replicas, must_stay_available, new_set_size};
use super::plan::{Which, Work};
use super::reason::{Reason, Why};

/// Old pods go and new ones come, a few at a time.
pub(super) fn rolling(work: &mut Work<'_>) {
    work.ensure_new_set();
    if scale_new(work) || scale_old(work) {
        return;
    }
    clean_up_if_complete(work);
}

/// First all old pods go, then the new ones come.
pub(super) fn recreate(work: &mut Work<'_>) {
    let mut scaled = false;
    for which in old_active(work) {
        scaled |= work.scale(which, 0, Why::Recreates);
    }
    if scaled {
        return;
    }
    if let Some((set, pods)) = old_pods(work) {
        work.reasons.push(Reason::OldPodsRun { set, pods });
        return;
    }
    work.ensure_new_set();
    work.scale(Which::New, work.deployment.replicas(), Why::RollsOut);
    clean_up_if_complete(work);
}

fn clean_up_if_complete(work: &mut Work<'_>) {
    if is_complete(work.deployment, &work.deployment.status) {
        history::plan(work);
    }
}

fn old_active(work: &Work<'_>) -> Vec<Which> {
    let mut active = work.active();
    active.retain(|which| *which != Which::New);
    active
}

/// An old set that still has pods, as it says or as its pods say.
fn old_pods(work: &Work<'_>) -> Option<(ObjectId, i64)> {
    let new_uid = work.new.as_ref().map(|set| &set.metadata.uid);
    let snapshot = work.snapshot;
    snapshot
        .sets
        .iter()
        .zip(&snapshot.unfinished_pods)
        .find_map(|(set, unfinished)| {
            let counted = usize::try_from(set.status.replicas).unwrap_or(0);
            let pods = counted.max(*unfinished);
            let old = Some(&set.metadata.uid) != new_uid;
            (old && pods > 0).then(|| (ObjectId::of(&**set), pods as i64))
        })
}

/// True if the new set gets another size.
fn scale_new(work: &mut Work<'_>) -> bool {
    let Some(new) = &work.new else { return false };
    let (have, wanted) = (new.replicas(), work.deployment.replicas());
    let to = if have >= wanted {
        wanted
    } else {
        new_set_size(work.deployment, have, work.total_replicas() - have)
    };
    if to == have && have < wanted && work.steps.is_empty() {
        let (set, most) = (ObjectId::of(new), most_replicas(work.deployment));
        work.reasons.push(Reason::NoRoom {
            set,
            have,
            wanted,
            most,
        });
    }
    work.scale(Which::New, to, Why::RollsOut)
}

/// True if an old set gets smaller.
fn scale_old(work: &mut Work<'_>) -> bool {
    let old: i32 = work.old.iter().map(ReplicaSet::replicas).sum();
    if old == 0 {
        return false;
    }
    let must_stay = must_stay_available(work.deployment);
    let new_unavailable = work
        .new
        .as_ref()
        .map_or(0, |new| new.replicas() - new.status.available_replicas);
    // New pods that are not available may not cost old ones: a rollout of a broken template stops here.
    let most = work.total_replicas() - must_stay - new_unavailable;
    let mut scaled = 0;
    if most > 0 {
        let active = old_active(work);
        let available_of = |which: &Which| {
            work.set(*which)
                .map_or(0, |set| set.status.available_replicas)
        };
        let available = active.iter().chain([&Which::New]).map(available_of).sum();
        match remove_unhealthy(work, &active, most) {
            Ok(removed) => scaled = removed + remove_replaced(work, &active, available, must_stay),
            Err(set) => {
                work.reasons.push(Reason::StillShrinking { set });
                return false;
            }
        }
    }
    if scaled <= 0 {
        let available = work.sets().map(|set| set.status.available_replicas).sum();
        work.reasons.push(Reason::OldKept {
            old,
            must_stay,
            available,
            new_unavailable,
        });
    }
    scaled > 0
}

/// Pods of old sets that are not available go first: they can only be in the way. Gives
/// a set whose status is ahead of its size, which says that it is just being scaled down.
fn remove_unhealthy(work: &mut Work<'_>, active: &[Which], most: i32) -> Result<i32, ObjectId> {
    let mut removed = 0;
    for which in active {
        let Some(set) = work.set(*which) else {
            continue;
        };
        let have = set.replicas();
        let unhealthy = have - set.status.available_replicas;
        if removed >= most {
            break;
        }
        if unhealthy < 0 {
            // UPSTREAM: ends this sync of scaling down.
            return Err(ObjectId::of(set));
        }
        let count = unhealthy.min(most - removed);
        work.scale(*which, have - count, Why::Unhealthy);
        removed += count;
    }
    Ok(removed)
}

/// Available pods of old sets go as far as enough others are available.
fn remove_replaced(work: &mut Work<'_>, active: &[Which], available: i32, must_stay: i32) -> i32 {
    let spare = available - must_stay;
    let mut removed = 0;
    for which in active {
        if removed >= spare {
            break;
        }
        let have = work.set(*which).map_or(0, ReplicaSet::replicas);
        let count = have.min(spare - removed);
        work.scale(*which, have - count, Why::Replaced);
        removed += count;
    }
    removed
}
