//! Structural schemas at work: pruning, defaulting and validating custom objects.

mod check;
mod embedded;
mod enumeration;
mod faults;
pub(crate) mod formats;
mod lists;

pub(crate) use check::validate;
pub(crate) use embedded::{coerce, validate as validate_embedded};
pub(crate) use lists::validate as validate_lists;

use serde_json::Value;

/// UPSTREAM: no more unknown fields than these are named.
const MAX_UNKNOWN: usize = 100;

/// Removes what the schema does not know; the paths of what was removed, in order.
pub(crate) fn prune(schema: &Value, value: &mut Value) -> Vec<String> {
    let mut pruning = Pruning::default();
    pruning.prune(Some(schema), value, "", true);
    pruning.unknown.sort();
    pruning.unknown
}

#[derive(Default)]
struct Pruning {
    unknown: Vec<String>,
}

impl Pruning {
    /// Without a schema everything in objects is unknown.
    fn prune(&mut self, schema: Option<&Value>, value: &mut Value, path: &str, is_root: bool) {
        let keeps = schema.is_some_and(keeps_unknown);
        match value {
            Value::Object(members) => {
                let is_resource = is_root || schema.is_some_and(is_embedded);
                members.retain(|name, member| {
                    if is_resource && is_meta(name) {
                        return true;
                    }
                    match schema.and_then(|schema| below(schema, name)) {
                        Some(below) => {
                            self.prune(below, member, &join(path, name), false);
                            true
                        }
                        None if keeps => true,
                        None => {
                            if !(path.is_empty() && is_meta(name))
                                && self.unknown.len() < MAX_UNKNOWN
                            {
                                self.unknown.push(join(path, name));
                            }
                            false
                        }
                    }
                });
            }
            Value::Array(items) => {
                let below = schema.and_then(|schema| schema.get("items"));
                for (index, item) in items.iter_mut().enumerate() {
                    let path = format!("{path}[{index}]");
                    match below {
                        // UPSTREAM: what is kept is kept in items, too.
                        Some(below) if keeps && !keeps_unknown(below) => {
                            self.prune_kept(below, item, &path);
                        }
                        None if keeps => {}
                        below => self.prune(below, item, &path, false),
                    }
                }
            }
            _ => {}
        }
    }

    /// Prunes what lies below, but nothing of the value itself.
    fn prune_kept(&mut self, schema: &Value, value: &mut Value, path: &str) {
        match value {
            Value::Object(members) => {
                for (name, member) in members.iter_mut() {
                    if is_embedded(schema) && is_meta(name) {
                        continue;
                    }
                    if let Some(below) = below(schema, name) {
                        self.prune(below, member, &join(path, name), false);
                    }
                }
            }
            Value::Array(items) => {
                let Some(below) = schema.get("items") else {
                    return;
                };
                for (index, item) in items.iter_mut().enumerate() {
                    self.prune_kept(below, item, &format!("{path}[{index}]"));
                }
            }
            _ => {}
        }
    }
}

fn keeps_unknown(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

fn is_embedded(schema: &Value) -> bool {
    schema["x-kubernetes-embedded-resource"] == true
}

fn is_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

/// Whether a schema knows a member, and by which schema: `additionalProperties: true` knows it by none.
fn below<'a>(schema: &'a Value, name: &str) -> Option<Option<&'a Value>> {
    if let Some(property) = schema["properties"].get(name) {
        return Some(Some(property));
    }
    match schema.get("additionalProperties") {
        Some(additional) if additional.is_object() => Some(Some(additional)),
        Some(Value::Bool(true)) => Some(None),
        _ => None,
    }
}

/// The schema of a member.
fn member<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    below(schema, name).flatten()
}

/// Removes members that are null where null is not allowed and nothing can take its place.
pub(crate) fn prune_nulls(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(members) => members.retain(|name, inner| match member(schema, name) {
            Some(below) if inner.is_null() => {
                below["nullable"] == true || !below["default"].is_null()
            }
            Some(below) => {
                prune_nulls(below, inner);
                true
            }
            None => true,
        }),
        Value::Array(items) => {
            if let Some(below) = schema.get("items") {
                items.iter_mut().for_each(|item| prune_nulls(below, item));
            }
        }
        _ => {}
    }
}

/// What defaults may add to an object, in memory: ten times what may be stored. An object that needs more is too large
/// without the rest as well.
const MAX_DEFAULTS_BYTES: usize = 16 * 1024 * 1024;

/// Fills in defaults, also for null where null is not allowed.
pub(crate) fn default(schema: &Value, value: &mut Value) {
    let mut room = MAX_DEFAULTS_BYTES;
    fill(schema, value, &mut room);
}

/// A default, while there is room for it: a few letters of an object can ask for a large one each.
fn taken(default: &Value, room: &mut usize) -> Option<Value> {
    fn size(value: &Value) -> usize {
        let below = match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(size).sum(),
            Value::Object(members) => members
                .iter()
                .map(|(name, one)| name.len() + size(one))
                .sum(),
            _ => 0,
        };
        below + size_of::<Value>()
    }
    if default.is_null() {
        return None;
    }
    *room = room.saturating_sub(size(default));
    (*room > 0).then(|| default.clone())
}

fn fill(schema: &Value, value: &mut Value, room: &mut usize) {
    let is_missing = |value: &Value, schema: &Value| value.is_null() && schema["nullable"] != true;
    match value {
        Value::Object(members) => {
            for (name, below) in schema["properties"].as_object().into_iter().flatten() {
                let default = &below["default"];
                let missing = members
                    .get(name)
                    .is_none_or(|value| is_missing(value, below));
                if missing && let Some(default) = taken(default, room) {
                    members.insert(name.clone(), default);
                }
            }
            for (name, inner) in members.iter_mut() {
                let Some(below) = member(schema, name) else {
                    continue;
                };
                if is_missing(inner, below)
                    && let Some(default) = taken(&below["default"], room)
                {
                    *inner = default;
                }
                fill(below, inner, room);
            }
        }
        Value::Array(items) => {
            let Some(below) = schema.get("items") else {
                return;
            };
            for item in items {
                if is_missing(item, below)
                    && let Some(default) = taken(&below["default"], room)
                {
                    *item = default;
                }
                fill(below, item, room);
            }
        }
        _ => {}
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

#[cfg(test)]
mod tests;
