//! What apply needs to know about a place in an object: one owner, a map, or a list with identities.

use crate::crd::schema::Ready;
use crate::kinds::Kind;
use crate::schema::{self, Field, ListType, MapType, Shape, Type};
use serde_json::{Map, Value};

/// A place in an object's schema.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    Object(&'static Type),
    Field(&'static Field),
    Shape(&'static Shape),
    /// The schema of a whole custom object.
    Root(&'a Value),
    /// Part of a custom definition's schema.
    Custom(&'a Value),
    /// Nothing known: maps merge, lists do not.
    Unknown,
}

/// How a value at a place is owned.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Relation {
    /// As a whole.
    Leaf,
    /// Member by member.
    Map,
    /// A list whose items are told apart by these keys.
    ListByKeys(Vec<String>),
    /// A list of different scalars.
    ListOfValues,
}

impl<'a> Place<'a> {
    /// That of a whole object; `custom` is the schema of its kind if that is a custom one.
    pub(super) fn of(kind: &Kind, custom: Option<&'a Ready>) -> Place<'a> {
        match custom {
            Some(schema) => Place::Root(&schema.value),
            None => schema::type_for(&kind.group, &kind.version, &kind.kind)
                .map_or(Place::Unknown, Place::Object),
        }
    }

    pub(super) fn relation(&self, value: &Value) -> Relation {
        match value {
            Value::Object(_) if self.is_atomic_map() => Relation::Leaf,
            Value::Object(_) => Relation::Map,
            Value::Array(_) => self.list_relation(),
            _ => Relation::Leaf,
        }
    }

    fn is_atomic_map(&self) -> bool {
        match self {
            Place::Object(ty) => ty.atomic,
            Place::Field(field) => match field.map_type {
                Some(map_type) => map_type == MapType::Atomic,
                None => Place::Shape(&field.ty).is_atomic_map(),
            },
            Place::Shape(Shape::Ref(ty)) => ty.atomic,
            Place::Shape(Shape::Map(_) | Shape::Any) => false,
            Place::Shape(_) => true,
            Place::Custom(schema) => schema["x-kubernetes-map-type"] == "atomic",
            Place::Root(_) | Place::Unknown => false,
        }
    }

    fn list_relation(&self) -> Relation {
        match self {
            Place::Field(field) => match &field.list_type {
                ListType::Atomic => Relation::Leaf,
                ListType::Set => Relation::ListOfValues,
                ListType::Map(keys) => {
                    Relation::ListByKeys(keys.iter().map(|key| (*key).to_owned()).collect())
                }
            },
            Place::Custom(schema) => match schema["x-kubernetes-list-type"].as_str() {
                Some("set") => Relation::ListOfValues,
                Some("map") => {
                    let keys = schema["x-kubernetes-list-map-keys"].as_array();
                    Relation::ListByKeys(
                        keys.into_iter()
                            .flatten()
                            .filter_map(|key| key.as_str().map(str::to_owned))
                            .collect(),
                    )
                }
                _ => Relation::Leaf,
            },
            _ => Relation::Leaf,
        }
    }

    /// The place of a member.
    pub(super) fn member(&self, name: &str) -> Place<'a> {
        match *self {
            Place::Object(ty) => ty.field(name).map_or(Place::Unknown, Place::Field),
            Place::Field(field) => Place::Shape(&field.ty).member(name),
            Place::Shape(Shape::Ref(ty)) => Place::Object(ty.get()).member(name),
            Place::Shape(Shape::Map(element)) => Place::Shape(element),
            // What every object has is the same, whatever a definition says.
            Place::Root(_) if is_meta(name) => meta(name),
            Place::Custom(schema) if is_meta(name) && is_embedded(schema) => meta(name),
            Place::Root(schema) | Place::Custom(schema) => {
                match (
                    schema["properties"].get(name),
                    schema.get("additionalProperties"),
                ) {
                    (Some(property), _) => Place::Custom(property),
                    (None, Some(additional)) if additional.is_object() => Place::Custom(additional),
                    _ => Place::Unknown,
                }
            }
            Place::Shape(_) | Place::Unknown => Place::Unknown,
        }
    }

    /// The place of a list's items.
    pub(super) fn item(&self) -> Place<'a> {
        match *self {
            Place::Field(field) => Place::Shape(&field.ty).item(),
            Place::Shape(Shape::List(element)) => Place::Shape(element),
            Place::Custom(schema) => schema.get("items").map_or(Place::Unknown, Place::Custom),
            _ => Place::Unknown,
        }
    }

    /// What identifies an item, as FieldsV1 spells it: `k:{"name":"a"}` or `v:"a"`. `None`: it lacks its keys.
    pub(super) fn identity(&self, relation: &Relation, item: &Value) -> Option<String> {
        match relation {
            Relation::ListOfValues => Some(format!("v:{item}")),
            Relation::ListByKeys(keys) => {
                let place = self.item();
                let mut identity = Map::new();
                for key in keys {
                    let value = item
                        .get(key)
                        .cloned()
                        .or_else(|| place.member(key).default());
                    identity.insert(key.clone(), value?);
                }
                Some(format!("k:{}", Value::Object(identity)))
            }
            Relation::Leaf | Relation::Map => None,
        }
    }

    fn default(&self) -> Option<Value> {
        match self {
            Place::Field(field) => serde_json::from_str(field.default?).ok(),
            Place::Custom(schema) => schema.get("default").cloned(),
            _ => None,
        }
    }

    /// Whether a struct, as opposed to a free map, has this member.
    pub(super) fn declares(&self, name: &str) -> bool {
        match self {
            Place::Object(ty) => ty.field(name).is_some(),
            Place::Field(field) => Place::Shape(&field.ty).declares(name),
            Place::Shape(Shape::Ref(ty)) => ty.field(name).is_some(),
            Place::Root(_) if is_meta(name) => true,
            Place::Custom(schema) if is_meta(name) && is_embedded(schema) => true,
            Place::Root(schema) | Place::Custom(schema) => schema["properties"].get(name).is_some(),
            Place::Shape(_) | Place::Unknown => false,
        }
    }

    /// Whether an object here can have this member at all.
    pub(super) fn accepts(&self, name: &str) -> bool {
        match self {
            Place::Field(field) => Place::Shape(&field.ty).accepts(name),
            Place::Shape(Shape::Map(_)) | Place::Unknown => true,
            Place::Root(schema) | Place::Custom(schema) => {
                let additional = &schema["additionalProperties"];
                self.declares(name)
                    || additional.is_object()
                    || *additional == true
                    || schema["x-kubernetes-preserve-unknown-fields"] == true
            }
            place => place.declares(name),
        }
    }
}

fn is_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

fn is_embedded(schema: &Value) -> bool {
    schema["x-kubernetes-embedded-resource"] == true
}

/// The place of what every object has.
fn meta(name: &str) -> Place<'static> {
    if name != "metadata" {
        return Place::Shape(&Shape::String);
    }
    schema::type_named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
        .map_or(Place::Unknown, Place::Object)
}
