//! Component schemas: the types that a document's kinds are made of.

use super::prose::Prose;
use crate::kinds::Kind;
use crate::schema::{self, Field, ListType, MapType, PatchStrategy, Shape, Type};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The types that documents are made of, each made when it is written.
#[derive(Default)]
pub(super) struct Schemas<'a> {
    sources: BTreeMap<String, Source<'a>>,
}

enum Source<'a> {
    Type(&'static Type),
    WellKnown(Value),
    Custom(&'a Kind),
}

/// Where descriptions come from: the table, and the definitions themselves.
pub(super) struct Words<'a> {
    pub(super) prose: Prose,
    /// The schema of a custom kind as its definition has it.
    pub(super) written: Box<dyn Fn(&Kind) -> Value + 'a>,
}

/// The name of a kind's schema.
pub(super) fn name(kind: &Kind) -> String {
    match schema::type_for(&kind.group, &kind.version, &kind.kind) {
        Some(ty) if kind.custom().is_none() => ty.full_name(),
        _ => {
            let reversed: Vec<&str> = kind.group.rsplit('.').collect();
            format!("{}.{}.{}", reversed.join("."), kind.version, kind.kind)
        }
    }
}

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";
const RAW: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
const FIELDS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

impl<'a> Schemas<'a> {
    pub(super) fn add_kind(&mut self, kind: &'a Kind) {
        if kind.custom().is_some() {
            self.sources.insert(name(kind), Source::Custom(kind));
            self.want(schema::type_named(OBJECT_META));
        } else {
            self.want(schema::type_for(&kind.group, &kind.version, &kind.kind));
        }
    }

    /// Adds a type and all that it refers to.
    fn want(&mut self, ty: Option<&'static Type>) {
        let mut wanted: Vec<&'static Type> = ty.into_iter().collect();
        while let Some(ty) = wanted.pop() {
            let known = self.sources.insert(ty.full_name(), Source::Type(ty));
            if known.is_none() {
                for field in &ty.fields {
                    self.find(&field.ty, &mut wanted);
                }
            }
        }
    }

    fn find(&mut self, shape: &'static Shape, wanted: &mut Vec<&'static Type>) {
        match shape {
            Shape::Ref(ty) => wanted.push(ty.get()),
            Shape::List(element) | Shape::Map(element) => self.find(element, wanted),
            shape => {
                if let Some((name, schema)) = well_known(shape) {
                    self.sources
                        .entry(name.to_owned())
                        .or_insert(Source::WellKnown(schema));
                }
            }
        }
    }

    /// Hands each schema over with its name, in the order of names; none is kept.
    pub(super) fn each(&self, words: &Words<'_>, mut take: impl FnMut(&str, Value)) {
        for (name, source) in &self.sources {
            let schema = match source {
                Source::Type(ty) => object(ty, &words.prose),
                Source::WellKnown(schema) => {
                    let mut schema = schema.clone();
                    let short = name.strip_prefix("io.k8s.").unwrap_or(name);
                    describe(&mut schema, words.prose.of(short, ""));
                    schema
                }
                Source::Custom(kind) => custom(kind, (words.written)(kind), &words.prose),
            };
            take(name, schema);
        }
    }
}

fn describe(schema: &mut Value, said: Option<String>) {
    if let Some(said) = said {
        schema["description"] = Value::String(said);
    }
}

fn object(ty: &'static Type, prose: &Prose) -> Value {
    let mut properties = Map::new();
    for field in &ty.fields {
        let mut schema = self::field(field);
        describe(&mut schema, prose.of(ty.name, field.name));
        properties.insert(field.name.to_owned(), schema);
    }
    let mut schema = json!({"type": "object"});
    // UPSTREAM: what is empty is left out.
    if !properties.is_empty() {
        schema["properties"] = Value::Object(properties);
    }
    describe(&mut schema, prose.of(ty.name, ""));
    let required: Vec<&str> = ty
        .fields
        .iter()
        .filter(|field| field.required)
        .map(|field| field.name)
        .collect();
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if ty.atomic {
        schema["x-kubernetes-map-type"] = json!("atomic");
    }
    if let Some(gvk) = &ty.gvk {
        let gvk = json!({"group": gvk.group, "version": gvk.version, "kind": gvk.kind});
        schema["x-kubernetes-group-version-kind"] = json!([gvk]);
    }
    schema
}

fn field(field: &'static Field) -> Value {
    let mut schema = shape(&field.ty, true);
    match &field.list_type {
        ListType::Atomic if matches!(field.ty, Shape::List(_)) => {
            schema["x-kubernetes-list-type"] = json!("atomic")
        }
        ListType::Atomic => {}
        ListType::Set => schema["x-kubernetes-list-type"] = json!("set"),
        ListType::Map(keys) => {
            schema["x-kubernetes-list-type"] = json!("map");
            schema["x-kubernetes-list-map-keys"] = json!(keys);
        }
    }
    match field.map_type {
        Some(MapType::Atomic) => schema["x-kubernetes-map-type"] = json!("atomic"),
        Some(MapType::Granular) => schema["x-kubernetes-map-type"] = json!("granular"),
        None => {}
    }
    let strategy = match field.patch_strategy {
        PatchStrategy::None => None,
        PatchStrategy::Merge => Some("merge"),
        PatchStrategy::Replace => Some("replace"),
        PatchStrategy::RetainKeys => Some("retainKeys"),
        PatchStrategy::MergeRetainKeys => Some("merge,retainKeys"),
    };
    if let Some(strategy) = strategy {
        schema["x-kubernetes-patch-strategy"] = json!(strategy);
    }
    if let Some(key) = field.merge_key {
        schema["x-kubernetes-patch-merge-key"] = json!(key);
    }
    if !field.enum_values.is_empty() {
        schema["enum"] = json!(field.enum_values);
    }
    schema
}

/// A reference that gets siblings (`with_siblings`) must be wrapped: `$ref` allows none.
fn shape(shape: &'static Shape, with_siblings: bool) -> Value {
    let reference = |name: &str| {
        let reference = json!({"$ref": format!("#/components/schemas/{name}")});
        if with_siblings {
            json!({"allOf": [reference]})
        } else {
            reference
        }
    };
    if let Some((name, _)) = well_known(shape) {
        return reference(name);
    }
    match shape {
        Shape::String => json!({"type": "string"}),
        Shape::Integer => json!({"type": "integer", "format": "int32"}),
        Shape::Long => json!({"type": "integer", "format": "int64"}),
        Shape::Number => json!({"type": "number", "format": "double"}),
        Shape::Boolean => json!({"type": "boolean"}),
        Shape::Bytes => json!({"type": "string", "format": "byte"}),
        Shape::Ref(ty) => reference(&ty.full_name()),
        Shape::List(element) => json!({"type": "array", "items": self::shape(element, false)}),
        Shape::Map(element) => {
            json!({"type": "object", "additionalProperties": self::shape(element, false)})
        }
        _ => json!({}),
    }
}

/// Types that are no objects with fields.
fn well_known(shape: &Shape) -> Option<(&'static str, Value)> {
    Some(match shape {
        Shape::Quantity => (
            QUANTITY,
            json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        ),
        Shape::IntOrString => (
            INT_OR_STRING,
            json!({"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"}),
        ),
        Shape::Time => (TIME, json!({"type": "string", "format": "date-time"})),
        Shape::MicroTime => (MICRO_TIME, json!({"type": "string", "format": "date-time"})),
        Shape::Raw => (RAW, json!({"type": "object"})),
        Shape::FieldsV1 => (FIELDS, json!({"type": "object"})),
        _ => return None,
    })
}

/// A custom kind's schema with what every object has.
fn custom(kind: &Kind, written: Value, prose: &Prose) -> Value {
    let mut schema = written;
    if !schema.is_object() {
        schema = json!({"type": "object"});
    }
    if let Some(map) = schema.as_object_mut() {
        let properties = map.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            // UPSTREAM: described in the words of any built-in kind.
            for (name, mut schema) in [
                ("apiVersion", json!({"type": "string"})),
                ("kind", json!({"type": "string"})),
                (
                    "metadata",
                    json!({"allOf": [{"$ref": format!("#/components/schemas/{OBJECT_META}")}]}),
                ),
            ] {
                describe(&mut schema, prose.of("api.core.v1.ConfigMap", name));
                properties.insert(name.to_owned(), schema);
            }
        }
        let gvk = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        map.insert("x-kubernetes-group-version-kind".into(), json!([gvk]));
    }
    schema
}
