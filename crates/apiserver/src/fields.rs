//! Reads and writes fields of JSON objects by path. What is absent, null or of another type reads as empty, as
//! in a decoded Go struct; keys with dots are no path and are reached through the map itself.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

static NULL: Value = Value::Null;

/// The value at a path such as `spec.template.spec`, null when any part is absent.
pub(crate) fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    let (mut value, mut rest) = (value, path);
    loop {
        // Names are short: a plain loop finds their ends sooner than a searcher is set up.
        let end = rest.bytes().position(|byte| byte == b'.');
        let name = end.map_or(rest, |end| &rest[..end]);
        value = value.get(name).unwrap_or(&NULL);
        match end {
            Some(end) if !value.is_null() => rest = &rest[end + 1..],
            _ => return value,
        }
    }
}

pub(crate) fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    at(value, path).as_str().unwrap_or_default()
}

pub(crate) fn integer(value: &Value, path: &str) -> Option<i64> {
    at(value, path).as_i64()
}

pub(crate) fn flag(value: &Value, path: &str) -> bool {
    at(value, path).as_bool().unwrap_or_default()
}

pub(crate) fn list<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    at(value, path)
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// The items of a list by their names, of which the first one counts: a list that is searched for each item of another is
/// searched for ever when both are long.
pub(crate) fn by_name(items: &[Value]) -> BTreeMap<&str, &Value> {
    let mut named = BTreeMap::new();
    for item in items {
        named.entry(text(item, "name")).or_insert(item);
    }
    named
}

/// The entries of a map in the order of their keys.
pub(crate) fn entries<'a>(
    value: &'a Value,
    path: &str,
) -> impl Iterator<Item = (&'a str, &'a Value)> {
    at(value, path)
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value))
}

/// A label or annotation: `metadata.annotations`, then a key that may hold dots.
pub(crate) fn entry<'a>(value: &'a Value, path: &str, key: &str) -> Option<&'a str> {
    at(value, path).get(key).and_then(Value::as_str)
}

/// Nothing that Go would print for an `omitempty` field.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
    }
}

/// The object at a path, made when it is absent or no object.
pub(crate) fn object_mut<'a>(value: &'a mut Value, path: &str) -> &'a mut Map<String, Value> {
    let mut current = as_object(value);
    for name in path.split('.').filter(|name| !name.is_empty()) {
        current = object_in(current, name);
    }
    current
}

/// The object in a member, made when it is absent or no object.
pub(crate) fn object_in<'a>(
    object: &'a mut Map<String, Value>,
    name: &str,
) -> &'a mut Map<String, Value> {
    // Mostly it is there: an entry would need a copy of the name first.
    if !object.contains_key(name) {
        object.insert(name.to_owned(), Value::Null);
    }
    as_object(object.get_mut(name).expect("it was just made"))
}

fn as_object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("was made an object above")
}

pub(crate) fn set(value: &mut Value, path: &str, new: impl Into<Value>) {
    let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
    object_mut(value, parent).insert(name.to_owned(), new.into());
}

pub(crate) fn list_mut<'a>(value: &'a mut Value, path: &str) -> Option<&'a mut Vec<Value>> {
    path.split('.')
        .try_fold(value, |value, name| value.get_mut(name))?
        .as_array_mut()
}

/// Takes the value at a path away; the objects around it stay.
pub(crate) fn remove(value: &mut Value, path: &str) -> Option<Value> {
    let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
    let parent = parent
        .split('.')
        .filter(|name| !name.is_empty())
        .try_fold(value, |value, name| value.get_mut(name))?;
    parent.as_object_mut()?.remove(name)
}

/// Copies the value at a path from another object, or removes it if that has none.
pub(crate) fn copy(value: &mut Value, from: &Value, path: &str) {
    match at(from, path) {
        Value::Null => {
            remove(value, path);
        }
        // Mostly it is there: comparing costs less than cloning.
        found if at(value, path) == found => {}
        found => set(value, path, found.clone()),
    }
}
