//! What controllers read of a PersistentVolumeClaim.

use serde::Deserialize;

use crate::meta::Meta;
use crate::resource::ResourceType;

/// Claims are read for their names, labels and owners; what they ask for stays with the API server.
#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct PersistentVolumeClaim {
    pub metadata: Meta,
}

crate::view!(
    PersistentVolumeClaim,
    ResourceType::namespaced("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
);
