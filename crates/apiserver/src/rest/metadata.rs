//! The parts of `metadata` that the server itself writes.

use super::Context;
use super::strict::{MAX_DEPTH, TOO_DEEP, depth_of};
use crate::server::Shared;
use crate::status::{Cause, Status};
use api::Time;
use serde_json::{Map, Value, json};

/// UPSTREAM: no vowels and no digits that look like them, so that no words appear.
const NAME_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// UPSTREAM: a generated name has at most 63 characters, of which 5 are random.
const MAX_GENERATED_PREFIX: usize = 58;

/// Gives a new object its identity: uid and creation time.
pub(crate) fn stamp(shared: &Shared, value: &mut Value) {
    let metadata = &mut value["metadata"];
    metadata["uid"] = json!(new_uid(shared));
    metadata["creationTimestamp"] = json!(Time::from_unix(shared.now_seconds()).to_string());
}

/// A version 4 UUID.
pub(crate) fn new_uid(shared: &Shared) -> String {
    let (high, low) = (shared.rng.next_u64(), shared.rng.next_u64());
    let high = high & 0xffff_ffff_ffff_0fff | 0x4000;
    let low = low & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000;
    let mut rest = u128::from(high) << 64 | u128::from(low);
    let mut text = *b"00000000-0000-0000-0000-000000000000";
    for place in text.iter_mut().rev().filter(|place| **place != b'-') {
        *place = b"0123456789abcdef"[(rest & 0xf) as usize];
        rest >>= 4;
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// `prefix` and five random characters.
pub(crate) fn generate_name(shared: &Shared, prefix: &str) -> String {
    let mut end = prefix.len().min(MAX_GENERATED_PREFIX);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let mut bits = shared.rng.next_u64();
    let mut name = prefix[..end].to_owned();
    for _ in 0..5 {
        let count = NAME_ALPHABET.len() as u64;
        name.push(char::from(NAME_ALPHABET[(bits % count) as usize]));
        bits /= count;
    }
    name
}

/// The metadata of an object, made if it has none.
pub(crate) fn metadata_mut(value: &mut Value) -> &mut Map<String, Value> {
    crate::fields::object_mut(value, "metadata")
}

/// Makes texts in place of `fieldsV1`, as a client sent them, safe to be worked on: a text that the stored object has
/// stays, because the server itself printed it; others become the objects that they hold, or nothing. Too deep to be
/// stored, they are refused: nobody has limited the depth of a text.
pub(crate) fn normalize_managed_fields(
    value: &mut Value,
    stored: Option<&Value>,
) -> Result<(), Status> {
    fn managed(value: &Value) -> impl Iterator<Item = &Value> {
        let entries = value["metadata"]["managedFields"].as_array();
        entries.into_iter().flatten()
    }
    let entries = crate::fields::list_mut(value, "metadata.managedFields");
    let entries = entries.into_iter().flatten();
    for fields in entries.filter_map(|entry| entry.get_mut("fieldsV1")) {
        let Value::String(text) = fields else {
            continue;
        };
        let mut known = stored.into_iter().flat_map(managed);
        if !known.any(|entry| entry["fieldsV1"] == *text) {
            if depth_of(text) > MAX_DEPTH {
                let why = format!("metadata.managedFields.fieldsV1: {TOO_DEEP}");
                return Err(Status::bad_request(why));
            }
            let object: Option<Map<String, Value>> = serde_json::from_str(text).ok();
            *fields = object.map_or(Value::Null, Value::Object);
        }
    }
    Ok(())
}

/// A string member of the metadata, empty if missing.
pub(crate) fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value["metadata"][member].as_str().unwrap_or_default()
}

pub(crate) fn finalizers(value: &Value) -> Vec<String> {
    let list = value["metadata"]["finalizers"].as_array();
    list.into_iter()
        .flatten()
        .filter_map(|finalizer| finalizer.as_str().map(str::to_owned))
        .collect()
}

pub(crate) fn is_deleting(value: &Value) -> bool {
    value["metadata"]["deletionTimestamp"].is_string()
}

impl Context {
    /// The namespace of the body must be that of the path; a missing one is filled in.
    pub(crate) fn match_namespace(&self, value: &mut Value) -> Result<(), Status> {
        let metadata = metadata_mut(value);
        if !self.kind.namespaced {
            metadata.remove("namespace");
            return Ok(());
        }
        match metadata
            .get("namespace")
            .and_then(Value::as_str)
            .unwrap_or_default()
        {
            "" => {
                metadata.insert("namespace".into(), json!(self.info.namespace));
                Ok(())
            }
            same if same == self.info.namespace => Ok(()),
            _ => Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            )),
        }
    }

    /// Whoever replaces an object must say which.
    pub(crate) fn require_name(&self, value: &Value) -> Result<(), Status> {
        if !text(value, "name").is_empty() {
            return Ok(());
        }
        Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            self.info.name
        )))
    }

    /// The name of the body must be that of the path.
    pub(crate) fn match_name(&self, value: &mut Value) -> Result<(), Status> {
        let metadata = metadata_mut(value);
        match metadata
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default()
        {
            "" => {
                metadata.insert("name".into(), json!(self.info.name));
                Ok(())
            }
            same if same == self.info.name => Ok(()),
            other => Err(Status::bad_request(format!(
                "the name of the object ({other}) does not match the name on the URL ({})",
                self.info.name
            ))),
        }
    }

    pub(crate) fn invalid(&self, name: &str, causes: Vec<Cause>) -> Status {
        // UPSTREAM: an event is one of the core group, whichever it was written to.
        Status::invalid(&self.stored_kind.group, &self.kind.kind, name, causes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_made_where_it_is_missing() {
        let mut value = json!({"metadata": null});
        metadata_mut(&mut value).insert("name".into(), json!("a"));
        assert_eq!(value, json!({"metadata": {"name": "a"}}));
    }
}
