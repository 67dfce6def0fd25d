//! What controllers read of a PersistentVolume.

use serde::Deserialize;

use super::in_tree::{Around, CSI_PREFIX, InTree, InTreeSource};
use super::kept::{Kept, Rewritten};
use super::persistent_volume_claim::storage;
use crate::intern::Istr;
use crate::meta::{Meta, or_default};
use crate::quantity::Quantity;
use crate::resource::{DecodeError, Resource, ResourceType, decode_json};
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
    #[serde(skip)]
    kept: Kept,
}

impl Resource for PersistentVolume {
    const TYPE: ResourceType =
        ResourceType::cluster("", "v1", "persistentvolumes", "PersistentVolume");

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn decode(json: &[u8]) -> Result<PersistentVolume, DecodeError> {
        let mut volume: PersistentVolume = decode_json(&PersistentVolume::TYPE, json)?;
        // What is bound stays as it is, mostly for long.
        if volume.status.phase != "Bound" || volume.metadata.is_terminating() {
            volume.kept = Kept::of(json);
        }
        Ok(volume)
    }
}

impl Rewritten for PersistentVolume {
    fn kept(&self) -> Option<&str> {
        self.kept.text()
    }
}

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
    aws_elastic_block_store: Option<Box<InTreeSource>>,
    azure_disk: Option<Box<InTreeSource>>,
    azure_file: Option<Box<InTreeSource>>,
    cinder: Option<Box<InTreeSource>>,
    gce_persistent_disk: Option<Box<InTreeSource>>,
    portworx_volume: Option<Box<InTreeSource>>,
    vsphere_volume: Option<Box<InTreeSource>>,
    fc: Option<Box<InTreeSource>>,
    iscsi: Option<Box<InTreeSource>>,
    flex_volume: Option<Box<InTreeSource>>,
}

/// By which a user says where an Azure file share is.
const RESOURCE_GROUP: &str = "kubernetes.io/azure-file-resource-group";

impl VolumeSpec {
    /// The name of what was built in, if the volume is of such a kind, and of the driver that has taken over.
    pub fn built_in(&self) -> Option<(&'static str, &'static str)> {
        self.in_tree()?.0.taken_over()
    }

    /// The kind of volume, if it is one that is built in or was.
    pub fn in_tree(&self) -> Option<(InTree, &InTreeSource)> {
        let kinds = [
            (InTree::AwsElasticBlockStore, &self.aws_elastic_block_store),
            (InTree::AzureDisk, &self.azure_disk),
            (InTree::AzureFile, &self.azure_file),
            (InTree::Cinder, &self.cinder),
            (InTree::GcePersistentDisk, &self.gce_persistent_disk),
            (InTree::PortworxVolume, &self.portworx_volume),
            (InTree::VsphereVolume, &self.vsphere_volume),
            (InTree::Fc, &self.fc),
            (InTree::Iscsi, &self.iscsi),
            (InTree::FlexVolume, &self.flex_volume),
        ];
        let found = kinds.into_iter().find(|(_, source)| source.is_some());
        found.and_then(|(kind, source)| Some((kind, &**source.as_ref()?)))
    }

    /// May several nodes have the volume attached at once? Where nobody says how it is used, the driver has to know.
    pub fn is_shared(&self) -> bool {
        let modes = &self.access_modes;
        let has = |mode: &str| modes.iter().any(|held| *held == *mode);
        match self.gce_persistent_disk.is_some() && !modes.is_empty() {
            // UPSTREAM: what was built in attached such disks for one writer, whatever the volume said.
            true => has("ReadOnlyMany") && !has("ReadWriteOnce") && !has("ReadWriteMany"),
            false => modes.is_empty() || has("ReadWriteMany") || has("ReadOnlyMany"),
        }
    }
}

impl PersistentVolume {
    /// What lists of attached volumes call it: `kubernetes.io/csi/driver^handle`; none where it cannot be attached.
    pub fn unique_name(&self) -> Option<Istr> {
        if let Some(csi) = &self.spec.csi {
            return Some(csi.unique_name());
        }
        let (kind, source) = self.spec.in_tree()?;
        let claim = self.spec.claim_ref.as_ref();
        let around = Around {
            name: &self.metadata.name,
            namespace: claim.map_or("", |claim| &claim.namespace),
            labels: Some(&self.metadata.labels),
            resource_group: self.metadata.annotation(RESOURCE_GROUP).unwrap_or(""),
            is_inline: false,
        };
        source.unique_name(kind, &around)
    }
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
#[serde(rename_all = "camelCase", default)]
pub struct Csi {
    pub driver: Istr,
    pub volume_handle: Istr,
}

impl Csi {
    pub fn unique_name(&self) -> Istr {
        let (driver, handle) = (&self.driver, &self.volume_handle);
        Istr::new(&format!("{CSI_PREFIX}{driver}^{handle}"))
    }
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
