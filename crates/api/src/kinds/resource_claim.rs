//! What is read of a ResourceClaim and of a DeviceClass: how many devices of which class.

use serde::Deserialize;

use crate::intern::Istr;
use crate::meta::{Meta, or_default};
use crate::resource::ResourceType;

/// Marks the claim that the scheduler made for the extended resources of a pod.
pub const EXTENDED_RESOURCE_CLAIM: &str = "resource.kubernetes.io/extended-resource-claim";

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct ResourceClaim {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: ResourceClaimSpec,
}

crate::view!(
    ResourceClaim,
    ResourceType::namespaced("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct ResourceClaimSpec {
    #[serde(deserialize_with = "or_default")]
    pub devices: DeviceClaim,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct DeviceClaim {
    #[serde(deserialize_with = "or_default")]
    pub requests: Vec<DeviceRequest>,
}

/// Devices of one class, or the first of several wishes that can be granted.
#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceRequest {
    pub exactly: Option<DeviceCount>,
    #[serde(deserialize_with = "or_default")]
    pub first_available: Vec<DeviceCount>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceCount {
    pub device_class_name: Istr,
    pub allocation_mode: Istr,
    #[serde(deserialize_with = "or_default")]
    pub count: i64,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct DeviceClass {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: DeviceClassSpec,
}

crate::view!(
    DeviceClass,
    ResourceType::cluster("resource.k8s.io", "v1", "deviceclasses", "DeviceClass")
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceClassSpec {
    /// Pods may ask for devices of the class under this name.
    pub extended_resource_name: Option<Istr>,
}
