//! Structural schemas at work: pruning, defaulting and validating custom objects.

mod check;

pub(crate) use check::validate;

use serde_json::{Map, Value};

/// Removes what the schema does not know; the paths of what was removed.
pub(crate) fn prune(schema: &Value, value: &mut Value) -> Vec<String> {
    let mut unknown = Vec::new();
    prune_at(schema, value, "", true, &mut unknown);
    unknown
}

/// UPSTREAM: no more unknown fields than these are named.
const MAX_UNKNOWN: usize = 100;

fn prune_at(
    schema: &Value,
    value: &mut Value,
    path: &str,
    is_object_root: bool,
    unknown: &mut Vec<String>,
) {
    let keeps_unknown = schema["x-kubernetes-preserve-unknown-fields"] == true;
    let is_resource = is_object_root || schema["x-kubernetes-embedded-resource"] == true;
    match value {
        Value::Object(members) => {
            let additional = schema
                .get("additionalProperties")
                .filter(|additional| additional.is_object() || **additional == true);
            let known = |name: &str| {
                let envelope = is_resource && matches!(name, "apiVersion" | "kind" | "metadata");
                envelope
                    || keeps_unknown
                    || additional.is_some()
                    || schema["properties"].get(name).is_some()
            };
            let removed: Vec<String> = members
                .keys()
                .filter(|name| !known(name))
                .cloned()
                .collect();
            for name in removed {
                members.remove(&name);
                if unknown.len() < MAX_UNKNOWN {
                    unknown.push(join(path, &name));
                }
            }
            for (name, member) in members.iter_mut() {
                if is_resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                    continue;
                }
                let below = schema["properties"]
                    .get(name)
                    .or(additional.filter(|additional| additional.is_object()));
                if let Some(below) = below {
                    prune_at(below, member, &join(path, name), false, unknown);
                }
            }
        }
        Value::Array(items) => {
            if let Some(below) = schema.get("items") {
                for (index, item) in items.iter_mut().enumerate() {
                    prune_at(below, item, &format!("{path}[{index}]"), false, unknown);
                }
            }
        }
        _ => {}
    }
}

/// Fills in defaults. UPSTREAM: null counts as missing where null is not allowed and there is a default.
pub(crate) fn default(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, below) in schema["properties"].as_object().into_iter().flatten() {
                let Some(default) = below.get("default") else {
                    continue;
                };
                let missing = match members.get(name) {
                    None => true,
                    Some(Value::Null) => below["nullable"] != true,
                    Some(_) => false,
                };
                if missing {
                    members.insert(name.clone(), default.clone());
                }
            }
            for (name, member) in members.iter_mut() {
                let additional = schema
                    .get("additionalProperties")
                    .filter(|additional| additional.is_object());
                if let Some(below) = schema["properties"].get(name).or(additional) {
                    self::default(below, member);
                }
            }
        }
        Value::Array(items) => {
            if let Some(below) = schema.get("items") {
                items.iter_mut().for_each(|item| self::default(below, item));
            }
        }
        _ => {}
    }
}

/// Removes nulls that the schema does not allow, as decoding does upstream.
pub(crate) fn drop_nulls(schema: &Value, members: &mut Map<String, Value>) {
    members.retain(|name, member| {
        let nullable = schema["properties"][name.as_str()]["nullable"] == true;
        !member.is_null() || nullable || schema["properties"].get(name).is_none()
    });
    for (name, member) in members.iter_mut() {
        if let Value::Object(below) = member {
            drop_nulls(&schema["properties"][name.as_str()], below);
        }
    }
}

pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crd::CustomVersion;
    use serde_json::json;

    fn schema() -> Value {
        json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 5},
            "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2, "x-kubernetes-list-type": "set"},
            "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "port": {"x-kubernetes-int-or-string": true},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        }}}})
    }

    #[test]
    fn unknown_fields_go_unless_kept() {
        let mut value = json!({"apiVersion": "v1", "metadata": {"x": 1}, "extra": 1, "spec": {"size": 1, "siz": 2, "any": {"q": {}}, "labels": {"a": "b"}}});
        assert_eq!(prune(&schema(), &mut value), ["extra", "spec.siz"]);
        assert_eq!(
            value,
            json!({"apiVersion": "v1", "metadata": {"x": 1}, "spec": {"size": 1, "any": {"q": {}}, "labels": {"a": "b"}}})
        );
    }

    #[test]
    fn defaults_fill_what_is_missing() {
        let mut value = json!({"spec": {"color": null}});
        default(&schema(), &mut value);
        assert_eq!(value, json!({"spec": {"color": "red"}}));
    }

    fn check(spec: Value, expected: &[&str]) {
        let patterns = [(
            "^[a-z]+$".to_owned(),
            regex::Regex::new("^[a-z]+$").unwrap(),
        )]
        .into();
        let version = CustomVersion {
            schema: schema(),
            patterns,
            ..CustomVersion::default()
        };
        let causes = validate(&version, &json!({"spec": spec}));
        let texts: Vec<String> = causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect();
        assert_eq!(texts, expected, "{spec}");
    }

    #[test]
    fn values_are_checked() {
        check(json!({"size": 3, "port": "http", "tags": ["a"]}), &[]);
        check(json!({}), &["spec.size: Required value"]);
        check(
            json!({"size": "big"}),
            &[
                "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
            ],
        );
        check(
            json!({"size": 9}),
            &["spec.size: Invalid value: 9: spec.size in body should be less than or equal to 5"],
        );
        check(
            json!({"size": 1, "color": "green"}),
            &["spec.color: Unsupported value: \"green\": supported values: \"red\", \"blue\""],
        );
        check(
            json!({"size": 1, "name": "ABC"}),
            &["spec.name: Invalid value: \"ABC\": spec.name in body should match '^[a-z]+$'"],
        );
        check(
            json!({"size": 1, "tags": ["a", "a"]}),
            &["spec.tags[1]: Duplicate value: \"a\""],
        );
        check(
            json!({"size": 1, "labels": {"a": 1}}),
            &[
                "spec.labels.a: Invalid value: \"integer\": spec.labels.a in body must be of type string: \"integer\"",
            ],
        );
        check(
            json!({"size": 1, "port": true}),
            &[
                "spec.port: Invalid value: \"boolean\": spec.port in body must be of type integer,string: \"boolean\"",
            ],
        );
    }
}
