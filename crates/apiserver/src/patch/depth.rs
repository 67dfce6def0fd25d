//! How deep the operations of a JSON patch can make an object, told before any of them is done.
//!
//! Each operation is shallow, but one can hang what another made below something else: a patch of 3 MB could make
//! hundreds of thousands of levels, and to copy or drop them takes as many stack frames.

use crate::status::Status;
use serde_json::Value;

/// Far more than may be stored, which is checked afterwards, and far less than a stack holds. The estimate is for the
/// worst case, and honest patches with many copies must not come near it.
const MAX_DEPTH: usize = 500;

/// 422 if the operations can nest the object more deeply than it could be worked with.
pub(crate) fn check(target: &Value, operations: &Value) -> Result<(), Status> {
    let operations = operations.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut deepest = depth(target);
    for operation in operations {
        let tokens = |member: &str| {
            let pointer = operation[member].as_str().unwrap_or_default();
            pointer.bytes().filter(|byte| *byte == b'/').count()
        };
        let put = match operation["op"].as_str() {
            Some("add" | "replace") => depth(&operation["value"]),
            // At worst what it takes is the deepest that there is.
            Some("copy" | "move") => deepest.saturating_sub(tokens("from")),
            _ => continue,
        };
        deepest = deepest.max(tokens("path") + put);
        if deepest > MAX_DEPTH {
            let why = "the operations of the patch nest the object too deeply";
            return Err(Status::new(422, "Invalid", why));
        }
    }
    Ok(())
}

/// The levels of lists and objects. Parsers have limited those of what comes here.
fn depth(value: &Value) -> usize {
    let below = match value {
        Value::Object(map) => map.values().map(depth).max(),
        Value::Array(list) => list.iter().map(depth).max(),
        _ => return 0,
    };
    below.unwrap_or(0) + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn is_refused(operations: Vec<Value>) -> bool {
        let target = json!({"a": {"b": {"c": 1}}, "d": []});
        check(&target, &Value::Array(operations)).is_err()
    }

    #[test]
    fn only_what_goes_deeper_and_deeper_is_refused() {
        let deeper = json!({"op": "move", "from": "/a", "path": "/d/0/a"});
        assert!(is_refused(vec![deeper.clone(); 300]));
        assert!(!is_refused(vec![deeper; 200]));
        let sideways = json!({"op": "copy", "from": "/a/b", "path": "/a/x"});
        assert!(!is_refused(vec![sideways; 10_000]));
        let added = json!({"op": "add", "path": "/a/b/c", "value": {"x": []}});
        assert!(!is_refused(vec![added; 10_000]));
        let pointer = "/a".repeat(600);
        assert!(is_refused(vec![
            json!({"op": "add", "path": pointer, "value": 1})
        ]));
        assert!(!is_refused(vec![
            json!({"op": "test", "path": pointer}),
            json!(7)
        ]));
    }
}
