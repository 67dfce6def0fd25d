//! Data with a schema: which types its parts have in expressions, how big they can be, and how JSON becomes values.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::escape::escape;
use crate::types::Type;

/// The biggest request that a server takes: what has no limit of its own is bounded by it.
const REQUEST_MAX: u64 = 3 * 1024 * 1024;
/// Schemas nest no deeper than bodies do.
const DEPTH_MAX: usize = 200;

/// A schema as expressions see it.
#[derive(Debug, Clone)]
pub struct Decl {
    pub kind: Kind,
    pub nullable: bool,
    /// How many elements, entries or characters a value can have.
    pub max: u64,
    /// The fewest bytes that a value takes.
    min: u64,
}

#[derive(Debug, Clone)]
pub enum Kind {
    /// Whatever JSON says it is.
    Dyn,
    IntOrString,
    Bool,
    Int,
    Double,
    String,
    Bytes,
    Duration,
    Date,
    DateTime,
    List(Arc<Decl>, ListType),
    Map(Arc<Decl>),
    Object(Arc<str>, BTreeMap<Arc<str>, Field>),
}

/// What makes two lists equal, and what their sum is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListType {
    Atomic,
    Set,
    Map(Vec<String>),
}

#[derive(Debug, Clone)]
pub struct Field {
    /// The property's name in JSON; the field's is escaped where CEL needs that.
    pub property: Arc<str>,
    pub decl: Arc<Decl>,
}

impl Decl {
    /// Data without a schema.
    pub fn dynamic() -> Decl {
        Decl {
            kind: Kind::Dyn,
            nullable: true,
            max: 0,
            min: 1,
        }
    }

    /// A schema of a custom resource; `None` if expressions must not see it. `resource` is set at the root of a
    /// resource, where kind, apiVersion and the names are always known.
    pub fn from_schema(schema: &Json, name: &str, resource: bool) -> Option<Decl> {
        read(schema, name, resource, 0)
    }

    /// An object with the fields given: `request` and its like.
    pub fn object(name: &str, fields: impl IntoIterator<Item = (&'static str, Decl)>) -> Decl {
        let fields = fields.into_iter().map(|(field, decl)| {
            let name: Arc<str> = field.into();
            let field = Field {
                property: name.clone(),
                decl: Arc::new(decl),
            };
            (name, field)
        });
        Decl {
            kind: Kind::Object(name.into(), fields.collect()),
            nullable: true,
            max: 0,
            min: 2,
        }
    }

    pub fn of(kind: Kind) -> Decl {
        let min = match kind {
            Kind::String => 2,
            Kind::Bool => 4,
            Kind::List(..) | Kind::Map(_) | Kind::Object(..) => 2,
            _ => 1,
        };
        Decl {
            kind,
            nullable: true,
            max: 0,
            min,
        }
    }

    pub fn list(items: Decl) -> Decl {
        Decl::of(Kind::List(Arc::new(items), ListType::Atomic))
    }

    pub fn map(values: Decl) -> Decl {
        Decl::of(Kind::Map(Arc::new(values)))
    }

    pub fn with_max(mut self, max: u64) -> Decl {
        self.max = max;
        self
    }

    /// The fewest bytes that a value takes.
    pub fn min_size(&self) -> u64 {
        self.min
    }

    pub fn cel_type(&self) -> Type {
        match &self.kind {
            Kind::Dyn | Kind::IntOrString => Type::Dyn,
            Kind::Bool => Type::Bool,
            Kind::Int => Type::Int,
            Kind::Double => Type::Double,
            Kind::String => Type::String,
            Kind::Bytes => Type::Bytes,
            Kind::Duration => Type::Duration,
            Kind::Date | Kind::DateTime => Type::Timestamp,
            Kind::List(items, _) => Type::list(items.cel_type()),
            Kind::Map(values) => Type::map(Type::String, values.cel_type()),
            Kind::Object(name, _) => Type::Struct(name.clone()),
        }
    }

    pub fn fields(&self) -> Option<&BTreeMap<Arc<str>, Field>> {
        match &self.kind {
            Kind::Object(_, fields) => Some(fields),
            _ => None,
        }
    }

    /// What lists hold and maps lead to.
    pub fn element(&self) -> Option<&Arc<Decl>> {
        match &self.kind {
            Kind::List(element, _) | Kind::Map(element) => Some(element),
            _ => None,
        }
    }

    pub fn each_object(&self, each: &mut impl FnMut(&Decl)) {
        match &self.kind {
            Kind::Object(_, fields) => {
                each(self);
                for field in fields.values() {
                    field.decl.each_object(each);
                }
            }
            Kind::List(element, _) | Kind::Map(element) => element.each_object(each),
            _ => {}
        }
    }

    /// How big what lies at a path can be; the path begins with a variable's name.
    pub(crate) fn size_at(&self, path: &[Arc<str>]) -> Option<u64> {
        let mut here = self;
        for step in path.iter().skip(1) {
            here = match (&**step, &here.kind) {
                ("@items" | "@values", _) => here.element()?,
                // UPSTREAM: the keys' type has no limit, and none counts as nought.
                ("@keys", Kind::Map(_)) => return Some(0),
                (name, Kind::Object(_, fields)) => &fields.get(name)?.decl,
                _ => return None,
            };
        }
        Some(here.max)
    }
}

fn flag(schema: &Json, name: &str) -> bool {
    schema[name] == true
}

fn limit(schema: &Json, name: &str) -> Option<u64> {
    let limit = schema.get(name)?;
    limit.as_u64().or_else(|| limit.as_i64().map(|_| 0))
}

fn read(schema: &Json, name: &str, resource: bool, depth: usize) -> Option<Decl> {
    if depth > DEPTH_MAX {
        return None;
    }
    let nullable = flag(schema, "nullable");
    let made = |kind, max, min| {
        Some(Decl {
            kind,
            nullable,
            max,
            min,
        })
    };
    if flag(schema, "x-kubernetes-int-or-string") {
        let max = limit(schema, "maxLength").map_or(REQUEST_MAX - 2, |max| max.saturating_mul(4));
        return made(Kind::IntOrString, max, 1);
    }
    let of = schema["type"].as_str().unwrap_or_default();
    match if resource { "object" } else { of } {
        "array" => read_list(schema, name, nullable, depth),
        "object" => read_object(schema, name, resource, depth),
        "string" => {
            let (kind, max, min) = read_string(schema);
            made(kind, max, min)
        }
        "boolean" => made(Kind::Bool, 0, 4),
        "number" => made(Kind::Double, 0, 1),
        "integer" => made(Kind::Int, 0, 1),
        _ => None,
    }
}

fn read_list(schema: &Json, name: &str, nullable: bool, depth: usize) -> Option<Decl> {
    let items = schema.get("items")?;
    let embedded = flag(items, "x-kubernetes-embedded-resource");
    let items = read(items, &format!("{name}.@idx"), embedded, depth + 1)?;
    let list_type = match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => ListType::Set,
        Some("map") => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array();
            let keys = keys.into_iter().flatten().filter_map(Json::as_str);
            ListType::Map(keys.map(str::to_owned).collect())
        }
        _ => ListType::Atomic,
    };
    let max = limit(schema, "maxItems").unwrap_or((REQUEST_MAX - 2) / (items.min + 1));
    Some(Decl {
        kind: Kind::List(Arc::new(items), list_type),
        nullable,
        max,
        min: 2,
    })
}

fn read_object(schema: &Json, name: &str, resource: bool, depth: usize) -> Option<Decl> {
    let nullable = flag(schema, "nullable");
    if let Some(values @ Json::Object(_)) = schema.get("additionalProperties") {
        let embedded = flag(values, "x-kubernetes-embedded-resource");
        let values = read(values, &format!("{name}.@elem"), embedded, depth + 1)?;
        let max = limit(schema, "maxProperties").unwrap_or((REQUEST_MAX - 2) / (values.min + 6));
        return Some(Decl {
            kind: Kind::Map(Arc::new(values)),
            nullable,
            max,
            min: 2,
        });
    }
    let mut fields = BTreeMap::new();
    let mut min = 2;
    let required = schema["required"].as_array();
    let properties = schema["properties"].as_object().into_iter().flatten();
    for (property, inner) in properties {
        let Some(field) = escape(property) else {
            continue;
        };
        let embedded = flag(inner, "x-kubernetes-embedded-resource");
        let Some(decl) = read(inner, &format!("{name}.{field}"), embedded, depth + 1) else {
            continue;
        };
        let needed = required.is_some_and(|names| names.iter().any(|name| name == property));
        if needed && inner.get("default").is_none() {
            min += property.len() as u64 + decl.min + 4;
        }
        let field_decl = Field {
            property: property.as_str().into(),
            decl: Arc::new(decl),
        };
        fields.insert(Arc::from(field), field_decl);
    }
    if resource {
        always_known(&mut fields, name);
    }
    Some(Decl {
        kind: Kind::Object(name.into(), fields),
        nullable,
        max: 0,
        min,
    })
}

/// A resource has its type and its name, whether its schema says so or not.
fn always_known(fields: &mut BTreeMap<Arc<str>, Field>, name: &str) {
    let text = || Decl {
        nullable: false,
        ..Decl::of(Kind::String).with_max(REQUEST_MAX - 2)
    };
    let is_text =
        |field: Option<&Field>| field.is_some_and(|field| matches!(field.decl.kind, Kind::String));
    let meta = fields.get("metadata").and_then(|meta| meta.decl.fields());
    let whole = is_text(fields.get("kind"))
        && is_text(fields.get("apiVersion"))
        && meta.is_some_and(|meta| is_text(meta.get("name")) && is_text(meta.get("generateName")));
    if whole {
        return;
    }
    let meta = [("name", text()), ("generateName", text())];
    let meta = Decl {
        nullable: false,
        ..Decl::object(&format!("{name}.metadata"), meta)
    };
    for (field, decl) in [("kind", text()), ("apiVersion", text()), ("metadata", meta)] {
        let property: Arc<str> = field.into();
        let decl = Arc::new(decl);
        fields.insert(property.clone(), Field { property, decl });
    }
}

fn read_string(schema: &Json) -> (Kind, u64, u64) {
    let max_length = limit(schema, "maxLength");
    match schema["format"].as_str() {
        Some("byte") => (Kind::Bytes, max_length.unwrap_or(REQUEST_MAX - 2), 2),
        Some("duration") => (Kind::Duration, 32, 3),
        Some("date") => (Kind::Date, 12, 12),
        Some("date-time") => (Kind::DateTime, 32, 21),
        _ => {
            let named = schema["enum"].as_array().filter(|named| !named.is_empty());
            let longest = named.map(|named| {
                let lengths = named.iter().filter_map(Json::as_str).map(str::len);
                lengths.max().unwrap_or(0) as u64
            });
            let max = max_length.map(|max| max.saturating_mul(4));
            let max = max.or(longest).unwrap_or(REQUEST_MAX - 2);
            (Kind::String, max, 2)
        }
    }
}
