//! What a Deployment keeps in annotations: of its ReplicaSets, and which of its own they inherit.

use api::kinds::{Deployment, ReplicaSet};
use api::{Istr, LabelSet};

/// On ReplicaSets and Deployments: the number of the rollout.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// On ReplicaSets: numbers of earlier rollouts of the same template, separated by commas.
pub(super) const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// On ReplicaSets: `spec.replicas` of the Deployment when the set was last scaled.
pub(super) const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// On ReplicaSets: `spec.replicas` and the surge at that time.
pub(super) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// On Deployments: asks for a rollback to this revision; 0 for the last one.
pub(super) const ROLLBACK_TO: &str = api::kinds::ROLLBACK_TO;

/// What `kubectl apply` wrote; it speaks of the Deployment alone.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A hundred revisions of usual length: the history annotation grows no longer than this.
// UPSTREAM: the same limit.
const HISTORY_CHARS_MAX: usize = 2000;

/// Does a ReplicaSet inherit this annotation of its Deployment?
pub(super) fn inherited(key: &str) -> bool {
    !matches!(
        key,
        LAST_APPLIED | REVISION | REVISION_HISTORY | DESIRED_REPLICAS | MAX_REPLICAS | ROLLBACK_TO
    )
}

/// The revision of a set: 0 if it has none, nothing if it is not a number.
pub(super) fn revision(set: &ReplicaSet) -> Option<i64> {
    match set.metadata.annotation(REVISION) {
        None => Some(0),
        Some(text) => text.parse().ok(),
    }
}

pub(super) fn max_revision<'a>(sets: impl IntoIterator<Item = &'a ReplicaSet>) -> i64 {
    sets.into_iter()
        .filter_map(revision)
        .fold(0, |highest, one| highest.max(one))
}

/// The second highest revision: the one that "undo" means.
pub(super) fn last_revision<'a>(sets: impl IntoIterator<Item = &'a ReplicaSet>) -> i64 {
    let (mut highest, mut second) = (0, 0);
    for one in sets.into_iter().filter_map(revision) {
        if one >= highest {
            (highest, second) = (one, highest);
        } else if one > second {
            second = one;
        }
    }
    second
}

/// A count in an annotation: digits alone, within an int32.
pub(super) fn count(set: &ReplicaSet, key: &str) -> Option<i32> {
    let text = set.metadata.annotation(key)?;
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())?
}

/// The annotations of the set that runs the Deployment's template: those it inherits, and a
/// revision above all others, with the one it had before in its history.
pub(super) fn of_new_set(deployment: &Deployment, held: &LabelSet, new_revision: i64) -> LabelSet {
    let mut changed: Vec<(Istr, Istr)> = Vec::new();
    for (key, value) in deployment.metadata.annotations.iter() {
        if inherited(key) && held.get(key) != Some(value) {
            changed.push((Istr::new(key), Istr::new(value)));
        }
    }
    let old = held.get(REVISION).unwrap_or_default();
    let old_revision = match old.parse::<i64>() {
        Ok(number) => number,
        Err(_) if old.is_empty() => 0,
        // UPSTREAM: a revision that somebody has spoiled stops everything here, also the copying.
        Err(_) => return held.clone(),
    };
    if old_revision < new_revision {
        changed.push((Istr::new(REVISION), Istr::new(&new_revision.to_string())));
        if held.contains_key(REVISION)
            && let Some(history) = extended_history(held.get(REVISION_HISTORY), old)
        {
            changed.push((Istr::new(REVISION_HISTORY), Istr::new(&history)));
        }
    }
    with_all(held, changed)
}

/// The history with one more revision; the oldest go when it gets too long.
fn extended_history(history: Option<&str>, revision: &str) -> Option<String> {
    let history = history.unwrap_or_default();
    if history.is_empty() || history.starts_with(',') {
        return Some(revision.into());
    }
    let mut kept: Vec<&str> = history.split(',').collect();
    let mut length = history.len() + revision.len() + 1;
    while length > HISTORY_CHARS_MAX && !kept.is_empty() {
        length -= kept.remove(0).len() + 1;
    }
    kept.push(revision);
    (length <= HISTORY_CHARS_MAX).then(|| kept.join(","))
}

/// These annotations with the sizes that the Deployment has now.
pub(super) fn with_sizes(held: &LabelSet, desired: i32, most: i32) -> LabelSet {
    let (desired, most) = (desired.to_string(), most.to_string());
    let same =
        held.get(DESIRED_REPLICAS) == Some(&*desired) && held.get(MAX_REPLICAS) == Some(&*most);
    if same {
        return held.clone();
    }
    held.with(DESIRED_REPLICAS, &desired)
        .with(MAX_REPLICAS, &most)
}

/// What the Deployment's annotations become when it goes back to `set`: its own bookkeeping stays,
/// the rest is what the set inherited back then. The request itself is done with.
pub(super) fn after_rollback(deployment: &LabelSet, set: &LabelSet) -> LabelSet {
    let own = deployment.filtered(|key| !inherited(key) && key != ROLLBACK_TO);
    let inherited: Vec<(Istr, Istr)> = set
        .iter()
        .filter(|(key, _)| inherited(key))
        .map(|(key, value)| (Istr::new(key), Istr::new(value)))
        .collect();
    with_all(&own, inherited)
}

fn with_all(held: &LabelSet, changed: Vec<(Istr, Istr)>) -> LabelSet {
    if changed.is_empty() {
        return held.clone();
    }
    let held = held
        .iter()
        .map(|(key, value)| (Istr::new(key), Istr::new(value)));
    LabelSet::from_pairs(held.chain(changed).collect())
}
