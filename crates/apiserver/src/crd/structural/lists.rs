//! Lists of type set and map: no item twice. Mirrors `apiextensions-apiserver/pkg/apiserver/schema/listtype`.

use super::{faults::shown, join};
use crate::status::Cause;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Items that are in a list more than once.
pub(crate) fn validate(schema: &Value, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    check(schema, object, "", &mut causes);
    causes
}

fn check(schema: &Value, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let additional = &schema["additionalProperties"];
                if additional.is_object() {
                    check(additional, member, &format!("{path}[{name}]"), causes);
                }
                if let Some(below) = schema["properties"].get(name) {
                    check(below, member, &join(path, name), causes);
                }
            }
        }
        Value::Array(items) => {
            match schema["x-kubernetes-list-type"].as_str() {
                Some("set") => repeated(items.iter().cloned(), path, causes),
                Some("map") => check_map(schema, items, path, causes),
                _ => {}
            }
            if let Some(below) = schema.get("items") {
                for (index, item) in items.iter().enumerate() {
                    check(below, item, &format!("{path}[{index}]"), causes);
                }
            }
        }
        _ => {}
    }
}

fn check_map(schema: &Value, items: &[Value], path: &str, causes: &mut Vec<Cause>) {
    let is_other = |item: &Value| !item.is_null() && !item.is_object();
    if let Some(index) = items.iter().position(is_other) {
        let why = "must be an object for an array of list-type map";
        let message = format!("Invalid value: {}: {why}", shown(&items[index]));
        let field = format!("{path}[{index}]");
        causes.push(Cause::new(field, "FieldValueInvalid", message));
        return;
    }
    let keys = schema["x-kubernetes-list-map-keys"].as_array();
    let keys: Vec<&str> = keys
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let identity = |item: &Value| -> Value {
        let present = keys
            .iter()
            .filter_map(|key| Some(((*key).to_owned(), item.get(key)?.clone())));
        Value::Object(present.collect::<Map<_, _>>())
    };
    repeated(items.iter().map(identity), path, causes);
}

/// UPSTREAM: of each value the second one is named, and no other.
fn repeated(values: impl Iterator<Item = Value>, path: &str, causes: &mut Vec<Cause>) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (index, value) in values.enumerate() {
        let times = seen.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            let message = format!("Duplicate value: {}", shown(&value));
            let field = format!("{path}[{index}]");
            causes.push(Cause::new(field, "FieldValueDuplicate", message));
        }
    }
}
