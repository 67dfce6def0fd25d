//! What controllers read of a Node.

use serde::Deserialize;

use crate::conditions::Condition;
use crate::meta::{Meta, or_default};
use crate::resource::ResourceType;
use crate::taints::Taint;

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct Node {
    pub metadata: Meta,
    pub spec: NodeSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: NodeStatus,
}

crate::view!(Node, ResourceType::cluster("", "v1", "nodes", "Node"));

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    pub unschedulable: bool,
    #[serde(deserialize_with = "or_default")]
    pub taints: Vec<Taint>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    #[serde(deserialize_with = "without_heartbeats")]
    pub conditions: Vec<Condition>,
}

/// A kubelet refreshes its heartbeat every few minutes; that alone must wake nobody.
fn without_heartbeats<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Condition>, D::Error> {
    let mut conditions: Vec<Condition> = or_default(deserializer)?;
    for condition in &mut conditions {
        condition.last_update_time = None;
    }
    Ok(conditions)
}
