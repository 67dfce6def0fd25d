//! JSON patch (RFC 6902).

use crate::status::Status;
use serde_json::Value;

/// UPSTREAM: the most operations that one patch may have.
const MAX_OPERATIONS: usize = 10_000;

/// How much copies may add up to: a few operations that copy the document into itself would double it each time.
const MAX_COPIED_VALUES: usize = 100_000;

pub(crate) fn apply(target: &mut Value, patch: &Value) -> Result<(), Status> {
    let Some(operations) = patch.as_array() else {
        return Err(Status::bad_request(
            "a JSON patch is an array of operations",
        ));
    };
    if operations.len() > MAX_OPERATIONS {
        let message = format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        );
        return Err(Status::new(413, "RequestEntityTooLarge", message));
    }
    let mut copied = 0;
    for operation in operations {
        operate(target, operation, &mut copied).map_err(|_| unprocessable())?;
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

fn operate(target: &mut Value, operation: &Value, copied: &mut usize) -> Result<(), String> {
    let path = pointer(operation, "path")?;
    let value = || {
        operation
            .get("value")
            .cloned()
            .ok_or_else(|| "operation is missing a value".to_owned())
    };
    match operation["op"].as_str().unwrap_or_default() {
        "add" => add(target, &path, value()?),
        "remove" => remove(target, &path).map(drop),
        "replace" => {
            // UPSTREAM: a member that is not there is added; an item that is not there is refused.
            if let Some(place) = find(target, &path) {
                *place = value()?;
                return Ok(());
            }
            let parent = path
                .split_last()
                .and_then(|(_, parents)| find(target, parents));
            match parent {
                Some(Value::Object(_)) => add(target, &path, value()?),
                _ => Err(missing("replace", &path)),
            }
        }
        "move" => {
            let from = pointer(operation, "from")?;
            if path.len() > from.len() && path.starts_with(&from) {
                return Err("a value cannot be moved into itself".to_owned());
            }
            let moved = remove(target, &from)?;
            add(target, &path, moved)
        }
        "copy" => {
            let from = pointer(operation, "from")?;
            let found = find(target, &from)
                .ok_or_else(|| missing("copy", &from))?
                .clone();
            *copied += size(&found);
            if *copied > MAX_COPIED_VALUES {
                return Err(format!("copies may add up to {MAX_COPIED_VALUES} values"));
            }
            add(target, &path, found)
        }
        "test" => {
            let expected = operation.get("value").unwrap_or(&Value::Null);
            let actual = find(target, &path).map_or(Value::Null, |found| found.clone());
            if actual == *expected {
                return Ok(());
            }
            Err(format!("testing value {} failed", text(&path)))
        }
        other => Err(format!("Unexpected kind: {other}")),
    }
}

fn pointer(operation: &Value, member: &str) -> Result<Vec<String>, String> {
    let text = operation[member]
        .as_str()
        .ok_or_else(|| format!("operation is missing a {member}"))?;
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let text = text
        .strip_prefix('/')
        .ok_or_else(|| format!("{member} \"{text}\" does not start with a slash"))?;
    Ok(text
        .split('/')
        .map(|token| token.replace("~1", "/").replace("~0", "~"))
        .collect())
}

fn text(path: &[String]) -> String {
    path.iter()
        .map(|token| format!("/{}", token.replace('~', "~0").replace('/', "~1")))
        .collect()
}

fn missing(operation: &str, path: &[String]) -> String {
    format!(
        "{operation} operation does not apply: doc is missing path: {}: missing value",
        text(path)
    )
}

fn find<'a>(target: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(target, |value, token| match value {
        Value::Object(map) => map.get_mut(token),
        Value::Array(list) => list.get_mut(index(token)?),
        _ => None,
    })
}

fn index(token: &str) -> Option<usize> {
    if token.len() > 1 && token.starts_with('0') {
        None
    } else {
        token.parse().ok()
    }
}

fn add(target: &mut Value, path: &[String], value: Value) -> Result<(), String> {
    let Some((last, parents)) = path.split_last() else {
        *target = value;
        return Ok(());
    };
    match find(target, parents).ok_or_else(|| missing("add", path))? {
        Value::Object(map) => {
            map.insert(last.clone(), value);
        }
        Value::Array(list) if last == "-" => list.push(value),
        Value::Array(list) => {
            let at = index(last)
                .filter(|at| *at <= list.len())
                .ok_or_else(|| missing("add", path))?;
            list.insert(at, value);
        }
        _ => return Err(missing("add", path)),
    }
    Ok(())
}

fn remove(target: &mut Value, path: &[String]) -> Result<Value, String> {
    let error = || missing("remove", path);
    let (last, parents) = path.split_last().ok_or_else(error)?;
    match find(target, parents).ok_or_else(error)? {
        Value::Object(map) => map.remove(last).ok_or_else(error),
        Value::Array(list) => {
            let at = index(last)
                .filter(|at| *at < list.len())
                .ok_or_else(error)?;
            Ok(list.remove(at))
        }
        _ => Err(error()),
    }
}

fn size(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(size).sum::<usize>(),
        Value::Array(list) => 1 + list.iter().map(size).sum::<usize>(),
        _ => 1,
    }
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
        check(json!({"op": "add"}), json!(400));
        check(
            Value::Array(vec![json!({}); MAX_OPERATIONS + 1]),
            json!(413),
        );
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
