//! What a strategic merge patch may not turn an object into: upstream reads the result by its type, in words of its own.

use crate::schema::{Shape, Type};
use serde_json::Value;

/// Why a patched object cannot be read: something in it is of another shape than its type says.
pub(crate) fn check(value: &Value, ty: &'static Type) -> Result<(), String> {
    let Value::Object(members) = value else {
        return Err(format!("cannot restore struct from: {}", kind(value)));
    };
    for (name, member) in members {
        if let Some(field) = ty.field(name) {
            check_shape(member, &field.ty)?;
        }
    }
    Ok(())
}

fn check_shape(value: &Value, shape: &'static Shape) -> Result<(), String> {
    match (shape, value) {
        // Nothing is the zero value of every type.
        (_, Value::Null) => Ok(()),
        (Shape::Ref(ty), value) => check(value, ty.get()),
        (Shape::Map(of), Value::Object(members)) => {
            members.values().try_for_each(|one| check_shape(one, of))
        }
        (Shape::Map(_), other) => Err(format!("cannot restore map from {}", kind(other))),
        (Shape::List(of), Value::Array(items)) => {
            items.iter().try_for_each(|one| check_shape(one, of))
        }
        (Shape::List(_), other) => Err(format!("cannot restore slice from {}", kind(other))),
        (Shape::String, Value::Number(number)) if !number.is_f64() => {
            Err("cannot convert int64 to string".to_owned())
        }
        (Shape::String, Value::Number(_) | Value::Bool(_)) => unrecognized("string"),
        (Shape::String, Value::Object(_) | Value::Array(_)) => unrecognized("string"),
        (Shape::Boolean, Value::Bool(_)) => Ok(()),
        (Shape::Boolean, _) => unrecognized("bool"),
        (Shape::Integer, value) => check_integer(value, "int32"),
        (Shape::Long, value) => check_integer(value, "int64"),
        _ => Ok(()),
    }
}

fn check_integer(value: &Value, wanted: &str) -> Result<(), String> {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() != 0.0 => {
                Err(format!("cannot convert float64 to {wanted}"))
            }
            _ => Ok(()),
        },
        _ => unrecognized(wanted),
    }
}

fn unrecognized(wanted: &str) -> Result<(), String> {
    Err(format!("unrecognized type: {wanted}"))
}

/// What Go calls the kind of a value that was JSON.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

/// A patch as Go prints a map.
pub(crate) fn go_print(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_print).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, member)| format!("{name}:{}", go_print(member)));
            format!("map[{}]", members.collect::<Vec<_>>().join(" "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;
    use serde_json::json;

    // Issue 21, point 20. Upstream: runtime.DefaultUnstructuredConverter.
    #[test]
    fn other_shapes_are_refused_in_upstreams_words() {
        let ty = schema::type_for("apps", "v1", "Deployment").unwrap();
        let refused = |value: Value| check(&value, ty).unwrap_err();
        let labels = json!({"metadata": {"labels": "foo"}});
        assert_eq!(refused(labels.clone()), "cannot restore map from string");
        assert_eq!(go_print(&labels), "map[metadata:map[labels:foo]]");
        let containers = json!({"spec": {"template": {"spec": {"containers": 1}}}});
        assert_eq!(refused(containers), "cannot restore slice from int64");
        let spec = json!({"spec": []});
        assert_eq!(refused(spec), "cannot restore struct from: slice");
        assert_eq!(
            refused(json!({"kind": 7})),
            "cannot convert int64 to string"
        );
        assert_eq!(
            refused(json!({"spec": {"replicas": "3"}})),
            "unrecognized type: int32"
        );
        assert_eq!(
            refused(json!({"spec": {"replicas": 1.5}})),
            "cannot convert float64 to int32"
        );
        assert_eq!(
            refused(json!({"spec": {"paused": 1}})),
            "unrecognized type: bool"
        );
        let fine = json!({"metadata": {"labels": null}, "spec": {"replicas": 2}, "unknown": 1});
        assert_eq!(check(&fine, ty), Ok(()));
    }
}
