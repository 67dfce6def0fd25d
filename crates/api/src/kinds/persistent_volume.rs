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
    aws_elastic_block_store: Option<Present>,
    azure_disk: Option<Present>,
    azure_file: Option<Present>,
    cinder: Option<Present>,
    gce_persistent_disk: Option<Present>,
    portworx_volume: Option<Present>,
    vsphere_volume: Option<Present>,
}

/// Something that is there, whatever it says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Default)]
struct Present {}

/// What was built into Kubernetes once, and the drivers that have taken over, all of them by 1.33.
const TAKEN_OVER: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
];

impl VolumeSpec {
    /// The name of what was built in, if the volume is of such a kind, and of the driver that has taken over.
    pub fn built_in(&self) -> Option<(&'static str, &'static str)> {
        let kinds = [
            &self.aws_elastic_block_store,
            &self.azure_disk,
            &self.azure_file,
            &self.cinder,
            &self.gce_persistent_disk,
            &self.portworx_volume,
            &self.vsphere_volume,
        ];
        let place = kinds.iter().position(|kind| kind.is_some())?;
        Some(TAKEN_OVER[place])
    }
}

/// The driver that does the work of a provisioner that was built in.
pub fn migrated_to(provisioner: &str) -> Option<&'static str> {
    let found = TAKEN_OVER.iter().find(|(name, _)| *name == provisioner);
    found.map(|(_, driver)| *driver)
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
