//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use api::kinds::{PV_PROTECTION, PersistentVolume};

use super::DESCRIPTOR;
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct VolumeProtectionOracle;

impl Oracle for VolumeProtectionOracle {
    fn after_write(&self, _world: &World, change: &Change) -> Verdict {
        match change.before::<PersistentVolume>() {
            Some(before) => safe(&before, change.after::<PersistentVolume>().as_deref()),
            None => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let volumes = world.store::<PersistentVolume>().list();
        volumes.iter().try_for_each(|volume| converged(volume))
    }
}

/// Nothing of a volume changes but its protection, and no volume loses it to which a claim is bound: the write carries
/// the revision that was looked at. `after` is none if that made it go.
pub fn safe(before: &PersistentVolume, after: Option<&PersistentVolume>) -> Result<(), String> {
    let name = &before.metadata.name;
    if let Some(after) = after {
        let mut expected = before.clone();
        expected.metadata.finalizers = after.metadata.finalizers.clone();
        expected.metadata.resource_version = after.metadata.resource_version;
        if expected != *after {
            return Err(format!(
                "more than the protection of volume {name} was changed"
            ));
        }
    }
    let is_protected = |volume: &PersistentVolume| volume.metadata.has_finalizer(PV_PROTECTION);
    if !is_protected(before) || after.is_some_and(is_protected) {
        return Ok(());
    }
    match before.metadata.is_terminating() && before.status.phase != "Bound" {
        true => Ok(()),
        false => Err(format!(
            "volume {name} lost its protection while it is in use"
        )),
    }
}

/// Every volume is protected, and none that no claim is bound to is kept from being deleted.
pub fn converged(volume: &PersistentVolume) -> Result<(), String> {
    let name = &volume.metadata.name;
    let is_protected = volume.metadata.has_finalizer(PV_PROTECTION);
    match volume.metadata.is_terminating() {
        false if !is_protected => Err(format!("volume {name} is not protected")),
        true if is_protected && volume.status.phase != "Bound" => Err(format!(
            "volume {name} is kept though no claim is bound to it"
        )),
        _ => Ok(()),
    }
}
