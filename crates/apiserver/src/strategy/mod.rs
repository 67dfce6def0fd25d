//! What each kind does to an object before it is stored: status and spec kept apart, generation,
//! fields that only the server sets. Mirrors `pkg/registry/*/*/strategy.go`.
//!
//! The order of a write, as upstream has it: decode, [`crate::defaults`], mutating admission, then
//! one of these functions, validation, validating admission. A uid is needed before
//! [`prepare_create`], because a Job's selector holds it. `now` is the time as objects spell it.

mod devices;
mod generation;
mod pod;
mod pod_groups;
pub(crate) mod services;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

pub use pod::{prepare_ephemeral_containers_update, prepare_resize_update};

use crate::defaults;
use crate::defaults::workloads::TEMPLATE_GENERATION;
use crate::fields::{at, copy, entry, flag, list, list_mut, object_mut, remove, set, text};
use crate::kinds::{Kind, Subresource};
use crate::schema::{self, Shape};

/// Prepares an object that is about to be created.
pub fn prepare_create(kind: &Kind, new: &mut Value, now: &str) {
    // UPSTREAM: a node's kubelet creates it with its status; a CSIDriver has no generation until it changes.
    if has_status(kind) && !kind.is("", "Node") {
        clear_status(kind, new);
    }
    if (kind.generation && !kind.is("storage.k8s.io", "CSIDriver")) || kind.custom().is_some() {
        set(new, "metadata.generation", 1);
    }
    match (&*kind.group, &*kind.kind) {
        ("", "Pod") => pod::prepare_create(new, now),
        ("", "Namespace") => prepare_namespace(new),
        ("", "PersistentVolume") => {
            set(
                new,
                "status",
                json!({"phase": "Pending", "lastPhaseTransitionTime": now}),
            );
        }
        ("", "PersistentVolumeClaim") => normalize_data_source(new, None),
        ("", "ServiceAccount") => clean_secret_references(new),
        ("", "Service") => services::normalize_cluster_ips(new, None),
        ("apps", "DaemonSet") => {
            let given = entry(new, "metadata.annotations", TEMPLATE_GENERATION);
            let generation = given
                .and_then(|text| text.parse::<i64>().ok())
                .unwrap_or(1)
                .max(1);
            set_template_generation(new, generation);
        }
        ("apps", "StatefulSet") => prepare_stateful_set(new, None),
        ("coordination.k8s.io", "Lease") => drop_coordination(new),
        ("discovery.k8s.io", "EndpointSlice") => {
            // UPSTREAM: a field of an older version, kept only where it already is.
            for endpoint in list_mut(new, "endpoints").into_iter().flatten() {
                remove(endpoint, "deprecatedTopology");
            }
        }
        ("batch", "Job") if !flag(new, "spec.manualSelector") => generate_job_selector(new),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => add_stored_version(new),
        ("apiregistration.k8s.io", "APIService") if at(new, "spec.service").is_null() => {
            set(
                new,
                "status.conditions",
                json!([{"type": "Available", "status": "True", "reason": "Local",
                    "message": "Local APIServices are always available", "lastTransitionTime": now}]),
            );
        }
        ("resource.k8s.io", "ResourceSlice" | "DeviceTaintRule") => devices::stamp_taints(new, now),
        ("scheduling.k8s.io", "PodGroup" | "Workload") => pod_groups::drop_disabled(new, None),
        _ => {}
    }
    if kind.is("", "Pod") {
        #[cfg(test)]
        assert_has_defaults(kind, new);
    } else {
        defaults::apply(kind, new);
    }
}

/// A pod got its defaults when it was decoded, and those of what mutating admission added there: by far the most
/// objects are pods, and looking through a whole one takes a while.
#[cfg(test)]
fn assert_has_defaults(kind: &Kind, object: &Value) {
    let mut defaulted = object.clone();
    defaults::apply(kind, &mut defaulted);
    assert_eq!(object, &defaulted);
}

/// Prepares an object that replaces `old`.
pub fn prepare_update(kind: &Kind, new: &mut Value, old: &Value, now: &str) {
    carry_over(new, old);
    if has_status(kind) {
        copy(new, old, "status");
    }
    match (&*kind.group, &*kind.kind) {
        ("", "Namespace") => copy(new, old, "spec.finalizers"),
        ("", "Pod") => pod::raise_grace_period(new),
        ("", "Service") => services::prepare_update(new, old),
        ("", "PersistentVolumeClaim") => normalize_data_source(new, Some(old)),
        ("", "ServiceAccount") => clean_secret_references(new),
        ("apps", "DaemonSet") => {
            let given = entry(old, "metadata.annotations", TEMPLATE_GENERATION);
            let generation = given.and_then(|text| text.parse::<i64>().ok()).unwrap_or(1);
            let changed = at(new, "spec.template") != at(old, "spec.template");
            set_template_generation(new, generation + i64::from(changed));
        }
        ("apps", "StatefulSet") => prepare_stateful_set(new, Some(old)),
        ("certificates.k8s.io", "CertificateSigningRequest") => copy(new, old, "spec"),
        ("coordination.k8s.io", "Lease") => drop_coordination(new),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => add_stored_version(new),
        ("resource.k8s.io", "ResourceSlice") => devices::stamp_taints(new, now),
        ("resource.k8s.io", "DeviceTaintRule") => devices::prepare_rule_update(new, old, now),
        ("scheduling.k8s.io", "PodGroup" | "Workload") => {
            pod_groups::drop_disabled(new, Some(old));
        }
        _ => {}
    }
    defaults::apply(kind, new);
    if generation::changed(kind, new, old) {
        let generation = at(old, "metadata.generation").as_i64().unwrap_or_default();
        set(new, "metadata.generation", generation.saturating_add(1));
    }
}

/// Prepares a write of the status subresource: only the status changes, and metadata where upstream lets it.
pub fn prepare_status_update(kind: &Kind, new: &mut Value, old: &Value, now: &str) {
    carry_over(new, old);
    keep_all_but(new, old, &["status"]);
    if kind.custom().is_some() || resets_metadata(kind) {
        reset_metadata(new, old);
    }
    match (&*kind.group, &*kind.kind) {
        ("", "Pod") => pod::prepare_status_update(new, old),
        ("", "PersistentVolume") => mark_phase_transition(new, old, now),
        ("apps", "Deployment") => copy(new, old, "metadata.labels"),
        ("apps", "DaemonSet") => {
            // UPSTREAM: behind the annotation is a field of the spec, which status writes do not touch.
            if let Some(generation) = entry(old, "metadata.annotations", TEMPLATE_GENERATION) {
                object_mut(new, "metadata.annotations")
                    .insert(TEMPLATE_GENERATION.to_owned(), generation.into());
            }
        }
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            for kind in ["Approved", "Denied"] {
                preserve_conditions(new, old, kind);
            }
            stamp_conditions(new, old, now);
        }
        ("apiregistration.k8s.io", "APIService") => {
            for path in [
                "metadata.labels",
                "metadata.annotations",
                "metadata.finalizers",
                "metadata.ownerReferences",
            ] {
                copy(new, old, path);
            }
        }
        ("flowcontrol.apiserver.k8s.io", _) => reset_metadata(new, old),
        _ => {}
    }
    defaults::apply(kind, new);
}

/// Prepares a write of a CertificateSigningRequest's approval: only the conditions change.
pub fn prepare_approval_update(kind: &Kind, new: &mut Value, old: &Value, now: &str) {
    carry_over(new, old);
    stamp_conditions(new, old, now);
    let conditions = at(new, "status.conditions").clone();
    keep_all_but(new, old, &[]);
    match conditions.is_null() {
        true => drop(remove(new, "status.conditions")),
        false => set(new, "status.conditions", conditions),
    }
    defaults::apply(kind, new);
}

/// Prepares a write of a Namespace's finalizers.
pub fn prepare_finalize_update(kind: &Kind, new: &mut Value, old: &Value) {
    carry_over(new, old);
    copy(new, old, "status");
    defaults::apply(kind, new);
}

fn has_status(kind: &Kind) -> bool {
    kind.has(Subresource::Status) || kind.custom().is_some_and(|custom| custom.has_status)
}

/// What an update cannot change and need not repeat.
fn carry_over(new: &mut Value, old: &Value) {
    let before = &old["metadata"];
    let metadata = object_mut(new, "metadata");
    if metadata.get("generation") != before.get("generation") {
        metadata.remove("generation");
    }
    for name in [
        "generation",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        let is_there = |held: Option<&Value>| held.is_some_and(|held| !held.is_null());
        if let Some(held) = before.get(name)
            && !held.is_null()
            && !is_there(metadata.get(name))
        {
            metadata.insert(name.to_owned(), held.clone());
        }
    }
}

fn clear_status(kind: &Kind, new: &mut Value) {
    let ty = schema::type_for(&kind.group, &kind.version, &kind.kind);
    let empty = ty
        .and_then(|ty| ty.field("status"))
        .filter(|field| !field.pointer)
        .map(|field| match &field.ty {
            Shape::Ref(ty) => schema::empty(ty),
            _ => Value::Null,
        });
    match empty {
        Some(empty) => set(new, "status", empty),
        None => {
            remove(new, "status");
        }
    }
}

/// Takes every top-level field but metadata and those named from the old object.
fn keep_all_but(new: &mut Value, old: &Value, changing: &[&str]) {
    let kept = |name: &String| name == "metadata" || changing.contains(&name.as_str());
    let object = object_mut(new, "");
    object.retain(|name, _| kept(name) || old.get(name).is_some());
    for (name, value) in old.as_object().into_iter().flatten() {
        // Most writes repeat it as it is, and comparing costs less than cloning.
        if !kept(name) && object.get(name) != Some(value) {
            object.insert(name.clone(), value.clone());
        }
    }
}

/// Kinds whose status writes leave metadata alone; the older ones let it through.
fn resets_metadata(kind: &Kind) -> bool {
    matches!(
        (&*kind.group, &*kind.kind),
        (
            "resource.k8s.io",
            "ResourceClaim" | "DeviceTaintRule" | "ResourcePoolStatusRequest"
        ) | ("scheduling.k8s.io", "PodGroup")
            | ("storage.k8s.io", "VolumeAttachment")
            | ("certificates.k8s.io", "PodCertificateRequest")
            | ("networking.k8s.io", "ServiceCIDR")
            | ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy")
    )
}

fn reset_metadata(new: &mut Value, old: &Value) {
    for path in [
        "metadata.deletionTimestamp",
        "metadata.generation",
        "metadata.selfLink",
        "metadata.labels",
        "metadata.annotations",
        "metadata.finalizers",
        "metadata.ownerReferences",
    ] {
        copy(new, old, path);
    }
}

/// Coordinated leader election is behind a gate that is off by default.
fn drop_coordination(lease: &mut Value) {
    if let Some(spec) = lease.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("strategy");
        spec.remove("preferredHolder");
    }
}

fn prepare_namespace(namespace: &mut Value) {
    set(namespace, "status", json!({"phase": "Active"}));
    let mut finalizers = list(namespace, "spec.finalizers").to_vec();
    if !finalizers.iter().any(|finalizer| finalizer == "kubernetes") {
        finalizers.push("kubernetes".into());
    }
    set(namespace, "spec.finalizers", finalizers);
}

fn set_template_generation(set: &mut Value, generation: i64) {
    object_mut(set, "metadata.annotations").insert(
        TEMPLATE_GENERATION.to_owned(),
        generation.to_string().into(),
    );
}

/// Claim templates say what they are; `maxUnavailable` is behind a gate that is off by default.
fn prepare_stateful_set(new: &mut Value, old: Option<&Value>) {
    for claim in list_mut(new, "spec.volumeClaimTemplates")
        .into_iter()
        .flatten()
    {
        set(claim, "apiVersion", "v1");
        set(claim, "kind", "PersistentVolumeClaim");
    }
    let path = "spec.updateStrategy.rollingUpdate.maxUnavailable";
    if old.is_none_or(|old| at(old, path).is_null()) {
        remove(new, path);
    }
}

/// References to secrets are by name; what else was given is dropped.
fn clean_secret_references(account: &mut Value) {
    for secret in list_mut(account, "secrets").into_iter().flatten() {
        *secret = json!({"name": text(secret, "name")});
    }
}

/// Labels that only this Job's pods have, and a selector for them.
fn generate_job_selector(job: &mut Value) {
    let (name, uid) = (
        at(job, "metadata.name").clone(),
        at(job, "metadata.uid").clone(),
    );
    // UPSTREAM: a Job without labels has those of its template, and shares the map with it.
    let shares_labels = at(job, "metadata.labels").is_object()
        && at(job, "metadata.labels") == at(job, "spec.template.metadata.labels");
    let labels = object_mut(job, "spec.template.metadata.labels");
    for (key, value) in [
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("batch.kubernetes.io/controller-uid", &uid),
    ] {
        labels.entry(key).or_insert_with(|| value.clone());
    }
    if shares_labels {
        let labels = at(job, "spec.template.metadata.labels").clone();
        set(job, "metadata.labels", labels);
    }
    object_mut(job, "spec.selector.matchLabels")
        .entry("batch.kubernetes.io/controller-uid")
        .or_insert(uid);
}

/// `dataSource` and `dataSourceRef` say the same: whichever is given fills the other.
fn normalize_data_source(claim: &mut Value, old: Option<&Value>) {
    let in_use = |claim: &Value| {
        !at(claim, "spec.dataSource").is_null() || !at(claim, "spec.dataSourceRef").is_null()
    };
    if !old.is_some_and(in_use) && at(claim, "spec.dataSourceRef").is_null() {
        let known = matches!(
            (
                text(claim, "spec.dataSource.apiGroup"),
                text(claim, "spec.dataSource.kind")
            ),
            ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
        );
        if !known {
            remove(claim, "spec.dataSource");
        }
    }
    let (source, reference) = (
        at(claim, "spec.dataSource").clone(),
        at(claim, "spec.dataSourceRef").clone(),
    );
    if source.is_object() && reference.is_null() {
        set(claim, "spec.dataSourceRef", source);
    } else if source.is_null() && reference.is_object() && text(&reference, "namespace").is_empty()
    {
        let mut source = reference;
        remove(&mut source, "namespace");
        set(claim, "spec.dataSource", source);
    }
}

fn add_stored_version(definition: &mut Value) {
    let stored = list(definition, "spec.versions")
        .iter()
        .find(|version| flag(version, "storage"));
    let Some(name) = stored.map(|version| at(version, "name").clone()) else {
        return;
    };
    let mut versions = list(definition, "status.storedVersions").to_vec();
    if !versions.contains(&name) {
        versions.push(name);
    }
    set(definition, "status.storedVersions", versions);
}

fn mark_phase_transition(new: &mut Value, old: &Value, now: &str) {
    let path = "status.lastPhaseTransitionTime";
    let same_time = at(new, path).is_null() || at(new, path) == at(old, path);
    match text(new, "status.phase") == text(old, "status.phase") {
        true if at(new, path).is_null() => copy(new, old, path),
        false if same_time => set(new, path, now),
        _ => {}
    }
}

fn preserve_conditions(new: &mut Value, old: &Value, kind: &str) {
    let kept: Vec<_> = list(old, "status.conditions")
        .iter()
        .filter(|condition| text(condition, "type") == kind)
        .collect();
    let conditions = list_mut(new, "status.conditions").into_iter().flatten();
    let given: Vec<_> = conditions
        .filter(|condition| text(condition, "type") == kind)
        .collect();
    if kept.len() == given.len() {
        given
            .into_iter()
            .zip(kept)
            .for_each(|(given, kept)| *given = kept.clone());
    }
}

fn stamp_conditions(new: &mut Value, old: &Value, now: &str) {
    for condition in list_mut(new, "status.conditions").into_iter().flatten() {
        if at(condition, "lastUpdateTime").is_null() {
            set(condition, "lastUpdateTime", now);
        }
        if at(condition, "lastTransitionTime").is_null() {
            let same = |old: &&Value| {
                ["type", "status"]
                    .iter()
                    .all(|name| at(old, name) == at(condition, name))
            };
            let before = list(old, "status.conditions")
                .iter()
                .find(same)
                .map(|old| at(old, "lastTransitionTime"));
            let time = before
                .filter(|time| time.is_string())
                .cloned()
                .unwrap_or_else(|| now.into());
            set(condition, "lastTransitionTime", time);
        }
    }
}
