//! JSON merge patch (RFC 7386).

use serde_json::{Map, Value};

/// Members of the patch replace those of the target, null removes them, objects merge.
pub(crate) fn apply(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(members) = target.as_object_mut() else {
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            members.remove(&key);
        } else {
            apply(members.entry(key).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn merges_as_the_rfc_says() {
        let mut target = json!({"a": {"b": 1, "c": [1, 2]}, "d": 4});
        apply(
            &mut target,
            json!({"a": {"b": null, "c": [3]}, "e": {"f": null, "g": 1}}),
        );
        assert_eq!(target, json!({"a": {"c": [3]}, "d": 4, "e": {"g": 1}}));
    }
}
