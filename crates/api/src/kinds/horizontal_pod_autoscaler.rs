//! What controllers read of a HorizontalPodAutoscaler, and its status.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Istr;
use crate::conditions::Condition;
use crate::meta::{Meta, or_default};
use crate::quantity::Quantity;
use crate::resource::ResourceType;
use crate::selector::LabelSelector;
use crate::time::Time;

use super::replicaset::is_zero;

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct HorizontalPodAutoscaler {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: HorizontalPodAutoscalerSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: HorizontalPodAutoscalerStatus,
}

crate::view!(
    HorizontalPodAutoscaler,
    ResourceType::namespaced(
        "autoscaling",
        "v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler"
    )
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct HorizontalPodAutoscalerSpec {
    pub scale_target_ref: ObjectName,
    pub min_replicas: Option<i32>,
    pub max_replicas: i32,
    #[serde(deserialize_with = "or_default")]
    pub metrics: Vec<MetricSpec>,
    pub behavior: Option<Behavior>,
}

/// An object of the same namespace, of any kind.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectName {
    pub kind: Istr,
    pub name: Istr,
    #[serde(skip_serializing_if = "no_text")]
    pub api_version: Istr,
}

/// One of the sources is there: the one that the type names.
#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct MetricSpec {
    pub r#type: Istr,
    pub resource: Option<ResourceMetricSource>,
    pub container_resource: Option<ResourceMetricSource>,
    pub pods: Option<NamedMetricSource>,
    pub object: Option<NamedMetricSource>,
    pub external: Option<NamedMetricSource>,
}

/// What pods, or one container of each, use of a resource.
#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceMetricSource {
    pub name: Istr,
    /// Empty for whole pods.
    pub container: Istr,
    #[serde(deserialize_with = "or_default")]
    pub target: MetricTarget,
}

/// A metric with a name: of pods, of one object, or of something outside.
#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct NamedMetricSource {
    pub metric: MetricIdentifier,
    pub described_object: ObjectName,
    #[serde(deserialize_with = "or_default")]
    pub target: MetricTarget,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct MetricIdentifier {
    pub name: Istr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct MetricTarget {
    pub r#type: Istr,
    pub value: Option<Quantity>,
    pub average_value: Option<Quantity>,
    pub average_utilization: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Behavior {
    pub scale_up: Option<ScalingRules>,
    pub scale_down: Option<ScalingRules>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ScalingRules {
    pub stabilization_window_seconds: Option<i32>,
    pub select_policy: Option<Istr>,
    #[serde(deserialize_with = "or_default")]
    pub policies: Vec<ScalingPolicy>,
    pub tolerance: Option<Quantity>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ScalingPolicy {
    /// `Pods` or `Percent`.
    pub r#type: Istr,
    pub value: i32,
    pub period_seconds: i32,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct HorizontalPodAutoscalerStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_time: Option<Time>,
    #[serde(skip_serializing_if = "is_zero")]
    pub current_replicas: i32,
    pub desired_replicas: i32,
    #[serde(deserialize_with = "or_default")]
    pub current_metrics: Vec<MetricStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

/// What was last read; without a type for a metric that could not be read.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct MetricStatus {
    pub r#type: Istr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceMetricStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_resource: Option<ResourceMetricStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<NamedMetricStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<NamedMetricStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<NamedMetricStatus>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceMetricStatus {
    pub name: Istr,
    #[serde(skip_serializing_if = "no_text")]
    pub container: Istr,
    pub current: MetricValue,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct NamedMetricStatus {
    pub metric: MetricIdentifier,
    pub current: MetricValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub described_object: Option<ObjectName>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct MetricValue {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_value: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_utilization: Option<i32>,
}

impl HorizontalPodAutoscaler {
    pub fn min_replicas(&self) -> i32 {
        self.spec.min_replicas.unwrap_or(1)
    }

    /// `Deployment/shop/web`, as upstream names the target.
    pub fn target(&self) -> Arc<str> {
        let target = &self.spec.scale_target_ref;
        let (kind, name) = (&target.kind, &target.name);
        format!("{kind}/{}/{name}", self.metadata.namespace).into()
    }
}

fn no_text(text: &Istr) -> bool {
    text.is_empty()
}
