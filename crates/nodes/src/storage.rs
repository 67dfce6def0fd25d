//! Claims, volumes and classes, as the scheduler and the provisioner read them.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::kinds::Csi;
use api::meta::or_default;
use api::node_affinity::{CompiledNodeSelector, NodeSelector};
use api::{Istr, LabelSelector, LabelSet, Meta, Quantity, ResourceType, Uid};
use serde::Deserialize;

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct PersistentVolumeClaim {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: ClaimSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: ClaimStatus,
}

api::view!(
    PersistentVolumeClaim,
    ResourceType::namespaced("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpec {
    #[serde(deserialize_with = "or_default")]
    pub access_modes: Vec<Istr>,
    #[serde(deserialize_with = "or_default")]
    pub resources: ClaimResources,
    pub storage_class_name: Option<Istr>,
    pub volume_mode: Istr,
    pub volume_name: Istr,
    pub selector: Option<LabelSelector>,
    pub volume_attributes_class_name: Option<Istr>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct ClaimResources {
    #[serde(deserialize_with = "or_default")]
    pub requests: BTreeMap<Istr, Quantity>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimStatus {
    pub phase: Istr,
    #[serde(deserialize_with = "or_default")]
    pub capacity: BTreeMap<Istr, Quantity>,
    pub current_volume_attributes_class_name: Option<Istr>,
    pub modify_volume_status: Option<ModifyVolumeStatus>,
}

/// How far a change of the volume's attributes has come.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ModifyVolumeStatus {
    pub target_volume_attributes_class_name: Istr,
    pub status: Istr,
}

/// The parameter of a class by which its volumes fail: to `provision`, or to `attach`.
pub const FAILS: &str = "steersman.dev/fails";

impl PersistentVolumeClaim {
    /// Bound by both sides, as its phase says.
    pub fn is_bound(&self) -> bool {
        !self.spec.volume_name.is_empty() && self.status.phase == "Bound"
    }

    /// The attributes class that it asks for and does not have.
    pub fn new_attributes(&self) -> Option<&Istr> {
        let wanted = self.spec.volume_attributes_class_name.as_ref();
        let current = self.status.current_volume_attributes_class_name.as_ref();
        wanted.filter(|name| !name.is_empty() && Some(*name) != current)
    }

    pub fn requested(&self) -> Option<&Quantity> {
        self.spec.resources.requests.get("storage")
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct PersistentVolume {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: VolumeSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: VolumeStatus,
}

api::view!(
    PersistentVolume,
    ResourceType::cluster("", "v1", "persistentvolumes", "PersistentVolume")
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSpec {
    #[serde(deserialize_with = "or_default")]
    pub access_modes: Vec<Istr>,
    #[serde(deserialize_with = "or_default")]
    pub capacity: BTreeMap<Istr, Quantity>,
    pub claim_ref: Option<ClaimRef>,
    pub storage_class_name: Istr,
    pub persistent_volume_reclaim_policy: Istr,
    pub volume_mode: Istr,
    pub node_affinity: Option<VolumeNodeAffinity>,
    pub csi: Option<Csi>,
    pub volume_attributes_class_name: Option<Istr>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct ClaimRef {
    pub namespace: Istr,
    pub name: Istr,
    pub uid: Uid,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct VolumeNodeAffinity {
    pub required: Option<NodeSelector>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct VolumeStatus {
    pub phase: Istr,
}

impl PersistentVolume {
    /// Where the volume can be reached; everywhere if `None`.
    pub fn required_nodes(&self) -> Option<CompiledNodeSelector> {
        let affinity = self.spec.node_affinity.as_ref()?;
        Some(affinity.required.as_ref()?.compile())
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    pub metadata: Meta,
    pub provisioner: Istr,
    pub reclaim_policy: Option<Istr>,
    pub volume_binding_mode: BindingMode,
    #[serde(deserialize_with = "or_default")]
    pub parameters: BTreeMap<Istr, Istr>,
    #[serde(deserialize_with = "or_default")]
    pub allowed_topologies: Arc<[TopologyTerm]>,
}

api::view!(
    StorageClass,
    ResourceType::cluster("storage.k8s.io", "v1", "storageclasses", "StorageClass")
);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
pub enum BindingMode {
    #[default]
    Immediate,
    WaitForFirstConsumer,
}

/// Label requirements that must all hold.
#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologyTerm {
    #[serde(deserialize_with = "or_default")]
    pub match_label_expressions: Vec<TopologyRequirement>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct TopologyRequirement {
    pub key: Istr,
    #[serde(deserialize_with = "or_default")]
    pub values: Vec<Istr>,
}

impl TopologyTerm {
    pub fn matches(&self, labels: &LabelSet) -> bool {
        self.match_label_expressions.iter().all(|one| {
            let held = labels.get(&one.key);
            held.is_some_and(|held| one.values.iter().any(|value| *value == *held))
        })
    }
}
