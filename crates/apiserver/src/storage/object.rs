//! One stored object: its compact JSON and the little that lists and watches select by.

use super::draft::{Draft, selectable};
use super::packed::Packed;
use crate::kinds::Kind;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// The JSON is kept without `kind` and `apiVersion`, which depend on the version that is asked for (and which
/// lists leave out).
pub(crate) struct Stored {
    /// `namespace/name`, or just the name for cluster-scoped kinds: etcd's order.
    pub(crate) key: Arc<str>,
    pub(crate) revision: u64,
    /// Plain while it is new, packed when it has not been written for a while.
    body: Mutex<Packed>,
    /// Keys and values in turn.
    labels: Texts,
    /// Values of the kind's selectable fields, in the kind's order.
    fields: Texts,
}

impl Stored {
    pub(crate) fn new(
        kind: &Kind,
        key: Arc<str>,
        revision: u64,
        value: &Value,
        body: Bytes,
    ) -> Stored {
        let (labels, fields) = selectable(kind, value);
        Stored::from_parts(key, revision, Packed::Plain(body), labels, fields)
    }

    pub(super) fn from_parts(
        key: Arc<str>,
        revision: u64,
        body: Packed,
        labels: Texts,
        fields: Texts,
    ) -> Stored {
        Stored {
            key,
            revision,
            body: Mutex::new(body),
            labels,
            fields,
        }
    }

    /// An object as it was found on the disk. Without its kind it cannot be selected by fields.
    pub(crate) fn load(kind: Option<&Kind>, key: &str, revision: u64, body: Vec<u8>) -> Stored {
        let value: Value = serde_json::from_slice(&body).unwrap_or_default();
        let body = Bytes::from(body.into_boxed_slice());
        let stored = match kind {
            Some(kind) => Stored::new(kind, key.into(), revision, &value, body),
            None => {
                let mut stored = Stored::new(
                    &crate::kinds::built_in()[0],
                    key.into(),
                    revision,
                    &value,
                    body,
                );
                stored.fields = Texts::default();
                stored
            }
        };
        stored.pack();
        stored
    }

    /// Makes it small: from now on a read has to unpack it.
    pub(crate) fn pack(&self) {
        let Packed::Plain(plain) = super::lock(&self.body).clone() else {
            return;
        };
        // Compressed while nobody is kept waiting.
        let packed = Packed::pack(plain);
        *super::lock(&self.body) = packed;
    }

    /// The same object with another body, for another revision.
    pub(crate) fn revised(&self, revision: u64, body: Bytes) -> Stored {
        Stored {
            key: self.key.clone(),
            revision,
            body: Mutex::new(Packed::Plain(body)),
            labels: self.labels.clone(),
            fields: self.fields.clone(),
        }
    }

    /// The object's JSON, without its type.
    pub(crate) fn body(&self) -> Bytes {
        super::lock(&self.body).unpack()
    }

    pub(crate) fn body_len(&self) -> usize {
        super::lock(&self.body).len()
    }

    pub(crate) fn name(&self) -> &str {
        split_key(&self.key).1
    }

    pub(crate) fn namespace(&self) -> &str {
        split_key(&self.key).0
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        let mut texts = self.labels.iter();
        while let Some(candidate) = texts.next() {
            let value = texts.next()?;
            if candidate == key {
                return Some(value);
            }
        }
        None
    }

    /// The value of the kind's selectable field of that number.
    pub(crate) fn field(&self, kind: &Kind, index: usize) -> Cow<'_, str> {
        if kind.fields_vary || self.is_outdated(kind) {
            let (_, fields) = selectable(kind, &self.value(kind));
            let field = fields.iter().nth(index).unwrap_or_default();
            return Cow::Owned(field.to_owned());
        }
        Cow::Borrowed(self.fields.iter().nth(index).unwrap_or_default())
    }

    /// The object with its type, as clients see it.
    pub(crate) fn value(&self, kind: &Kind) -> Value {
        let value = serde_json::from_slice(&self.body()).unwrap_or_default();
        self.refreshed(kind, typed(kind, value))
    }

    /// The object with its type, ready to be worked on and to be written again: `fieldsV1` are strings that hold
    /// their own JSON, because few writes have to read them.
    pub(crate) fn working(&self, kind: &Kind) -> Value {
        self.refreshed(kind, typed(kind, super::working::read(&self.body())))
    }

    /// Whether it was stored before its kind got its schema.
    pub(crate) fn is_outdated(&self, kind: &Kind) -> bool {
        self.revision < kind.schema_since
    }

    fn refreshed(&self, kind: &Kind, mut value: Value) -> Value {
        if self.is_outdated(kind) {
            crate::convert::refresh(kind, &mut value);
        }
        value
    }
}

impl Stored {
    /// At which version it is stored, where that matters: a webhook converts it.
    pub(crate) fn version(&self) -> Option<String> {
        let body = self.body();
        let rest = body.strip_prefix(VERSION)?;
        let end = rest.iter().position(|byte| *byte == b'"')?;
        String::from_utf8(rest[..end].to_vec()).ok()
    }

    /// The same object at the same revision, at another version.
    pub(crate) fn rewritten(&self, kind: &Kind, value: &Value) -> Stored {
        Draft::new(kind, value, None).stored(self.key.clone(), self.revision)
    }
}

/// How a body begins that says at which version it is.
const VERSION: &[u8] = b"{\"apiVersion\":\"";

/// Where the rest of a body begins, behind its opening brace and its version.
pub(crate) fn behind_version(body: &[u8]) -> usize {
    let version = body.strip_prefix(VERSION).and_then(|rest| {
        let end = rest.iter().position(|byte| *byte == b'"')?;
        // The quote and the comma.
        Some(VERSION.len() + end + 2)
    });
    version.unwrap_or(1).min(body.len())
}

fn typed(kind: &Kind, mut value: Value) -> Value {
    value["kind"] = Value::from(&*kind.kind);
    let is_versioned = kind
        .custom()
        .is_some_and(|custom| custom.conversion.is_some());
    if !is_versioned || value.get("apiVersion").is_none() {
        value["apiVersion"] = Value::from(kind.api_version());
    }
    value
}

/// Short texts in one allocation; there are millions of them.
#[derive(Clone, Default)]
pub(super) struct Texts(Box<str>);

/// In no label, and in no field that anyone could ask for.
const BETWEEN: char = '\0';

/// What a pod needs, so that it grows once at most before it is cut to size.
const USUAL_TEXTS: usize = 128;

impl Texts {
    pub(super) fn new(texts: impl Iterator<Item = impl AsRef<str>>) -> Texts {
        let mut all = String::new();
        for text in texts {
            // Many objects have none.
            if all.is_empty() {
                all.reserve(USUAL_TEXTS);
            }
            match text.as_ref() {
                text if text.contains(BETWEEN) => all.push_str(&text.replace(BETWEEN, "")),
                text => all.push_str(text),
            }
            all.push(BETWEEN);
        }
        Texts(all.into_boxed_str())
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.split_terminator(BETWEEN)
    }
}

/// (namespace, name); the namespace is empty for cluster-scoped objects.
pub(crate) fn split_key(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}
