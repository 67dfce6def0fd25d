//! What controllers read of a ReplicaSet.

use serde::{Deserialize, Serialize};

use crate::conditions::Condition;
use crate::meta::{Meta, or_default};
use crate::resource::ResourceType;
use crate::selector::LabelSelector;
use crate::template::Template;

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct ReplicaSet {
    pub metadata: Meta,
    pub spec: ReplicaSetSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: ReplicaSetStatus,
}

crate::view!(
    ReplicaSet,
    ResourceType::namespaced("apps", "v1", "replicasets", "ReplicaSet")
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetSpec {
    pub replicas: Option<i32>,
    pub min_ready_seconds: i32,
    pub selector: LabelSelector,
    pub template: Template,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetStatus {
    pub replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub fully_labeled_replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub available_replicas: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    #[serde(skip_serializing_if = "is_zero_i64")]
    pub observed_generation: i64,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

impl ReplicaSet {
    pub fn replicas(&self) -> i32 {
        // The API server defaults it; an object that never passed one means one pod.
        self.spec.replicas.unwrap_or(1)
    }
}

pub(crate) fn is_zero(number: &i32) -> bool {
    *number == 0
}

pub(crate) fn is_zero_i64(number: &i64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Resource;

    #[test]
    fn a_bad_object_is_named_with_its_path() {
        let json = br#"{"metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":"three"}}"#;
        let error = ReplicaSet::decode(json).unwrap_err().to_string();
        assert!(
            error.starts_with(
                "cannot decode ReplicaSet shop/web: spec.replicas: invalid type: string \"three\""
            ),
            "{error}"
        );
    }
}
