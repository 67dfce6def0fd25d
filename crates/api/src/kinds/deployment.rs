//! Deployments: what is to run, how to get there from what runs now, and how far that has come.

use serde::{Deserialize, Serialize};

use crate::conditions::Condition;
use crate::int_or_string::IntOrString;
use crate::meta::{Meta, or_default};
use crate::resource::ResourceType;
use crate::selector::LabelSelector;
use crate::template::Template;

use super::replicaset::{is_zero, is_zero_i64};
use super::strategy::WireStrategy;

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct Deployment {
    pub metadata: Meta,
    pub spec: DeploymentSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: DeploymentStatus,
}

crate::view!(
    Deployment,
    ResourceType::namespaced("apps", "v1", "deployments", "Deployment")
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentSpec {
    pub replicas: Option<i32>,
    pub selector: LabelSelector,
    pub template: Template,
    #[serde(deserialize_with = "or_default")]
    pub strategy: DeploymentStrategy,
    pub min_ready_seconds: i32,
    pub revision_history_limit: Option<i32>,
    pub paused: bool,
    pub progress_deadline_seconds: Option<i32>,
}

/// `RollingUpdate` unless it says `Recreate`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct DeploymentStrategy {
    pub recreate: bool,
    pub max_unavailable: Option<IntOrString>,
    pub max_surge: Option<IntOrString>,
}

impl<'de> Deserialize<'de> for DeploymentStrategy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = WireStrategy::deserialize(deserializer)?;
        Ok(DeploymentStrategy {
            recreate: wire.r#type == "Recreate",
            max_unavailable: wire.rolling_update.max_unavailable,
            max_surge: wire.rolling_update.max_surge,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentStatus {
    #[serde(skip_serializing_if = "is_zero_i64")]
    pub observed_generation: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub updated_replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub available_replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub unavailable_replicas: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
}

/// The annotation that asks for a rollback (the way the old `extensions` API left behind).
pub const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";

/// A rollback that was asked for by annotation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RollbackTo {
    /// 0 means the last revision before the current one.
    pub revision: i64,
}

impl Deployment {
    pub fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    /// What is no number asks for nothing.
    pub fn rollback_to(&self) -> Option<RollbackTo> {
        let revision = self.metadata.annotation(ROLLBACK_TO)?.parse().ok()?;
        Some(RollbackTo { revision })
    }
}
