//! What the server does to pods: QoS class, scheduling gates, label keys, addresses, and the narrow
//! subresources for ephemeral containers and resizing.

use serde_json::{Value, json};

use super::{carry_over, keep_all_but, reset_metadata};
use crate::defaults;
use crate::fields::{at, copy, integer, list, list_mut, object_mut, set, text};
use crate::kinds::Kind;
use crate::resources;

/// UPSTREAM: less than no time means a second, in whatever is written.
pub(super) fn raise_grace_period(pod: &mut Value) {
    if integer(pod, "spec.terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        set(pod, "spec.terminationGracePeriodSeconds", 1);
    }
}

pub(super) fn prepare_create(pod: &mut Value, now: &str) {
    raise_grace_period(pod);
    let class = resources::qos_class(pod);
    set(
        pod,
        "status",
        json!({"phase": "Pending", "qosClass": class}),
    );
    if !list(pod, "spec.schedulingGates").is_empty() {
        let message = "Scheduling is blocked due to non-empty scheduling gates";
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": message,
            "lastProbeTime": null, "lastTransitionTime": now});
        set(pod, "status.conditions", vec![condition]);
    }
    merge_label_keys(pod);
}

pub(super) fn prepare_status_update(new: &mut Value, old: &Value) {
    copy(new, old, "metadata.ownerReferences");
    copy(new, old, "metadata.deletionTimestamp");
    if text(new, "status.qosClass").is_empty() {
        copy(new, old, "status.qosClass");
    }
    preserve_observed_generation(new, old);
}

/// Prepares a write of the ephemeral containers: nothing else changes.
pub fn prepare_ephemeral_containers_update(kind: &Kind, new: &mut Value, old: &Value) {
    carry_over(new, old);
    let containers = at(new, "spec.ephemeralContainers").clone();
    keep_all_but(new, old, &[]);
    reset_metadata(new, old);
    if !containers.is_null() {
        set(new, "spec.ephemeralContainers", containers);
    }
    finish(kind, new, old);
}

/// Prepares a resize: resources and resize policies change, nothing else.
pub fn prepare_resize_update(kind: &Kind, new: &mut Value, old: &Value) {
    carry_over(new, old);
    let names = |pod: &Value, path: &str| -> Vec<String> {
        list(pod, path)
            .iter()
            .map(|container| text(container, "name").to_owned())
            .collect()
    };
    let wanted = new.clone();
    keep_all_but(new, old, &[]);
    reset_metadata(new, old);
    for path in ["spec.containers", "spec.initContainers"] {
        // Renamed or reordered containers are left for validation to refuse.
        if names(&wanted, path) != names(old, path) {
            copy(new, &wanted, path);
            continue;
        }
        for (container, wanted) in list_mut(new, path)
            .into_iter()
            .flatten()
            .zip(list(&wanted, path))
        {
            copy(container, wanted, "resources");
            copy(container, wanted, "resizePolicy");
        }
    }
    finish(kind, new, old);
}

fn finish(kind: &Kind, new: &mut Value, old: &Value) {
    defaults::apply(kind, new);
    if at(new, "spec") != at(old, "spec") {
        let generation = integer(old, "metadata.generation").unwrap_or_default();
        set(new, "metadata.generation", generation.saturating_add(1));
    }
}

fn preserve_observed_generation(new: &mut Value, old: &Value) {
    if integer(new, "status.observedGeneration").unwrap_or_default() == 0 {
        copy(new, old, "status.observedGeneration");
    }
    // UPSTREAM: a type may occur more than once, so the first old one of a type is used up by the first new one.
    let mut used = vec![false; list(old, "status.conditions").len()];
    for condition in list_mut(new, "status.conditions").into_iter().flatten() {
        let before = list(old, "status.conditions").iter().enumerate();
        let mut same = before.filter(|(index, before)| {
            !used[*index] && text(before, "type") == text(condition, "type")
        });
        let Some((index, before)) = same.next() else {
            continue;
        };
        used[index] = true;
        if integer(condition, "observedGeneration").unwrap_or_default() == 0 {
            copy(condition, before, "observedGeneration");
        }
    }
}

/// `matchLabelKeys` become part of the selectors beside them, with the pod's own values.
fn merge_label_keys(pod: &mut Value) {
    if at(pod, "spec.affinity").is_null() && at(pod, "spec.topologySpreadConstraints").is_null() {
        return;
    }
    let labels = at(pod, "metadata.labels").clone();
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (list, inner) in [
            (
                "preferredDuringSchedulingIgnoredDuringExecution",
                "podAffinityTerm",
            ),
            ("requiredDuringSchedulingIgnoredDuringExecution", ""),
        ] {
            for term in list_mut(pod, &format!("spec.affinity.{kind}.{list}"))
                .into_iter()
                .flatten()
            {
                let term = if inner.is_empty() {
                    Some(term)
                } else {
                    term.get_mut(inner)
                };
                term.into_iter()
                    .for_each(|term| merge_keys_into(term, &labels));
            }
        }
    }
    for constraint in list_mut(pod, "spec.topologySpreadConstraints")
        .into_iter()
        .flatten()
    {
        merge_keys_into(constraint, &labels);
    }
}

fn merge_keys_into(term: &mut Value, labels: &Value) {
    if !at(term, "labelSelector").is_object() {
        return;
    }
    let mut requirements = list(term, "labelSelector.matchExpressions").to_vec();
    for (path, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in list(term, path).iter().filter_map(Value::as_str) {
            if let Some(value) = labels.get(key) {
                requirements.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    if !requirements.is_empty() {
        object_mut(term, "labelSelector")
            .insert("matchExpressions".to_owned(), requirements.into());
    }
}
