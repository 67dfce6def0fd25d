//! What controllers read of a StatefulSet.

use serde::{Deserialize, Serialize};

use crate::Istr;
use crate::conditions::Condition;
use crate::int_or_string::IntOrString;
use crate::json::Node;
use crate::meta::{Meta, or_default};
use crate::resource::ResourceType;
use crate::selector::LabelSelector;
use crate::template::Template;

use super::replicaset::{is_zero, is_zero_i64};

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct StatefulSet {
    pub metadata: Meta,
    pub spec: StatefulSetSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: StatefulSetStatus,
}

crate::view!(
    StatefulSet,
    ResourceType::namespaced("apps", "v1", "statefulsets", "StatefulSet")
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSetSpec {
    pub replicas: Option<i32>,
    pub selector: LabelSelector,
    pub template: Template,
    /// Each claim template as raw JSON.
    #[serde(deserialize_with = "raw_items")]
    pub volume_claim_templates: Vec<Node>,
    pub service_name: Istr,
    pub pod_management_policy: PodManagement,
    #[serde(deserialize_with = "or_default")]
    pub update_strategy: StatefulSetStrategy,
    pub revision_history_limit: Option<i32>,
    pub min_ready_seconds: i32,
    #[serde(deserialize_with = "or_default")]
    pub persistent_volume_claim_retention_policy: ClaimRetention,
    #[serde(deserialize_with = "or_default")]
    pub ordinals: Ordinals,
}

fn raw_items<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Node>, D::Error> {
    let items: Vec<Box<serde_json::value::RawValue>> = or_default(deserializer)?;
    items
        .iter()
        .map(|item| Node::parse(item.get()).map_err(serde::de::Error::custom))
        .collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
pub enum PodManagement {
    #[default]
    OrderedReady,
    Parallel,
}

#[derive(Clone, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct Ordinals {
    pub start: i32,
}

/// `RollingUpdate` unless it says `OnDelete`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct StatefulSetStrategy {
    pub on_delete: bool,
    /// False when the rolling update parameters are absent altogether.
    pub has_rolling_update: bool,
    pub partition: i32,
    pub max_unavailable: Option<IntOrString>,
}

impl<'de> Deserialize<'de> for StatefulSetStrategy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase", default)]
        struct Wire {
            r#type: Istr,
            rolling_update: Option<Rolling>,
        }
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase", default)]
        struct Rolling {
            partition: Option<i32>,
            max_unavailable: Option<IntOrString>,
        }
        let wire = Wire::deserialize(deserializer)?;
        let has_rolling_update = wire.rolling_update.is_some();
        let rolling = wire.rolling_update.unwrap_or_default();
        Ok(StatefulSetStrategy {
            on_delete: wire.r#type == "OnDelete",
            has_rolling_update,
            partition: rolling.partition.unwrap_or(0),
            max_unavailable: rolling.max_unavailable,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimRetention {
    pub when_deleted: ClaimRetentionPolicy,
    pub when_scaled: ClaimRetentionPolicy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
pub enum ClaimRetentionPolicy {
    Delete,
    #[default]
    #[serde(other)]
    Retain,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSetStatus {
    #[serde(skip_serializing_if = "is_zero_i64")]
    pub observed_generation: i64,
    pub replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub current_replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub updated_replicas: i32,
    #[serde(skip_serializing_if = "no_text")]
    pub current_revision: Istr,
    #[serde(skip_serializing_if = "no_text")]
    pub update_revision: Istr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
    pub available_replicas: i32,
}

impl StatefulSet {
    pub fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }
}

fn no_text(text: &Istr) -> bool {
    text.is_empty()
}
