//! A configuration put over an object by a policy: merged as an apply merges, with nobody owning anything.

use super::merge::merge;
use super::schema::{Place, Relation};
use crate::kinds::Kind;
use crate::schema::Shape;
use serde_json::Value;

/// Merges what a policy wants into an object of a kind. A policy must not replace what has one owner as a whole: it
/// would take away what it does not name.
pub(crate) fn overlay(kind: &Kind, object: &mut Value, config: &Value) -> Result<(), String> {
    let place = Place::of(kind);
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

/// The first scalar of a configuration that is not of its type, in upstream's words. Other mistakes are found by
/// whoever reads the whole.
pub(crate) fn mistyped(kind: &Kind, config: &Value) -> Option<String> {
    find_mistyped(Place::of(kind), config, "")
}

fn find_mistyped(place: Place<'_>, value: &Value, path: &str) -> Option<String> {
    let wrong =
        |expected: &str, got: String| Some(format!("{path}: expected {expected}, got {got}"));
    match (scalar(&place), value) {
        (Some(Scalar::Number), Value::String(_) | Value::Bool(_)) => {
            let of = if value.is_string() { "string" } else { "bool" };
            wrong("numeric (int or float)", of.to_owned())
        }
        // UPSTREAM: Go's own form of the value.
        (Some(Scalar::Text), Value::Number(_) | Value::Bool(_)) => wrong(
            "string",
            format!("&value.valueUnstructured{{Value:{value}}}"),
        ),
        (Some(Scalar::Flag), Value::Number(_)) => wrong("boolean", value.to_string()),
        (Some(Scalar::Flag), Value::String(text)) => wrong("boolean", text.clone()),
        (_, Value::Object(members)) => members.iter().find_map(|(name, member)| {
            find_mistyped(place.member(name), member, &format!("{path}.{name}"))
        }),
        (_, Value::Array(items)) => {
            let relation = place.relation(value);
            items.iter().enumerate().find_map(|(index, item)| {
                let step = match place.identity(&relation, item) {
                    Some(identity) => named(&identity),
                    None => format!("[{index}]"),
                };
                find_mistyped(place.item(), item, &format!("{path}{step}"))
            })
        }
        _ => None,
    }
}

/// `k:{"name":"a"}` as paths have it: `[name="a"]`.
fn named(identity: &str) -> String {
    let keys = identity.strip_prefix("k:").unwrap_or_default();
    let keys: serde_json::Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
    let keys = keys.iter().map(|(name, value)| format!("{name}={value}"));
    format!("[{}]", keys.collect::<Vec<_>>().join(","))
}

enum Scalar {
    Number,
    Text,
    Flag,
}

fn scalar(place: &Place<'_>) -> Option<Scalar> {
    let shape = match place {
        Place::Field(field) => &field.ty,
        Place::Shape(shape) => shape,
        Place::Custom(schema) => {
            return match schema["type"].as_str()? {
                "integer" | "number" => Some(Scalar::Number),
                "string" => Some(Scalar::Text),
                "boolean" => Some(Scalar::Flag),
                _ => None,
            };
        }
        Place::Object(_) | Place::Unknown => return None,
    };
    match shape {
        Shape::Integer | Shape::Long | Shape::Number => Some(Scalar::Number),
        Shape::String | Shape::Time | Shape::MicroTime | Shape::Bytes => Some(Scalar::Text),
        Shape::Boolean => Some(Scalar::Flag),
        _ => None,
    }
}
