//! Warnings about custom resource definitions and their objects.

use std::collections::BTreeSet;

use api::syntax::{go_quote, validate_qualified_name};
use serde_json::{Map, Value};

use crate::crd::structural::formats;

/// Finalizers that are new on a custom object and whose names others may use as well.
pub(super) fn finalizers(new: &Value, old: Option<&Value>) -> Vec<String> {
    const STANDARD: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];
    const FIELD: &str = "metadata.finalizers";
    let names = |object: &Value| -> BTreeSet<String> {
        let list = object["metadata"]["finalizers"].as_array();
        let names = list.into_iter().flatten().filter_map(Value::as_str);
        names.map(str::to_owned).collect()
    };
    let before = old.map(names).unwrap_or_default();
    let mut said = Vec::new();
    for name in names(new).difference(&before) {
        let quoted = go_quote(name);
        let wrong = validate_qualified_name(name).into_iter();
        said.extend(wrong.map(|why| format!("{FIELD}: {quoted}: {why}")));
        if !name.contains('/') && !STANDARD.contains(&name.as_str()) {
            let path = if name.contains('.') {
                " including a path (/)"
            } else {
                ""
            };
            said.push(format!(
                "{FIELD}: {quoted}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
            ));
        }
    }
    said
}

/// Formats of a definition's schemas that nobody enforces, and that were not there before.
pub(super) fn formats(new: &Value, old: Option<&Value>) -> Vec<String> {
    let all = |definition: &Value| {
        let mut found = Vec::new();
        let versions = definition["spec"]["versions"].as_array();
        for version in versions.into_iter().flatten() {
            unrecognized(&version["schema"]["openAPIV3Schema"], &mut found);
        }
        found
    };
    // Most writes leave the schemas as they are.
    if old.is_some_and(|old| old["spec"] == new["spec"]) {
        return Vec::new();
    }
    let before = old.map(all).unwrap_or_default();
    let mut said: Vec<String> = Vec::new();
    for format in all(new) {
        let warning = format!("unrecognized format {}", go_quote(&format));
        if !before.contains(&format) && !said.contains(&warning) {
            said.push(warning);
        }
    }
    said
}

fn unrecognized(schema: &Value, found: &mut Vec<String>) {
    if let Some(format) = schema["format"].as_str().filter(|name| !name.is_empty()) {
        let kind = schema["type"].as_str().filter(|kind| !kind.is_empty());
        if formats::enforced(format, kind).is_none() {
            found.push(format.to_owned());
        }
    }
    let nested = ["items", "additionalProperties", "not"];
    let nested = nested.iter().filter_map(|name| schema.get(name));
    let parts = ["allOf", "anyOf", "oneOf"];
    let parts = parts
        .iter()
        .filter_map(|name| schema[name].as_array())
        .flatten();
    let properties = schema["properties"].as_object().into_iter();
    properties
        .flat_map(Map::values)
        .chain(nested)
        .chain(parts)
        .filter(|schema| schema.is_object())
        .for_each(|schema| unrecognized(schema, found));
}
