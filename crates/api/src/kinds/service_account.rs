//! Service accounts and the secrets that they name.

use serde::Deserialize;

use crate::Istr;
use crate::meta::{Meta, or_default};
use crate::resource::ResourceType;

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct ServiceAccount {
    pub metadata: Meta,
    /// Secrets that pods with this account may mount; legacy tokens are among them.
    #[serde(deserialize_with = "or_default")]
    pub secrets: Vec<SecretName>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct SecretName {
    pub name: Istr,
}

crate::view!(
    ServiceAccount,
    ResourceType::namespaced("", "v1", "serviceaccounts", "ServiceAccount")
);
