//! Checks that several controllers' oracles share.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::kinds::Pod;
use api::{LabelSet, Meta, Resource};

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

/// No pod belongs to an owner of this kind that does not select it.
pub(crate) fn released<K: Resource>(
    world: &World,
    selects: impl Fn(&K, &LabelSet) -> bool,
) -> Verdict {
    for owner in world.store::<K>().list() {
        let pods = world.owned_by::<Pod>(&owner.meta().uid);
        let mut active = pods.iter().filter(|pod| pod.is_active());
        if let Some(pod) = active.find(|pod| !selects(&owner, &pod.metadata.labels)) {
            return Err(format!(
                "{} is not selected by {} and was not released",
                pod.metadata.name,
                owner.meta().name
            ));
        }
    }
    Ok(())
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
    format!("{kind} {}: {wanted} wanted, pods {pods}", meta.key())
}

/// How many active pods there are, by the label that says which version they are of.
pub(crate) fn versions(pods: &[Arc<Pod>], by_version: bool) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| pod.is_active()) {
        let version = pod.metadata.labels.get("version").unwrap_or("none");
        let version = if by_version { version } else { "any" };
        *counts.entry(version).or_default() += 1;
    }
    format!("{counts:?}")
}

/// The owner of this kind that controls the object, if it is still the same.
pub(crate) fn owner_of<K: Resource>(world: &World, meta: &Meta) -> Option<Arc<K>> {
    let owner = meta.controller().filter(|it| *it.kind == *K::TYPE.kind)?;
    let found = world.store::<K>().find(&meta.namespace, &owner.name)?;
    (found.meta().uid == owner.uid).then_some(found)
}
