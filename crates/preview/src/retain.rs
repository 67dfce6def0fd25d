//! What applying takes away that a server-side apply would leave: what `kubectl apply` was given before and is not any
//! more, and what a choice excludes, in fields whose patch strategy is `retainKeys`. Pure.
//!
//! `kubectl apply` tells the server which keys of such a field stay. A server-side apply has no words for that:
//! what the server has filled in belongs to nobody and stays, so that a Deployment could never go from
//! `RollingUpdate`, whose parameters are defaulted, to `Recreate`.

use serde_json::Value;

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

/// Says of what was applied last by `kubectl apply`, and is not in the new configuration, that it is to be
/// removed. Elements of lists are left alone: a configuration cannot say that an element is to be removed.
pub(crate) fn drop_what_was_left_out(live: &Value, configuration: &mut Value) {
    let last = live["metadata"]["annotations"][LAST_APPLIED].as_str();
    let last = last.and_then(|text| serde_json::from_str(text).ok());
    if let Some(last) = last {
        note_left_out(&last, configuration);
    }
}

fn note_left_out(last: &Value, now: &mut Value) {
    match (last, now) {
        (Value::Object(last), Value::Object(now)) => {
            for (key, before) in last {
                match now.get_mut(key) {
                    Some(value) => note_left_out(before, value),
                    None => drop(now.insert(key.clone(), Value::Null)),
                }
            }
        }
        (Value::Array(last), Value::Array(now)) => {
            for element in now.iter_mut().filter(|one| one["name"].is_string()) {
                let same = last.iter().find(|one| one["name"] == element["name"]);
                if let Some(same) = same {
                    note_left_out(same, element);
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
