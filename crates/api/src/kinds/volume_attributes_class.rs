//! What controllers read of a VolumeAttributesClass.

use serde::Deserialize;

use crate::meta::Meta;
use crate::resource::ResourceType;

/// The finalizer that a class has as long as a volume or a claim names it.
pub const VAC_PROTECTION: &str = "kubernetes.io/vac-protection";

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct VolumeAttributesClass {
    pub metadata: Meta,
}

crate::view!(
    VolumeAttributesClass,
    ResourceType::cluster(
        "storage.k8s.io",
        "v1",
        "volumeattributesclasses",
        "VolumeAttributesClass"
    )
);
