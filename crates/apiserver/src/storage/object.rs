//! One stored object: its compact JSON and the little that lists and watches select by.

use crate::kinds::Kind;
use crate::selector::field_value;
use bytes::Bytes;
use serde_json::Value;
use std::sync::Arc;

/// The JSON is kept without `kind` and `apiVersion`, which depend on the version that is asked for (and which
/// lists leave out).
pub(crate) struct Stored {
    /// `namespace/name`, or just the name for cluster-scoped kinds: etcd's order.
    pub(crate) key: Arc<str>,
    pub(crate) revision: u64,
    pub(crate) body: Bytes,
    pub(crate) labels: Box<[(Box<str>, Box<str>)]>,
    /// Values of the kind's selectable fields, in the kind's order.
    pub(crate) fields: Box<[Box<str>]>,
}

impl Stored {
    pub(crate) fn new(
        kind: &Kind,
        key: Arc<str>,
        revision: u64,
        value: &Value,
        body: Bytes,
    ) -> Stored {
        let labels = value["metadata"]["labels"].as_object().map(|labels| {
            labels
                .iter()
                .filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into())))
                .collect()
        });
        let fields = kind
            .selectable_fields
            .iter()
            .map(|field| field_value(kind, value, field).into())
            .collect();
        Stored {
            key,
            revision,
            body,
            labels: labels.unwrap_or_default(),
            fields,
        }
    }

    /// An object as it was found on the disk. Without its kind it cannot be selected by fields.
    pub(crate) fn load(kind: Option<&Kind>, key: &str, revision: u64, body: Vec<u8>) -> Stored {
        let value: Value = serde_json::from_slice(&body).unwrap_or_default();
        let body = Bytes::from(body.into_boxed_slice());
        match kind {
            Some(kind) => Stored::new(kind, key.into(), revision, &value, body),
            None => {
                let mut stored = Stored::new(
                    &crate::kinds::built_in()[0],
                    key.into(),
                    revision,
                    &value,
                    body,
                );
                stored.fields = Box::default();
                stored
            }
        }
    }

    pub(crate) fn name(&self) -> &str {
        split_key(&self.key).1
    }

    pub(crate) fn namespace(&self) -> &str {
        split_key(&self.key).0
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.labels
            .iter()
            .find(|(candidate, _)| &**candidate == key)
            .map(|(_, value)| &**value)
    }

    /// The object with its type, ready to be worked on.
    pub(crate) fn value(&self, kind: &Kind) -> Value {
        let mut value: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        value["kind"] = Value::from(&*kind.kind);
        value["apiVersion"] = Value::from(kind.api_version());
        value
    }
}

/// (namespace, name); the namespace is empty for cluster-scoped objects.
pub(crate) fn split_key(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

/// `{"kind":"Pod","apiVersion":"v1",` to which a body without its opening brace is added.
pub(crate) fn type_prefix(kind: &Kind) -> String {
    format!(
        "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",",
        kind.kind,
        kind.api_version()
    )
}

/// Prints an object without its type. `opaque` replaces the `data` of a ControllerRevision byte for byte.
pub(crate) fn encode_body(value: &Value, opaque: Option<&str>) -> Bytes {
    // A typical pod has 3 to 5 KB; growing from there costs one copy.
    let mut out = Vec::with_capacity(4096);
    out.push(b'{');
    for (key, member) in value.as_object().into_iter().flatten() {
        if key == "kind" || key == "apiVersion" {
            continue;
        }
        if out.len() > 1 {
            out.push(b',');
        }
        write_json(&mut out, key);
        out.push(b':');
        match opaque {
            Some(text) if key == "data" => out.extend_from_slice(text.as_bytes()),
            _ => write_json(&mut out, member),
        }
    }
    out.push(b'}');
    Bytes::from(out.into_boxed_slice())
}

fn write_json(out: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("a JSON value prints into memory");
}
