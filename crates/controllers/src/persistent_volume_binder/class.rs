//! Classes. Pure.

use std::sync::Arc;

use api::kinds::{PersistentVolume, PersistentVolumeClaim, StorageClass};
use api::{Istr, Meta};

const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const IS_DEFAULT: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

/// The class that a claim asks for; empty if it asks for none. The old annotation wins over the field.
pub fn of_claim(claim: &PersistentVolumeClaim) -> &str {
    let beta = claim.metadata.annotation(BETA_CLASS);
    let class = claim.spec.storage_class_name.as_ref();
    beta.or(class.map(Istr::as_str)).unwrap_or_default()
}

/// Has its author said anything about the class, if only that it has none?
pub fn is_chosen(claim: &PersistentVolumeClaim) -> bool {
    let beta = claim.metadata.annotation(BETA_CLASS);
    beta.is_some() || claim.spec.storage_class_name.is_some()
}

pub fn of_volume(volume: &PersistentVolume) -> &str {
    let beta = volume.metadata.annotation(BETA_CLASS);
    beta.unwrap_or(&volume.spec.class_name)
}

/// The newest of the default classes; the name decides between equally new ones.
pub fn default_of(classes: &[Arc<StorageClass>]) -> Option<&Arc<StorageClass>> {
    let is_default = |meta: &Meta| {
        let mut keys = IS_DEFAULT.iter();
        keys.any(|key| meta.annotation(key) == Some("true"))
    };
    let defaults = classes.iter().filter(|class| is_default(&class.metadata));
    defaults.min_by(|one, two| {
        let (one, two) = (&one.metadata, &two.metadata);
        let by_age = two.created_at.cmp(&one.created_at);
        by_age.then_with(|| one.name.cmp(&two.name))
    })
}
