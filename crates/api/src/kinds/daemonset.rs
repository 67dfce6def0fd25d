//! What controllers read of a DaemonSet.

use serde::{Deserialize, Serialize};

use crate::Istr;
use crate::conditions::Condition;
use crate::int_or_string::IntOrString;
use crate::meta::{Meta, or_default};
use crate::resource::ResourceType;
use crate::selector::LabelSelector;
use crate::template::Template;

use super::replicaset::{is_zero, is_zero_i64};

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
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetSpec {
    pub selector: LabelSelector,
    pub template: Template,
    #[serde(deserialize_with = "or_default")]
    pub update_strategy: DaemonSetStrategy,
    pub min_ready_seconds: i32,
    pub revision_history_limit: Option<i32>,
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
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase", default)]
        struct Wire {
            r#type: Istr,
            #[serde(deserialize_with = "or_default")]
            rolling_update: Rolling,
        }
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase", default)]
        struct Rolling {
            max_unavailable: Option<IntOrString>,
            max_surge: Option<IntOrString>,
        }
        let wire = Wire::deserialize(deserializer)?;
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
