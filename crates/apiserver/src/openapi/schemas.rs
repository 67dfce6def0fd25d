//! Component schemas: the types that a document's kinds are made of.

use crate::kinds::Kind;
use crate::schema::{self, Field, ListType, MapType, PatchStrategy, Shape, Type};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct Schemas {
    made: BTreeMap<String, Value>,
    wanted: Vec<&'static Type>,
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

impl Schemas {
    pub(super) fn add_kind(&mut self, kind: &Kind) {
        match kind.custom() {
            Some(version) => {
                self.want(schema::type_named(OBJECT_META));
                let schema = custom(kind, &version.schema);
                self.made.insert(name(kind), schema);
            }
            None => self.want(schema::type_for(&kind.group, &kind.version, &kind.kind)),
        }
        while let Some(ty) = self.wanted.pop() {
            if !self.made.contains_key(&ty.full_name()) {
                // Entered first: types refer to themselves.
                self.made.insert(ty.full_name(), Value::Null);
                let schema = self.object(ty);
                self.made.insert(ty.full_name(), schema);
            }
        }
    }

    pub(super) fn finish(self) -> Map<String, Value> {
        self.made.into_iter().collect()
    }

    fn want(&mut self, ty: Option<&'static Type>) {
        self.wanted.extend(ty);
    }

    fn object(&mut self, ty: &'static Type) -> Value {
        let mut properties = Map::new();
        for field in &ty.fields {
            properties.insert(field.name.to_owned(), self.field(field));
        }
        let mut schema = json!({"type": "object", "properties": properties});
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

    fn field(&mut self, field: &'static Field) -> Value {
        let mut schema = self.shape(&field.ty, true);
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
    fn shape(&mut self, shape: &'static Shape, with_siblings: bool) -> Value {
        let reference = |name: &str| {
            let reference = json!({"$ref": format!("#/components/schemas/{name}")});
            if with_siblings {
                json!({"allOf": [reference]})
            } else {
                reference
            }
        };
        let mut well_known = |name: &str, schema: Value| {
            self.made.entry(name.to_owned()).or_insert(schema);
            reference(name)
        };
        match shape {
            Shape::String => json!({"type": "string"}),
            Shape::Integer => json!({"type": "integer", "format": "int32"}),
            Shape::Long => json!({"type": "integer", "format": "int64"}),
            Shape::Number => json!({"type": "number", "format": "double"}),
            Shape::Boolean => json!({"type": "boolean"}),
            Shape::Bytes => json!({"type": "string", "format": "byte"}),
            Shape::Any => json!({}),
            Shape::Quantity => well_known(
                QUANTITY,
                json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
            ),
            Shape::IntOrString => well_known(
                INT_OR_STRING,
                json!({"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"}),
            ),
            Shape::Time => well_known(TIME, json!({"type": "string", "format": "date-time"})),
            Shape::MicroTime => {
                well_known(MICRO_TIME, json!({"type": "string", "format": "date-time"}))
            }
            Shape::Raw => well_known(RAW, json!({"type": "object"})),
            Shape::FieldsV1 => well_known(FIELDS, json!({"type": "object"})),
            Shape::Ref(ty) => {
                self.wanted.push(ty.get());
                reference(&ty.full_name())
            }
            Shape::List(element) => json!({"type": "array", "items": self.shape(element, false)}),
            Shape::Map(element) => {
                json!({"type": "object", "additionalProperties": self.shape(element, false)})
            }
        }
    }
}

/// A custom kind's schema with what every object has.
fn custom(kind: &Kind, schema: &Value) -> Value {
    let mut schema = if schema.is_object() {
        schema.clone()
    } else {
        json!({"type": "object"})
    };
    if let Some(map) = schema.as_object_mut() {
        let properties = map.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            properties.insert("apiVersion".into(), json!({"type": "string"}));
            properties.insert("kind".into(), json!({"type": "string"}));
            let metadata =
                json!({"allOf": [{"$ref": format!("#/components/schemas/{OBJECT_META}")}]});
            properties.insert("metadata".into(), metadata);
        }
        let gvk = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        map.insert("x-kubernetes-group-version-kind".into(), json!([gvk]));
    }
    schema
}
