//! The node as the scheduler and the kubelets read it.

use std::collections::BTreeMap;

use api::kinds::{AttachedVolume, CONTROLLER_MANAGED_ATTACH};
use api::meta::or_default;
use api::{Condition, Istr, LabelSet, Meta, Quantity, ResourceType, Taint};
use serde::Deserialize;

use crate::pod::Amounts;

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct Node {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: NodeSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: NodeStatus,
}

api::view!(Node, ResourceType::cluster("", "v1", "nodes", "Node"));

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    pub unschedulable: bool,
    #[serde(deserialize_with = "or_default")]
    pub taints: Vec<Taint>,
    #[serde(rename = "podCIDRs", deserialize_with = "or_default")]
    pub pod_cidrs: Vec<Istr>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct NodeStatus {
    #[serde(deserialize_with = "allocatable")]
    pub allocatable: Allocatable,
    #[serde(deserialize_with = "without_heartbeats")]
    pub conditions: Vec<Condition>,
    #[serde(deserialize_with = "or_default")]
    pub addresses: Vec<Address>,
    #[serde(rename = "volumesAttached", deserialize_with = "or_default")]
    pub volumes_attached: Vec<AttachedVolume>,
    #[serde(rename = "volumesInUse", deserialize_with = "or_default")]
    pub volumes_in_use: Vec<Istr>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct Address {
    pub r#type: Istr,
    pub address: Istr,
}

/// What a node has for pods.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Allocatable {
    pub amounts: Amounts,
    pub pods: i64,
}

impl Node {
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    pub fn labels(&self) -> &LabelSet {
        &self.metadata.labels
    }

    /// Does the kubelet leave attaching to the controller?
    pub fn is_attach_managed(&self) -> bool {
        self.metadata
            .annotation(CONTROLLER_MANAGED_ATTACH)
            .is_some()
    }

    pub fn internal_ip(&self) -> &str {
        let internal = self
            .status
            .addresses
            .iter()
            .find(|one| one.r#type == "InternalIP");
        internal.map_or("", |one| one.address.as_str())
    }
}

fn allocatable<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Allocatable, D::Error> {
    let quantities: BTreeMap<Istr, Quantity> = or_default(deserializer)?;
    Ok(Allocatable {
        amounts: Amounts::from_quantities(&quantities),
        pods: quantities.get("pods").map_or(0, Quantity::value),
    })
}

/// A heartbeat alone must wake nobody.
fn without_heartbeats<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Condition>, D::Error> {
    let mut conditions: Vec<Condition> = or_default(deserializer)?;
    for condition in &mut conditions {
        condition.last_update_time = None;
    }
    Ok(conditions)
}
