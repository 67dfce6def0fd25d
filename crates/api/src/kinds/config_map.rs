use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::Istr;
use crate::meta::Meta;
use crate::resource::ResourceType;

/// The ConfigMap in each namespace that holds the cluster's root certificates.
pub const ROOT_CA_CONFIG_MAP: &str = "kube-root-ca.crt";

/// A ConfigMap. Data is kept for the one that a controller reads; others are known by name alone.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ConfigMap {
    pub metadata: Meta,
    pub data: BTreeMap<String, Istr>,
}

crate::view!(
    ConfigMap,
    ResourceType::namespaced("", "v1", "configmaps", "ConfigMap")
);

impl<'de> Deserialize<'de> for ConfigMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ConfigMap, D::Error> {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Wire {
            metadata: Meta,
            data: Option<Box<RawValue>>,
        }
        let Wire { mut metadata, data } = Wire::deserialize(deserializer)?;
        let data = match data {
            Some(raw) if *metadata.name == *ROOT_CA_CONFIG_MAP => {
                serde_json::from_str::<Option<_>>(raw.get())
                    .map_err(serde::de::Error::custom)?
                    .unwrap_or_default()
            }
            _ => {
                metadata.annotations = crate::LabelSet::default();
                BTreeMap::new()
            }
        };
        Ok(ConfigMap { metadata, data })
    }
}
