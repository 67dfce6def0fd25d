//! What no applied list may hold: an item twice, or one that does not say which it is.

use super::schema::{Place, Relation};
use crate::kinds::Kind;
use serde_json::Value;
use std::collections::BTreeSet;

/// The first such item of an applied configuration, in upstream's words.
pub(crate) fn repeated_item(kind: &Kind, config: &Value) -> Option<String> {
    find(Place::of(kind), config, "")
}

fn find(place: Place<'_>, value: &Value, path: &str) -> Option<String> {
    match place.relation(value) {
        Relation::Leaf => None,
        Relation::Map => value
            .as_object()?
            .iter()
            .find_map(|(name, member)| find(place.member(name), member, &format!("{path}.{name}"))),
        relation => {
            let mut seen = BTreeSet::new();
            for (index, item) in value.as_array()?.iter().enumerate() {
                let Some(identity) = place.identity(&relation, item) else {
                    let key = missing_key(&relation, item);
                    return Some(format!(
                        "{path}: element {index}: associative list with keys has an element that omits key \
                         field \"{key}\" (and doesn't have default value)"
                    ));
                };
                let shown = shown(&identity);
                if !seen.insert(identity) {
                    return Some(format!("{path}: duplicate entries for key {shown}"));
                }
                let found = find(place.item(), item, &format!("{path}{shown}"));
                if found.is_some() {
                    return found;
                }
            }
            None
        }
    }
}

fn missing_key(relation: &Relation, item: &Value) -> String {
    match relation {
        Relation::ListByKeys(keys) => keys.iter().find(|key| item.get(key).is_none()),
        _ => None,
    }
    .cloned()
    .unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(containers: Value, expected: Option<&str>) {
        let kind = crate::kinds::find("", "Pod").unwrap();
        let config = json!({"spec": {"containers": containers}});
        assert_eq!(repeated_item(kind, &config).as_deref(), expected);
    }

    #[test]
    fn items_are_there_once_and_say_which_they_are() {
        check(json!([{"name": "a"}, {"name": "b"}]), None);
        check(
            json!([{"name": "a"}, {"name": "a"}]),
            Some(r#".spec.containers: duplicate entries for key [name="a"]"#),
        );
        check(
            json!([{"name": "a", "ports": [{"containerPort": 1}, {"containerPort": 1, "protocol": "TCP"}]}]),
            Some(
                r#".spec.containers[name="a"].ports: duplicate entries for key [containerPort=1,protocol="TCP"]"#,
            ),
        );
    }
}
