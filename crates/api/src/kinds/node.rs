//! What controllers read of a Node.

use serde::{Deserialize, Serialize};

use crate::conditions::{self, Condition, ConditionStatus};
use crate::intern::Istr;
use crate::meta::{Meta, or_default};
use crate::quantity::Quantity;
use crate::resource::ResourceType;
use crate::taints::Taint;
use crate::time::Time;

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
    /// The ranges that its pods get addresses from, one of each family.
    #[serde(rename = "podCIDRs", deserialize_with = "or_default")]
    pub pod_cidrs: Vec<Istr>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(from = "WireStatus")]
pub struct NodeStatus {
    pub conditions: Vec<Condition>,
    /// When the kubelet last reported, as its Ready condition says.
    pub heartbeat: Heartbeat,
    /// Thousandths of the CPUs that pods can have; 0 where the node does not say.
    pub allocatable_millicpu: i64,
    /// What is attached, as the attach-detach controller says.
    pub volumes_attached: Box<[AttachedVolume]>,
    /// What the kubelet has mounted, or is about to.
    pub volumes_in_use: Box<[Istr]>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachedVolume {
    pub name: Istr,
    pub device_path: Istr,
}

/// A kubelet refreshes its heartbeat every few minutes; that alone must wake nobody, so all heartbeats
/// are equal. Who wants to know about them compares the times.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heartbeat(pub Option<Time>);

impl PartialEq for Heartbeat {
    fn eq(&self, _: &Heartbeat) -> bool {
        true
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireStatus {
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<Condition>,
    #[serde(deserialize_with = "or_default")]
    allocatable: WireAllocatable,
    #[serde(rename = "volumesAttached", deserialize_with = "or_default")]
    volumes_attached: Box<[AttachedVolume]>,
    #[serde(rename = "volumesInUse", deserialize_with = "or_default")]
    volumes_in_use: Box<[Istr]>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireAllocatable {
    cpu: Option<Quantity>,
}

impl From<WireStatus> for NodeStatus {
    fn from(wire: WireStatus) -> NodeStatus {
        let WireStatus {
            mut conditions,
            allocatable,
            volumes_attached,
            volumes_in_use,
        } = wire;
        let ready = conditions::find(&conditions, "Ready");
        let heartbeat = Heartbeat(ready.and_then(|ready| ready.last_update_time));
        for condition in &mut conditions {
            condition.last_update_time = None;
        }
        NodeStatus {
            conditions,
            heartbeat,
            allocatable_millicpu: allocatable.cpu.map_or(0, |cpu| cpu.milli_value()),
            volumes_attached,
            volumes_in_use,
        }
    }
}

/// By which a kubelet leaves attaching and detaching to the controller.
pub const CONTROLLER_MANAGED_ATTACH: &str =
    "volumes.kubernetes.io/controller-managed-attach-detach";

/// Where a node is.
pub const ZONE: &str = "topology.kubernetes.io/zone";

impl Node {
    /// The zone that the node is in; empty where it does not say.
    pub fn zone(&self) -> &str {
        self.metadata.labels.get(ZONE).unwrap_or_default()
    }

    /// Are its volumes attached by the controller?
    pub fn is_attach_managed(&self) -> bool {
        self.metadata
            .annotation(CONTROLLER_MANAGED_ATTACH)
            .is_some()
    }

    pub fn lists_attached(&self, volume: &str) -> bool {
        let mut listed = self.status.volumes_attached.iter();
        listed.any(|held| held.name == *volume)
    }

    pub fn uses_volume(&self, volume: &str) -> bool {
        let mut used = self.status.volumes_in_use.iter();
        used.any(|held| *held == *volume)
    }

    pub fn is_ready(&self) -> bool {
        self.ready()
            .is_some_and(|ready| ready.status == ConditionStatus::True)
    }

    pub fn ready(&self) -> Option<&Condition> {
        conditions::find(&self.status.conditions, "Ready")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Resource;

    fn node(heartbeat: &str, status: &str) -> Node {
        let json = format!(
            r#"{{"metadata":{{"name":"a"}},"status":{{"conditions":[
                {{"type":"Ready","status":"{status}","lastHeartbeatTime":"{heartbeat}"}}]}}}}"#
        );
        Node::decode(json.as_bytes()).unwrap()
    }

    #[test]
    fn a_heartbeat_is_kept_but_is_no_difference() {
        let (one, two) = (
            node("2024-01-01T00:00:00Z", "True"),
            node("2024-01-01T00:05:00Z", "True"),
        );
        assert_eq!(one, two);
        assert_ne!(one.status.heartbeat.0, two.status.heartbeat.0);
        assert_ne!(one, node("2024-01-01T00:00:00Z", "False"));
    }
}
