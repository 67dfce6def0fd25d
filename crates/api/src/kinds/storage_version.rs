//! StorageVersions: in which version each API server writes a resource.

use serde::{Deserialize, Serialize};

use crate::conditions::Condition;
use crate::intern::Istr;
use crate::meta::{Meta, or_default};
use crate::resource::ResourceType;

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct StorageVersion {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub status: StorageVersionStatus,
}

crate::view!(
    StorageVersion,
    ResourceType::cluster(
        "internal.apiserver.k8s.io",
        "v1alpha1",
        "storageversions",
        "StorageVersion"
    )
);

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageVersionStatus {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub storage_versions: Vec<ServerStorageVersion>,
    /// The one in which all servers write, if they agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub common_encoding_version: Option<Istr>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

/// What one API server says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerStorageVersion {
    /// The name of its lease in `kube-system`.
    #[serde(rename = "apiServerID", skip_serializing_if = "str::is_empty")]
    pub api_server_id: Istr,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub encoding_version: Istr,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub decodable_versions: Vec<Istr>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub served_versions: Vec<Istr>,
}
