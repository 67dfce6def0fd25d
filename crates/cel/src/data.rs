//! JSON of objects as values, by its schema where there is one.

use std::sync::LazyLock;

use base64::Engine as _;
use serde_json::{Map as Members, Value as Json};

use crate::convert;
use crate::decl::{Decl, Kind, ListType};
use crate::escape::escape;
use crate::value::{Evaluated, Fault, List, Map, Text, Value};

static DYNAMIC: LazyLock<Decl> = LazyLock::new(Decl::dynamic);

/// A list of an object, with the schema of its items.
#[derive(Clone, Copy)]
pub struct DataList<'a> {
    pub items: &'a [Json],
    pub decl: &'a Decl,
    pub list_type: &'a ListType,
}

/// A map or an object of an object.
#[derive(Clone, Copy)]
pub struct DataMap<'a> {
    pub members: &'a Members<String, Json>,
    pub decl: &'a Decl,
}

/// JSON without a schema.
pub fn dynamic(json: &Json) -> Value<'_> {
    match json {
        Json::Null => Value::Null,
        Json::Bool(flag) => Value::Bool(*flag),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::Int(number),
            None => Value::Double(number.as_f64().unwrap_or_default()),
        },
        Json::String(text) => Value::String(Text::Borrowed(text)),
        Json::Array(items) => Value::List(List::Data(DataList {
            items,
            decl: &DYNAMIC,
            list_type: &ListType::Atomic,
        })),
        Json::Object(members) => Value::Map(Map::Data(DataMap {
            members,
            decl: &DYNAMIC,
        })),
    }
}

/// JSON by its schema.
pub fn typed<'a>(json: &'a Json, decl: &'a Decl) -> Evaluated<'a> {
    if matches!(decl.kind, Kind::Dyn) {
        return Ok(dynamic(json));
    }
    if json.is_null() {
        if decl.nullable {
            return Ok(Value::Null);
        }
        return Err(Fault::new(
            "invalid data, got null for schema with nullable=false",
        ));
    }
    match (&decl.kind, json) {
        (Kind::IntOrString, Json::String(_) | Json::Number(_)) => match dynamic(json) {
            Value::Double(_) => Err(Fault::new(
                "invalid data, expected XIntOrString value to be either a string or integer",
            )),
            value => Ok(value),
        },
        (Kind::Bool, Json::Bool(flag)) => Ok(Value::Bool(*flag)),
        (Kind::Int, Json::Number(number)) => match number.as_i64() {
            Some(number) => Ok(Value::Int(number)),
            // A whole number that was written with a fraction is one all the same.
            None => match number.as_f64().filter(|float| float.fract() == 0.0) {
                Some(float) => Ok(Value::Int(float as i64)),
                None => Err(Fault::new("invalid data, expected int, got float64")),
            },
        },
        (Kind::Double, Json::Number(number)) => {
            Ok(Value::Double(number.as_f64().unwrap_or_default()))
        }
        (Kind::List(items, list_type), Json::Array(elements)) => {
            Ok(Value::List(List::Data(DataList {
                items: elements,
                decl: items,
                list_type,
            })))
        }
        (Kind::Map(_) | Kind::Object(..), Json::Object(members)) => {
            Ok(Value::Map(Map::Data(DataMap { members, decl })))
        }
        (_, Json::String(text)) => string(text, &decl.kind),
        _ => Err(Fault::new("invalid data, it does not fit its schema")),
    }
}

fn string<'a>(text: &'a str, kind: &Kind) -> Evaluated<'a> {
    match kind {
        Kind::String => Ok(Value::String(Text::Borrowed(text))),
        Kind::Bytes => base64::engine::general_purpose::STANDARD
            .decode(text)
            .map(|bytes| Value::Bytes(bytes.into()))
            .map_err(|why| Fault::new(format!("Invalid byte formatted string {text}: {why}"))),
        Kind::Duration => convert::duration(text)
            .map(Value::Duration)
            .ok_or_else(|| Fault::new(format!("Invalid duration {text}: unable to parse"))),
        Kind::Date => convert::timestamp(&format!("{text}T00:00:00Z"))
            .map(Value::Timestamp)
            .ok_or_else(|| Fault::new(format!("Invalid date formatted string {text}"))),
        Kind::DateTime => convert::timestamp(text)
            .map(Value::Timestamp)
            .ok_or_else(|| Fault::new(format!("Invalid date-time formatted string {text}"))),
        _ => Err(Fault::new("invalid data, it does not fit its schema")),
    }
}

impl<'a> DataList<'a> {
    pub fn value(&self, item: &'a Json) -> Evaluated<'a> {
        typed(item, self.decl)
    }
}

impl<'a> DataMap<'a> {
    pub fn get(&self, key: &str) -> Option<Evaluated<'a>> {
        match &self.decl.kind {
            Kind::Object(_, fields) => {
                let field = fields.get(key)?;
                let found = self.members.get(&*field.property)?;
                // A null property of an object is as good as none.
                (!found.is_null()).then(|| typed(found, &field.decl))
            }
            Kind::Map(values) => self.members.get(key).map(|found| typed(found, values)),
            _ => self.members.get(key).map(|found| Ok(dynamic(found))),
        }
    }

    pub fn entries(&self) -> Vec<(Value<'a>, Evaluated<'a>)> {
        let known = self.members.iter().filter_map(|(property, _)| {
            let key = match &self.decl.kind {
                Kind::Object(..) => Value::text(escape(property)?),
                _ => Value::String(Text::Borrowed(property)),
            };
            let Value::String(name) = &key else {
                return None;
            };
            let value = self.get(name)?;
            Some((key, value))
        });
        known.collect()
    }
}
