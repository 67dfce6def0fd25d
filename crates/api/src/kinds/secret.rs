//! Secrets of service accounts: their type and what binds them. Never their other contents.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::Istr;
use crate::meta::Meta;
use crate::resource::ResourceType;

/// A secret. What is in it is kept for service account tokens alone: nothing else is read, and what is
/// not in memory cannot leak.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Secret {
    pub metadata: Meta,
    pub type_: Istr,
    /// Values as they came, in base64.
    pub data: BTreeMap<String, Istr>,
}

/// The type of secrets that hold a token of a service account.
pub const SERVICE_ACCOUNT_TOKEN: &str = "kubernetes.io/service-account-token";

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
            Some(raw) if wire.r#type == SERVICE_ACCOUNT_TOKEN => {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Resource;

    #[test]
    fn only_tokens_keep_what_is_in_them() {
        let read = |type_: &str| {
            let json = format!(
                r#"{{"metadata":{{"name":"s"}},"type":"{type_}","data":{{"token":"YQ=="}}}}"#
            );
            Secret::decode(json.as_bytes()).unwrap().data.len()
        };
        assert_eq!(read(SERVICE_ACCOUNT_TOKEN), 1);
        assert_eq!(read("Opaque"), 0);
    }
}
