//! OpenAPI v2: all types in one document, for `kubectl explain` of its old form and for clients from before
//! there was v3. The same schemas, with what v2 cannot say taken out; as JSON, and as the protobuf that Go
//! clients ask for.

use super::schemas::{Schemas, Words};
use crate::aggregation::openapi::Definitions;
use api::protobuf::Writer;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The document as JSON.
pub(super) fn document(
    schemas: &Schemas<'_>,
    words: &Words<'_>,
    foreign: &[Arc<Definitions>],
) -> String {
    let head = json!({"title": "Kubernetes", "version": crate::discovery::GIT_VERSION});
    let mut out =
        format!("{{\"swagger\":\"2.0\",\"info\":{head},\"paths\":{{}},\"definitions\":{{");
    let mut first = true;
    each(schemas, words, foreign, |name, schema| {
        if !std::mem::take(&mut first) {
            out.push(',');
        }
        out.push_str(&format!("{}:{schema}", Value::from(name)));
    });
    out.push_str("}}");
    out
}

/// All types in the words of v2: ours, and of other servers those that have a name of their own.
fn each(
    schemas: &Schemas<'_>,
    words: &Words<'_>,
    foreign: &[Arc<Definitions>],
    mut show: impl FnMut(&str, &Value),
) {
    let mut shown: BTreeSet<String> = BTreeSet::new();
    schemas.each(words, |name, schema| {
        show(name, &plain(schema));
        if !foreign.is_empty() {
            shown.insert(name.to_owned());
        }
    });
    for (name, schema) in foreign.iter().flat_map(|foreign| &foreign.schemas) {
        if shown.insert(name.clone()) {
            show(name, schema);
        }
    }
}

/// A schema in the words of v2: references stand alone, there are no alternatives and no defaults.
fn plain(schema: Value) -> Value {
    let Value::Object(mut map) = schema else {
        return schema;
    };
    if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return json!({"$ref": format!("#/definitions/{name}")});
    }
    // `allOf` with a single reference is how v3 puts siblings beside it; v2 has just a description there.
    if let Some(Value::Array(all)) = map.get("allOf")
        && let [only] = all.as_slice()
        && only.get("$ref").is_some()
    {
        let mut reference = plain(only.clone());
        if let Some(said) = map.remove("description") {
            reference["description"] = said;
        }
        return reference;
    }
    if map.contains_key("oneOf") || map.get("x-kubernetes-int-or-string") == Some(&json!(true)) {
        // A quantity, or a number or percentage.
        map.insert("type".into(), json!("string"));
    }
    let is_set = |name: &str| map.get(name) == Some(&json!(true));
    let (nullable, open) = (
        is_set("nullable"),
        is_set("x-kubernetes-preserve-unknown-fields"),
    );
    if open && let Some(kind) = map.remove("x-kubernetes-group-version-kind") {
        // UPSTREAM: not even the metadata is described: kubectl would complain of everything else.
        return json!({"type": "object", "x-kubernetes-group-version-kind": kind});
    }
    drop_required_nullables(&mut map);
    for name in ["oneOf", "anyOf", "allOf", "not", "nullable", "default"] {
        map.remove(name);
    }
    // UPSTREAM: kubectl takes what is described for all there is, and a list without items for broken.
    if nullable || open {
        map.remove("items");
        map.remove("properties");
    }
    let is_type = |name: &str| map.get("type").and_then(Value::as_str) == Some(name);
    let is_bare_list = is_type("array") && !map.contains_key("items");
    if nullable || is_bare_list || (open && is_type("object")) {
        map.remove("type");
    }
    for name in ["items", "additionalProperties"] {
        if let Some(inner) = map.get_mut(name) {
            *inner = plain(inner.take());
        }
    }
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        for property in properties.values_mut() {
            *property = plain(property.take());
        }
    }
    Value::Object(map)
}

/// UPSTREAM: v2 cannot say that something may be null, so it may be missing.
fn drop_required_nullables(map: &mut Map<String, Value>) {
    let is_nullable = |map: &Map<String, Value>, name: &Value| {
        let properties = map.get("properties");
        let property = name
            .as_str()
            .and_then(|name| properties.and_then(|held| held.get(name)));
        property.is_some_and(|property| property["nullable"] == true)
    };
    let Some(Value::Array(mut required)) = map.remove("required") else {
        return;
    };
    required.retain(|name| !is_nullable(map, name));
    if !required.is_empty() {
        map.insert("required".into(), Value::Array(required));
    }
}

/// The document as an `openapi.v2.Document` message. The numbers are those of its definition.
pub(super) fn protobuf(
    schemas: &Schemas<'_>,
    words: &Words<'_>,
    foreign: &[Arc<Definitions>],
) -> Vec<u8> {
    let mut out = Writer::default();
    out.text(1, "2.0");
    out.message(2, |info| {
        info.text(1, "Kubernetes");
        info.text(2, crate::discovery::GIT_VERSION);
    });
    out.message(8, |_| {});
    out.message(9, |definitions| {
        each(schemas, words, foreign, |name, schema| {
            definitions.message(1, |entry| named(entry, name, schema));
        });
    });
    out.finish()
}

fn named(entry: &mut Writer, name: &str, schema: &Value) {
    entry.text(1, name);
    entry.message(2, |out| write_schema(out, schema));
}

fn write_schema(out: &mut Writer, schema: &Value) {
    for (number, name) in [(1, "$ref"), (2, "format"), (4, "description")] {
        if let Some(text) = schema[name].as_str() {
            out.text(number, text);
        }
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        out.text(19, text(name));
    }
    match &schema["additionalProperties"] {
        Value::Object(_) => out.message(21, |item| {
            item.message(1, |inner| {
                write_schema(inner, &schema["additionalProperties"])
            });
        }),
        Value::Bool(flag) => out.message(21, |item| item.flag(2, *flag)),
        _ => {}
    }
    if let Some(kind) = schema["type"].as_str() {
        out.message(22, |item| item.text(1, kind));
    }
    if schema["items"].is_object() {
        out.message(23, |item| {
            item.message(1, |inner| write_schema(inner, &schema["items"]))
        });
    }
    if let Some(properties) = schema["properties"].as_object() {
        out.message(25, |list| {
            for (name, property) in properties {
                list.message(1, |entry| named(entry, name, property));
            }
        });
    }
    for (name, value) in schema.as_object().into_iter().flatten() {
        if name.starts_with("x-") {
            out.message(31, |extension| {
                extension.text(1, name);
                // JSON is YAML.
                extension.message(2, |any| any.text(2, &value.to_string()));
            });
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Registry;
    use crate::openapi::prose::Prose;

    fn with_built_in<T>(make: impl FnOnce(&Schemas<'_>, &Words<'_>) -> T) -> T {
        let registry = Registry::default();
        let mut schemas = Schemas::default();
        registry.iter().for_each(|kind| schemas.add_kind(kind));
        let words = Words {
            prose: Prose::unpack(),
            written: Box::new(|_| Value::Null),
        };
        make(&schemas, &words)
    }

    #[test]
    fn references_stand_alone_and_alternatives_are_gone() {
        let text = with_built_in(|schemas, words| document(schemas, words, &[]));
        let document: Value = serde_json::from_str(&text).unwrap();
        let spec = &document["definitions"]["io.k8s.api.apps.v1.DeploymentSpec"];
        let strategy = &spec["properties"]["strategy"];
        assert_eq!(
            strategy["$ref"],
            "#/definitions/io.k8s.api.apps.v1.DeploymentStrategy"
        );
        assert!(strategy["description"].is_string());
        assert!(!text.contains("\"oneOf\":[") && !text.contains("#/components/"));
        assert!(text.len() > 100_000);
    }

    // Issue 21, point 20. Upstream: TestCRDRouteParameterBuilder, Test_ConvertJSONSchemaPropsToOpenAPIv2Schema.
    #[test]
    fn what_may_hold_unknown_fields_is_not_described() {
        let open = "x-kubernetes-preserve-unknown-fields";
        let kinds = json!([{"kind": "Bar"}]);
        let root = json!({"type": "object", open: true, "x-kubernetes-group-version-kind": kinds,
            "properties": {"metadata": {"type": "object"}, "a": {"type": "string"}}});
        assert_eq!(
            plain(root),
            json!({"type": "object", "x-kubernetes-group-version-kind": kinds})
        );
        let inner = json!({"type": "object", "required": ["a", "b"], "properties": {
            "a": {"type": "string", "nullable": true},
            "b": {"type": "object", open: true, "properties": {"c": {"type": "string"}}},
            "d": {"type": "array", open: true, "items": {"type": "string"}},
        }});
        assert_eq!(
            plain(inner),
            json!({"type": "object", "required": ["b"], "properties": {
                "a": {}, "b": {open: true}, "d": {open: true},
            }})
        );
    }

    #[test]
    fn the_message_holds_the_names() {
        let bytes = with_built_in(|schemas, words| protobuf(schemas, words, &[]));
        assert_eq!(&bytes[..5], b"\x0a\x032.0");
        let name = b"io.k8s.api.apps.v1.Deployment";
        assert!(bytes.windows(name.len()).any(|window| window == name));
    }
}
