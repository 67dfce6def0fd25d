//! The condition that tells a pod's owner that the pod did not fail by itself.

use api::MicroTime;
use api::kinds::Pod;
use serde_json::{Value, json};

/// Is the pod marked for this reason already?
pub fn is_marked(pod: &Pod, reason: &str) -> bool {
    pod.condition(TYPE)
        .is_some_and(|held| held.status == "True" && held.reason == reason)
}

/// `DisruptionTarget` for a pod that is about to be taken away.
pub fn disruption_target(pod: &Pod, reason: &str, message: &str, now: MicroTime) -> Value {
    let since = pod
        .condition(TYPE)
        .filter(|held| held.status == "True")
        .and_then(|held| held.last_transition_time)
        .unwrap_or(now.time());
    let mut condition = json!({
        "type": TYPE, "status": "True", "reason": reason, "message": message,
        "lastProbeTime": null, "lastTransitionTime": since,
    });
    if pod.metadata.generation > 0 {
        condition["observedGeneration"] = json!(pod.metadata.generation);
    }
    condition
}

const TYPE: &str = "DisruptionTarget";
