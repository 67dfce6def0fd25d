//! Values of expressions. What comes from objects is borrowed and becomes a value only where it is looked at.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use api::collections::HashMap;
use serde_json::Value as Json;

use crate::data::{DataList, DataMap};
use crate::kube::Kube;
use crate::types::Type;

#[derive(Clone)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Arc<[u8]>),
    /// Nanoseconds.
    Duration(i64),
    Timestamp(Instant),
    Type(Type),
    List(List<'a>),
    Map(Map<'a>),
    Optional(Option<Arc<Value<'a>>>),
    /// An object that the expression itself has built.
    Object(Arc<Object<'a>>),
    /// A quantity, an address, a URL and the like.
    Kube(Arc<Kube>),
}

/// Seconds and nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant {
    pub seconds: i64,
    pub nanos: u32,
}

#[derive(Clone)]
pub enum Text<'a> {
    Borrowed(&'a str),
    Shared(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Shared(text) => text,
        }
    }
}

#[derive(Clone)]
pub enum List<'a> {
    Made(Arc<Vec<Value<'a>>>),
    Data(DataList<'a>),
}

#[derive(Clone)]
pub enum Map<'a> {
    Made(Arc<BuiltMap<'a>>),
    Data(DataMap<'a>),
}

/// A map that an expression has made: in the order of its entries, found by their keys.
#[derive(Clone, Default)]
pub struct BuiltMap<'a> {
    pub entries: Vec<(Value<'a>, Value<'a>)>,
    index: HashMap<Key, usize>,
    /// What is found under a key that is not there. The key is still not `in` the map.
    pub(crate) otherwise: Option<Value<'a>>,
}

#[derive(Clone)]
pub struct Object<'a> {
    pub name: Arc<str>,
    pub fields: Vec<(Arc<str>, Value<'a>)>,
}

/// Why there is no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    Error(Arc<str>),
    /// A function or an operator that takes no arguments of these types.
    NoSuchOverload,
    /// The cost limit is used up; nothing absorbs that.
    Cancelled,
}

impl Fault {
    pub fn new(message: impl Into<String>) -> Fault {
        Fault::Error(message.into().into())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Error(message) => f.write_str(message),
            Fault::NoSuchOverload => f.write_str("no such overload"),
            Fault::Cancelled => f.write_str("operation cancelled: actual cost limit exceeded"),
        }
    }
}

pub type Evaluated<'a> = Result<Value<'a>, Fault>;

/// What maps find values by: numbers are the same whatever their type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(u64),
    String(Box<str>),
}

impl Key {
    pub fn of(value: &Value<'_>) -> Option<Key> {
        Some(match value {
            Value::Bool(flag) => Key::Bool(*flag),
            Value::Int(number) => Key::Int(*number),
            Value::Uint(number) => i64::try_from(*number).map_or(Key::Uint(*number), Key::Int),
            Value::Double(number) => {
                let whole = number.trunc() == *number;
                if whole && (-9.2e18..9.2e18).contains(number) {
                    Key::Int(*number as i64)
                } else {
                    Key::Double(number.to_bits())
                }
            }
            Value::String(text) => Key::String((**text).into()),
            _ => return None,
        })
    }
}

impl<'a> BuiltMap<'a> {
    pub fn get(&self, key: &Value<'_>) -> Option<&Value<'a>> {
        let at = *self.index.get(&Key::of(key)?)?;
        self.entries.get(at).map(|(_, value)| value)
    }

    /// Puts an entry in; a key that is there already gives its value up.
    pub fn insert(&mut self, key: Value<'a>, value: Value<'a>) -> Result<bool, Fault> {
        let Some(found) = Key::of(&key) else {
            return Err(Fault::new(format!(
                "unsupported key type: {}",
                key.type_name()
            )));
        };
        if let Some(at) = self.index.get(&found) {
            self.entries[*at] = (key, value);
            return Ok(false);
        }
        self.index.insert(found, self.entries.len());
        self.entries.push((key, value));
        Ok(true)
    }

    pub fn remove(&mut self, key: &Value<'a>) {
        let Some(at) = Key::of(key).and_then(|key| self.index.remove(&key)) else {
            return;
        };
        self.entries.remove(at);
        for place in self.index.values_mut().filter(|place| **place > at) {
            *place -= 1;
        }
    }
}

impl<'a> Value<'a> {
    pub fn text(text: impl Into<Arc<str>>) -> Value<'a> {
        Value::String(Text::Shared(text.into()))
    }

    /// A map from texts; `otherwise` is found under all keys that it does not have.
    pub fn map(
        entries: impl IntoIterator<Item = (String, Value<'a>)>,
        otherwise: Option<Value<'a>>,
    ) -> Value<'a> {
        let mut made = BuiltMap {
            otherwise,
            ..BuiltMap::default()
        };
        for (key, value) in entries {
            // Texts are keys, so this cannot fail.
            let _ = made.insert(Value::text(key), value);
        }
        Value::Map(Map::Made(Arc::new(made)))
    }

    pub fn list(items: Vec<Value<'a>>) -> Value<'a> {
        Value::List(List::Made(Arc::new(items)))
    }

    pub fn texts(items: impl IntoIterator<Item = String>) -> Value<'a> {
        Value::list(items.into_iter().map(Value::text).collect())
    }

    pub fn some(value: Value<'a>) -> Value<'a> {
        Value::Optional(Some(Arc::new(value)))
    }

    pub fn none() -> Value<'a> {
        Value::Optional(None)
    }

    pub fn type_of(&self) -> Type {
        match self {
            Value::Null => Type::Null,
            Value::Bool(_) => Type::Bool,
            Value::Int(_) => Type::Int,
            Value::Uint(_) => Type::Uint,
            Value::Double(_) => Type::Double,
            Value::String(_) => Type::String,
            Value::Bytes(_) => Type::Bytes,
            Value::Duration(_) => Type::Duration,
            Value::Timestamp(_) => Type::Timestamp,
            Value::Type(_) => Type::Type(None),
            Value::List(_) => Type::list(Type::Dyn),
            Value::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Value::Optional(_) => Type::optional(Type::Dyn),
            Value::Object(object) => Type::Struct(object.name.clone()),
            Value::Kube(kube) => Type::parse(kube.type_name()),
        }
    }

    pub fn type_name(&self) -> String {
        self.type_of().runtime_name().to_owned()
    }

    /// How many characters, bytes, elements or entries; `None` for what has no size.
    pub fn size(&self) -> Option<u64> {
        Some(match self {
            Value::String(text) => text.chars().count() as u64,
            Value::Bytes(bytes) => bytes.len() as u64,
            Value::List(list) => list.len() as u64,
            Value::Map(map) => map.len() as u64,
            Value::Kube(kube) => kube.size()?,
            _ => return None,
        })
    }

    /// The size that costs are computed with.
    pub(crate) fn cost_size(&self) -> u64 {
        match self {
            Value::Optional(Some(inner)) => inner.cost_size(),
            other => other.size().unwrap_or(1),
        }
    }

    pub fn is_zero(&self) -> bool {
        match self {
            Value::Null => true,
            Value::Bool(flag) => !flag,
            Value::Int(number) | Value::Duration(number) => *number == 0,
            Value::Uint(number) => *number == 0,
            Value::Double(number) => *number == 0.0,
            Value::Optional(held) => held.is_none(),
            Value::Timestamp(instant) => instant.seconds == ZERO_TIME && instant.nanos == 0,
            Value::Object(object) => object.fields.is_empty(),
            Value::Kube(_) | Value::Type(_) => false,
            other => other.size() == Some(0),
        }
    }

    /// As JSON, for patches and annotations; `None` for what JSON cannot say.
    pub fn to_json(&self) -> Option<Json> {
        Some(match self {
            Value::Null => Json::Null,
            Value::Bool(flag) => Json::Bool(*flag),
            Value::Int(number) => Json::from(*number),
            Value::Uint(number) => Json::from(*number),
            Value::Double(number) => Json::from(*number),
            Value::String(text) => Json::from(&**text),
            Value::Bytes(bytes) => {
                use base64::Engine as _;
                Json::from(base64::engine::general_purpose::STANDARD.encode(bytes))
            }
            Value::Duration(_) | Value::Timestamp(_) => {
                Json::from(crate::convert::to_text(self).ok()?)
            }
            Value::List(list) => {
                let items = list.iter().map(|item| item.ok()?.to_json());
                Json::Array(items.collect::<Option<_>>()?)
            }
            Value::Map(map) => {
                let entries = map.entries().into_iter().map(|(key, value)| {
                    let Value::String(key) = key else {
                        return None;
                    };
                    Some((key.to_string(), value.ok()?.to_json()?))
                });
                Json::Object(entries.collect::<Option<_>>()?)
            }
            Value::Object(object) => {
                let fields = object.fields.iter();
                let fields = fields.map(|(name, value)| Some((name.to_string(), value.to_json()?)));
                Json::Object(fields.collect::<Option<_>>()?)
            }
            Value::Optional(Some(inner)) => inner.to_json()?,
            _ => return None,
        })
    }
}

/// The year one, which is Go's zero time.
const ZERO_TIME: i64 = -62_135_596_800;

impl<'a> List<'a> {
    pub fn len(&self) -> usize {
        match self {
            List::Made(items) => items.len(),
            List::Data(data) => data.items.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, index: usize) -> Option<Evaluated<'a>> {
        match self {
            List::Made(items) => items.get(index).cloned().map(Ok),
            List::Data(data) => data.items.get(index).map(|item| data.value(item)),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = Evaluated<'a>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

impl<'a> Map<'a> {
    pub fn len(&self) -> usize {
        match self {
            Map::Made(made) => made.entries.len(),
            Map::Data(data) => data.members.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, key: &Value<'_>) -> Option<Evaluated<'a>> {
        match self {
            Map::Made(made) => made.get(key).cloned().map(Ok),
            Map::Data(data) => match key {
                Value::String(key) => data.get(key),
                _ if matches!(data.decl.kind, crate::decl::Kind::Dyn) => None,
                _ => Some(Err(Fault::NoSuchOverload)),
            },
        }
    }

    pub fn entries(&self) -> Vec<(Value<'a>, Evaluated<'a>)> {
        match self {
            Map::Made(made) => {
                let entries = made.entries.iter().cloned();
                entries.map(|(key, value)| (key, Ok(value))).collect()
            }
            Map::Data(data) => data.entries(),
        }
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::show::show(self, f)
    }
}
