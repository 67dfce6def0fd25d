//! The trees of objects that were written lately.
//!
//! A lease is renewed every ten seconds: what is stored is read, changed a little and printed again. It need not be
//! parsed each time, because the tree that was printed last is still the object.

use crate::kinds::Kind;
use crate::rest::metadata_mut;
use crate::storage::Stored;
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many are kept: what a small cluster writes again and again. In a large one few are found here, and those that
/// are not cost a look.
const KEPT: usize = 16;

/// A tree takes about ten times as much memory as its JSON.
const LARGEST: usize = 4 * 1024;

/// Those that were written last come last.
#[derive(Default)]
pub(crate) struct Recent(Mutex<VecDeque<Tree>>);

struct Tree {
    /// No two states of any objects share it.
    revision: u64,
    /// Definitions come and go, and with them the type that an object says.
    kind: Arc<Kind>,
    value: Arc<Value>,
    /// The state before: nearly the same, so that a copy is made in it with hardly any allocation.
    spare: Option<Value>,
}

impl Recent {
    /// As [`Stored::working`].
    pub(crate) fn working(&self, kind: &Arc<Kind>, object: &Stored) -> Arc<Value> {
        let held = {
            let trees = self.lock();
            let mut latest = trees.iter().rev();
            let found = latest.find(|tree| tree.is(kind, object.revision));
            found.map(|tree| tree.value.clone())
        };
        #[cfg(test)]
        assert!(held.iter().all(|value| **value == object.working(kind)));
        held.unwrap_or_else(|| Arc::new(object.working(kind)))
    }

    /// Remembers what an object was printed from that took the place of one with the revision `before`.
    pub(crate) fn note(&self, kind: &Arc<Kind>, before: u64, object: &Stored, mut value: Value) {
        if object.body_len() > LARGEST || !has_fields_as_text(&value) {
            return;
        }
        let revision = object.revision;
        metadata_mut(&mut value).insert("resourceVersion".into(), revision.to_string().into());
        let tree = Tree {
            revision,
            kind: kind.clone(),
            value: Arc::new(value),
            spare: None,
        };
        let mut trees = self.lock();
        let replaced = trees.iter().rposition(|tree| tree.revision == before);
        let gone = match replaced {
            Some(place) => trees.remove(place),
            None if trees.len() == KEPT => trees.pop_front(),
            None => None,
        };
        trees.push_back(tree);
        drop(trees);
        // While nobody waits for it.
        drop(gone);
    }

    /// A copy of a tree that [`Recent::working`] gave for an object.
    pub(crate) fn copy(&self, object: &Stored, value: &Value) -> Value {
        let spare = {
            let mut trees = self.lock();
            let mut latest = trees.iter_mut().rev();
            let found = latest.find(|tree| tree.revision == object.revision);
            found.and_then(|tree| tree.spare.take())
        };
        let Some(mut copy) = spare else {
            return value.clone();
        };
        assign(&mut copy, value);
        copy
    }

    /// Takes a tree back whose object was replaced by another one.
    pub(crate) fn recycle(&self, object: &Stored, before: Arc<Value>) {
        let Some(before) = Arc::into_inner(before) else {
            return;
        };
        let mut trees = self.lock();
        if let Some(tree) = trees.back_mut()
            && tree.revision == object.revision
        {
            tree.spare = Some(before);
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Tree>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tree {
    fn is(&self, kind: &Arc<Kind>, revision: u64) -> bool {
        self.revision == revision && Arc::ptr_eq(&self.kind, kind)
    }
}

/// Makes one value another, and keeps what is the same.
fn assign(value: &mut Value, other: &Value) {
    match (value, other) {
        (Value::String(text), Value::String(other)) => {
            if text != other {
                text.clone_from(other);
            }
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            let pairs = items.iter_mut().zip(others);
            pairs.for_each(|(item, other)| assign(item, other));
        }
        (Value::Object(members), Value::Object(others)) if members.len() == others.len() => {
            let mut pairs = members.iter_mut().zip(others);
            let are_alike = pairs.all(|((name, member), (other_name, other))| {
                let is_same = name == other_name;
                if is_same {
                    assign(member, other);
                }
                is_same
            });
            if !are_alike {
                *members = others.clone();
            }
        }
        (value, other) => *value = other.clone(),
    }
}

/// Whether managed fields are as they are worked on: a client may have sent them otherwise.
fn has_fields_as_text(value: &Value) -> bool {
    let entries = value["metadata"]["managedFields"].as_array();
    let mut fields = entries
        .into_iter()
        .flatten()
        .map(|entry| &entry["fieldsV1"]);
    fields.all(|fields| fields.is_string() || fields.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lease() -> &'static Arc<Kind> {
        crate::kinds::find("coordination.k8s.io", "Lease").expect("it is built in")
    }

    fn put(store: &crate::storage::Store, value: &Value) -> Arc<Stored> {
        let put = |transaction: &mut crate::storage::Transaction<'_>| {
            Ok::<_, ()>(transaction.put(lease(), "a", value, None))
        };
        store.write(put).expect("it cannot fail").0
    }

    #[test]
    fn a_tree_that_was_printed_is_what_would_be_parsed() {
        let (store, recent) = (crate::storage::Store::in_memory(10), Recent::default());
        let (text, tree) = (json!("{\"f:spec\":{}}"), json!({"f:spec": {}}));
        for fields in [
            json!(null),
            json!([{"fieldsV1": text}]),
            json!([{"fieldsV1": tree}]),
        ] {
            let value = json!({
                "kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "spec": {"a": 1.0, "b": "é\"\u{1}"},
                "metadata": {"name": "a", "resourceVersion": "1", "managedFields": fields},
            });
            let object = put(&store, &value);
            recent.note(lease(), 1, &object, value);
            assert_eq!(*recent.working(lease(), &object), object.working(lease()));
        }
        assert_eq!(
            recent.lock().len(),
            2,
            "fields that are no text are not kept"
        );
    }

    #[test]
    fn a_value_becomes_another_whatever_it_was() {
        let values = [
            json!(null),
            json!("a"),
            json!(1),
            json!(["a", "b"]),
            json!(["a", {"b": 1}]),
            json!({"a": 1, "b": ["c"]}),
            json!({"a": "1", "b": ["c", "d"]}),
            json!({"a": 1, "c": {}}),
        ];
        for before in &values {
            for after in &values {
                let mut value = before.clone();
                assign(&mut value, after);
                assert_eq!(value, *after);
            }
        }
    }

    #[test]
    fn a_copy_is_made_in_what_was_given_back() {
        let (store, recent) = (crate::storage::Store::in_memory(10), Recent::default());
        let value = json!({"kind": "Lease", "metadata": {"name": "a"}});
        let mut last = put(&store, &value);
        for renewed in 0..3 {
            let before = recent.working(lease(), &last);
            let mut copy = recent.copy(&last, &before);
            assert_eq!(copy, *before);
            assert!(recent.lock().iter().all(|tree| tree.spare.is_none()));
            copy["spec"] = json!({"renewTime": renewed});
            let next = put(&store, &copy);
            recent.note(lease(), last.revision, &next, copy);
            recent.recycle(&next, before);
            last = next;
        }
        assert!(recent.lock()[0].spare.is_some());
    }

    #[test]
    fn only_the_latest_are_kept() {
        let (store, recent) = (crate::storage::Store::in_memory(10), Recent::default());
        let value = json!({"metadata": {}});
        let mut last = put(&store, &value);
        for _ in 0..KEPT * 2 {
            last = put(&store, &value);
            recent.note(lease(), 1, &last, value.clone());
        }
        assert_eq!(recent.lock().len(), KEPT);
        recent.note(lease(), last.revision, &put(&store, &value), value);
        assert_eq!(recent.lock().len(), KEPT, "its predecessor is gone");
    }
}
