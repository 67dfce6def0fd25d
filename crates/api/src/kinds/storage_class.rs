//! What controllers read of a StorageClass.

use serde::Deserialize;

use crate::intern::Istr;
use crate::meta::Meta;
use crate::resource::ResourceType;

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    pub metadata: Meta,
    pub provisioner: Istr,
    /// `Immediate` or `WaitForFirstConsumer`; the API server always says one of them.
    pub volume_binding_mode: Option<Istr>,
}

crate::view!(
    StorageClass,
    ResourceType::cluster("storage.k8s.io", "v1", "storageclasses", "StorageClass")
);
