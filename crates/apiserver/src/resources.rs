//! How much a pod asks for: the sums that defaulting, limit ranges, quota and the QoS class need.
//! Mirrors `k8s.io/component-helpers/resource`.

use std::collections::BTreeMap;

use api::quantity::Quantity;
use serde_json::Value;

use crate::fields::{at, entries, list, text};

/// Amounts by resource name.
pub(crate) type Amounts = BTreeMap<String, Quantity>;

/// What the pod as a whole requests: its containers, or what the pod itself says, plus overhead.
pub(crate) fn pod_requests(pod: &Value) -> Amounts {
    with_pod_level(pod, container_requests(pod), "spec.resources.requests")
}

/// What the pod as a whole is limited to.
pub(crate) fn pod_limits(pod: &Value) -> Amounts {
    let mut limits = container_limits(pod);
    for (name, amount) in amounts(pod, "spec.resources.limits") {
        if is_pod_level(&name) {
            limits.insert(name, amount);
        }
    }
    // UPSTREAM: overhead counts only towards resources that have a limit at all.
    for (name, amount) in amounts(pod, "spec.overhead") {
        if let Some(limit) = limits.get_mut(&name).filter(|limit| !limit.is_zero()) {
            *limit += &amount;
        }
    }
    limits
}

/// The requests of all containers, with init containers counted for the moment when most are running.
pub(crate) fn container_requests(pod: &Value) -> Amounts {
    aggregate(pod, "resources.requests")
}

pub(crate) fn container_limits(pod: &Value) -> Amounts {
    aggregate(pod, "resources.limits")
}

/// The quantities of a resource list; what does not parse was refused before.
pub(crate) fn amounts(value: &Value, path: &str) -> Amounts {
    let parse = |(name, amount): (&str, &Value)| Some((name.to_owned(), quantity(amount)?));
    entries(value, path).filter_map(parse).collect()
}

pub(crate) fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

pub(crate) fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        *total.entry(name.clone()).or_default() += amount;
    }
}

/// `Guaranteed`, `Burstable` or `BestEffort`, from what the pod asks for.
pub(crate) fn qos_class(pod: &Value) -> &'static str {
    if at(pod, "spec.resources").is_object() {
        let requests = compute(at(pod, "spec.resources.requests"));
        let limits = compute(at(pod, "spec.resources.limits"));
        let limited = limits.iter().all(Option::is_some);
        return class_of(&requests, &limits, limited);
    }
    let (mut requests, mut limits, mut all_limited) = ([None, None], [None, None], true);
    for container in list(pod, "spec.containers")
        .iter()
        .chain(list(pod, "spec.initContainers"))
    {
        let resources = at(container, "resources");
        let own = compute(at(resources, "limits"));
        all_limited &= own.iter().all(Option::is_some);
        for (total, more) in [
            (&mut limits, own),
            (&mut requests, compute(at(resources, "requests"))),
        ] {
            for (total, more) in total.iter_mut().zip(more) {
                match (total.as_mut(), more) {
                    (Some(total), Some(more)) => *total += &more,
                    (None, more) => *total = more,
                    (Some(_), None) => {}
                }
            }
        }
    }
    class_of(&requests, &limits, all_limited)
}

/// CPU and memory, the resources that the class depends on, where they are more than nothing.
type Compute = [Option<Quantity>; 2];

fn compute(list: &Value) -> Compute {
    ["cpu", "memory"].map(|name| {
        let amount = list.get(name).and_then(quantity);
        amount.filter(|amount| amount.sign() > 0)
    })
}

fn class_of(requests: &Compute, limits: &Compute, all_limited: bool) -> &'static str {
    if requests.iter().chain(limits).all(Option::is_none) {
        return "BestEffort";
    }
    if all_limited && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

fn with_pod_level(pod: &Value, mut total: Amounts, path: &str) -> Amounts {
    for (name, amount) in amounts(pod, path) {
        if is_pod_level(&name) {
            total.insert(name, amount);
        }
    }
    add(&mut total, &amounts(pod, "spec.overhead"));
    total
}

/// The resources that a pod may ask for as a whole.
fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

fn aggregate(pod: &Value, path: &str) -> Amounts {
    let mut total = Amounts::new();
    for container in list(pod, "spec.containers") {
        add(&mut total, &amounts(container, path));
    }
    // Sidecars keep running; each other init container runs beside the sidecars started before it.
    let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
    for container in list(pod, "spec.initContainers") {
        let own = amounts(container, path);
        let mut running = sidecars.clone();
        add(&mut running, &own);
        if text(container, "restartPolicy") == "Always" {
            add(&mut total, &own);
            sidecars = running.clone();
        }
        raise(&mut peak, running);
    }
    raise(&mut total, peak);
    total
}

fn raise(total: &mut Amounts, other: Amounts) {
    for (name, amount) in other {
        let current = total.entry(name).or_default();
        if amount > *current {
            *current = amount;
        }
    }
}

/// Whether quota and limit ranges see the pod at all: one that ended holds nothing.
pub(crate) fn is_terminal(pod: &Value) -> bool {
    matches!(text(pod, "status.phase"), "Succeeded" | "Failed")
}
