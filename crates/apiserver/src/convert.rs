//! Kinds served at several versions but stored at one.

mod autoscaling;

use crate::kinds::{Kind, Registry};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The kind at the version in which its objects are stored.
pub(crate) fn storage_kind(registry: &Registry, kind: &Arc<Kind>) -> Arc<Kind> {
    if kind.group == "events.k8s.io" {
        return registry
            .resource("", "v1", "events")
            .unwrap_or(kind)
            .clone();
    }
    if is_first_autoscaler(kind) {
        return registry
            .resource("autoscaling", "v2", &kind.plural)
            .unwrap_or(kind)
            .clone();
    }
    kind.clone()
}

fn is_first_autoscaler(kind: &Kind) -> bool {
    kind.is("autoscaling", "HorizontalPodAutoscaler") && kind.version == "v1"
}

fn is_new_event(kind: &Kind) -> bool {
    kind.group == "events.k8s.io" && kind.kind == "Event"
}

/// Whether stored objects look different at the version asked for.
pub(crate) fn differs(kind: &Kind) -> bool {
    is_new_event(kind) || is_first_autoscaler(kind)
}

pub(crate) fn to_storage(kind: &Kind, value: &mut Value) {
    if is_new_event(kind) {
        rename(value, &EVENT_NAMES);
    } else if is_first_autoscaler(kind) {
        autoscaling::to_v2(value);
    }
}

pub(crate) fn from_storage(kind: &Kind, value: &mut Value) {
    if is_new_event(kind) {
        let reversed = EVENT_NAMES.map(|(new, old)| (old, new));
        rename(value, &reversed);
    } else if is_first_autoscaler(kind) {
        autoscaling::to_v1(value);
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
