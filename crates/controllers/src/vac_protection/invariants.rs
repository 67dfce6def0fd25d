//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use api::kinds::{PersistentVolume, PersistentVolumeClaim, VAC_PROTECTION, VolumeAttributesClass};
use api::{Meta, Resource};

use super::{DESCRIPTOR, classes_of_volume};
use crate::oracle::{Change, Oracle, Verdict, World, no_business};
use crate::storage::protection::{Need, need};

const UNUSED: &str = "attributes classes lose their protection when nobody names them";

#[derive(Default)]
pub struct ClassProtectionOracle;

impl Oracle for ClassProtectionOracle {
    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        let Some(before) = change.before::<VolumeAttributesClass>() else {
            return no_business(DESCRIPTOR.name, change);
        };
        let lost = change
            .after::<VolumeAttributesClass>()
            .is_none_or(|after| !after.metadata.has_finalizer(VAC_PROTECTION));
        if !lost {
            return Ok(());
        }
        // UPSTREAM: only caches are asked.
        let claims = world.sight(&world.store::<PersistentVolumeClaim>().list());
        let volumes = world.sight(&world.store::<PersistentVolume>().list());
        world.check(UNUSED, claims.max(volumes), || {
            safe(&before, user_in(world, &before.metadata).as_deref())
        })
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let classes = world.store::<VolumeAttributesClass>().list();
        classes.iter().try_for_each(|class| {
            let user = user_in(world, &class.metadata);
            converged(class, user.is_some())
        })
    }

    fn may_stay(&self, world: &World, plural: &str, meta: &Meta) -> bool {
        plural == VolumeAttributesClass::TYPE.plural && user_in(world, meta).is_some()
    }
}

/// Who names the class, and has done so long enough to be seen.
fn user_in(world: &World, class: &Meta) -> Option<String> {
    let is_seen = |meta: &Meta| world.was_seen(meta, world.now().time());
    let claims = world.store::<PersistentVolumeClaim>().list();
    let mut claims = claims.iter().filter(|claim| is_seen(&claim.metadata));
    let claim = claims.find(|claim| {
        let mut classes = claim.attributes_classes();
        classes.any(|name| **name == *class.name)
    });
    let volumes = world.store::<PersistentVolume>().list();
    let mut volumes = volumes.iter().filter(|volume| is_seen(&volume.metadata));
    let volume = volumes.find(|volume| classes_of_volume(volume).any(|name| **name == *class.name));
    let claim = claim.map(|claim| claim.metadata.key().to_string());
    claim.or_else(|| volume.map(|volume| volume.metadata.name.to_string()))
}

/// No class loses its protection that somebody names: `before` has lost it.
pub fn safe(before: &VolumeAttributesClass, user: Option<&str>) -> Result<(), String> {
    let name = &before.metadata.name;
    match user {
        _ if !before.metadata.is_terminating() => Err(format!(
            "attributes class {name} lost its protection for no reason"
        )),
        Some(user) => Err(format!(
            "attributes class {name} lost its protection while {user} names it"
        )),
        None => Ok(()),
    }
}

/// Every class is protected, and none that nobody names is kept from being deleted.
pub fn converged(class: &VolumeAttributesClass, is_named: bool) -> Result<(), String> {
    let name = &class.metadata.name;
    match need(&class.metadata, VAC_PROTECTION) {
        Some(Need::Add) => Err(format!("attributes class {name} is not protected")),
        Some(Need::Remove) if !is_named => Err(format!(
            "attributes class {name} is kept though nobody names it"
        )),
        _ => Ok(()),
    }
}
