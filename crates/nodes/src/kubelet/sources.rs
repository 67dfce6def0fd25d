//! Are the ConfigMaps and Secrets there that a pod cannot start without? Answers in the kubelet's words.
//!
//! Only the names of keys are kept: what is not in memory cannot leak. Whoever needs a value asks the API server for it.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::{Istr, Meta, ResourceType};
use runtime::informer::Synced;
use runtime::{Index, IndexValue, Informers, Queue, Store};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::pod::{Container, Pod, Source, SourceKind, SourceVolume};

/// A ConfigMap by its keys.
#[derive(Clone, Debug, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ConfigMap {
    metadata: Meta,
    data: Keys,
    binary_data: Keys,
}

/// A Secret by its keys.
#[derive(Clone, Debug, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Secret {
    metadata: Meta,
    data: Keys,
}

api::view!(
    ConfigMap,
    ResourceType::namespaced("", "v1", "configmaps", "ConfigMap")
);
api::view!(
    Secret,
    ResourceType::namespaced("", "v1", "secrets", "Secret")
);

/// The keys of a map whose values are none of our business.
#[derive(Clone, Debug, PartialEq, Default)]
struct Keys(BTreeSet<Istr>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Keys, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = Keys;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a map")
            }

            fn visit_unit<E>(self) -> Result<Keys, E> {
                Ok(Keys::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let mut keys = BTreeSet::new();
                while let Some((key, _)) = map.next_entry::<Istr, IgnoredAny>()? {
                    keys.insert(key);
                }
                Ok(Keys(keys))
            }
        }
        deserializer.deserialize_any(Names)
    }
}

const BY_CONFIG_MAP: Index<Pod> = Index {
    name: "config-map",
    values: |pod, found| for_each_of(pod, SourceKind::ConfigMap, found),
};

const BY_SECRET: Index<Pod> = Index {
    name: "secret",
    values: |pod, found| for_each_of(pod, SourceKind::Secret, found),
};

fn for_each_of(pod: &Pod, kind: SourceKind, found: &mut dyn FnMut(IndexValue)) {
    if !pod.is_assigned() {
        return;
    }
    let spec = &pod.spec;
    let volumes = spec.source_volumes.iter().flat_map(|one| &one.sources);
    let containers = spec.all_containers().chain(&spec.ephemeral_containers);
    let containers = containers.flat_map(|one| &one.sources);
    let mut told: Vec<&Istr> = Vec::new();
    for source in volumes.chain(containers).filter(|one| one.kind == kind) {
        if !told.contains(&&source.name) {
            told.push(&source.name);
            let namespace = pod.metadata.namespace.clone();
            found(IndexValue::In(namespace, source.name.clone()));
        }
    }
}

/// What there is in the cluster for pods to take.
pub(crate) struct Sources {
    maps: Arc<Store<ConfigMap>>,
    secrets: Arc<Store<Secret>>,
    synced: [Synced; 2],
}

impl Sources {
    /// Has pods that take from an object looked at when it changes.
    pub(crate) fn new(informers: &Informers, queue: &Arc<Queue>) -> Sources {
        let pods = informers.of::<Pod>();
        let wake = |index: &'static Index<Pod>| {
            pods.add_index(index);
            let (pods, queue) = (pods.store().clone(), queue.clone());
            move |meta: &Meta| {
                let value = IndexValue::In(meta.namespace.clone(), Istr::new(&meta.name));
                let takers = pods.by(index, &value);
                let waiting = takers.iter().filter(|pod| !pod.is_finished());
                waiting.for_each(|pod| queue.add(api::Resource::key(&**pod)));
            }
        };
        let (maps, secrets) = (informers.of::<ConfigMap>(), informers.of::<Secret>());
        let woken = wake(&BY_CONFIG_MAP);
        maps.on_change(move |change| woken(&change.object().metadata));
        let woken = wake(&BY_SECRET);
        secrets.on_change(move |change| woken(&change.object().metadata));
        Sources {
            maps: maps.store().clone(),
            secrets: secrets.store().clone(),
            synced: [maps.synced(), secrets.synced()],
        }
    }

    pub(crate) fn synced(&self) -> [Synced; 2] {
        self.synced.clone()
    }

    /// Why volumes of the pod cannot be mounted: a line for each.
    pub(crate) fn mount_errors(&self, pod: &Pod) -> Vec<String> {
        let volumes = pod.spec.source_volumes.iter();
        volumes
            .filter_map(|volume| {
                let error = self.volume_error(&pod.metadata.namespace, volume)?;
                let name = &volume.name;
                Some(format!(
                    "MountVolume.SetUp failed for volume \"{name}\" : {error}"
                ))
            })
            .collect()
    }

    /// Why the environment of a container cannot be made.
    pub(crate) fn config_error(&self, pod: &Pod, container: &Container) -> Option<String> {
        let namespace = &*pod.metadata.namespace;
        container.sources.iter().find_map(|source| {
            match self.missing(namespace, source, false)? {
                Missing::Object => Some(not_found(source)),
                Missing::Key(key) => {
                    let (kind, name) = (source.kind.name(), &source.name);
                    Some(format!(
                        "couldn't find key {key} in {kind} {namespace}/{name}"
                    ))
                }
            }
        })
    }

    /// UPSTREAM: a projected volume tries all of its sources, another one has just the one.
    fn volume_error(&self, namespace: &str, volume: &SourceVolume) -> Option<String> {
        let errors: Vec<String> = volume
            .sources
            .iter()
            .filter_map(|source| {
                Some(
                    match (self.missing(namespace, source, true)?, source.kind) {
                        (Missing::Object, _) => not_found(source),
                        (Missing::Key(key), SourceKind::ConfigMap) => {
                            format!("configmap references non-existent config key: {key}")
                        }
                        (Missing::Key(key), SourceKind::Secret) => {
                            format!("references non-existent secret key: {key}")
                        }
                    },
                )
            })
            .collect();
        match errors.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            several => Some(format!("[{}]", several.join(", "))),
        }
    }

    /// UPSTREAM: volumes have binary data as well, environments have not.
    fn missing<'a>(
        &self,
        namespace: &str,
        source: &'a Source,
        has_binary: bool,
    ) -> Option<Missing<'a>> {
        if source.optional {
            return None;
        }
        let lacks = |has: &dyn Fn(&Istr) -> bool| {
            let key = source.keys.iter().find(|key| !has(key));
            key.map(Missing::Key)
        };
        match source.kind {
            SourceKind::ConfigMap => match self.maps.find(namespace, &source.name) {
                None => Some(Missing::Object),
                Some(map) => lacks(&|key| {
                    map.data.0.contains(key) || has_binary && map.binary_data.0.contains(key)
                }),
            },
            SourceKind::Secret => match self.secrets.find(namespace, &source.name) {
                None => Some(Missing::Object),
                Some(secret) => lacks(&|key| secret.data.0.contains(key)),
            },
        }
    }
}

enum Missing<'a> {
    Object,
    Key(&'a Istr),
}

fn not_found(source: &Source) -> String {
    let resource = match source.kind {
        SourceKind::ConfigMap => "configmap",
        SourceKind::Secret => "secret",
    };
    format!("{resource} \"{}\" not found", source.name)
}

impl SourceKind {
    fn name(self) -> &'static str {
        match self {
            SourceKind::ConfigMap => "ConfigMap",
            SourceKind::Secret => "Secret",
        }
    }
}
