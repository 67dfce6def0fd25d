//! Objects within custom objects (`x-kubernetes-embedded-resource`): their types and metadata are those of any object.
//! Mirrors `apiextensions-apiserver/pkg/apiserver/schema/objectmeta`.

use super::{faults::shown, is_embedded, join, member};
use crate::schema;
use crate::status::Cause;
use crate::validation;
use api::syntax;
use serde_json::Value;

/// Reads the metadata of embedded objects as everyone's: the paths of what is unknown in it, or why it is none.
pub(crate) fn coerce(schema: &Value, value: &mut Value) -> Result<Vec<String>, String> {
    let mut unknown = Vec::new();
    coerce_at(schema, value, "", &mut unknown)?;
    Ok(unknown)
}

fn coerce_at(
    schema: &Value,
    value: &mut Value,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    match value {
        Value::Object(members) => {
            for (name, inner) in members.iter_mut() {
                let path = join(path, name);
                if is_embedded(schema) {
                    coerce_meta(name, inner, &path, unknown)?;
                }
                if let Some(below) = member(schema, name) {
                    coerce_at(below, inner, &path, unknown)?;
                }
            }
        }
        Value::Array(items) => {
            if let Some(below) = schema.get("items") {
                for (index, item) in items.iter_mut().enumerate() {
                    coerce_at(below, item, &format!("{path}[{index}]"), unknown)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn coerce_meta(
    name: &str,
    value: &mut Value,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    match name {
        "apiVersion" | "kind" if !value.is_string() => Err(format!(
            "{path}: Invalid value: {}: must be a string",
            shown(value)
        )),
        "metadata" => {
            let Some(ty) = schema::type_named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
            else {
                return Ok(());
            };
            let decoded = schema::decode(ty, value.clone())
                .map_err(|why| format!("{path}: Invalid value: {}: {why}", shown(value)))?;
            let paths = decoded.unknown.iter();
            unknown.extend(paths.map(|below| format!("{path}.{below}")));
            *value = decoded.object;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// What is wrong with embedded objects.
pub(crate) fn validate(schema: &Value, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    check(schema, object, "", &mut causes);
    causes
}

fn check(schema: &Value, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    match value {
        Value::Object(members) => {
            if is_embedded(schema) {
                check_embedded(value, path, causes);
            }
            for (name, inner) in members {
                if let Some(below) = schema["properties"].get(name) {
                    check(below, inner, &join(path, name), causes);
                } else if let Some(below) = member(schema, name) {
                    check(below, inner, &format!("{path}[{name}]"), causes);
                }
            }
        }
        Value::Array(items) => {
            if let Some(below) = schema.get("items") {
                for (index, item) in items.iter().enumerate() {
                    check(below, item, &format!("{path}[{index}]"), causes);
                }
            }
        }
        _ => {}
    }
}

fn check_embedded(object: &Value, path: &str, causes: &mut Vec<Cause>) {
    for name in ["apiVersion", "kind"] {
        let field = join(path, name);
        let mut invalid = |value: &Value, why: &str| {
            let message = format!("Invalid value: {}: {why}", shown(value));
            causes.push(Cause::new(field.as_str(), "FieldValueInvalid", message));
        };
        match object.get(name) {
            None => causes.push(Cause::new(field, "FieldValueRequired", "Required value")),
            Some(Value::String(text)) if text.is_empty() => {
                invalid(&object[name], "must not be empty");
            }
            Some(Value::String(text)) if name == "kind" => {
                let wrong = syntax::validate_dns1035_label(&text.to_lowercase());
                if !wrong.is_empty() {
                    let wrong = wrong.join(",");
                    let why = format!("may have mixed case, but should otherwise match: {wrong}");
                    invalid(&object[name], &why);
                }
            }
            Some(Value::String(text)) if text.matches('/').count() > 1 => {
                let why = format!("unexpected GroupVersion string: {text}");
                invalid(&object[name], &why);
            }
            Some(Value::String(_)) => {}
            Some(other) => invalid(other, "must be a string"),
        }
    }
    if let Some(metadata) = object.get("metadata") {
        causes.extend(validation::embedded_metadata(
            metadata,
            &join(path, "metadata"),
        ));
    }
}
