//! An object as it will be stored, but for its revision.
//!
//! Only one write has its turn at a time, and printing an object takes longer than anything else that a write
//! does. So it is printed before, with a gap where the revision belongs.

use super::Stored;
use super::object::Texts;
use super::packed::Packed;
use crate::kinds::Kind;
use crate::selector::field_value;
use bytes::Bytes;
use serde_json::{Map, Value};
use std::sync::Arc;

const REVISION: &str = "resourceVersion";

/// A typical pod has 3 to 5 KB; growing from there costs one copy.
const USUAL_BYTES: usize = 4096;

pub(crate) struct Draft {
    text: Vec<u8>,
    /// Where the digits of the revision go.
    gap: usize,
    labels: Texts,
    fields: Texts,
}

impl Draft {
    /// `opaque` replaces the `data` of a ControllerRevision byte for byte.
    pub(crate) fn new(kind: &Kind, value: &Value, opaque: Option<&str>) -> Draft {
        Draft::with_fields(kind, value, opaque, None)
    }

    /// `fields` stands for the `fieldsV1` of all managed fields.
    pub(crate) fn with_fields(
        kind: &Kind,
        value: &Value,
        opaque: Option<&str>,
        fields: Option<&str>,
    ) -> Draft {
        let mut writer = Writer {
            text: Vec::with_capacity(USUAL_BYTES),
            gap: 0,
            fields,
        };
        writer.object(value, opaque);
        let (labels, fields) = selectable(kind, value);
        Draft {
            text: writer.text,
            gap: writer.gap,
            labels,
            fields,
        }
    }

    /// The object under the revision that it got.
    pub(super) fn stored(self, key: Arc<str>, revision: u64) -> Stored {
        let digits = revision.to_string();
        let mut body = Vec::with_capacity(self.text.len() + digits.len());
        body.extend_from_slice(&self.text[..self.gap]);
        body.extend_from_slice(digits.as_bytes());
        body.extend_from_slice(&self.text[self.gap..]);
        let body = Packed::Plain(Bytes::from(body.into_boxed_slice()));
        Stored::from_parts(key, revision, body, self.labels, self.fields)
    }
}

/// What lists and watches select an object by.
pub(super) fn selectable(kind: &Kind, value: &Value) -> (Texts, Texts) {
    let labels = value["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten();
    let labels = labels.filter_map(|(key, value)| Some([key.as_str(), value.as_str()?]));
    let fields = kind.selectable_fields.iter();
    (
        Texts::new(labels.flatten()),
        Texts::new(fields.map(|field| field_value(kind, value, field))),
    )
}

struct Writer<'a> {
    text: Vec<u8>,
    gap: usize,
    fields: Option<&'a str>,
}

impl Writer<'_> {
    /// Everything but the type, in the order of names as [`super::encode_body`] has it: the two are compared.
    fn object(&mut self, value: &Value, opaque: Option<&str>) {
        let nothing = Map::new();
        let members = value.as_object().unwrap_or(&nothing);
        self.text.push(b'{');
        for (name, member) in members {
            match name.as_str() {
                "kind" | "apiVersion" => {}
                "metadata" => {
                    self.name(name);
                    self.metadata(member.as_object().unwrap_or(&nothing));
                }
                "data" if opaque.is_some() => {
                    self.name(name);
                    self.text
                        .extend_from_slice(opaque.unwrap_or_default().as_bytes());
                }
                _ => {
                    self.name(name);
                    self.value(member);
                }
            }
        }
        if !members.contains_key("metadata") {
            self.name("metadata");
            self.metadata(&nothing);
        }
        self.text.push(b'}');
    }

    fn metadata(&mut self, members: &Map<String, Value>) {
        self.text.push(b'{');
        for (name, member) in members.iter().filter(|(name, _)| *name != REVISION) {
            if self.gap == 0 && name.as_str() > REVISION {
                self.revision();
            }
            self.name(name);
            match self.fields.filter(|_| name == "managedFields") {
                Some(fields) => self.managed_fields(member, fields),
                None => self.value(member),
            }
        }
        if self.gap == 0 {
            self.revision();
        }
        self.text.push(b'}');
    }

    fn managed_fields(&mut self, entries: &Value, fields: &str) {
        self.text.push(b'[');
        for entry in entries.as_array().into_iter().flatten() {
            if self.text.last() != Some(&b'[') {
                self.text.push(b',');
            }
            self.text.push(b'{');
            for (name, member) in entry.as_object().into_iter().flatten() {
                self.name(name);
                match name.as_str() {
                    "fieldsV1" => self.text.extend_from_slice(fields.as_bytes()),
                    _ => self.value(member),
                }
            }
            self.text.push(b'}');
        }
        self.text.push(b']');
    }

    fn revision(&mut self) {
        self.name(REVISION);
        self.text.push(b'"');
        self.gap = self.text.len();
        self.text.push(b'"');
    }

    /// A comma unless it is the first, the name, a colon.
    fn name(&mut self, name: &str) {
        if self.text.last() != Some(&b'{') {
            self.text.push(b',');
        }
        self.value(name);
        self.text.push(b':');
    }

    fn value(&mut self, value: &(impl serde::Serialize + ?Sized)) {
        serde_json::to_writer(&mut self.text, value).expect("a JSON value prints into memory");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn it_prints_what_the_whole_object_would() {
        let kind = crate::kinds::find("", "ConfigMap").expect("it is built in");
        for metadata in [
            json!({"name": "a", "resourceVersion": "7", "uid": "u"}),
            json!({"name": "a", "uid": "u"}),
            json!({"labels": {"a": "b"}}),
            json!({"uid": "u"}),
            json!({}),
        ] {
            for opaque in [None, Some("{\"z\":1,\"a\":2}")] {
                let mut value =
                    json!({"kind": "ConfigMap", "data": {"k": "v"}, "metadata": metadata});
                let stored = Draft::new(kind, &value, opaque).stored("ns/a".into(), 1234);
                value["metadata"]["resourceVersion"] = json!("1234");
                assert_eq!(stored.body(), super::super::encode_body(&value, opaque));
            }
        }
    }

    #[test]
    fn fields_that_are_known_as_text_are_put_in_their_place() {
        let kind = crate::kinds::find("", "ConfigMap").expect("it is built in");
        let fields = "{\"f:data\":{}}";
        let mut value = json!({"metadata": {"managedFields": [{"fieldsV1": null, "manager": "me"}], "uid": "u"}});
        let stored = Draft::with_fields(kind, &value, None, Some(fields)).stored("a".into(), 7);
        value["metadata"]["resourceVersion"] = json!("7");
        value["metadata"]["managedFields"][0]["fieldsV1"] = serde_json::from_str(fields).unwrap();
        assert_eq!(stored.body(), super::super::encode_body(&value, None));
    }
}
