//! Kinds served at several versions but stored at one: events of two groups, autoscalers of two versions.

mod autoscaler;

use crate::apply::{AtVersion, Schema};
use crate::crd::structural;
use crate::kinds::{Kind, Registry};
use crate::schema;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The kind at the version in which its objects are stored.
pub(crate) fn storage_kind(registry: &Registry, kind: &Arc<Kind>) -> Arc<Kind> {
    let stored = match pair(kind) {
        Some(Pair::Event) => registry.resource("", "v1", "events"),
        Some(Pair::Autoscaler) => {
            registry.resource("autoscaling", "v2", "horizontalpodautoscalers")
        }
        None => None,
    };
    stored.unwrap_or(kind).clone()
}

/// Whether stored objects look different at the version asked for.
pub(crate) fn differs(kind: &Kind) -> bool {
    pair(kind).is_some() || kind.custom().is_some_and(|version| version.converts)
}

/// A kind that is built in and has other names for its fields at another version.
pub(crate) fn has_versions(kind: &Kind) -> bool {
    kind.is("autoscaling", "HorizontalPodAutoscaler") || is_event(kind)
}

/// An event, whichever group it was asked for in: the only kind that two groups serve.
pub(crate) fn is_event(kind: &Kind) -> bool {
    kind.is("", "Event") || kind.is("events.k8s.io", "Event")
}

/// An object of such a kind at another version, if both are served.
pub(crate) fn at_version(registry: &Registry, object: &Value, to: &str) -> Option<AtVersion> {
    let name = object["kind"].as_str()?;
    let from = registry.kind(object["apiVersion"].as_str()?, name)?;
    // UPSTREAM: a version is one of the same group, although an event is converted to that of another.
    let to = registry
        .kind(to, name)
        .filter(|to| to.group == from.group)?;
    let schema = schema::type_for(&to.group, &to.version, &to.kind)?;
    let mut value = object.clone();
    if let Some(metadata) = value["metadata"].as_object_mut() {
        // UPSTREAM: managed fields are not part of what is converted.
        metadata.remove("managedFields");
    }
    to_storage(from, &mut value);
    value["apiVersion"] = to.api_version().into();
    from_storage(to, &mut value);
    let schema = Schema::BuiltIn(schema);
    Some(AtVersion { schema, value })
}

pub(crate) fn to_storage(kind: &Kind, value: &mut Value) {
    match pair(kind) {
        Some(Pair::Event) => rename(value, &EVENT_NAMES),
        Some(Pair::Autoscaler) => autoscaler::to_v2(value),
        None => {}
    }
}

/// Makes a custom object, which was checked at the version of its request, what is stored: without what the stored
/// version does not know, and with its defaults. That of the status comes with it, for whoever creates an object
/// cannot write one.
pub(crate) fn normalize_custom(kind: &Kind, value: &mut Value) {
    let Some(version) = kind.custom() else {
        return;
    };
    if version.conversion.is_some() {
        // A webhook makes it that, and nothing may be lost before it does.
        return;
    }
    let schema = version.storage_schema.ready();
    if version.converts {
        structural::prune(&schema.value, value);
        structural::prune_nulls(&schema.value, value);
    }
    structural::default(&schema.value, value);
    print_whole_numbers(value);
}

/// What a custom object is that was stored before its schema changed: without what the schema no longer knows, and with
/// its new defaults. UPSTREAM: every read does that; here those do that can make a difference.
pub(crate) fn refresh(kind: &Kind, value: &mut Value) {
    let Some(version) = kind.custom() else {
        return;
    };
    if let Some(conversion) = &version.conversion
        && value["apiVersion"] != conversion.storage
    {
        // At another version, whose schema is looked at when it has been converted.
        return;
    }
    let schema = version.storage_schema.ready();
    structural::prune(&schema.value, value);
    structural::prune_nulls(&schema.value, value);
    structural::default(&schema.value, value);
}

/// UPSTREAM: a float without a fraction prints as a whole number.
fn print_whole_numbers(value: &mut Value) {
    // Whole numbers of that size are exact in both forms.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            if float.fract() == 0.0 && float.abs() < EXACT {
                *value = Value::from(float as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(print_whole_numbers),
        Value::Object(members) => members.values_mut().for_each(print_whole_numbers),
        _ => {}
    }
}

pub(crate) fn from_storage(kind: &Kind, value: &mut Value) {
    match pair(kind) {
        Some(Pair::Event) => {
            rename(value, &EVENT_NAMES.map(|(new, old)| (old, new)));
            // UPSTREAM: the core version prints these even when they are empty.
            if let Some(map) = value.as_object_mut() {
                map.retain(|name, member| {
                    !matches!(name.as_str(), "reportingController" | "reportingInstance")
                        || member != ""
                });
            }
        }
        Some(Pair::Autoscaler) => autoscaler::to_v1(value),
        None => {
            let converting = kind.custom().filter(|version| version.converts);
            if let Some(version) = converting {
                structural::prune(&version.schema.ready().value, value);
            }
        }
    }
}

enum Pair {
    /// `events.k8s.io/v1`, stored as `v1`.
    Event,
    /// `autoscaling/v1`, stored as `autoscaling/v2`.
    Autoscaler,
}

fn pair(kind: &Kind) -> Option<Pair> {
    match (&*kind.group, &*kind.version, &*kind.kind) {
        ("events.k8s.io", _, "Event") => Some(Pair::Event),
        ("autoscaling", "v1", "HorizontalPodAutoscaler") => Some(Pair::Autoscaler),
        _ => None,
    }
}

/// `events.k8s.io/v1` name, core `v1` name.
const EVENT_NAMES: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

fn rename(value: &mut Value, names: &[(&str, &str)]) {
    let Some(map) = value.as_object_mut() else {
        return;
    };
    let renamed: Map<String, Value> = std::mem::take(map)
        .into_iter()
        .map(|(key, member)| {
            let name = names
                .iter()
                .find(|(from, _)| *from == key)
                .map_or(key.as_str(), |(_, to)| to);
            (name.to_owned(), member)
        })
        .collect();
    *map = renamed;
}
