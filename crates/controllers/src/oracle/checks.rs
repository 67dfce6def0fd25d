//! Checks that several controllers' oracles share.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use api::decision::counted;
use api::kinds::Pod;
use api::taints::{Taint, Toleration, TolerationOperator};
use api::{Key, Meta, MicroTime, Resource};

use super::{Change, Verdict, World};

/// A workload controller deletes nothing but what belongs to one of its kind. What belongs to nobody may have been taken
/// from its owner a moment ago, who has not missed it yet.
pub(crate) fn deletes_only_its_own(controller: &str, kind: &str, change: &Change) -> Verdict {
    let Some(meta) = change.meta_before().filter(|_| change.is_ending()) else {
        return Ok(());
    };
    match meta.controller() {
        Some(owner) if owner.kind != kind => Err(format!(
            "{controller} deleted {} {}, which belongs to {} {}",
            change.plural,
            meta.key(),
            owner.kind,
            owner.name
        )),
        _ => Ok(()),
    }
}

/// The write is none that the controller has a reason for.
pub(crate) fn no_business(controller: &str, change: &Change) -> Verdict {
    let what = change.meta().map(|meta| meta.key().to_string());
    Err(format!(
        "{controller} has no business with {} {}",
        change.plural,
        what.unwrap_or_default()
    ))
}

/// A status says in this field what was reckoned apart from the code that writes it.
pub(crate) fn says<T: PartialEq + Debug>(key: &Key, field: &str, said: T, seen: T) -> Verdict {
    match said == seen {
        true => Ok(()),
        false => Err(format!(
            "{key}: status says {field} {said:?}, the objects say {seen:?}"
        )),
    }
}

/// How many there are, as a status says it.
pub(crate) fn count(objects: impl IntoIterator) -> i32 {
    i32::try_from(objects.into_iter().count()).unwrap_or(i32::MAX)
}

/// Has the pod been ready for so long? Times of conditions are whole seconds.
pub(crate) fn is_available(pod: &Pod, min_ready_seconds: i32, now: MicroTime) -> bool {
    let since = pod.status.ready_changed_at.map(|at| at.unix());
    let least = i64::from(min_ready_seconds);
    pod.is_ready() && (least <= 0 || since.is_some_and(|since| since + least <= now.time().unix()))
}

/// Does the toleration cover the taint?
pub(crate) fn covers(toleration: &Toleration, taint: &Taint, comparison_operators: bool) -> bool {
    let (key, value) = (&*toleration.key, &*toleration.value);
    let numbers = || Some((taint.value.parse::<i64>().ok()?, value.parse::<i64>().ok()?));
    let by_value = match &toleration.operator {
        TolerationOperator::Exists => true,
        TolerationOperator::Lt | TolerationOperator::Gt if !comparison_operators => false,
        TolerationOperator::Lt => numbers().is_some_and(|(taint, limit)| taint < limit),
        TolerationOperator::Gt => numbers().is_some_and(|(taint, limit)| taint > limit),
        _ => *taint.value == *value,
    };
    let by_effect = toleration.effect.is_unset() || toleration.effect == taint.effect;
    by_effect && by_value && (key.is_empty() || *taint.key == *key)
}

/// Whatever an owner of this kind controls, it selects. Who is being deleted releases nothing, as upstream.
pub(crate) fn released<K: Resource, D: Resource>(
    world: &World,
    selects: impl Fn(&K, &D) -> bool,
) -> Verdict {
    for owner in staying::<K>(world) {
        let held = world.owned_by::<D>(&owner.meta().uid);
        if let Some(held) = held.iter().find(|held| !selects(&owner, held)) {
            return Err(format!(
                "{} is not selected by {} and was not released",
                held.meta().name,
                owner.meta().name
            ));
        }
    }
    Ok(())
}

/// Nothing that belongs to nobody is selected by an owner of this kind. What is being deleted is not adopted, and who is
/// being deleted adopts nothing, as upstream.
pub(crate) fn adopted<K: Resource, D: Resource>(
    world: &World,
    selects: impl Fn(&K, &D) -> bool,
) -> Verdict {
    for owner in staying::<K>(world) {
        let neighbours = world.store::<D>().in_namespace(&owner.meta().namespace);
        let is_orphan = |it: &&Arc<D>| {
            let meta = it.meta();
            meta.controller().is_none() && !meta.is_terminating() && selects(&owner, it)
        };
        if let Some(orphan) = neighbours.iter().find(is_orphan) {
            return Err(format!(
                "{} is selected by {} and was not adopted",
                orphan.meta().key(),
                owner.meta().name
            ));
        }
    }
    Ok(())
}

/// Owners that nobody has deleted, in namespaces that stay.
fn staying<K: Resource>(world: &World) -> impl Iterator<Item = Arc<K>> {
    let is_staying =
        |meta: &Meta| !meta.is_terminating() && world.is_namespace_alive(&meta.namespace);
    let owners = world.store::<K>().list().into_iter();
    owners.filter(move |owner| is_staying(owner.meta()))
}

/// A workload in the end: how many pods it wants, and how many it has of which version.
pub(crate) fn end_state_line(
    world: &World,
    kind: &str,
    meta: &Meta,
    wanted: i32,
    by_version: bool,
) -> String {
    let pods = versions(&world.owned_by::<Pod>(&meta.uid), by_version);
    format!("{kind} {}: {wanted} wanted, {pods}", meta.key())
}

/// How many active pods there are, by the label that says which version they are of.
pub(crate) fn versions(pods: &[Arc<Pod>], by_version: bool) -> String {
    let active = || pods.iter().filter(|pod| pod.is_active());
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in active().filter(|_| by_version) {
        let version = pod.metadata.labels.get("version").unwrap_or("none");
        *counts.entry(version).or_default() += 1;
    }
    if counts.is_empty() {
        return counted(active().count(), "pod").to_string();
    }
    let told = counts
        .iter()
        .map(|(version, count)| format!("{} of version {version}", counted(*count, "pod")));
    told.collect::<Vec<_>>().join(", ")
}

/// The owner of this kind that controls the object, if it is still the same.
pub(crate) fn owner_of<K: Resource>(world: &World, meta: &Meta) -> Option<Arc<K>> {
    let owner = meta.controller().filter(|it| *it.kind == *K::TYPE.kind)?;
    let found = world.store::<K>().find(&meta.namespace, &owner.name)?;
    (found.meta().uid == owner.uid).then_some(found)
}
