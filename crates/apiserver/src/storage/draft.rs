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
        // What a webhook converts says at which version it is.
        let is_versioned = kind
            .custom()
            .is_some_and(|custom| custom.conversion.is_some());
        let version = value["apiVersion"].as_str().filter(|_| is_versioned);
        let (text, gap) = printed(value, opaque, version, Revision::Gap);
        let (labels, fields) = selectable(kind, value);
        Draft {
            text,
            gap,
            labels,
            fields,
        }
    }

    /// Whether it is what an object of that revision already holds.
    pub(crate) fn is(&self, body: &[u8], revision: u64) -> bool {
        let (before, after) = self.text.split_at(self.gap);
        let rest = body.strip_prefix(before);
        let digits = rest.and_then(|rest| rest.strip_suffix(after));
        digits.is_some_and(|digits| digits == revision.to_string().as_bytes())
    }

    /// The object under the revision that it got.
    pub(crate) fn stored(self, key: Arc<str>, revision: u64) -> Stored {
        let digits = revision.to_string();
        let text = &self.text;
        let mut body = Vec::with_capacity(text.len() + digits.len());
        body.extend_from_slice(&text[..self.gap]);
        body.extend_from_slice(digits.as_bytes());
        body.extend_from_slice(&text[self.gap..]);
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

/// Prints an object without its type, as it is stored or would be: with the revision that it says, if any.
/// `opaque` replaces the `data` of a ControllerRevision byte for byte.
pub(crate) fn encode_body(value: &Value, opaque: Option<&str>) -> Bytes {
    let (text, _) = printed(value, opaque, None, Revision::AsItIs);
    Bytes::from(text)
}

fn printed(
    value: &Value,
    opaque: Option<&str>,
    version: Option<&str>,
    revision: Revision,
) -> (Vec<u8>, usize) {
    let mut writer = Writer {
        text: Vec::with_capacity(USUAL_BYTES),
        gap: 0,
        revision,
    };
    writer.object(value, opaque, version);
    (writer.text, writer.gap)
}

/// What becomes of the revision.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Revision {
    Gap,
    AsItIs,
}

struct Writer {
    text: Vec<u8>,
    gap: usize,
    revision: Revision,
}

impl Writer {
    /// Everything but the type, in the order of names; first the version, if it is to be known.
    fn object(&mut self, value: &Value, opaque: Option<&str>, version: Option<&str>) {
        let nothing = Map::new();
        let members = value.as_object().unwrap_or(&nothing);
        self.text.push(b'{');
        if let Some(version) = version {
            self.name("apiVersion");
            self.print(&Value::from(version));
        }
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
                    self.print(member);
                }
            }
        }
        if self.revision == Revision::Gap && self.gap == 0 {
            self.name("metadata");
            self.metadata(&nothing);
        }
        self.text.push(b'}');
    }

    fn metadata(&mut self, members: &Map<String, Value>) {
        let leaves_gap = self.revision == Revision::Gap;
        self.text.push(b'{');
        for (name, member) in members {
            if leaves_gap && name == REVISION {
                continue;
            }
            if leaves_gap && self.gap == 0 && name.as_str() > REVISION {
                self.gap();
            }
            self.name(name);
            match member {
                Value::Array(entries) if name == "managedFields" => self.managed_fields(entries),
                member => self.print(member),
            }
        }
        if leaves_gap && self.gap == 0 {
            self.gap();
        }
        self.text.push(b'}');
    }

    /// Objects that are worked on carry `fieldsV1` as text.
    fn managed_fields(&mut self, entries: &[Value]) {
        self.text.push(b'[');
        for entry in entries {
            if self.text.last() != Some(&b'[') {
                self.text.push(b',');
            }
            self.text.push(b'{');
            for (name, member) in entry.as_object().into_iter().flatten() {
                self.name(name);
                match member {
                    Value::String(fields) if name == "fieldsV1" => {
                        self.text.extend_from_slice(fields.as_bytes());
                    }
                    member => self.print(member),
                }
            }
            self.text.push(b'}');
        }
        self.text.push(b']');
    }

    fn gap(&mut self) {
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
        self.print(name);
        self.text.push(b':');
    }

    fn print(&mut self, value: &(impl serde::Serialize + ?Sized)) {
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
                let draft = Draft::new(kind, &value, opaque);
                value["metadata"]["resourceVersion"] = json!("1234");
                let whole = encode_body(&value, opaque);
                assert!(draft.is(&whole, 1234) && !draft.is(&whole, 123));
                value["data"]["k"] = json!("w");
                assert!(opaque.is_some() || !draft.is(&encode_body(&value, opaque), 1234));
                assert_eq!(draft.stored("ns/a".into(), 1234).body(), whole);
            }
        }
    }

    #[test]
    fn an_object_is_worked_on_with_its_fields_as_text_and_prints_the_same() {
        let kind = crate::kinds::find("", "ConfigMap").expect("it is built in");
        let mut value = json!({
            "kind": "ConfigMap", "apiVersion": "v1", "data": {"fieldsV1": "x"},
            "metadata": {"annotations": {"fieldsV1": "x"}, "resourceVersion": "7",
                "managedFields": [{"fieldsV1": {"f:data": {"f:a\"b": {}}}, "manager": "me"}, {"manager": "you"}]},
        });
        let stored = Draft::new(kind, &value, None).stored("a".into(), 7);
        assert_eq!(stored.value(kind), value);
        let worked_on = stored.working(kind);
        assert_eq!(
            Draft::new(kind, &worked_on, None)
                .stored("a".into(), 7)
                .body(),
            stored.body()
        );
        let fields = &mut value["metadata"]["managedFields"][0]["fieldsV1"];
        *fields = json!(fields.to_string());
        assert_eq!(worked_on, value);
    }
}
