//! Secrets of service accounts and bootstrap tokens. Never the contents of others.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::Istr;
use crate::meta::Meta;
use crate::resource::ResourceType;

/// A secret. What is in it is kept for service account tokens and for bootstrap tokens: nothing else is read, and what
/// is not in memory cannot leak.
#[derive(Clone, PartialEq, Default)]
pub struct Secret {
    pub metadata: Meta,
    pub type_: Istr,
    /// Values as they came, in base64.
    pub data: BTreeMap<String, Istr>,
}

/// The type of secrets that hold a token of a service account.
pub const SERVICE_ACCOUNT_TOKEN: &str = "kubernetes.io/service-account-token";

/// The type of secrets by which nodes join, in `kube-system`.
pub const BOOTSTRAP_TOKEN: &str = "bootstrap.kubernetes.io/token";

/// Values are never printed.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<&String> = self.data.keys().collect();
        f.debug_struct("Secret")
            .field("metadata", &self.metadata)
            .field("type", &self.type_)
            .field("data", &keys)
            .finish()
    }
}

crate::view!(
    Secret,
    ResourceType::namespaced("", "v1", "secrets", "Secret")
);

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Wire {
            metadata: Meta,
            r#type: Istr,
            data: Option<Box<RawValue>>,
        }
        let wire = Wire::deserialize(deserializer)?;
        let data = match wire.data {
            Some(raw) if is_read(&wire.metadata, &wire.r#type) => {
                serde_json::from_str::<Option<_>>(raw.get())
                    .map_err(serde::de::Error::custom)?
                    .unwrap_or_default()
            }
            _ => BTreeMap::new(),
        };
        Ok(Secret {
            metadata: wire.metadata,
            type_: wire.r#type,
            data,
        })
    }
}

fn is_read(meta: &Meta, type_: &Istr) -> bool {
    *type_ == SERVICE_ACCOUNT_TOKEN
        || (*type_ == BOOTSTRAP_TOKEN && *meta.namespace == *"kube-system")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Resource;

    #[test]
    fn only_tokens_keep_what_is_in_them() {
        let read = |namespace: &str, type_: &str| {
            let json = format!(
                r#"{{"metadata":{{"name":"s","namespace":"{namespace}"}},"type":"{type_}","data":{{"token":"YQ=="}}}}"#
            );
            let read = Secret::decode(json.as_bytes()).unwrap();
            assert!(!format!("{read:?}").contains("YQ"), "{read:?}");
            read.data.len()
        };
        assert_eq!(read("default", SERVICE_ACCOUNT_TOKEN), 1);
        assert_eq!(read("default", "Opaque"), 0);
        assert_eq!(read("default", BOOTSTRAP_TOKEN), 0);
        assert_eq!(read("kube-system", BOOTSTRAP_TOKEN), 1);
    }
}
