//! Config maps, as far as the root CA's publisher and the bootstrap signer read them.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::Istr;
use crate::meta::Meta;
use crate::resource::ResourceType;

/// The ConfigMap in each namespace that holds the cluster's root certificates.
pub const ROOT_CA_CONFIG_MAP: &str = "kube-root-ca.crt";

/// The ConfigMap that a node reads before it trusts anybody.
pub const CLUSTER_INFO_CONFIG_MAP: &str = "cluster-info";
pub const CLUSTER_INFO_NAMESPACE: &str = "kube-public";

/// A ConfigMap. Data is kept for those that controllers read; others are known by name alone.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ConfigMap {
    pub metadata: Meta,
    pub data: BTreeMap<String, Istr>,
    /// Passed through when the map is written.
    pub binary_data: BTreeMap<String, Istr>,
    pub immutable: Option<bool>,
}

crate::view!(
    ConfigMap,
    ResourceType::namespaced("", "v1", "configmaps", "ConfigMap")
);

impl<'de> Deserialize<'de> for ConfigMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ConfigMap, D::Error> {
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase", default)]
        struct Wire {
            metadata: Meta,
            data: Option<Box<RawValue>>,
            binary_data: Option<Box<RawValue>>,
            immutable: Option<bool>,
        }
        let mut wire = Wire::deserialize(deserializer)?;
        if !is_read(&wire.metadata) {
            wire.metadata.annotations = crate::LabelSet::default();
            return Ok(ConfigMap {
                metadata: wire.metadata,
                ..ConfigMap::default()
            });
        }
        Ok(ConfigMap {
            metadata: wire.metadata,
            data: entries(wire.data).map_err(serde::de::Error::custom)?,
            binary_data: entries(wire.binary_data).map_err(serde::de::Error::custom)?,
            immutable: wire.immutable,
        })
    }
}

fn is_read(meta: &Meta) -> bool {
    *meta.name == *ROOT_CA_CONFIG_MAP
        || (*meta.name == *CLUSTER_INFO_CONFIG_MAP && *meta.namespace == *CLUSTER_INFO_NAMESPACE)
}

fn entries(raw: Option<Box<RawValue>>) -> Result<BTreeMap<String, Istr>, serde_json::Error> {
    match raw {
        Some(raw) => Ok(serde_json::from_str::<Option<_>>(raw.get())?.unwrap_or_default()),
        None => Ok(BTreeMap::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Resource;

    #[test]
    fn data_is_kept_where_it_is_read() {
        let read = |name: &str| {
            let json = format!(
                r#"{{"metadata":{{"name":"{name}"}},"data":{{"ca.crt":"x"}},"binaryData":null}}"#
            );
            ConfigMap::decode(json.as_bytes()).unwrap().data.len()
        };
        assert_eq!(read(ROOT_CA_CONFIG_MAP), 1);
        assert_eq!(read("other"), 0);
    }
}
