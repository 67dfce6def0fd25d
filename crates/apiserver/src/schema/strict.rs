//! Finds the fields of an object that its type does not know, for `fieldValidation`.

use serde_json::{Map, Value};

use super::{Shape, Type};

/// The most fields that are named: a body full of rubbish must not give an answer of its size.
// UPSTREAM: the strict decoder stops at 100 errors as well.
const REPORTED_MAX: usize = 100;

/// Paths such as `spec.template.spec.contaners` of all fields that `ty` does not have, in order.
pub fn unknown_fields(ty: &Type, object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if let Value::Object(fields) = object {
        visit_object(ty, fields, "", &mut found);
    }
    found
}

fn visit_object(ty: &Type, fields: &Map<String, Value>, path: &str, found: &mut Vec<String>) {
    for (name, value) in fields {
        if found.len() >= REPORTED_MAX {
            return;
        }
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        match ty.field(name) {
            Some(field) => visit(&field.ty, value, &path, found),
            None => found.push(path),
        }
    }
}

fn visit(shape: &Shape, value: &Value, path: &str, found: &mut Vec<String>) {
    match (shape, value) {
        (Shape::Ref(ty), Value::Object(fields)) => visit_object(ty, fields, path, found),
        (Shape::List(item), Value::Array(items)) => {
            for (index, value) in items.iter().enumerate() {
                visit(item, value, &format!("{path}[{index}]"), found);
            }
        }
        (Shape::Map(item), Value::Object(entries)) => {
            for (key, value) in entries {
                visit(item, value, &format!("{path}.{key}"), found);
            }
        }
        _ => {}
    }
}
