//! How much a pod asks for, read from JSON: `api::pod_resources` does the sums.

use api::amounts::{self, Amounts};
use api::pod_resources::PodResources;
use api::quantity::Quantity;
use serde::Deserialize;
use serde_json::Value;

use crate::fields::at;

/// What the pod as a whole requests: its containers, or what the pod itself says, plus overhead.
pub(crate) fn pod_requests(pod: &Value) -> Amounts {
    of_spec(pod).requests()
}

/// What the pod as a whole is limited to.
pub(crate) fn pod_limits(pod: &Value) -> Amounts {
    of_spec(pod).limits()
}

/// The requests of all containers, with init containers counted for the moment when most are running.
pub(crate) fn container_requests(pod: &Value) -> Amounts {
    of_spec(pod).container_requests()
}

pub(crate) fn container_limits(pod: &Value) -> Amounts {
    of_spec(pod).container_limits()
}

/// `Guaranteed`, `Burstable` or `BestEffort`, from what the pod asks for.
pub(crate) fn qos_class(pod: &Value) -> &'static str {
    of_spec(pod).qos_class()
}

/// What the pod asks for, whatever its kubelet has granted of it.
pub(crate) fn of_spec(pod: &Value) -> PodResources {
    let resources = PodResources::deserialize(pod).unwrap_or_default();
    resources.without_status()
}

/// The quantities of a resource list; what does not parse was refused before.
pub(crate) fn amounts(value: &Value, path: &str) -> Amounts {
    amounts::lenient(at(value, path)).unwrap_or_default()
}

/// Whether an amount has no fraction, however large it is.
pub(crate) fn is_whole(amount: &Quantity) -> bool {
    amount.clone().round_up(0)
}

pub(crate) fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}
