//! What applying takes away that a server-side apply would leave, because it does not know whose it is: what
//! `kubectl apply` was given before and is not any more, and what a choice excludes, in fields whose patch strategy is
//! `retainKeys`. Pure.
//!
//! `kubectl apply` tells the server which keys of such a field stay. A server-side apply has no words for that:
//! what the server has filled in belongs to nobody and stays, so that a Deployment could never go from
//! `RollingUpdate`, whose parameters are defaulted, to `Recreate`.

use serde_json::{Map, Value, json};

/// Where `kubectl apply` keeps what it was given last.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Where pods are described.
const POD_SPECS: [&str; 3] = [
    "/spec",
    "/spec/template/spec",
    "/spec/jobTemplate/spec/template/spec",
];

/// Lists of a pod in which each element, known by its name, is a choice.
const CHOICES: [&str; 2] = ["volumes", "resourceClaims"];

/// Says of what is there and not in the new configuration that it is to be removed.
pub(crate) fn retain_keys(live: &Value, configuration: &mut Value) {
    if configuration["kind"] == "Deployment" {
        let strategy = configuration.pointer_mut("/spec/strategy");
        clear_others(live.pointer("/spec/strategy"), strategy);
    }
    for spec in POD_SPECS {
        for list in CHOICES {
            let pointer = format!("{spec}/{list}");
            let before = live.pointer(&pointer).and_then(Value::as_array);
            let after = configuration
                .pointer_mut(&pointer)
                .and_then(Value::as_array_mut);
            let (Some(before), Some(after)) = (before, after) else {
                continue;
            };
            for element in after {
                let same = before.iter().find(|one| one["name"] == element["name"]);
                clear_others(same, Some(element));
            }
        }
    }
}

/// What `kubectl apply` was given last for an object, as its annotation says.
pub(crate) fn last_applied(live: &Value) -> Option<Value> {
    let annotation = live["metadata"]["annotations"][LAST_APPLIED].as_str()?;
    let mut last: Map<String, Value> = serde_json::from_str(annotation).ok()?;
    for identity in ["apiVersion", "kind"] {
        last.insert(identity.to_owned(), live[identity].clone());
    }
    let metadata = last.entry("metadata").or_insert_with(|| json!({}));
    let metadata = metadata.as_object_mut()?;
    metadata.insert("name".to_owned(), live["metadata"]["name"].clone());
    // kubectl writes them even if there are none, and means no others by that.
    if metadata.get("annotations") == Some(&json!({})) {
        metadata.remove("annotations");
    }
    Some(Value::Object(last))
}

/// Elements of lists, by their names, that an object has and its new configuration has not.
pub(crate) fn left_out(live: &Value, configuration: &Value) -> Vec<String> {
    let mut found = Vec::new();
    add_left_out("", live, configuration, &mut found);
    found
}

fn add_left_out(field: &str, live: &Value, configuration: &Value, found: &mut Vec<String>) {
    match (live, configuration) {
        (Value::Object(live), Value::Object(configuration)) => {
            for (key, value) in configuration {
                if let Some(live) = live.get(key) {
                    add_left_out(key, live, value, found);
                }
            }
        }
        (Value::Array(live), Value::Array(configuration)) => {
            for element in live {
                let Some(name) = element["name"].as_str() else {
                    continue;
                };
                match configuration.iter().find(|one| one["name"] == name) {
                    Some(same) => add_left_out(field, element, same, found),
                    None => found.push(format!("{name} of {field}")),
                }
            }
        }
        _ => {}
    }
}

fn clear_others(live: Option<&Value>, configuration: Option<&mut Value>) {
    let live = live.and_then(Value::as_object);
    let configuration = configuration.and_then(Value::as_object_mut);
    let (Some(live), Some(configuration)) = (live, configuration) else {
        return;
    };
    for key in live.keys() {
        configuration.entry(key.clone()).or_insert(Value::Null);
    }
}
