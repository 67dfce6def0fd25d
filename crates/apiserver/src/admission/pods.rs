//! Priority, DefaultTolerationSeconds, RuntimeClass, PodTopologyLabels and TaintNodesByCondition.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Cluster, Context, Operation, Request, built_in};
use crate::fields::{
    at, copy, entries, entry, flag, integer, list, list_mut, object_mut, set, text,
};
use crate::status::Status;

/// The class's value, or the default class's, or zero.
pub(super) fn set_priority(
    context: &Context<'_>,
    request: &Request<'_>,
    pod: &mut Value,
) -> Result<(), Status> {
    let kind = built_in("scheduling.k8s.io", "PriorityClass");
    let class = match text(pod, "spec.priorityClassName") {
        "" => {
            let class = default_class(context);
            if let Some(class) = &class {
                set(
                    pod,
                    "spec.priorityClassName",
                    at(class, "metadata.name").clone(),
                );
            }
            class
        }
        name => {
            let missing =
                || request.forbidden(&format!("no PriorityClass with name {name} was found"));
            Some(context.cluster.get(kind, "", name).ok_or_else(missing)?)
        }
    };
    let priority = class
        .as_ref()
        .and_then(|class| integer(class, "value"))
        .unwrap_or_default();
    if let Some(given) = integer(pod, "spec.priority").filter(|given| *given != priority) {
        return Err(request.forbidden(&format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {priority} from the given PriorityClass name"
        )));
    }
    set(pod, "spec.priority", priority);
    let policy = class
        .as_ref()
        .map(|class| text(class, "preemptionPolicy"))
        .filter(|policy| !policy.is_empty());
    let policy = policy.unwrap_or("PreemptLowerPriority");
    match text(pod, "spec.preemptionPolicy") {
        "" => set(pod, "spec.preemptionPolicy", policy),
        given if given != policy => {
            return Err(request.forbidden(&format!(
                "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
            )));
        }
        _ => {}
    }
    Ok(())
}

/// UPSTREAM: what was chosen when the pod was created need not be repeated.
pub(super) fn keep_priority(pod: &mut Value, old: &Value) {
    for path in ["spec.priority", "spec.preemptionPolicy"] {
        if at(pod, path).is_null() {
            copy(pod, old, path);
        }
    }
}

/// Of several defaults (there should be one), the lowest value hurts least.
fn default_class(context: &Context<'_>) -> Option<Arc<Value>> {
    let classes = context
        .cluster
        .list(built_in("scheduling.k8s.io", "PriorityClass"), "");
    classes
        .into_iter()
        .filter(|class| flag(class, "globalDefault"))
        .min_by_key(|class| integer(class, "value"))
}

/// Only one class may be the default.
pub(super) fn check_priority_class(
    context: &Context<'_>,
    request: &Request<'_>,
    class: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    if !request.is("scheduling.k8s.io", "PriorityClass") || !flag(class, "globalDefault") {
        return Ok(());
    }
    let Some(other) = default_class(context) else {
        return Ok(());
    };
    let name = text(&other, "metadata.name");
    // UPSTREAM: an update may keep its own default but not take it from another class.
    let same = request.operation == Operation::Update
        && old.is_some_and(|old| text(old, "metadata.name") == name);
    if same {
        return Ok(());
    }
    Err(request.forbidden(&format!(
        "PriorityClass {name} is already marked as default. Only one default can exist"
    )))
}

pub(super) fn add_default_tolerations(context: &Context<'_>, pod: &mut Value) {
    let seconds = context.settings.tolerations;
    let wanted = [
        ("node.kubernetes.io/not-ready", seconds.not_ready),
        ("node.kubernetes.io/unreachable", seconds.unreachable),
    ];
    let wanted = wanted.map(|(key, seconds)| {
        json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds})
    });
    let given = list(pod, "spec.tolerations");
    let missing = wanted.iter().filter(|wanted| {
        let tolerated = |toleration: &Value| {
            let (key, effect) = (text(toleration, "key"), text(toleration, "effect"));
            (key == text(wanted, "key") || key.is_empty()) && matches!(effect, "NoExecute" | "")
        };
        !given.iter().any(tolerated)
    });
    let missing: Vec<Value> = missing.cloned().collect();
    // A pod that tolerates everything already keeps its list as it is.
    if missing.is_empty() {
        return;
    }
    match list_mut(pod, "spec.tolerations") {
        Some(tolerations) => tolerations.extend(missing),
        None => set(pod, "spec.tolerations", missing),
    }
}

/// What a pod is told of the place where it runs.
const TOPOLOGY: [&str; 2] = [
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// PodTopologyLabels: a pod that has its node from the start is labelled with the place of it.
pub(super) fn label_topology(context: &Context<'_>, pod: &mut Value) {
    let place = place_of(context.cluster, text(pod, "spec.nodeName"));
    if !place.is_empty() {
        object_mut(pod, "metadata.labels").extend(place);
    }
}

/// The labels that a pod gets from its node; none from a node that is not there.
pub(crate) fn place_of(cluster: &dyn Cluster, node: &str) -> Vec<(String, Value)> {
    let node = match node {
        "" => None,
        name => cluster.get(built_in("", "Node"), "", name),
    };
    let Some(node) = node else {
        return Vec::new();
    };
    let label = |key: &str| {
        let value = entry(&node, "metadata.labels", key)?;
        Some((key.to_owned(), json!(value)))
    };
    TOPOLOGY.into_iter().filter_map(label).collect()
}

/// Overhead and scheduling constraints of the pod's runtime.
pub(super) fn apply_runtime_class(
    context: &Context<'_>,
    request: &Request<'_>,
    pod: &mut Value,
) -> Result<(), Status> {
    let name = text(pod, "spec.runtimeClassName");
    if name.is_empty() {
        if entries(pod, "spec.overhead").next().is_some() {
            return Err(request.forbidden("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"));
        }
        return Ok(());
    }
    let Some(class) = context
        .cluster
        .get(built_in("node.k8s.io", "RuntimeClass"), "", name)
    else {
        return Err(request.forbidden(&format!("pod rejected: RuntimeClass \"{name}\" not found")));
    };
    let fixed = at(&class, "overhead.podFixed");
    if !at(pod, "spec.overhead").is_null() && at(pod, "spec.overhead") != fixed {
        return Err(request.forbidden(
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ));
    }
    if fixed.is_object() {
        set(pod, "spec.overhead", fixed.clone());
        // Its amounts are rounded as those of a pod are.
        crate::defaults::apply(request.kind, pod);
    }
    for (key, value) in entries(&class, "scheduling.nodeSelector") {
        let selector = object_mut(pod, "spec.nodeSelector");
        if let Some(given) = selector.get(key).filter(|given| *given != value) {
            let (wanted, given) = (
                value.as_str().unwrap_or_default(),
                given.as_str().unwrap_or_default(),
            );
            return Err(request.forbidden(&format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted}; pod.spec.nodeSelector[{key}] = {given}"
            )));
        }
        selector.insert(key.to_owned(), value.clone());
    }
    let mut tolerations = list(pod, "spec.tolerations").to_vec();
    let missing: Vec<_> = list(&class, "scheduling.tolerations")
        .iter()
        .filter(|one| !tolerations.contains(one))
        .cloned()
        .collect();
    if !missing.is_empty() {
        tolerations.extend(missing);
        set(pod, "spec.tolerations", tolerations);
    }
    Ok(())
}

/// A new node takes no pods until the node controller has seen it ready.
pub(super) fn taint_new_node(node: &mut Value) {
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let mut taints = list(node, "spec.taints").to_vec();
    let same = |given: &Value| {
        text(given, "key") == text(&taint, "key") && text(given, "effect") == text(&taint, "effect")
    };
    if !taints.iter().any(same) {
        taints.push(taint);
        set(node, "spec.taints", taints);
    }
}
