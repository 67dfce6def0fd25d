//! Definitions in the life of the server: their kinds are registered, their objects go with them.

use super::definition::{CLEANUP, kinds_of, stored_kind};
use crate::kinds::{self, Extra, Kind, Registry};
use crate::rest::metadata_mut;
use crate::server::Shared;
use crate::storage::Transaction;
use serde_json::{Value, json};
use std::sync::Arc;

/// The kind of definitions.
pub(crate) fn definitions() -> Option<&'static Arc<Kind>> {
    kinds::find("apiextensions.k8s.io", "CustomResourceDefinition")
}

/// Registers the kinds of all definitions that the store has.
pub(crate) fn register(shared: &Shared) {
    // Read in turn, so that a slower caller does not put back an older state; requests go on meanwhile.
    let _turn = shared.registering.lock();
    let registry = registry_of(shared, &shared.registry());
    *shared.registry.write() = Arc::new(registry);
}

fn registry_of(shared: &Shared, served: &Registry) -> Registry {
    let stored = definitions().map(|kind| (kind, shared.store.list_newest(kind, "")));
    let all = stored.iter().flat_map(|(kind, stored)| {
        stored.iter().map(|stored| {
            let (name, revision) = (stored.key.clone(), stored.revision);
            // What has not changed is not made again: one definition can take long.
            let known = served.made_of(&name, revision);
            let kinds = known.unwrap_or_else(|| own_kinds(&stored.value(kind)));
            (name, revision, kinds)
        })
    });
    registry_from(shared.serves, all)
}

/// The built-in kinds and those of the definitions, each with its name and revision.
pub(crate) fn registry_from(
    serves: Extra,
    definitions: impl Iterator<Item = (Arc<str>, u64, Vec<Arc<Kind>>)>,
) -> Registry {
    let mut registry = Registry::serving(serves);
    for (name, revision, kinds) in definitions {
        registry.define(name, revision, kinds);
    }
    registry
}

/// The kinds of a definition. Whoever got one of a built-in kind in, by an older server or by restoring it, gets at
/// nothing built in.
pub(crate) fn own_kinds(definition: &Value) -> Vec<Arc<Kind>> {
    let kinds = kinds_of(definition).into_iter();
    kinds
        .filter(|custom| !is_built_in(&custom.group, &custom.plural, &custom.kind))
        .map(Arc::new)
        .collect()
}

/// Whether objects of a custom kind would be stored among those of a built-in kind, or be taken for them.
pub(crate) fn is_built_in(group: &str, plural: &str, custom: &str) -> bool {
    kinds::built_in().iter().any(|kind| {
        let is_stored_there = kind.storage.0 == group && kind.storage.1 == plural;
        let is_named_so = kind.plural == plural || kind.kind == custom;
        is_stored_there || (kind.group == group && is_named_so)
    })
}

/// Holds a new definition until its objects are gone.
pub(crate) fn hold(definition: &mut Value) {
    let metadata = metadata_mut(definition);
    let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = finalizers.as_array_mut()
        && !list.iter().any(|finalizer| finalizer == CLEANUP)
    {
        list.push(json!(CLEANUP));
    }
}

/// Deletes the objects of a definition that is being deleted, and the definition if none is left. Objects with
/// finalizers are marked and stay until someone lets them go.
pub(crate) fn clean_up(shared: &Shared, transaction: &mut Transaction<'_>, name: &str) {
    let Some(kind) = definitions() else { return };
    let Some(stored) = transaction.get(kind, name) else {
        return;
    };
    let mut definition = stored.value(kind);
    if !definition["metadata"]["deletionTimestamp"].is_string() {
        return;
    }
    // What lies where a built-in kind has its objects was never the definition's.
    let own = stored_kind(&definition)
        .filter(|custom| !is_built_in(&custom.group, &custom.plural, &custom.kind));
    if let Some(custom) = &own {
        for object in transaction.list(custom, "") {
            let mut value = object.value(custom);
            let held = value["metadata"]["finalizers"]
                .as_array()
                .is_some_and(|list| !list.is_empty());
            if !held {
                transaction.remove(custom, &object.key);
            } else if !value["metadata"]["deletionTimestamp"].is_string() {
                let metadata = metadata_mut(&mut value);
                metadata.insert("deletionTimestamp".into(), json!(shared.now()));
                metadata.insert("deletionGracePeriodSeconds".into(), json!(0));
                transaction.put(custom, &object.key, &value, None);
            }
        }
        if !transaction.list(custom, "").is_empty() {
            return;
        }
    }
    let finalizers = definition["metadata"]["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let rest: Vec<Value> = finalizers
        .into_iter()
        .filter(|finalizer| finalizer != CLEANUP)
        .collect();
    if rest.is_empty() {
        transaction.remove(kind, name);
    } else {
        metadata_mut(&mut definition).insert("finalizers".into(), Value::Array(rest));
        transaction.put(kind, name, &definition, None);
    }
}
