//! What controllers read of a PersistentVolume.

use serde::Deserialize;

use super::persistent_volume_claim::storage;
use crate::intern::Istr;
use crate::meta::{Meta, or_default};
use crate::quantity::Quantity;
use crate::resource::ResourceType;
use crate::uid::Uid;

/// The finalizer that a volume has as long as a claim is bound to it.
pub const PV_PROTECTION: &str = "kubernetes.io/pv-protection";

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct PersistentVolume {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: VolumeSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: VolumeStatus,
}

crate::view!(
    PersistentVolume,
    ResourceType::cluster("", "v1", "persistentvolumes", "PersistentVolume")
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSpec {
    #[serde(deserialize_with = "or_default")]
    pub access_modes: Box<[Istr]>,
    /// How much there is; `None` where nobody has said so.
    #[serde(rename = "capacity", deserialize_with = "storage")]
    pub storage: Option<Quantity>,
    pub claim_ref: Option<ClaimRef>,
    #[serde(rename = "storageClassName")]
    pub class_name: Istr,
    #[serde(rename = "persistentVolumeReclaimPolicy")]
    pub reclaim_policy: Istr,
    pub volume_mode: Istr,
    pub volume_attributes_class_name: Option<Istr>,
    pub host_path: Option<HostPath>,
    pub nfs: Option<Nfs>,
    pub csi: Option<Csi>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(default)]
pub struct HostPath {
    pub path: Istr,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(default)]
pub struct Nfs {
    pub server: Istr,
    pub path: Istr,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(default)]
pub struct Csi {
    pub driver: Istr,
}

/// The claim that a volume is bound to, or kept for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(default)]
pub struct ClaimRef {
    pub namespace: Istr,
    pub name: Istr,
    /// Empty where a user has named the claim and nobody has bound it yet.
    pub uid: Uid,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(default)]
pub struct VolumeStatus {
    pub phase: Istr,
}
