use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::Node;
use crate::meta::Meta;
use crate::resource::ResourceType;

/// One revision of a StatefulSet or DaemonSet. `data` is a patch, kept as it came.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ControllerRevision {
    #[serde(default)]
    pub metadata: Meta,
    #[serde(default, deserialize_with = "raw")]
    pub data: Option<Node>,
    #[serde(default)]
    pub revision: i64,
}

crate::view!(
    ControllerRevision,
    ResourceType::namespaced("apps", "v1", "controllerrevisions", "ControllerRevision")
);

fn raw<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Node>, D::Error> {
    let raw: Option<Box<RawValue>> = Option::deserialize(deserializer)?;
    raw.map(|raw| Node::parse(raw.get()).map_err(serde::de::Error::custom))
        .transpose()
}
