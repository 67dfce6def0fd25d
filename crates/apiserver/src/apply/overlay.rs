//! A configuration put over an object by a policy: merged as an apply merges, with nobody owning anything.

use super::merge::merge;
use super::schema::{Place, Relation};
use crate::kinds::Kind;
use serde_json::Value;

/// Merges what a policy wants into an object of a kind. A policy must not replace what has one owner as a whole: it
/// would take away what it does not name.
pub(crate) fn overlay(kind: &Kind, object: &mut Value, config: &Value) -> Result<(), String> {
    let schema = kind.schema();
    let place = Place::of(kind, schema.as_deref());
    let mut found = Vec::new();
    atomics(place, config, "", &mut found);
    if !found.is_empty() {
        let list = found.join(", ");
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {list}"
        ));
    }
    merge(place, object, config);
    Ok(())
}

fn atomics(place: Place<'_>, value: &Value, path: &str, found: &mut Vec<String>) {
    if matches!(place, Place::Unknown) {
        return;
    }
    if place.relation(value) == Relation::Leaf && (value.is_object() || value.is_array()) {
        found.push(path.to_owned());
    }
    match value {
        // UPSTREAM: what lies below entries of free maps is not looked at.
        Value::Object(members) => members
            .iter()
            .filter(|(name, _)| place.declares(name))
            .for_each(|(name, member)| {
                atomics(place.member(name), member, &format!("{path}.{name}"), found);
            }),
        Value::Array(items) => items.iter().enumerate().for_each(|(index, item)| {
            atomics(place.item(), item, &format!("{path}[{index}]"), found);
        }),
        _ => {}
    }
}
