//! What is read of a ResourceSlice: which devices a driver offers in a pool, and which of them are tainted. And of a
//! DeviceTaintRule, which taints devices without their driver.

use serde::Deserialize;

use crate::conditions::Condition;
use crate::intern::Istr;
use crate::meta::{Meta, or_default};
use crate::resource::ResourceType;
use crate::taints::Taint;

/// The type of the condition that says how far a rule has got.
pub const EVICTION_IN_PROGRESS: &str = "EvictionInProgress";

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct ResourceSlice {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: ResourceSliceSpec,
}

crate::view!(
    ResourceSlice,
    ResourceType::cluster("resource.k8s.io", "v1", "resourceslices", "ResourceSlice")
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceSliceSpec {
    pub driver: Istr,
    #[serde(deserialize_with = "or_default")]
    pub pool: ResourcePool,
    /// Empty if the devices are not those of one node.
    #[serde(deserialize_with = "or_default")]
    pub node_name: Istr,
    #[serde(deserialize_with = "or_default")]
    pub devices: Box<[Device]>,
}

/// Slices of the highest generation are the pool; older ones are on their way out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourcePool {
    pub name: Istr,
    pub generation: i64,
    pub resource_slice_count: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(default)]
pub struct Device {
    pub name: Istr,
    #[serde(deserialize_with = "or_default")]
    pub taints: Box<[Taint]>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct DeviceTaintRule {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: DeviceTaintRuleSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: DeviceTaintRuleStatus,
}

crate::view!(
    DeviceTaintRule,
    ResourceType::cluster(
        "resource.k8s.io",
        "v1beta2",
        "devicetaintrules",
        "DeviceTaintRule"
    )
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceTaintRuleSpec {
    /// A rule without a selector taints nothing.
    pub device_selector: Option<DeviceTaintSelector>,
    #[serde(deserialize_with = "or_default")]
    pub taint: Taint,
}

/// What is left out matches anything.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(default)]
pub struct DeviceTaintSelector {
    pub driver: Option<Istr>,
    pub pool: Option<Istr>,
    pub device: Option<Istr>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct DeviceTaintRuleStatus {
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

impl DeviceTaintRule {
    pub fn selects(&self, driver: &str, pool: &str, device: &str) -> bool {
        let matches = |wanted: &Option<Istr>, held: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted.as_str() == held)
        };
        self.spec.device_selector.as_ref().is_some_and(|selector| {
            matches(&selector.driver, driver)
                && matches(&selector.pool, pool)
                && matches(&selector.device, device)
        })
    }
}

/// Asks how many devices the pools of a driver have. It is answered once.
#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct ResourcePoolStatusRequest {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: ResourcePoolStatusRequestSpec,
    pub status: Option<ResourcePoolStatusRequestStatus>,
}

crate::view!(
    ResourcePoolStatusRequest,
    ResourceType::cluster(
        "resource.k8s.io",
        "v1alpha3",
        "resourcepoolstatusrequests",
        "ResourcePoolStatusRequest"
    )
);

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourcePoolStatusRequestSpec {
    pub driver: Istr,
    /// All pools if left out.
    pub pool_name: Option<Istr>,
    pub limit: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct ResourcePoolStatusRequestStatus {
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}
