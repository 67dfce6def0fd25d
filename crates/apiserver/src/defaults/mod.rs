//! The values that objects get for what their authors left out.
//!
//! Upstream defaults by type: a function per Go type, called for every value of that type wherever
//! it occurs, the outer one first. The tables know where types occur, so one walk and a function per
//! type do the same, and a container is defaulted alike in a Pod and deep inside a CronJob.
//! Mirrors `pkg/apis/*/v1/defaults.go` and the generated defaults beside them.

mod core;
mod groups;
mod pod;
#[cfg(test)]
mod tests;
pub(crate) mod workloads;

use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::kinds::Kind;
use crate::schema::{self, Shape, Type};

/// A JSON object whose type is known.
type Object = Map<String, Value>;

/// Fills in the defaults of a built-in kind. Custom kinds carry theirs in their schema.
pub fn apply(kind: &Kind, object: &mut Value) {
    if kind.custom().is_some() {
        return;
    }
    if let Some(ty) = schema::type_for(&kind.group, &kind.version, &kind.kind) {
        apply_to_type(ty, object);
    }
}

/// Fills in the defaults of a value of type `ty`, such as a pod template on its own.
pub(crate) fn apply_to_type(ty: &Type, value: &mut Value) {
    let Value::Object(object) = value else { return };
    if let Some(defaults) = DEFAULTS[ty.index()] {
        defaults(object);
    }
    for (name, value) in object.iter_mut() {
        if let Some(field) = ty.field(name) {
            visit(ty, &field.ty, value);
        }
    }
}

fn visit(outer: &Type, shape: &Shape, value: &mut Value) {
    match (shape, value) {
        (Shape::Ref(ty), value) => apply_to_type(ty, value),
        (Shape::List(item), Value::Array(items)) if has_objects(item) => {
            items.iter_mut().for_each(|value| visit(outer, item, value));
        }
        (Shape::Map(item), Value::Object(entries)) => match **item {
            Shape::Quantity if outer.name.starts_with("api.core.v1.") => {
                core::round_up_to_milli(entries)
            }
            ref item if has_objects(item) => entries
                .iter_mut()
                .for_each(|(_, value)| visit(outer, item, value)),
            _ => {}
        },
        _ => {}
    }
}

fn has_objects(shape: &Shape) -> bool {
    matches!(shape, Shape::Ref(_) | Shape::List(_) | Shape::Map(_))
}

/// The function of each type, by its place in the tables: names are compared once, not per value.
static DEFAULTS: LazyLock<Vec<Option<fn(&mut Object)>>> = LazyLock::new(|| {
    schema::all_types()
        .map(|ty| {
            core::of(ty.name)
                .or_else(|| pod::of(ty.name))
                .or_else(|| workloads::of(ty.name))
                .or_else(|| groups::of(ty.name))
        })
        .collect()
});

/// For fields where absent and zero are the same.
fn set_empty(object: &mut Object, name: &str, value: impl Into<Value>) {
    if object.get(name).is_none_or(crate::fields::is_empty) {
        object.insert(name.to_owned(), value.into());
    }
}

/// For fields where zero is an answer.
fn set_missing(object: &mut Object, name: &str, value: impl Into<Value>) {
    if object.get(name).is_none_or(Value::is_null) {
        object.insert(name.to_owned(), value.into());
    }
}

fn text<'a>(object: &'a Object, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn is_missing(object: &Object, name: &str) -> bool {
    object.get(name).is_none_or(Value::is_null)
}

/// The object in a field, made if it is missing.
fn object_in<'a>(object: &'a mut Object, name: &str) -> &'a mut Object {
    let value = object
        .entry(name)
        .or_insert_with(|| Value::Object(Map::new()));
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("was made an object above")
}

fn objects_in<'a>(object: &'a mut Object, name: &str) -> impl Iterator<Item = &'a mut Object> {
    object
        .get_mut(name)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}
