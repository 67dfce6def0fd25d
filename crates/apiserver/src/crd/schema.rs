//! The schema of a served version: kept small, and made ready while it is in use.
//!
//! Parsed, a schema takes ten times its text, and its compiled patterns and rules take more. A cluster has hundreds of
//! definitions, of which few are written to at any time: those stay ready, up to a budget.

use super::patterns::Patterns;
use super::rules::CompiledRules;
use crate::storage::Packed;
use bytes::Bytes;
use parking_lot::Mutex;
use regex::Regex;
use serde_json::{Map, Value};
use std::sync::{Arc, LazyLock, Weak};

/// How much text of schemas stays ready for use: some fifty of the usual size.
const READY_BYTES: usize = 1 << 20;

/// A structural schema, without its prose: that is read from the definition when somebody asks.
#[derive(Default)]
pub struct Schema {
    text: Packed,
    ready: Mutex<Weak<Ready>>,
}

/// A schema that is in use.
#[derive(Default)]
pub struct Ready {
    pub value: Value,
    pub(crate) rules: CompiledRules,
    patterns: Mutex<Patterns>,
}

impl Ready {
    pub(crate) fn new(value: Value) -> Ready {
        Ready {
            value,
            ..Ready::default()
        }
    }

    /// The compiled form of one of the schema's patterns; none if it was refused.
    pub(crate) fn pattern(&self, pattern: &str) -> Option<Regex> {
        self.patterns.lock().compiled(pattern)
    }
}

impl Schema {
    pub(crate) fn new(mut schema: Value) -> Schema {
        strip_prose(&mut schema);
        Schema {
            text: Packed::pack(Bytes::from(schema.to_string())),
            ready: Mutex::new(Weak::new()),
        }
    }

    pub(crate) fn ready(&self) -> Arc<Ready> {
        let mut held = self.ready.lock();
        if let Some(ready) = held.upgrade() {
            return ready;
        }
        // It was printed here.
        let value = serde_json::from_slice(&self.text.unpack()).unwrap_or_default();
        let ready = Arc::new(Ready::new(value));
        *held = Arc::downgrade(&ready);
        drop(held);
        RECENT.keep(ready.clone(), self.text.len());
        ready
    }

    pub(crate) fn is_same_as(&self, other: &Schema) -> bool {
        self.text.unpack() == other.text.unpack()
    }
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Schema({} bytes)", self.text.len())
    }
}

/// Removes descriptions, examples and the like: whatever only people read.
fn strip_prose(schema: &mut Value) {
    let Value::Object(members) = schema else {
        return;
    };
    for name in ["description", "title", "example", "externalDocs"] {
        members.remove(name);
    }
    for name in ["items", "additionalProperties", "not"] {
        members.get_mut(name).into_iter().for_each(strip_prose);
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        let list = members.get_mut(name).and_then(Value::as_array_mut);
        list.into_iter().flatten().for_each(strip_prose);
    }
    let properties = members.get_mut("properties").and_then(Value::as_object_mut);
    properties
        .into_iter()
        .flat_map(Map::values_mut)
        .for_each(strip_prose);
}

/// The schemas that were made ready last, in this process: whichever server they belong to, they share its memory.
static RECENT: LazyLock<Recent> = LazyLock::new(Recent::default);

#[derive(Default)]
struct Recent(Mutex<Vec<(Arc<Ready>, usize)>>);

impl Recent {
    fn keep(&self, ready: Arc<Ready>, bytes: usize) {
        let mut all = self.0.lock();
        all.push((ready, bytes));
        let mut total: usize = all.iter().map(|(_, bytes)| bytes).sum();
        let mut gone = 0;
        // The newest stays, however large it is: it is about to be used.
        while total > READY_BYTES && gone + 1 < all.len() {
            total -= all[gone].1;
            gone += 1;
        }
        let dropped: Vec<_> = all.drain(..gone).collect();
        drop(all);
        // Outside of the lock, for it takes a while.
        drop(dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_schema_is_ready_again_after_others_took_its_place() {
        let schema = |name: String| {
            let names =
                (0..5_000).map(|index| (format!("{name}{index}"), json!({"type": "string"})));
            let properties: Map<String, Value> = names.collect();
            Schema::new(json!({"type": "object", "description": "prose", "properties": properties}))
        };
        let first = schema("a".to_owned());
        let held = Arc::downgrade(&first.ready());
        assert!(held.upgrade().is_some(), "it stays ready");
        for index in 0..20 {
            schema(format!("b{index}-")).ready();
        }
        assert!(held.upgrade().is_none(), "it made room");
        let again = first.ready();
        assert_eq!(again.value["properties"]["a1"], json!({"type": "string"}));
        assert!(again.value.get("description").is_none());
    }
}
