//! Reading the JSON of a stored object no further than a write needs it.

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::fmt;
use std::ops::Range;

/// The object, with the `fieldsV1` of its managed fields as text.
pub(super) fn read(body: &[u8]) -> Value {
    let mut parser = serde_json::Deserializer::from_slice(body);
    Place::Object.deserialize(&mut parser).unwrap_or_default()
}

/// Where the digits of its own revision are.
pub(super) fn revision(body: &[u8]) -> Option<Range<usize>> {
    #[derive(Deserialize)]
    struct Object<'a> {
        #[serde(borrow)]
        metadata: Metadata<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata<'a> {
        #[serde(borrow)]
        resource_version: &'a str,
    }
    let object: Object<'_> = serde_json::from_slice(body).ok()?;
    let digits = object.metadata.resource_version;
    // Digits need no escapes, so they lie in the body as they are.
    let start = (digits.as_ptr() as usize).checked_sub(body.as_ptr() as usize)?;
    Some(start..start + digits.len()).filter(|range| range.end <= body.len())
}

/// What is being read.
#[derive(Clone, Copy)]
enum Place {
    Object,
    Metadata,
    ManagedFields,
    Entry,
}

impl<'de> DeserializeSeed<'de> for Place {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Place {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a stored object")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Place::Entry)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = match (self, name.as_str()) {
                (Place::Object, "metadata") => members.next_value_seed(Place::Metadata)?,
                (Place::Metadata, "managedFields") => {
                    members.next_value_seed(Place::ManagedFields)?
                }
                (Place::Entry, "fieldsV1") => {
                    let fields: &RawValue = members.next_value()?;
                    Value::from(fields.get())
                }
                _ => members.next_value()?,
            };
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_revision_is_found_and_no_other() {
        let body = br#"{"involvedObject":{"resourceVersion":"1"},"metadata":{"annotations":{"a":"\"resourceVersion\":\"2\""},"resourceVersion":"345"},"spec":{"resourceVersion":"6"}}"#;
        assert_eq!(&body[revision(body).unwrap()], b"345");
        assert_eq!(revision(br#"{"metadata":{}}"#), None);
    }
}
