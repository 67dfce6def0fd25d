//! ClusterRoles: rules, and which other roles they take rules from.

use serde::{Deserialize, Serialize};

use crate::Istr;
use crate::meta::{Meta, or_default};
use crate::resource::ResourceType;
use crate::selector::LabelSelector;

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterRole {
    pub metadata: Meta,
    pub aggregation_rule: Option<AggregationRule>,
    #[serde(deserialize_with = "or_default")]
    pub rules: Vec<PolicyRule>,
}

crate::view!(
    ClusterRole,
    ResourceType::cluster(
        "rbac.authorization.k8s.io",
        "v1",
        "clusterroles",
        "ClusterRole"
    )
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct AggregationRule {
    #[serde(deserialize_with = "or_default")]
    pub cluster_role_selectors: Vec<LabelSelector>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, Default)]
#[serde(default)]
pub struct PolicyRule {
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<Istr>,
    #[serde(
        rename = "apiGroups",
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub api_groups: Vec<Istr>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Istr>,
    #[serde(
        rename = "resourceNames",
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub resource_names: Vec<Istr>,
    #[serde(
        rename = "nonResourceURLs",
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub non_resource_urls: Vec<Istr>,
}
