//! Which ConfigMaps and Secrets a pod cannot start without, and which it can.

use api::Istr;
use api::meta::or_default;
use serde::Deserialize;

/// A ConfigMap or Secret that a container or volume takes something from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    pub kind: SourceKind,
    pub name: Istr,
    /// The keys that it must have; none where all of it is taken.
    pub keys: Box<[Istr]>,
    pub optional: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceKind {
    ConfigMap,
    Secret,
}

/// A volume that is filled from ConfigMaps and Secrets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourceVolume {
    pub name: Istr,
    pub is_projected: bool,
    pub sources: Box<[Source]>,
}

/// What every service account's volume has of it; its publisher need not run where nodes are simulated.
const ROOT_CA: &str = api::kinds::ROOT_CA_CONFIG_MAP;

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WireEnv {
    value: Istr,
    #[serde(deserialize_with = "or_default")]
    value_from: WireValueFrom,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireValueFrom {
    config_map_key_ref: Option<WireReference>,
    secret_key_ref: Option<WireReference>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WireEnvFrom {
    config_map_ref: Option<WireReference>,
    secret_ref: Option<WireReference>,
}

/// A reference in any of its shapes: by key, as a whole, or as the source of a volume.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WireReference {
    name: Istr,
    /// What a volume calls the name of a Secret.
    secret_name: Istr,
    key: Istr,
    #[serde(deserialize_with = "or_default")]
    items: Vec<WireItem>,
    optional: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireItem {
    key: Istr,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WireProjected {
    #[serde(deserialize_with = "or_default")]
    sources: Vec<WireProjection>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireProjection {
    config_map: Option<WireReference>,
    secret: Option<WireReference>,
}

impl WireReference {
    fn source(&self, kind: SourceKind) -> Source {
        let name = match self.name.is_empty() {
            true => &self.secret_name,
            false => &self.name,
        };
        let keys = self.items.iter().map(|item| &item.key).chain([&self.key]);
        Source {
            kind,
            name: name.clone(),
            keys: keys.filter(|key| !key.is_empty()).cloned().collect(),
            optional: self.optional.unwrap_or(false),
        }
    }
}

/// Sources of a container's environment, in the order in which a kubelet looks for them.
pub(super) fn of_environment(from: &[WireEnvFrom], env: &[WireEnv]) -> Box<[Source]> {
    let wholes = from
        .iter()
        .flat_map(|one| pair(one.config_map_ref.as_ref(), one.secret_ref.as_ref()));
    let keys = env
        .iter()
        // UPSTREAM: a value beside it wins.
        .filter(|one| one.value.is_empty())
        .flat_map(|one| {
            let from = &one.value_from;
            pair(
                from.config_map_key_ref.as_ref(),
                from.secret_key_ref.as_ref(),
            )
        });
    wholes.chain(keys).collect()
}

pub(super) fn of_volume(
    name: &str,
    map: Option<&WireReference>,
    secret: Option<&WireReference>,
    projected: Option<&WireProjected>,
) -> Option<SourceVolume> {
    let sources: Box<[Source]> = match projected {
        Some(projected) => projected
            .sources
            .iter()
            .flat_map(|one| pair(one.config_map.as_ref(), one.secret.as_ref()))
            .filter(|source| source.name != *ROOT_CA)
            .collect(),
        None => pair(map, secret).collect(),
    };
    (!sources.is_empty()).then(|| SourceVolume {
        name: Istr::from(name),
        is_projected: projected.is_some(),
        sources,
    })
}

fn pair(
    map: Option<&WireReference>,
    secret: Option<&WireReference>,
) -> impl Iterator<Item = Source> {
    let map = map.map(|one| one.source(SourceKind::ConfigMap));
    let secret = secret.map(|one| one.source(SourceKind::Secret));
    map.into_iter().chain(secret)
}
