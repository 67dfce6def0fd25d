//! What controllers read of a Namespace.

use serde::{Deserialize, Serialize};

use crate::Istr;
use crate::conditions::Condition;
use crate::meta::{Meta, or_default};
use crate::resource::ResourceType;

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct Namespace {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: NamespaceSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: NamespaceStatus,
}

crate::view!(
    Namespace,
    ResourceType::cluster("", "v1", "namespaces", "Namespace")
);

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, Default)]
#[serde(default)]
pub struct NamespaceSpec {
    #[serde(deserialize_with = "or_default")]
    pub finalizers: Vec<Istr>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, Default)]
#[serde(default)]
pub struct NamespaceStatus {
    pub phase: Istr,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
