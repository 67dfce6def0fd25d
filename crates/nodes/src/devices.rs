//! Devices, the claims for them and their classes, as the scheduler and the simulated driver read them.

use std::collections::BTreeMap;

use api::kinds::ClaimConsumer;
use api::meta::or_default;
use api::node_affinity::NodeSelector;
use api::{Istr, Meta, Quantity, ResourceType, Taint, Toleration};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct ResourceSlice {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: SliceSpec,
}

api::view!(
    ResourceSlice,
    ResourceType::cluster("resource.k8s.io", "v1", "resourceslices", "ResourceSlice")
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SliceSpec {
    pub driver: Istr,
    #[serde(deserialize_with = "or_default")]
    pub pool: Pool,
    #[serde(flatten)]
    pub place: Place,
    /// Each device says where it can be reached.
    pub per_device_node_selection: Option<bool>,
    #[serde(deserialize_with = "or_default")]
    pub devices: Vec<Device>,
}

/// Slices of the highest generation are the pool; older ones are on their way out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Pool {
    pub name: Istr,
    pub generation: i64,
    pub resource_slice_count: usize,
}

/// The nodes from which devices can be reached.
#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Place {
    pub node_name: Option<Istr>,
    pub all_nodes: Option<bool>,
    pub node_selector: Option<NodeSelector>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Device {
    pub name: Istr,
    #[serde(deserialize_with = "or_default")]
    pub attributes: BTreeMap<Istr, Attribute>,
    #[serde(deserialize_with = "or_default")]
    pub capacity: BTreeMap<Istr, Capacity>,
    #[serde(deserialize_with = "or_default")]
    pub taints: Vec<Taint>,
    #[serde(flatten)]
    pub place: Place,
    /// A part of something that other devices are parts of, too.
    #[serde(deserialize_with = "or_default")]
    pub consumes_counters: Vec<Value>,
    /// It is not ready when it is allocated: its driver has to say so first.
    #[serde(deserialize_with = "or_default")]
    pub binding_conditions: Vec<Istr>,
}

/// One of four types of values.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Attribute {
    Int(i64),
    Bool(bool),
    String(Istr),
    Version(Istr),
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct Capacity {
    pub value: Quantity,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct DeviceClass {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: DeviceClassSpec,
}

api::view!(
    DeviceClass,
    ResourceType::cluster("resource.k8s.io", "v1", "deviceclasses", "DeviceClass")
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct DeviceClassSpec {
    #[serde(deserialize_with = "or_default")]
    pub selectors: Vec<Selector>,
    /// Parameters for drivers, which are handed on unread.
    #[serde(deserialize_with = "or_default")]
    pub config: Vec<Value>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct Selector {
    #[serde(deserialize_with = "or_default")]
    pub cel: CelSelector,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct CelSelector {
    pub expression: Istr,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct ResourceClaim {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: ClaimSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: ClaimStatus,
}

api::view!(
    ResourceClaim,
    ResourceType::namespaced("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct ClaimSpec {
    #[serde(deserialize_with = "or_default")]
    pub devices: Wanted,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct Wanted {
    #[serde(deserialize_with = "or_default")]
    pub requests: Vec<Request>,
    #[serde(deserialize_with = "or_default")]
    pub constraints: Vec<Constraint>,
    #[serde(deserialize_with = "or_default")]
    pub config: Vec<Value>,
}

/// Devices of one class, or the first of several choices that can be had.
#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Request {
    pub name: Istr,
    pub exactly: Option<Choice>,
    #[serde(deserialize_with = "or_default")]
    pub first_available: Vec<Choice>,
}

impl Request {
    /// The choices in their order; one where there is nothing to choose.
    pub fn choices(&self) -> &[Choice] {
        match &self.exactly {
            Some(exactly) => std::slice::from_ref(exactly),
            None => &self.first_available,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Choice {
    /// Empty where there is nothing to choose.
    pub name: Istr,
    pub device_class_name: Istr,
    #[serde(deserialize_with = "or_default")]
    pub selectors: Vec<Selector>,
    pub allocation_mode: AllocationMode,
    #[serde(deserialize_with = "or_default")]
    pub count: usize,
    /// Devices that others use as well, for who looks after them.
    #[serde(deserialize_with = "or_default")]
    pub admin_access: bool,
    #[serde(deserialize_with = "or_default")]
    pub tolerations: Vec<Toleration>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum AllocationMode {
    #[default]
    ExactCount,
    All,
    /// A way of counting that is newer than we are.
    #[serde(other)]
    Unknown,
}

/// All devices of these requests have the same value of an attribute.
#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Constraint {
    /// All requests if empty.
    #[serde(deserialize_with = "or_default")]
    pub requests: Vec<Istr>,
    pub match_attribute: Option<Istr>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimStatus {
    pub allocation: Option<Allocation>,
    #[serde(deserialize_with = "or_default")]
    pub reserved_for: Vec<ClaimConsumer>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Allocation {
    #[serde(deserialize_with = "or_default")]
    pub devices: AllocatedDevices,
    pub node_selector: Option<NodeSelector>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct AllocatedDevices {
    #[serde(deserialize_with = "or_default")]
    pub results: Vec<AllocatedDevice>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct AllocatedDevice {
    pub driver: Istr,
    pub pool: Istr,
    pub device: Istr,
    #[serde(deserialize_with = "or_default")]
    pub admin_access: bool,
}

/// How a device is named everywhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceId {
    pub driver: Istr,
    pub pool: Istr,
    pub device: Istr,
}

impl std::fmt::Display for DeviceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.driver, self.pool, self.device)
    }
}

impl ResourceClaim {
    /// Devices that nobody else may have: not those of admins.
    pub fn holds(&self) -> impl Iterator<Item = DeviceId> + '_ {
        let allocation = self.status.allocation.iter();
        let results = allocation.flat_map(|held| &held.devices.results);
        results
            .filter(|held| !held.admin_access)
            .map(|held| DeviceId {
                driver: held.driver.clone(),
                pool: held.pool.clone(),
                device: held.device.clone(),
            })
    }
}
