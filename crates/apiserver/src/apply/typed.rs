//! Whether an applied configuration fits its type, as structured-merge-diff looks at it before anything else: fields
//! that the schema has, values of their types, items of lists that say which they are, and each of them once.

use super::schema::{Place, Relation};
use crate::kinds::Kind;
use crate::schema::Shape;
use serde_json::Value;
use std::collections::BTreeSet;

/// No more than these are named: a configuration of rubbish must not make an answer of its size.
const MAX_FAULTS: usize = 100;

/// What is wrong with an applied configuration, in upstream's words.
pub(crate) fn faults(kind: &Kind, config: &Value) -> Option<String> {
    let schema = kind.schema();
    let mut found = Vec::new();
    check(Place::of(kind, schema.as_deref()), config, "", &mut found);
    match found.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        several => Some(format!("errors:\n  {}", several.join("\n  "))),
    }
}

/// What a value can be at a place.
#[derive(Clone, Copy, PartialEq)]
enum Atom {
    Map,
    List,
    String,
    Numeric,
    Boolean,
    Scalar,
    Any,
}

fn atom(place: Place<'_>) -> Atom {
    match place {
        Place::Root(_) | Place::Object(_) => Atom::Map,
        Place::Field(field) => atom(Place::Shape(&field.ty)),
        Place::Shape(shape) => match shape {
            Shape::String | Shape::Bytes | Shape::Time | Shape::MicroTime => Atom::String,
            Shape::Integer | Shape::Long | Shape::Number => Atom::Numeric,
            Shape::Boolean => Atom::Boolean,
            Shape::Quantity | Shape::IntOrString => Atom::Scalar,
            Shape::Ref(_) | Shape::Map(_) => Atom::Map,
            Shape::List(_) => Atom::List,
            Shape::Raw | Shape::FieldsV1 | Shape::Any => Atom::Any,
        },
        Place::Custom(schema) if schema["x-kubernetes-int-or-string"] == true => Atom::Scalar,
        Place::Custom(schema) => match schema["type"].as_str() {
            Some("object") => Atom::Map,
            Some("array") => Atom::List,
            Some("string") => Atom::String,
            Some("integer" | "number") => Atom::Numeric,
            Some("boolean") => Atom::Boolean,
            _ => Atom::Any,
        },
        Place::Unknown => Atom::Any,
    }
}

fn check(place: Place<'_>, value: &Value, path: &str, found: &mut Vec<String>) {
    // Null fits everywhere.
    if value.is_null() || found.len() >= MAX_FAULTS {
        return;
    }
    let fault = match (atom(place), value) {
        (Atom::Any, _) => return,
        (Atom::Map, Value::Object(members)) => {
            for (name, member) in members {
                let path = format!("{path}.{name}");
                if !place.accepts(name) {
                    found.push(format!("{path}: field not declared in schema"));
                    // UPSTREAM: what comes after it in the map is not looked at, in whatever order Go goes through it.
                    return;
                }
                check(place.member(name), member, &path, found);
            }
            return;
        }
        (Atom::List, Value::Array(items)) => return check_items(place, items, path, found),
        (Atom::String, Value::String(_))
        | (Atom::Numeric, Value::Number(_))
        | (Atom::Boolean, Value::Bool(_))
        | (Atom::Scalar, Value::String(_) | Value::Number(_) | Value::Bool(_)) => return,
        (Atom::Map, other) => format!("expected map, got &{{{}}}", go_value(other)),
        (Atom::List, other) => format!("expected list, got &{{{}}}", go_value(other)),
        (Atom::Boolean, other) => format!("expected boolean, got &{{{}}}", go_value(other)),
        (Atom::Scalar, other) => format!("expected any scalar, got &{{{}}}", go_value(other)),
        (Atom::Numeric, other) => {
            format!("expected numeric (int or float), got {}", go_type(other))
        }
        (Atom::String, other) => format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            go_syntax(other)
        ),
    };
    found.push(match path {
        "" => fault,
        path => format!("{path}: {fault}"),
    });
}

fn check_items(place: Place<'_>, items: &[Value], path: &str, found: &mut Vec<String>) {
    let relation = place.relation(&Value::Array(Vec::new()));
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        if relation == Relation::Leaf {
            check(place.item(), item, &format!("{path}[{index}]"), found);
            continue;
        }
        if let Some(why) = unidentified(&relation, item) {
            found.push(format!("{path}: element {index}: {why}"));
            return;
        }
        let Some(identity) = place.identity(&relation, item) else {
            if let Relation::ListByKeys(keys) = &relation
                && keys.iter().all(|key| item.get(key).is_none())
            {
                let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
                let keys = keys.join(" ");
                found.push(format!(
                    "{path}: element {index}: associative list with keys has an element that omits all key fields \
                     [{keys}] (and doesn't have default values for any key fields)"
                ));
                return;
            }
            continue;
        };
        let shown = shown(&identity);
        if !seen.insert(identity) {
            found.push(format!("{path}: duplicate entries for key {shown}"));
        }
        check(place.item(), item, &format!("{path}{shown}"), found);
    }
}

/// Why an item cannot be one of a list of that type.
fn unidentified(relation: &Relation, item: &Value) -> Option<&'static str> {
    match (relation, item) {
        (Relation::ListByKeys(_), Value::Null) => {
            Some("associative list with keys may not have a null element")
        }
        (Relation::ListByKeys(_), Value::Object(_)) => None,
        (Relation::ListByKeys(_), _) => {
            Some("associative list with keys may not have non-map elements")
        }
        (Relation::ListOfValues, Value::Object(_)) => {
            Some("associative list without keys has an element that's a map type")
        }
        (Relation::ListOfValues, Value::Array(_)) => {
            Some("not supported: associative list with lists as elements")
        }
        (Relation::ListOfValues, Value::Null) => {
            Some("associative list without keys has an element that's an explicit null")
        }
        _ => None,
    }
}

/// `k:{"name":"a"}` as `[name="a"]`.
fn shown(identity: &str) -> String {
    if let Some(keys) = identity.strip_prefix("k:")
        && let Ok(Value::Object(keys)) = serde_json::from_str(keys)
    {
        let keys: Vec<String> = keys
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        return format!("[{}]", keys.join(","));
    }
    format!("[={}]", identity.strip_prefix("v:").unwrap_or(identity))
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// As Go prints it by `%v`.
fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_value).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, member)| format!("{name}:{}", go_value(member)));
            format!("map[{}]", members.collect::<Vec<_>>().join(" "))
        }
        other => other.to_string(),
    }
}

/// As Go prints it by `%#v`.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, member)| format!("{name:?}:{}", go_syntax(member)));
            let members: Vec<String> = members.collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(spec: Value, expected: Option<&str>) {
        let kind = crate::kinds::find("", "Pod").unwrap();
        let config = json!({"spec": spec});
        assert_eq!(faults(kind, &config).as_deref(), expected);
    }

    #[test]
    fn items_are_there_once_and_say_which_they_are() {
        check(json!({"containers": [{"name": "a"}, {"name": "b"}]}), None);
        check(
            json!({"containers": [{"name": "a"}, {"name": "a"}]}),
            Some(r#".spec.containers: duplicate entries for key [name="a"]"#),
        );
        check(
            json!({"containers": [{"name": "a", "ports": [{"containerPort": 1}, {"containerPort": 1, "protocol": "TCP"}]}]}),
            Some(
                r#".spec.containers[name="a"].ports: duplicate entries for key [containerPort=1,protocol="TCP"]"#,
            ),
        );
        // Tolerations have no keys, and names of containers a default.
        check(
            json!({"containers": [{"image": "a"}], "tolerations": [{}]}),
            None,
        );
    }

    #[test]
    fn of_each_map_one_unknown_field_is_named() {
        check(
            json!({"containers": [{"name": "a", "imag": "b", "ima": "c"}, {"name": "b", "x": 1}]}),
            Some(
                "errors:\n  .spec.containers[name=\"a\"].ima: field not declared in schema\n  \
                 .spec.containers[name=\"b\"].x: field not declared in schema",
            ),
        );
        check(
            json!({"a": 1, "b": 2, "hostNetwork": "yes"}),
            Some(".spec.a: field not declared in schema"),
        );
    }

    #[test]
    fn all_that_does_not_fit_is_named() {
        check(
            json!({"containers": [{"name": "a", "imag": "b"}], "hostNetwork": "yes", "nodeName": 5,
                "priority": "high", "tolerations": {"a": 1}, "volumes": null}),
            Some(
                "errors:\n  .spec.containers[name=\"a\"].imag: field not declared in schema\n  \
                 .spec.hostNetwork: expected boolean, got &{yes}\n  \
                 .spec.nodeName: expected string, got &value.valueUnstructured{Value:5}\n  \
                 .spec.priority: expected numeric (int or float), got string\n  \
                 .spec.tolerations: expected list, got &{map[a:1]}",
            ),
        );
    }
}
