//! What must hold: of every write ([`safe`]), and once nothing changes any more ([`converged`]).

use std::sync::Arc;

use api::MicroTime;
use api::kinds::{CLUSTER_INFO_CONFIG_MAP, CLUSTER_INFO_NAMESPACE, ConfigMap, Secret};

use super::DESCRIPTOR;
use super::plan::{PREFIX, plan};
use crate::bootstrap_token::{NAMESPACE, is_token};
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct SignerOracle;

impl Oracle for SignerOracle {
    fn after_write(&self, _world: &World, change: &Change) -> Verdict {
        match change.updated::<ConfigMap>() {
            Some((before, after)) => safe(&before, &after),
            None => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let maps = world.store::<ConfigMap>();
        match maps.find(CLUSTER_INFO_NAMESPACE, CLUSTER_INFO_CONFIG_MAP) {
            Some(map) => {
                let mut tokens = world.store::<Secret>().in_namespace(NAMESPACE);
                tokens.retain(|secret| is_token(secret));
                converged(&map, &tokens, world.now())
            }
            None => Ok(()),
        }
    }
}

/// Each token that may sign has one signature, and there is no other. `tokens` are all secrets of that type.
pub fn converged(map: &ConfigMap, tokens: &[Arc<Secret>], now: MicroTime) -> Verdict {
    match plan(map, tokens, now).data {
        Some(_) => Err("cluster-info lacks a signature, or has one too many".to_owned()),
        None => Ok(()),
    }
}

/// Nothing of a map changes but the signatures of `cluster-info`.
pub fn safe(before: &ConfigMap, after: &ConfigMap) -> Verdict {
    let meta = &after.metadata;
    if (&*meta.namespace, &*meta.name) != (CLUSTER_INFO_NAMESPACE, CLUSTER_INFO_CONFIG_MAP) {
        return Err(format!("config map {} was written", meta.key()));
    }
    let others = |map: &ConfigMap| {
        let mut map = map.clone();
        map.data.retain(|key, _| !key.starts_with(PREFIX));
        map.metadata.resource_version = 0;
        map
    };
    match others(before) == others(after) {
        true => Ok(()),
        false => Err("more than the signatures of cluster-info was changed".to_owned()),
    }
}
