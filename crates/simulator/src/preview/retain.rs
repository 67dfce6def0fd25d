//! What applying leaves out because a choice was made: the fields whose patch strategy is `retainKeys`. Pure.
//!
//! `kubectl apply` tells the server which keys of such a field stay. A server-side apply has no words for that:
//! what the server has filled in belongs to nobody and stays, so that a Deployment could never go from
//! `RollingUpdate`, whose parameters are defaulted, to `Recreate`.

use serde_json::Value;

/// Where pods are described.
const POD_SPECS: [&str; 3] = [
    "/spec",
    "/spec/template/spec",
    "/spec/jobTemplate/spec/template/spec",
];

/// Lists of a pod in which each element, known by its name, is a choice.
const CHOICES: [&str; 2] = ["volumes", "resourceClaims"];

/// Says of what is there and not in the new configuration that it is to go.
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
