//! What controllers read of a PersistentVolumeClaim.

use serde::{Deserialize, Deserializer};

use super::kept::{Kept, Rewritten};
use crate::intern::Istr;
use crate::meta::{Meta, or_default};
use crate::quantity::Quantity;
use crate::resource::{DecodeError, Resource, ResourceType, decode_json};
use crate::selector::LabelSelector;

/// The finalizer that a claim has as long as a pod uses it.
pub const PVC_PROTECTION: &str = "kubernetes.io/pvc-protection";

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct PersistentVolumeClaim {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: ClaimSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: ClaimStatus,
    #[serde(skip)]
    kept: Kept,
}

impl Resource for PersistentVolumeClaim {
    const TYPE: ResourceType =
        ResourceType::namespaced("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim");

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn decode(json: &[u8]) -> Result<PersistentVolumeClaim, DecodeError> {
        let mut claim: PersistentVolumeClaim = decode_json(&PersistentVolumeClaim::TYPE, json)?;
        // What is bound stays as it is, mostly for long.
        if claim.status.phase != "Bound" || claim.metadata.is_terminating() {
            claim.kept = Kept::of(json);
        }
        Ok(claim)
    }
}

impl Rewritten for PersistentVolumeClaim {
    fn kept(&self) -> Option<&str> {
        self.kept.text()
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpec {
    #[serde(deserialize_with = "or_default")]
    pub access_modes: Box<[Istr]>,
    /// How much is asked for.
    #[serde(rename = "resources", deserialize_with = "requested_storage")]
    pub storage: Quantity,
    pub storage_class_name: Option<Istr>,
    #[serde(deserialize_with = "or_default")]
    pub volume_mode: Istr,
    /// Empty until the claim is bound, unless a user asks for this very volume.
    #[serde(deserialize_with = "or_default")]
    pub volume_name: Istr,
    pub selector: Option<LabelSelector>,
    pub volume_attributes_class_name: Option<Istr>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimStatus {
    #[serde(deserialize_with = "or_default")]
    pub phase: Istr,
    #[serde(deserialize_with = "or_default")]
    pub access_modes: Box<[Istr]>,
    /// How much there is; `None` until the claim is bound.
    #[serde(rename = "capacity", deserialize_with = "storage")]
    pub storage: Option<Quantity>,
    #[serde(deserialize_with = "or_default")]
    pub conditions: Box<[ClaimCondition]>,
    /// What an expansion has been granted so far.
    #[serde(rename = "allocatedResources", deserialize_with = "storage")]
    pub allocated_storage: Option<Quantity>,
    pub current_volume_attributes_class_name: Option<Istr>,
    pub modify_volume_status: Option<ModifyVolumeStatus>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(default)]
pub struct ClaimCondition {
    #[serde(rename = "type")]
    pub type_: Istr,
    pub status: Istr,
}

/// How far a change of the volume's attributes has come.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ModifyVolumeStatus {
    pub target_volume_attributes_class_name: Istr,
}

impl PersistentVolumeClaim {
    pub fn condition(&self, type_: &str) -> Option<&ClaimCondition> {
        self.status
            .conditions
            .iter()
            .find(|held| held.type_ == type_)
    }

    /// The attributes classes that it names in any way, each once.
    pub fn attributes_classes(&self) -> impl Iterator<Item = &Istr> {
        let wanted = self.spec.volume_attributes_class_name.as_ref();
        let current = self.status.current_volume_attributes_class_name.as_ref();
        let target = self.status.modify_volume_status.as_ref();
        let target = target.map(|status| &status.target_volume_attributes_class_name);
        let current = current.filter(|name| Some(*name) != wanted);
        let target = target.filter(|name| Some(*name) != wanted && Some(*name) != current);
        let names = wanted.into_iter().chain(current).chain(target);
        names.filter(|name| !name.is_empty())
    }
}

/// The entry `storage` of a list of resources.
pub(super) fn storage<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Quantity>, D::Error> {
    let resources: Option<Storage> = Deserialize::deserialize(deserializer)?;
    Ok(resources.and_then(|resources| resources.storage))
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Storage {
    storage: Option<Quantity>,
}

fn requested_storage<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Quantity, D::Error> {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Resources {
        requests: Option<Storage>,
    }
    let resources: Option<Resources> = Deserialize::deserialize(deserializer)?;
    let requests = resources.and_then(|resources| resources.requests);
    let storage = requests.and_then(|requests| requests.storage);
    Ok(storage.unwrap_or_default())
}
