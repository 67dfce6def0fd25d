//! The managed fields of new objects, remembered by the objects' shape.
//!
//! Which fields a new object sets follows from the names in it and not from the values, but for the few by which
//! list items are told apart. Ten thousand pods of one template set the same fields, and finding out which is
//! a third of the work of creating one. So the text of `fieldsV1` is kept with the shape it belongs to.

use super::manage::{Manager, update};
use crate::kinds::Kind;
use crate::rest::metadata_mut;
use crate::schema::{self, ListType};
use api::collections::{HashMap, HashSet};
use parking_lot::Mutex;
use serde_json::Value;
use std::cell::Cell;
use std::sync::{Arc, LazyLock};

/// So many templates are in use at the same time, at most. All shapes are forgotten when there are more, which
/// costs as much as if none had been kept.
const KEPT: usize = 64;

/// A larger object is one of its kind.
const LARGEST: usize = 16 * 1024;

thread_local! {
    /// Where a shape is written before it is known to be new: most are not.
    static SHAPE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

#[derive(Default)]
pub(crate) struct Shapes(Mutex<HashMap<Vec<u8>, Arc<str>>>);

impl Shapes {
    /// Records that `manager` made a new object.
    pub(crate) fn record(
        &self,
        kind: &Kind,
        new: &mut Value,
        manager: &Manager,
        reset: &[&[&str]],
    ) {
        if kind.custom().is_some() || new["metadata"].get("managedFields").is_some() {
            return update(kind, new, None, manager, reset);
        }
        let mut shape = SHAPE.take();
        shape.clear();
        put_text(&mut shape, &manager.api_version);
        put_text(&mut shape, &kind.kind);
        put_shape(&mut shape, new, false);
        let known = self.lock().get(&shape).cloned();
        if let Some(text) = known {
            let entry = manager.entry(Value::from(&*text));
            metadata_mut(new).insert("managedFields".into(), Value::Array(vec![entry]));
            SHAPE.set(shape);
            return;
        }
        update(kind, new, None, manager, reset);
        let fields = new.pointer("/metadata/managedFields/0/fieldsV1");
        let fields = fields.and_then(Value::as_str);
        if let Some(fields) = fields.filter(|_| shape.len() <= LARGEST) {
            let mut shapes = self.lock();
            if shapes.len() >= KEPT {
                shapes.clear();
            }
            shapes.insert(shape, fields.into());
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, HashMap<Vec<u8>, Arc<str>>> {
        self.0.lock()
    }
}

/// Names of members by which items of some list are told apart.
static KEYS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let fields = schema::all_types().flat_map(|ty| ty.fields.iter());
    let keys = fields.flat_map(|field| match &field.list_type {
        ListType::Map(keys) => keys.to_vec(),
        ListType::Atomic | ListType::Set => Vec::new(),
    });
    keys.collect()
});

/// Writes what decides about the fields of a value: names, emptiness, and what tells items apart.
fn put_shape(out: &mut Vec<u8>, value: &Value, in_list: bool) {
    match value {
        Value::Null => out.push(b'n'),
        Value::Bool(false) => out.push(b'f'),
        Value::Bool(true) => out.push(b't'),
        Value::Number(number) if number.as_f64() == Some(0.0) => out.push(b'0'),
        Value::Number(_) => out.push(b'1'),
        Value::String(text) if text.is_empty() => out.push(b'e'),
        Value::String(_) => out.push(b's'),
        Value::Array(items) => {
            out.push(b'[');
            for item in items {
                match item {
                    Value::Object(_) | Value::Array(_) => put_shape(out, item, true),
                    scalar => put_scalar(out, scalar),
                }
            }
            out.push(b']');
        }
        Value::Object(members) => {
            out.push(b'{');
            for (name, member) in members {
                put_text(out, name);
                let scalar = !member.is_object() && !member.is_array();
                if in_list && scalar && KEYS.contains(name.as_str()) {
                    put_scalar(out, member);
                } else {
                    put_shape(out, member, false);
                }
            }
            out.push(b'}');
        }
    }
}

fn put_scalar(out: &mut Vec<u8>, value: &Value) {
    out.push(b'=');
    match value {
        Value::String(text) => put_text(out, text),
        other => {
            out.push(b'#');
            put_text(out, &other.to_string());
        }
    }
}

/// With its length, so that no text can pass for what follows it.
fn put_text(out: &mut Vec<u8>, text: &str) {
    match u8::try_from(text.len()) {
        Ok(length) if length < u8::MAX => out.push(length),
        _ => {
            out.push(u8::MAX);
            out.extend_from_slice(&text.len().to_le_bytes());
        }
    }
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::Operation;
    use super::*;
    use serde_json::json;

    fn manager() -> Manager {
        Manager {
            name: "me".to_owned(),
            operation: Operation::Update,
            api_version: "v1".to_owned(),
            subresource: String::new(),
            now: "2026-01-02T03:04:05Z".to_owned(),
        }
    }

    /// What is recorded for an object, and how many shapes are known then.
    fn record(shapes: &Shapes, object: &Value) -> (Value, usize) {
        let kind = crate::kinds::find("", "Pod").expect("it is built in");
        let mut new = object.clone();
        shapes.record(kind, &mut new, &manager(), &[&["f:status"]]);
        (new, shapes.lock().len())
    }

    fn pod(change: &str, value: Value) -> Value {
        let mut pod = json!({
            "metadata": {"name": "a", "labels": {"app": "web"}, "finalizers": ["x"]},
            "spec": {"containers": [{"name": "c", "image": "i", "command": ["a"],
                "ports": [{"containerPort": 80, "protocol": "TCP"}], "env": [{"name": "A", "value": "1"}]}]},
        });
        *pod.pointer_mut(change).expect("it is there") = value;
        pod
    }

    #[test]
    fn what_is_remembered_is_what_would_have_been_found() {
        let shapes = Shapes::default();
        let plain = pod("/metadata/name", json!("a"));
        let (_, mut count) = record(&shapes, &plain);
        let container = "/spec/containers/0";
        let table = [
            (pod("/metadata/name", json!("b")), true),
            (pod("/metadata/labels", json!({"app": "db"})), true),
            (pod(&format!("{container}/image"), json!("j")), true),
            (pod(&format!("{container}/env/0/value"), json!("2")), true),
            (pod("/metadata/labels", json!({"apps": "web"})), false),
            (pod("/metadata/finalizers", json!(["y"])), false),
            (pod(&format!("{container}/name"), json!("d")), false),
            (pod(&format!("{container}/image"), json!("")), false),
            (pod(&format!("{container}/env/0/name"), json!("B")), false),
            (pod(&format!("{container}/env"), json!([])), false),
            (
                pod(&format!("{container}/ports/0/containerPort"), json!(81)),
                false,
            ),
        ];
        for (object, known) in table {
            let (remembered, now) = record(&shapes, &object);
            assert_eq!(now == count, known, "{object}");
            count = now;
            let (found, _) = record(&Shapes::default(), &object);
            assert_eq!(remembered, found);
        }
    }

    #[test]
    fn only_so_many_are_kept() {
        let shapes = Shapes::default();
        for number in 0..KEPT * 3 {
            record(
                &shapes,
                &pod("/metadata/labels", json!({number.to_string(): "x"})),
            );
        }
        assert!(shapes.lock().len() <= KEPT);
    }
}
