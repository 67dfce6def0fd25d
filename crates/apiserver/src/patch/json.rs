//! JSON patch (RFC 6902), by the crate `json-patch` but for what upstream does differently.

use crate::status::Status;
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, CopyOperation, PatchOperation, RemoveOperation, patch_unsafe};
use serde::Deserialize;
use serde_json::Value;
use std::io;

/// UPSTREAM: the most operations that one patch may have.
pub(crate) const MAX_OPERATIONS: usize = 10_000;

/// UPSTREAM: how many bytes of JSON copies may add up to, which is what a request may have
/// (`AccumulatedCopySizeLimit`): a few operations that copy the document into itself would double it each time.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// How many items of lists may be moved up or down to make room or to fill it: some thousands of operations at the
/// front of a list of a megabyte would move all of it each time. 10,000 operations in a list of 10,000 items stay below.
const MAX_SHIFTED_ITEMS: usize = 100_000_000;

/// What the operations of a patch have cost so far.
#[derive(Default)]
struct Spent {
    copied_bytes: usize,
    shifted_items: usize,
}

/// What was there before is lost if it fails.
pub(crate) fn apply(target: &mut Value, patch: &Value) -> Result<(), Status> {
    let operations = patch.as_array().map_or(&[][..], Vec::as_slice);
    if operations.len() > MAX_OPERATIONS {
        let message = format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        );
        return Err(Status::new(413, "RequestEntityTooLarge", message));
    }
    operate_all(target, operations).map_err(|_| unprocessable())
}

/// Carries out operations in their order; the error is the place of the one that does not apply. What was there before
/// is lost then.
pub(crate) fn operate_all(target: &mut Value, operations: &[Value]) -> Result<(), usize> {
    let mut spent = Spent::default();
    for (index, operation) in operations.iter().enumerate() {
        operate(target, operation, &mut spent).ok_or(index)?;
    }
    Ok(())
}

fn unprocessable() -> Status {
    Status::new(
        422,
        "Invalid",
        // UPSTREAM: without a word on which operation it was.
        "the server rejected our request due to an error in our request",
    )
}

fn operate(target: &mut Value, operation: &Value, spent: &mut Spent) -> Option<()> {
    // UPSTREAM: what is not there equals null.
    if operation["op"] == "test" && operation["value"].is_null() {
        let path = PointerBuf::deserialize(&operation["path"]).ok()?;
        let found = target.pointer(path.as_str());
        return found.is_none_or(Value::is_null).then_some(());
    }
    let operation = match operation {
        // UPSTREAM: what is not given is null.
        Value::Object(members) if !members.contains_key("value") => {
            let mut members = members.clone();
            members.insert("value".to_owned(), Value::Null);
            &Value::Object(members)
        }
        operation => operation,
    };
    let mut operation = PatchOperation::deserialize(operation).ok()?;
    // UPSTREAM: the document as a whole can be replaced, by another one.
    let is_document = |value: &Value| value.is_object() || value.is_array();
    match &operation {
        PatchOperation::Replace(replace) if is_document(&replace.value) => {}
        other if other.path().is_root() => return None,
        _ => {}
    }
    match &operation {
        // UPSTREAM: a copy of a member that is not there is null.
        PatchOperation::Copy(copy) if target.pointer(copy.from.as_str()).is_none() => {
            let (parent, _) = copy.from.split_back()?;
            target.pointer(parent.as_str())?.as_object()?;
            let (path, value) = (copy.path.clone(), Value::Null);
            operation = PatchOperation::Add(AddOperation { path, value });
        }
        PatchOperation::Copy(copy) => {
            spent.copied_bytes += size(target.pointer(copy.from.as_str())?)?;
            if spent.copied_bytes > MAX_COPIED_BYTES {
                return None;
            }
        }
        // UPSTREAM: a member that is not there is added; an item that is not there is refused.
        PatchOperation::Replace(replace) if target.pointer(replace.path.as_str()).is_none() => {
            let (parent, _) = replace.path.split_back()?;
            target.pointer(parent.as_str())?.as_object()?;
            let (path, value) = (replace.path.clone(), replace.value.clone());
            operation = PatchOperation::Add(AddOperation { path, value });
        }
        _ => {}
    }
    spent.shifted_items += match &operation {
        PatchOperation::Add(AddOperation { path, .. })
        | PatchOperation::Remove(RemoveOperation { path })
        | PatchOperation::Copy(CopyOperation { path, .. }) => items_after(target, path),
        PatchOperation::Move(operation) => {
            items_after(target, &operation.from) + items_after(target, &operation.path)
        }
        PatchOperation::Replace(_) | PatchOperation::Test(_) => 0,
    };
    if spent.shifted_items > MAX_SHIFTED_ITEMS {
        return None;
    }
    patch_unsafe(target, &[operation]).ok()
}

/// How many items of a list come after a place in it, if it is one.
fn items_after(target: &Value, place: &PointerBuf) -> usize {
    let Some((list, index)) = place.split_back() else {
        return 0;
    };
    let items = target.pointer(list.as_str()).and_then(Value::as_array);
    let index = index.encoded().parse().unwrap_or(usize::MAX);
    items.map_or(0, |items| items.len().saturating_sub(index))
}

/// How long it is as JSON.
fn size(value: &Value) -> Option<usize> {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).ok()?;
    Some(count.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(patch: Value, expected: Value) {
        let mut target = json!({"a": {"x/y": 1}, "l": [1, 2]});
        let result = apply(&mut target, &patch);
        let actual = result.map_or_else(|status| json!(status.code), |()| target);
        assert_eq!(actual, expected, "{patch}");
    }

    #[test]
    fn operations() {
        check(
            json!([{"op": "add", "path": "/l/-", "value": 3}]),
            json!({"a": {"x/y": 1}, "l": [1, 2, 3]}),
        );
        check(
            json!([{"op": "remove", "path": "/a/x~1y"}]),
            json!({"a": {}, "l": [1, 2]}),
        );
        check(
            json!([{"op": "move", "from": "/l/0", "path": "/m"}]),
            json!({"a": {"x/y": 1}, "l": [2], "m": 1}),
        );
        check(
            json!([{"op": "test", "path": "/l/0", "value": 1}, {"op": "replace", "path": "/l", "value": 0}]),
            json!({"a": {"x/y": 1}, "l": 0}),
        );
        check(
            json!([{"op": "copy", "from": "/l", "path": "/a/c"}]),
            json!({"a": {"x/y": 1, "c": [1, 2]}, "l": [1, 2]}),
        );
    }

    /// What is moved for each of them would take half a minute.
    #[test]
    fn operations_at_the_front_of_a_long_list_are_bounded() {
        let patched = |operation: Value, items: usize| {
            let mut target = json!({"l": vec![0; items], "m": []});
            apply(&mut target, &Value::from(vec![operation; 10_000])).is_ok()
        };
        for operation in [
            json!({"op": "add", "path": "/l/0", "value": 1}),
            json!({"op": "remove", "path": "/l/0"}),
            json!({"op": "move", "from": "/l/0", "path": "/l/400000"}),
            json!({"op": "copy", "from": "/m", "path": "/l/0"}),
        ] {
            assert!(!patched(operation, 1_000_000));
        }
        assert!(patched(
            json!({"op": "add", "path": "/l/-", "value": 1}),
            1_000_000
        ));
        assert!(patched(json!({"op": "remove", "path": "/l/0"}), 10_000));
    }

    #[test]
    fn what_does_not_apply_is_refused() {
        check(
            json!([{"op": "test", "path": "/l/0", "value": 2}]),
            json!(422),
        );
        check(json!([{"op": "remove", "path": "/nothing"}]), json!(422));
        check(
            json!([{"op": "move", "from": "/a", "path": "/a/b"}]),
            json!(422),
        );
        check(json!([{"op": "dance", "path": "/a"}]), json!(422));
        check(
            json!([{"op": "replace", "path": "", "value": 7}]),
            json!(422),
        );
        check(
            json!([{"op": "replace", "path": "", "value": {}}]),
            json!({}),
        );
        check(
            Value::Array(vec![json!({}); MAX_OPERATIONS + 1]),
            json!(413),
        );
    }

    #[test]
    fn a_missing_member_is_replaced_and_equals_null_as_upstream_has_it() {
        check(
            json!([{"op": "replace", "path": "/a/new", "value": 2}]),
            json!({"a": {"x/y": 1, "new": 2}, "l": [1, 2]}),
        );
        check(
            json!([{"op": "replace", "path": "/l/2", "value": 2}]),
            json!(422),
        );
        check(
            json!([{"op": "test", "path": "/a/new", "value": null}, {"op": "test", "path": "/b"}]),
            json!({"a": {"x/y": 1}, "l": [1, 2]}),
        );
        check(json!([{"op": "test", "path": "/a"}]), json!(422));
        check(json!([{"op": "test", "path": "b"}]), json!(422));
        check(
            json!([{"op": "add", "path": "/a/b"}, {"op": "copy", "from": "/b", "path": "/c"}]),
            json!({"a": {"x/y": 1, "b": null}, "l": [1, 2], "c": null}),
        );
        check(
            json!([{"op": "copy", "from": "/l/7", "path": "/c"}]),
            json!(422),
        );
    }

    #[test]
    fn copies_may_add_up_to_a_request() {
        let copies = |length: usize, count: usize| {
            let mut operations =
                vec![json!({"op": "add", "path": "/t", "value": "x".repeat(length)})];
            let copy = json!({"op": "copy", "from": "/t", "path": "/l/-"});
            operations.resize(count + 1, copy);
            apply(&mut json!({"l": []}), &Value::Array(operations))
        };
        // 57 KB of patch became 504 MB.
        let refused = copies(50_000, 9_000).unwrap_err();
        assert_eq!(refused.code, 422);
        assert!(copies(50_000, 62).is_ok());
        assert!(copies(50_000, 63).is_err());
    }

    #[test]
    fn copying_the_document_into_itself_is_bounded() {
        check(
            Value::Array(vec![
                json!({"op": "copy", "from": "/l", "path": "/l/-"});
                100
            ]),
            json!(422),
        );
    }
}
