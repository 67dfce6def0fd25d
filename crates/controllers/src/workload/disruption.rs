//! The condition that tells a pod's owner that the pod did not fail by itself.

use api::kinds::Pod;
use api::{Gate, Gates, MicroTime};
use serde_json::{Value, json};

/// Is the pod marked for this reason already?
pub fn is_marked(pod: &Pod, reason: &str) -> bool {
    pod.condition(TYPE)
        .is_some_and(|held| held.status == "True" && held.reason == reason)
}

/// `DisruptionTarget` for a pod that is about to be taken away; `generation` is the one that it is about, where that is
/// told.
pub fn disruption_target(
    pod: &Pod,
    reason: &str,
    message: &str,
    now: MicroTime,
    generation: Option<i64>,
) -> Value {
    let since = pod
        .condition(TYPE)
        .filter(|held| held.status == "True")
        .and_then(|held| held.last_transition_time)
        .unwrap_or(now.time());
    let mut condition = json!({
        "type": TYPE, "status": "True", "reason": reason, "message": message,
        "lastProbeTime": null, "lastTransitionTime": since,
    });
    if let Some(generation) = generation {
        condition["observedGeneration"] = json!(generation);
    }
    condition
}

/// The generation of the pod that a status or a condition is about, if it is told.
pub fn observed_generation(pod: &Pod, gates: Gates) -> Option<i64> {
    let generation = pod.metadata.generation;
    let is_told = generation > 0 && gates.enabled(Gate::PodObservedGenerationTracking);
    is_told.then_some(generation)
}

const TYPE: &str = "DisruptionTarget";

#[cfg(test)]
mod tests {
    use super::*;
    use api::Resource;

    // Issue 21, point 18: versions that still have the gate.
    #[test]
    fn without_its_gate_no_generation_is_reported() {
        let pod = Pod::decode(br#"{"metadata":{"name":"a","generation":3}}"#).unwrap();
        let now = MicroTime::from_unix_micros(1);
        let told = |gates| {
            let generation = observed_generation(&pod, gates);
            disruption_target(&pod, "r", "m", now, generation)["observedGeneration"].clone()
        };
        assert_eq!(told(Gates::default()), 3);
        let off = Gates::default().with(Gate::PodObservedGenerationTracking, false);
        assert_eq!(told(off), Value::Null);
    }
}
