//! What controllers read of a PodDisruptionBudget.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::ser::{Error, SerializeSeq};
use serde::{Deserialize, Serialize, Serializer};

use crate::conditions::{self, Condition};
use crate::int_or_string::IntOrString;
use crate::labels::LabelSet;
use crate::meta::{Meta, or_default};
use crate::resource::ResourceType;
use crate::selector::LabelSelector;
use crate::time::Time;

use super::replicaset::is_zero_i64;

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct PodDisruptionBudget {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: PodDisruptionBudgetSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: PodDisruptionBudgetStatus,
}

crate::view!(
    PodDisruptionBudget,
    ResourceType::namespaced(
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget"
    )
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetSpec {
    /// Without one no pod is under the budget; an empty one selects all of the namespace.
    pub selector: Option<LabelSelector>,
    pub min_available: Option<IntOrString>,
    pub max_unavailable: Option<IntOrString>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetStatus {
    #[serde(skip_serializing_if = "is_zero_i64")]
    pub observed_generation: i64,
    /// Pods whose eviction the API server allowed, and when, until they are seen to be deleted.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "or_default"
    )]
    pub disrupted_pods: BTreeMap<Arc<str>, Time>,
    pub disruptions_allowed: i32,
    pub current_healthy: i32,
    pub desired_healthy: i32,
    pub expected_pods: i32,
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "with_messages",
        deserialize_with = "or_default"
    )]
    pub conditions: Vec<Condition>,
}

impl PodDisruptionBudget {
    /// Is a pod with these labels, in the same namespace, under the budget?
    pub fn selects(&self, labels: &LabelSet) -> bool {
        let selector = self.spec.selector.as_ref();
        selector.is_some_and(|selector| selector.matches(labels))
    }
}

impl PodDisruptionBudgetStatus {
    /// Did the last count succeed?
    pub fn is_counted(&self) -> bool {
        let held = conditions::find(&self.conditions, "DisruptionAllowed");
        held.is_some_and(|held| held.reason != "SyncFailed")
    }
}

/// Conditions of this kind must have a message, also an empty one.
fn with_messages<S: Serializer>(conditions: &[Condition], to: S) -> Result<S::Ok, S::Error> {
    let mut list = to.serialize_seq(Some(conditions.len()))?;
    for condition in conditions {
        let mut value = serde_json::to_value(condition).map_err(S::Error::custom)?;
        if let Some(fields) = value.as_object_mut() {
            fields.entry("message").or_insert_with(|| "".into());
        }
        list.serialize_element(&value)?;
    }
    list.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Resource;

    #[test]
    fn reads_nulls_and_writes_empty_messages() {
        let read = PodDisruptionBudget::decode(
            br#"{"metadata": {"name": "b"}, "spec": {"selector": null, "minAvailable": null, "maxUnavailable": "30%"},
                "status": {"disruptedPods": null, "conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": ""}]}}"#,
        )
        .unwrap();
        assert_eq!(read.spec.min_available, None);
        assert_eq!(read.spec.max_unavailable, Some("30%".into()));
        assert!(!read.selects(&LabelSet::default()));
        assert_eq!(
            serde_json::to_string(&read.status).unwrap(),
            r#"{"disruptionsAllowed":0,"currentHealthy":0,"desiredHealthy":0,"expectedPods":0,"conditions":[{"message":"","reason":"InsufficientPods","status":"False","type":"DisruptionAllowed"}]}"#
        );
    }
}
