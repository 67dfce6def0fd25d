//! The annotations and finalizers by which binder, scheduler and provisioners talk to each other. Pure.

use api::kinds::{PersistentVolume, PersistentVolumeClaim, migrated_to};
use api::{Istr, Meta};

/// The claim is bound: what it says about its volume is not asked again.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// This controller chose the other side, and may take it back.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The scheduler has chosen a node for the first pod.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Who made the volume, and deletes it.
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
pub const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
/// Who is to make a volume for the claim.
pub const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
pub const BETA_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
pub const PRE_RESIZE_CAPACITY: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";

/// Of volumes that drivers delete.
pub const DELETED_BY_DRIVER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
/// Of volumes that this controller deletes.
pub const DELETED_BY_US: &str = "kubernetes.io/pv-controller";

/// What [`MIGRATED_TO`] should say; none if it is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migration {
    To(&'static str),
    Off,
}

pub fn migration_of_claim(claim: &PersistentVolumeClaim) -> Option<Migration> {
    let meta = &claim.metadata;
    let provisioner = meta.annotation(PROVISIONER);
    migration(meta, provisioner.or(meta.annotation(BETA_PROVISIONER)))
}

pub fn migration_of_volume(volume: &PersistentVolume) -> Option<Migration> {
    let meta = &volume.metadata;
    migration(meta, meta.annotation(PROVISIONED_BY))
}

fn migration(meta: &Meta, provisioner: Option<&str>) -> Option<Migration> {
    let (provisioner, said) = (provisioner?, meta.annotation(MIGRATED_TO).unwrap_or(""));
    match migrated_to(provisioner) {
        Some(driver) => (said != driver).then_some(Migration::To(driver)),
        None => (!said.is_empty()).then_some(Migration::Off),
    }
}

/// The finalizers that a volume should have, if it has others: who deletes it must see it go.
pub fn finalizers(volume: &PersistentVolume) -> Option<Vec<Istr>> {
    let provisioner = volume.metadata.annotation(PROVISIONED_BY)?;
    let held = &volume.metadata.finalizers;
    let mut wanted: Vec<Istr> = held.to_vec();
    let drop = |wanted: &mut Vec<Istr>, name: &str| wanted.retain(|held| held != name);
    if migrated_to(provisioner).is_some() {
        drop(&mut wanted, DELETED_BY_US);
    } else if provisioner.starts_with("kubernetes.io/") {
        match volume.spec.reclaim_policy.as_str() {
            "Delete" if !volume.metadata.has_finalizer(DELETED_BY_US) => {
                wanted.push(DELETED_BY_US.into());
            }
            "Retain" | "Recycle" => drop(&mut wanted, DELETED_BY_US),
            _ => {}
        }
        drop(&mut wanted, DELETED_BY_DRIVER);
    }
    (wanted[..] != held[..]).then_some(wanted)
}
