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

use crate::fields::object_in;
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
    let plan = &PLANS[ty.index()];
    if let Some(defaults) = plan.defaults {
        defaults(object);
    }
    for (name, shape) in &plan.fields {
        if let Some(value) = object.get_mut(*name) {
            visit(ty, shape, value);
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

/// What there is to do for a value of a type.
struct Plan {
    defaults: Option<fn(&mut Object)>,
    /// The fields that have defaults somewhere below them; most have none.
    fields: Vec<(&'static str, &'static Shape)>,
}

/// By the place of the type in the tables: what can be known of a type is found out once, not per value.
static PLANS: LazyLock<Vec<Plan>> = LazyLock::new(|| {
    let mut plans: Vec<Plan> = schema::all_types()
        .map(|ty| Plan {
            defaults: core::of(ty.name)
                .or_else(|| pod::of(ty.name))
                .or_else(|| workloads::of(ty.name))
                .or_else(|| groups::of(ty.name)),
            fields: Vec::new(),
        })
        .collect();
    // Types refer to each other in circles: until nothing more is found.
    loop {
        let concerned: Vec<bool> = plans
            .iter()
            .map(|plan| plan.defaults.is_some() || !plan.fields.is_empty())
            .collect();
        let mut found = false;
        for (ty, plan) in schema::all_types().zip(&mut plans) {
            let fields = ty.fields.iter();
            let fields: Vec<_> = fields
                .filter(|field| concerns(ty, &field.ty, &concerned))
                .map(|field| (field.name, &field.ty))
                .collect();
            found |= fields.len() > plan.fields.len();
            plan.fields = fields;
        }
        if !found {
            return plans;
        }
    }
});

/// Whether [`visit`] has anything to do for values of a shape.
fn concerns(outer: &Type, shape: &Shape, types: &[bool]) -> bool {
    match shape {
        Shape::Ref(ty) => types[ty.index()],
        Shape::List(item) => concerns(outer, item, types),
        Shape::Map(item) => {
            matches!(**item, Shape::Quantity) && outer.name.starts_with("api.core.v1.")
                || concerns(outer, item, types)
        }
        _ => false,
    }
}

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

fn objects_in<'a>(object: &'a mut Object, name: &str) -> impl Iterator<Item = &'a mut Object> {
    object
        .get_mut(name)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}
