//! When an update counts as a new generation: a change of what was asked for, not of what was seen.

use serde_json::Value;

use crate::fields::at;
use crate::kinds::Kind;

pub(super) fn changed(kind: &Kind, new: &Value, old: &Value) -> bool {
    if let Some(custom) = kind.custom() {
        return differs_beyond_metadata(new, old, custom.has_status);
    }
    if !kind.generation {
        return false;
    }
    let differs = |path: &str| at(new, path) != at(old, path);
    match &*kind.kind {
        "PriorityClass" => false,
        "PodTemplate" => differs("template"),
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => differs("webhooks"),
        // UPSTREAM: annotations of a Deployment reach its ReplicaSets, so they count.
        "Deployment" => differs("spec") || differs("metadata.annotations"),
        "EndpointSlice" => differs_beyond_metadata(new, old, false) || differs("metadata.labels"),
        _ => differs("spec"),
    }
}

fn differs_beyond_metadata(new: &Value, old: &Value, without_status: bool) -> bool {
    let rest = |object: &Value| -> Vec<(String, Value)> {
        let fields = object.as_object().into_iter().flatten();
        let counts = |name: &str| {
            let is_status = without_status && name == "status";
            !is_status && !matches!(name, "metadata" | "apiVersion" | "kind")
        };
        fields
            .filter(|(name, _)| counts(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    rest(new) != rest(old)
}
