//! What the simulator holds the controller to.

use std::sync::Arc;

use api::kinds::{PersistentVolume, PersistentVolumeClaim, Pod, StorageClass};
use api::{Key, Meta, Resource};

use super::DESCRIPTOR;
use super::annotations::BIND_COMPLETED;
use super::class;
use super::invariants::{converged_claim, converged_volume, safe_deletion, safe_reference};
use super::matching::{is_bound_to, passed_over};
use super::reclaim::recycled_by;
use crate::oracle::{Actor, Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct BinderOracle;

impl Oracle for BinderOracle {
    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        let before = change.before::<PersistentVolume>();
        if let Some(volume) = &before {
            let claim = claim_of(world, volume);
            if let Some(after) = change.after::<PersistentVolume>() {
                safe_reference(volume, &after, claim.as_deref())?;
            }
            return deleted_by_right(world, change);
        }
        let recycler = change.after::<Pod>().or(change.before::<Pod>());
        let is_recycler = recycler.is_some_and(|pod| recycled_by(&pod).is_some());
        match change.updated::<PersistentVolumeClaim>().is_some() || is_recycler {
            true => Ok(()),
            false => no_business(DESCRIPTOR.name, change),
        }
    }

    /// Provisioners delete what they made.
    fn after_write_of_another(&self, world: &World, change: &Change) -> Verdict {
        match change.by {
            Some(Actor::Nodes) => deleted_by_right(world, change),
            _ => Ok(()),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let volumes = world.store::<PersistentVolume>().list();
        for volume in &volumes {
            converged_volume(volume, claim_of(world, volume).as_deref())?;
        }
        for claim in world.store::<PersistentVolumeClaim>().list() {
            let volume = world
                .store::<PersistentVolume>()
                .find("", &claim.spec.volume_name);
            let suits = suitable(world, &claim, &volumes);
            converged_claim(&claim, volume.as_deref(), suits.as_deref())?;
        }
        Ok(())
    }

    /// UPSTREAM: why a claim waits is told at every resync, and written as often as the recorder's limit lets it.
    fn may_complain(&self, world: &World) -> bool {
        let claims = world.store::<PersistentVolumeClaim>().list();
        let waits = |claim: &Arc<PersistentVolumeClaim>| {
            claim.metadata.annotation(BIND_COMPLETED).is_none()
        };
        claims.iter().any(waits)
    }

    /// UPSTREAM: a claim that this controller has bound and whose volume is another's is complained about for ever.
    fn may_fail(&self, world: &World, key: &Key) -> bool {
        let claim = world.store::<PersistentVolumeClaim>().get(key);
        claim.is_some_and(|claim| {
            let name = &claim.spec.volume_name;
            let volume = world.store::<PersistentVolume>().find("", name);
            volume.is_some_and(|volume| !is_bound_to(&volume, &claim))
        })
    }

    fn may_stay(&self, world: &World, plural: &str, meta: &Meta) -> bool {
        // Its deleter may not run, and a volume in use is kept.
        let volume = world.store::<PersistentVolume>().find("", &meta.name);
        plural == PersistentVolume::TYPE.plural
            && volume.is_some_and(|volume| volume.status.phase == "Bound")
    }
}

/// Was nothing deleted that is retained or in use?
fn deleted_by_right(world: &World, change: &Change) -> Verdict {
    match change.ending::<PersistentVolume>() {
        // A claim that the cache has not seen was created after the volume was released.
        Some(volume) => {
            let claim = claim_of(world, &volume);
            safe_deletion(&volume, claim.as_deref(), &world.store().list())
        }
        None => Ok(()),
    }
}

fn claim_of(world: &World, volume: &PersistentVolume) -> Option<Arc<PersistentVolumeClaim>> {
    let held = volume.spec.claim_ref.as_ref()?;
    let claims = world.store::<PersistentVolumeClaim>();
    claims.find(&held.namespace, &held.name)
}

/// A volume that the claim could have, if it asks for none in particular and nobody else chooses for it.
fn suitable(
    world: &World,
    claim: &PersistentVolumeClaim,
    volumes: &[Arc<PersistentVolume>],
) -> Option<Arc<PersistentVolume>> {
    let class = world
        .store::<StorageClass>()
        .find("", class::of_claim(claim));
    let mode = class.and_then(|class| class.volume_binding_mode.clone());
    let is_chosen = !claim.spec.volume_name.is_empty()
        || claim.metadata.annotation(BIND_COMPLETED).is_some()
        || mode.is_some_and(|mode| mode == "WaitForFirstConsumer");
    if is_chosen {
        return None;
    }
    let selector = claim.spec.selector.as_ref();
    let selector = selector.and_then(|selector| selector.compile().ok());
    let suits = |volume: &&Arc<PersistentVolume>| {
        passed_over(volume, claim, selector.as_ref(), api::Gates::default()).is_none()
    };
    volumes.iter().find(suits).cloned()
}
