//! What is read of a ResourceQuota.

use serde::Deserialize;

use crate::amounts::{self, Amounts};
use crate::intern::Istr;
use crate::meta::{Meta, or_default};
use crate::quota::Scope;
use crate::resource::ResourceType;

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct ResourceQuota {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: ResourceQuotaSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: ResourceQuotaStatus,
}

crate::view!(
    ResourceQuota,
    ResourceType::namespaced("", "v1", "resourcequotas", "ResourceQuota")
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceQuotaSpec {
    #[serde(deserialize_with = "amounts::lenient")]
    pub hard: Amounts,
    #[serde(deserialize_with = "or_default")]
    pub scopes: Vec<Istr>,
    #[serde(deserialize_with = "or_default")]
    pub scope_selector: ScopeSelector,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ScopeSelector {
    #[serde(deserialize_with = "or_default")]
    pub match_expressions: Vec<ScopeRequirement>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ScopeRequirement {
    pub scope_name: Istr,
    pub operator: Istr,
    #[serde(deserialize_with = "or_default")]
    pub values: Vec<Istr>,
}

/// What is enforced, and what is used of it; none before the first count.
#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct ResourceQuotaStatus {
    #[serde(deserialize_with = "present")]
    pub hard: Option<Amounts>,
    #[serde(deserialize_with = "present")]
    pub used: Option<Amounts>,
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Amounts>, D::Error> {
    amounts::lenient(deserializer).map(Some)
}

impl ResourceQuota {
    pub fn scopes(&self) -> impl Iterator<Item = Scope<'_>> {
        let plain = self.spec.scopes.iter().map(|name| Scope {
            name,
            operator: "Exists",
            values: &[],
        });
        let selected = self.spec.scope_selector.match_expressions.iter();
        plain.chain(selected.map(|requirement| Scope {
            name: &requirement.scope_name,
            operator: &requirement.operator,
            values: &requirement.values,
        }))
    }
}
