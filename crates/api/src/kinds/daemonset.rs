//! What controllers read of a DaemonSet.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::conditions::Condition;
use crate::int_or_string::IntOrString;
use crate::meta::{Meta, or_default};
use crate::node_affinity::Affinity;
use crate::resource::ResourceType;
use crate::selector::LabelSelector;
use crate::taints::Toleration;
use crate::template::Template;
use crate::{Istr, LabelSet};

use super::replicaset::{is_zero, is_zero_i64};
use super::strategy::WireStrategy;

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct DaemonSet {
    pub metadata: Meta,
    pub spec: DaemonSetSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: DaemonSetStatus,
}

crate::view!(
    DaemonSet,
    ResourceType::namespaced("apps", "v1", "daemonsets", "DaemonSet")
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(from = "WireSpec")]
pub struct DaemonSetSpec {
    pub selector: LabelSelector,
    pub template: Template,
    /// What the template says about nodes: read once, asked about every node.
    pub placement: Arc<Placement>,
    pub update_strategy: DaemonSetStrategy,
    pub min_ready_seconds: i32,
    pub revision_history_limit: Option<i32>,
}

/// The part of a pod template that decides where its pods may run.
#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Placement {
    #[serde(deserialize_with = "or_default")]
    pub node_name: Istr,
    #[serde(deserialize_with = "or_default")]
    pub node_selector: LabelSet,
    pub affinity: Option<Affinity>,
    #[serde(deserialize_with = "or_default")]
    pub tolerations: Vec<Toleration>,
    pub host_network: bool,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec {
    selector: LabelSelector,
    template: Template,
    #[serde(deserialize_with = "or_default")]
    update_strategy: DaemonSetStrategy,
    min_ready_seconds: i32,
    revision_history_limit: Option<i32>,
}

impl From<WireSpec> for DaemonSetSpec {
    fn from(wire: WireSpec) -> DaemonSetSpec {
        DaemonSetSpec {
            selector: wire.selector,
            placement: Arc::new(Placement::of(&wire.template)),
            template: wire.template,
            update_strategy: wire.update_strategy,
            min_ready_seconds: wire.min_ready_seconds,
            revision_history_limit: wire.revision_history_limit,
        }
    }
}

impl Placement {
    /// The API server has validated the template; one that cannot be read demands nothing.
    pub fn of(template: &Template) -> Placement {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Body {
            #[serde(deserialize_with = "or_default")]
            spec: Placement,
        }
        let body: Body = serde_json::from_str(template.raw()).unwrap_or_default();
        body.spec
    }
}

/// `RollingUpdate` unless it says `OnDelete`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct DaemonSetStrategy {
    pub on_delete: bool,
    pub max_unavailable: Option<IntOrString>,
    pub max_surge: Option<IntOrString>,
}

impl<'de> Deserialize<'de> for DaemonSetStrategy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = WireStrategy::deserialize(deserializer)?;
        Ok(DaemonSetStrategy {
            on_delete: wire.r#type == "OnDelete",
            max_unavailable: wire.rolling_update.max_unavailable,
            max_surge: wire.rolling_update.max_surge,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetStatus {
    pub current_number_scheduled: i32,
    pub number_misscheduled: i32,
    pub desired_number_scheduled: i32,
    pub number_ready: i32,
    #[serde(skip_serializing_if = "is_zero_i64")]
    pub observed_generation: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub updated_number_scheduled: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub number_available: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub number_unavailable: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}
