//! What controllers read of a ReplicationController.

use serde::Deserialize;

use crate::labels::LabelSet;
use crate::meta::{Meta, or_default};
use crate::resource::ResourceType;
use crate::template::Template;

use super::replicaset::ReplicaSetStatus;

/// The predecessor of ReplicaSet; its status has the same shape.
#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct ReplicationController {
    pub metadata: Meta,
    pub spec: ReplicationControllerSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: ReplicaSetStatus,
}

crate::view!(
    ReplicationController,
    ResourceType::namespaced("", "v1", "replicationcontrollers", "ReplicationController")
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicationControllerSpec {
    pub replicas: Option<i32>,
    pub min_ready_seconds: i32,
    pub selector: LabelSet,
    pub template: Template,
}
