//! Reads JSON and YAML into a value and remembers which fields were given more than once.
//!
//! The last one wins, as everywhere; `fieldValidation` says how much noise that makes. The `fieldsV1` of managed
//! fields are left as JSON text, because few requests change them: see [`super::metadata::settle_fields`].

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};
use std::cell::RefCell;
use std::fmt;

/// UPSTREAM: no more than these are named.
const MAX_NAMED: usize = 100;

/// A value and the paths that occurred more than once in it.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) value: Value,
    pub(crate) duplicates: Vec<String>,
}

pub(crate) fn json(body: &[u8]) -> Result<Read, serde_json::Error> {
    let duplicates = RefCell::default();
    // The parser limits the depth to 128, so a hostile body cannot exhaust the stack.
    // What is text as a whole need not be checked string by string.
    let mut parser = serde_json::Deserializer::from_str(text(body)?);
    let value = Seed::top(&duplicates).deserialize(&mut parser)?;
    parser.end()?;
    Ok(Read {
        value,
        duplicates: duplicates.into_inner(),
    })
}

/// The body as text, or what is wrong with it in the words of the parser.
fn text(body: &[u8]) -> Result<&str, serde_json::Error> {
    str::from_utf8(body).map_err(|why| {
        let found = serde_json::from_slice::<Value>(body).err();
        found.unwrap_or_else(|| serde_json::Error::custom(why))
    })
}

/// The first document of a stream, as upstream reads it.
pub(crate) fn yaml(body: &[u8]) -> Result<Read, String> {
    let text = str::from_utf8(body).map_err(|why| why.to_string())?;
    let documents = api::yaml::documents(text).map_err(|why| why.to_string())?;
    let first = documents.first().map_or("null", |document| &document.json);
    json(first.as_bytes()).map_err(|why| why.to_string())
}

/// Where the reader is, as a list that lives on the stack: nothing is built unless it is needed.
enum Place<'a> {
    Top,
    Field(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl Place<'_> {
    /// Whether this is an entry of an object's managed fields.
    fn is_managed_fields_entry(&self) -> bool {
        let Place::Item(Place::Field(Place::Field(Place::Top, metadata), list), _) = self else {
            return false;
        };
        (*metadata, *list) == ("metadata", "managedFields")
    }

    fn write(&self, out: &mut String) {
        match self {
            Place::Top => {}
            Place::Field(outer, name) => {
                outer.write(out);
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            Place::Item(outer, index) => {
                outer.write(out);
                out.push_str(&format!("[{index}]"));
            }
        }
    }
}

struct Seed<'a> {
    place: &'a Place<'a>,
    duplicates: &'a RefCell<Vec<String>>,
}

impl<'a> Seed<'a> {
    fn top(duplicates: &'a RefCell<Vec<String>>) -> Seed<'a> {
        Seed {
            place: &Place::Top,
            duplicates,
        }
    }

    fn duplicate(&self, name: &str) {
        let mut duplicates = self.duplicates.borrow_mut();
        if duplicates.len() < MAX_NAMED {
            let mut path = String::new();
            Place::Field(self.place, name).write(&mut path);
            duplicates.push(path);
        }
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let place = Place::Item(self.place, list.len());
            let seed = Seed {
                place: &place,
                duplicates: self.duplicates,
            };
            match items.next_element_seed(seed)? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let place = Place::Field(self.place, &name);
            let value = if name == "fieldsV1" && self.place.is_managed_fields_entry() {
                let fields: &RawValue = members.next_value()?;
                Value::from(fields.get())
            } else {
                members.next_value_seed(Seed {
                    place: &place,
                    duplicates: self.duplicates,
                })?
            };
            match map.entry(name) {
                Entry::Vacant(place) => drop(place.insert(value)),
                Entry::Occupied(mut place) => {
                    self.duplicate(place.key());
                    place.insert(value);
                }
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, value: &str, duplicates: &[&str]) {
        let read = json(text.as_bytes()).unwrap();
        assert_eq!(read.value.to_string(), value, "{text}");
        assert_eq!(read.duplicates, duplicates, "{text}");
    }

    #[test]
    fn duplicates_are_named_by_their_path_and_the_last_one_wins() {
        check(
            r#"{"a":1,"b":[{"c":1,"c":2}],"a":null}"#,
            r#"{"a":null,"b":[{"c":2}]}"#,
            &["b[0].c", "a"],
        );
        check(r#"[-1,1.5,true,"x"]"#, r#"[-1,1.5,true,"x"]"#, &[]);
    }

    #[test]
    fn managed_fields_are_left_as_text_where_they_are_and_nowhere_else() {
        check(
            r#"{"metadata":{"managedFields":[{"fieldsV1":{"b":{}, "b":1}}],"fieldsV1":{}}}"#,
            r#"{"metadata":{"fieldsV1":{},"managedFields":[{"fieldsV1":"{\"b\":{}, \"b\":1}"}]}}"#,
            &[],
        );
        check(
            r#"{"spec":{"managedFields":[{"fieldsV1":{}}]}}"#,
            r#"{"spec":{"managedFields":[{"fieldsV1":{}}]}}"#,
            &[],
        );
    }

    #[test]
    fn yaml_reads_alike() {
        let read = yaml(b"a: {x: 1}\na: {x: 2}\n").unwrap();
        assert_eq!(read.value.to_string(), r#"{"a":{"x":2}}"#);
        assert_eq!(read.duplicates, ["a"]);
        let read = yaml(b"mode: 0755\non: yes\n---\nb: 1\n").unwrap();
        assert_eq!(read.value.to_string(), r#"{"mode":493,"true":true}"#);
    }

    #[test]
    fn depth_is_limited() {
        assert!(json("[".repeat(100_000).as_bytes()).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
            let _ = json(&bytes);
            let _ = yaml(&bytes);
        }

        #[test]
        fn what_parses_parses_as_everywhere(text in "[\\[\\]{}:,\"a0-9.e\\\\ -]{0,60}") {
            let plain = serde_json::from_str::<Value>(&text).ok();
            proptest::prop_assert_eq!(json(text.as_bytes()).ok().map(|read| read.value), plain);
        }
    }
}
