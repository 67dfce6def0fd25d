//! What is read of a ResourceClaim, of its template and of a DeviceClass: which devices are asked for, which were
//! allocated, and for whom.

use serde::{Deserialize, Serialize};

use crate::intern::Istr;
use crate::meta::{Meta, or_default};
use crate::resource::ResourceType;
use crate::taints::Toleration;
use crate::template::Template;
use crate::uid::Uid;

/// Marks the claim that the scheduler made for the extended resources of a pod.
pub const EXTENDED_RESOURCE_CLAIM: &str = "resource.kubernetes.io/extended-resource-claim";

/// On a claim that was created from a template: which claim of its pod, or of its pod group, it stands for.
pub const POD_CLAIM_NAME: &str = "resource.kubernetes.io/pod-claim-name";

/// Stays on a claim for as long as devices are allocated for it.
pub const CLAIM_DELETE_PROTECTION: &str = "resource.kubernetes.io/delete-protection";

/// The API server takes no more consumers of one claim.
pub const RESERVED_FOR_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct ResourceClaim {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: ResourceClaimSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: ResourceClaimStatus,
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
#[serde(rename_all = "camelCase", default)]
pub struct ResourceClaimStatus {
    pub allocation: Option<ClaimAllocation>,
    #[serde(deserialize_with = "or_default")]
    pub reserved_for: Vec<ClaimConsumer>,
}

/// The devices of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(default)]
pub struct ClaimAllocation {
    #[serde(deserialize_with = "or_default")]
    pub devices: AllocatedDevices,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(default)]
pub struct AllocatedDevices {
    #[serde(deserialize_with = "or_default")]
    pub results: Box<[AllocatedDevice]>,
}

/// One device, and which of its taints the claim tolerates.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(default)]
pub struct AllocatedDevice {
    pub driver: Istr,
    pub pool: Istr,
    pub device: Istr,
    #[serde(deserialize_with = "or_default")]
    pub tolerations: Box<[Toleration]>,
}

/// Who may use the devices.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimConsumer {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub api_group: Istr,
    pub resource: Istr,
    pub name: Istr,
    pub uid: Uid,
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
    /// Devices that others use as well, for who looks after them.
    #[serde(deserialize_with = "or_default")]
    pub admin_access: bool,
}

impl ResourceClaimSpec {
    pub fn has_admin_access(&self) -> bool {
        let mut requests = self.devices.requests.iter();
        requests.any(|request| matches!(&request.exactly, Some(exactly) if exactly.admin_access))
    }

    /// Does a request name several wishes, of which the first that can be granted is?
    pub fn has_prioritized_list(&self) -> bool {
        let mut requests = self.devices.requests.iter();
        requests.any(|request| !request.first_available.is_empty())
    }
}

/// What claims of pods are created from.
#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct ResourceClaimTemplate {
    pub metadata: Meta,
    /// Metadata and spec of a claim, as they came.
    pub spec: Template,
}

crate::view!(
    ResourceClaimTemplate,
    ResourceType::namespaced(
        "resource.k8s.io",
        "v1",
        "resourceclaimtemplates",
        "ResourceClaimTemplate"
    )
);

impl ResourceClaimTemplate {
    /// The spec of its claims; empty if it makes no sense.
    pub fn claim_spec(&self) -> ResourceClaimSpec {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Body {
            #[serde(deserialize_with = "or_default")]
            spec: ResourceClaimSpec,
        }
        let body: Body = serde_json::from_str(self.spec.raw()).unwrap_or_default();
        body.spec
    }
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
