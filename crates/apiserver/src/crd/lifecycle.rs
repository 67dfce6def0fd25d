//! Definitions in the life of the server: their kinds are registered, their objects go with them.

use super::definition::{CLEANUP, kinds_of, stored_kind};
use crate::kinds::{self, Extra, Kind, Registry, ServedVersions};
use crate::rest::metadata_mut;
use crate::server::Shared;
use crate::storage::{Stored, Transaction};
use serde_json::{Value, json};
use std::sync::Arc;

/// The kind of definitions.
pub(crate) fn definitions() -> Option<&'static Arc<Kind>> {
    kinds::find("apiextensions.k8s.io", "CustomResourceDefinition")
}

/// Serves the kinds of the definitions that the store has. Those that have not changed are left alone: making the
/// kinds of one can take long.
pub(crate) fn register(shared: &Shared) {
    let Some(kind) = definitions() else { return };
    // Read in turn, so that a slower caller does not put back an older state; requests go on meanwhile.
    let _turn = shared.registering.lock();
    let served = shared.registry();
    let stored = shared.store.list_newest(kind, "");
    let is_stored = |name: &str| stored.binary_search_by(|one| (*one.key).cmp(name)).is_ok();
    let gone: Vec<_> = served
        .definitions()
        .filter(|name| !is_stored(name))
        .cloned()
        .collect();
    let is_new = |one: &&Arc<Stored>| served.revision_of(&one.key) != Some(one.revision);
    let new: Vec<_> = stored.iter().filter(is_new).collect();
    if gone.is_empty() && new.is_empty() {
        return;
    }
    let mut registry = (*served).clone();
    gone.iter().for_each(|name| registry.forget(name));
    for one in new {
        let mut kinds = own_kinds(&one.value(kind), one.revision);
        keep_schemas(&served, &mut kinds);
        registry.forget(&one.key);
        let kinds = kinds.into_iter().map(Arc::new).collect();
        // It is large and seldom read, and what is needed of it was just taken.
        one.pack();
        registry.define(one.key.clone(), one.revision, kinds);
    }
    *shared.registry.write() = Arc::new(registry);
}

/// The schema of a custom kind as its definition has it, with all its prose.
pub(crate) fn written_schema(shared: &Shared, custom: &Kind) -> Value {
    let name = format!("{}.{}", custom.plural, custom.group);
    let stored = definitions().and_then(|kind| Some((kind, shared.store.get(kind, &name)?)));
    let mut definition = stored
        .map(|(kind, stored)| stored.value(kind))
        .unwrap_or_default();
    let versions = definition["spec"]["versions"].as_array_mut();
    let version = versions
        .into_iter()
        .flatten()
        .find(|version| version["name"] == *custom.version);
    version
        .map(|version| version["schema"]["openAPIV3Schema"].take())
        .unwrap_or_default()
}

/// The built-in kinds and those of the definitions, each with its name and revision.
pub(crate) fn registry_from(
    serves: Extra,
    served: &ServedVersions,
    definitions: impl Iterator<Item = (Arc<str>, u64, Vec<Arc<Kind>>)>,
) -> Registry {
    let mut registry = Registry::serving(serves, served);
    for (name, revision, kinds) in definitions {
        registry.define(name, revision, kinds);
    }
    registry
}

/// The kinds of a definition. Whoever got one of a built-in kind in, by an older server or by restoring it, gets at
/// nothing built in.
pub(crate) fn own_kinds(definition: &Value, revision: u64) -> Vec<Kind> {
    let mut kinds = kinds_of(definition);
    kinds.retain(|custom| !is_built_in(&custom.group, &custom.plural, &custom.kind));
    for kind in &mut kinds {
        kind.schema_since = revision;
    }
    kinds
}

/// A definition that changed otherwise, as in its status, leaves what is stored as good as it was.
fn keep_schemas(served: &Registry, kinds: &mut [Kind]) {
    for kind in kinds {
        let before = served.resource(&kind.group, &kind.version, &kind.plural);
        let Some((old, new)) = before.and_then(|old| Some((old.custom()?, kind.custom()?))) else {
            continue;
        };
        let since = before.map_or(0, |old| old.schema_since);
        let same_fields = before.is_some_and(|old| old.selectable_fields == kind.selectable_fields);
        if same_fields && old.storage_schema.is_same_as(&new.storage_schema) {
            kind.schema_since = since;
        }
    }
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
