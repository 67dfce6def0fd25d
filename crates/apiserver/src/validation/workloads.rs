//! Deployments, ReplicaSets, StatefulSets, DaemonSets and ReplicationControllers.

use std::collections::BTreeSet;

use api::syntax;
use serde_json::{Value, json};

use super::metadata::labels;
use super::place::{Errors, Place};
use super::{pod, selectors};
use crate::fields::text;
use crate::kinds::Kind;

/// Validates one of the workload kinds by its name.
pub(super) fn create(errors: &mut Errors, kind: &str, root: &Place<'_>) {
    let spec = root.field("spec");
    match kind {
        "Deployment" => deployment(errors, &spec),
        "ReplicaSet" => {
            errors.not_negative(&spec.field("replicas"));
            errors.not_negative(&spec.field("minReadySeconds"));
            selectors::workload_selector(errors, &spec, "deployment");
            compilable_template(errors, &spec, "invalid label selector");
        }
        "StatefulSet" => stateful_set(errors, &spec),
        "DaemonSet" => daemon_set(errors, &spec),
        "ReplicationController" => replication_controller(errors, &spec),
        _ => {}
    }
}

/// Selectors are fixed, and a StatefulSet or DaemonSet more than that.
pub(super) fn update(errors: &mut Errors, kind: &str, root: &Place<'_>, old: &Value) {
    create(errors, kind, root);
    let spec = root.field("spec");
    let before = &old["spec"];
    match kind {
        "StatefulSet" => {
            const FREE: [&str; 7] = [
                "replicas",
                "ordinals",
                "template",
                "updateStrategy",
                "persistentVolumeClaimRetentionPolicy",
                "minReadySeconds",
                "revisionHistoryLimit",
            ];
            let fixed = |spec: &Value| -> Vec<(String, Value)> {
                let fields = spec
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter(|(name, _)| !FREE.contains(&name.as_str()));
                fields
                    .map(|(name, value)| (name.clone(), without_status(value)))
                    .collect()
            };
            if fixed(spec.value) != fixed(before) {
                errors.forbidden(&spec, "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden");
            }
        }
        "ReplicationController" => {}
        _ => {
            let selector = spec.field("selector");
            errors.immutable(&selector, before.get("selector").unwrap_or(&Value::Null));
        }
    }
}

/// Claim templates come with a status that nobody set.
fn without_status(value: &Value) -> Value {
    let mut value = value.clone();
    for claim in value.as_array_mut().into_iter().flatten() {
        crate::fields::remove(claim, "status");
    }
    value
}

/// The numbers in a status are counts.
pub(super) fn status_update(errors: &mut Errors, root: &Place<'_>, kind: &Kind) {
    let status = root.field("status");
    for name in [
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "fullyLabeledReplicas",
        "currentReplicas",
        "collisionCount",
        "observedGeneration",
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
    ] {
        errors.not_negative(&status.field(name));
    }
    let replicas = status.field("replicas");
    let zero = Value::from(0);
    let counted: &[&str] = match &*kind.kind {
        "Deployment" => &["updatedReplicas", "readyReplicas", "availableReplicas"],
        "StatefulSet" => &[
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
        ],
        _ => &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
    };
    for name in counted {
        let place = status.field(name);
        let place = if place.is_set() {
            place
        } else {
            place.showing(&zero)
        };
        if place.integer().unwrap_or_default() > replicas.integer().unwrap_or_default()
            && replicas.is_set()
        {
            errors.invalid(&place, "cannot be greater than status.replicas");
        }
    }
    let (available, ready) = (
        status.field("availableReplicas"),
        status.field("readyReplicas"),
    );
    if available.integer().unwrap_or_default() > ready.integer().unwrap_or_default() {
        let limit = match &*kind.kind {
            "StatefulSet" => "status.readyReplicas",
            _ => "readyReplicas",
        };
        errors.invalid(&available, &format!("cannot be greater than {limit}"));
    }
}

fn deployment(errors: &mut Errors, spec: &Place<'_>) {
    errors.not_negative(&spec.field("replicas"));
    selectors::workload_selector(errors, spec, "deployment");
    compilable_template(errors, spec, "invalid label selector");
    let strategy = spec.field("strategy");
    let (kind, rolling) = (strategy.field("type"), strategy.field("rollingUpdate"));
    match kind.text() {
        "Recreate" => {
            if rolling.is_set() {
                errors.forbidden(
                    &rolling,
                    "may not be specified when strategy `type` is 'Recreate'",
                );
            }
        }
        "RollingUpdate" => rolling_update(errors, &rolling),
        _ => errors.not_supported(&strategy, &["Recreate", "RollingUpdate"]),
    }
    for name in [
        "minReadySeconds",
        "revisionHistoryLimit",
        "progressDeadlineSeconds",
    ] {
        errors.not_negative(&spec.field(name));
    }
    let deadline = spec.field("progressDeadlineSeconds");
    if deadline.integer().is_some_and(|seconds| {
        seconds <= spec.field("minReadySeconds").integer().unwrap_or_default()
    }) {
        errors.invalid(&deadline, "must be greater than minReadySeconds");
    }
}

fn rolling_update(errors: &mut Errors, rolling: &Place<'_>) {
    let (surge, unavailable) = (rolling.field("maxSurge"), rolling.field("maxUnavailable"));
    number_or_percent(errors, &unavailable);
    number_or_percent(errors, &surge);
    if is_zero(unavailable.value) && is_zero(surge.value) {
        errors.invalid(&unavailable, "may not be 0 when `maxSurge` is 0");
    }
    not_above_all(errors, &unavailable);
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => text.trim_end_matches('%').parse::<i64>() == Ok(0),
        other => other.as_i64().unwrap_or_default() == 0,
    }
}

/// A count or a share.
pub(super) fn number_or_percent(errors: &mut Errors, place: &Place<'_>) {
    match place.value {
        Value::String(text) => {
            let digits = text.strip_suffix('%').unwrap_or_default();
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                errors.invalid(
                    place,
                    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
                );
            }
        }
        _ => errors.not_negative(place),
    }
}

pub(super) fn not_above_all(errors: &mut Errors, place: &Place<'_>) {
    let percent = place
        .text()
        .strip_suffix('%')
        .and_then(|digits| digits.parse::<i64>().ok());
    if percent.is_some_and(|percent| percent > 100) {
        errors.invalid(place, "must not be greater than 100%");
    }
}

/// A template whose labels match the selector and whose pods run until they are stopped.
fn template(errors: &mut Errors, spec: &Place<'_>) {
    let template = spec.field("template");
    let selector = spec.field("selector");
    let labels = &template.value["metadata"]["labels"];
    // No selector matches nothing, an empty one everything.
    let matches = selector.is_set()
        && selectors::compile(selector.value)
            .is_none_or(|compiled| selectors::matches(&compiled, labels));
    if !matches {
        let metadata = template.field("metadata");
        errors.invalid(
            &metadata.field("labels"),
            "`selector` does not match template `labels`",
        );
    }
    pod::template(errors, &template);
    runs_forever(errors, &template);
}

/// A template, unless the selector is too broken to compare it with.
/// The spec as its pods will have it: a claim template is a volume that containers may mount, in place of
/// one of the same name in the pod template.
fn with_claim_volumes(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let names: Vec<Value> = spec["volumeClaimTemplates"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|claim| claim["metadata"]["name"].clone())
        .collect();
    if names.is_empty() || !spec["template"]["spec"].is_object() {
        return spec;
    }
    let own = spec["template"]["spec"]["volumes"].take();
    let own = own.as_array().cloned().unwrap_or_default();
    let taken: BTreeSet<&str> = names
        .iter()
        .map(|name| name.as_str().unwrap_or_default())
        .collect();
    let kept = own
        .into_iter()
        .filter(|volume| !taken.contains(text(volume, "name")));
    let claims = names
        .iter()
        .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
    spec["template"]["spec"]["volumes"] = claims.chain(kept).collect();
    spec
}

fn compilable_template(errors: &mut Errors, spec: &Place<'_>, detail: &str) {
    let selector = spec.field("selector");
    if selector.is_set() && selectors::compile(selector.value).is_none() {
        errors.invalid(&selector, detail);
    } else {
        template(errors, spec);
    }
}

fn runs_forever(errors: &mut Errors, template: &Place<'_>) {
    let spec = template.field("spec");
    let policy = spec.field("restartPolicy");
    if policy.text() != "Always" {
        errors.not_supported(&policy, &["Always"]);
    }
    let deadline = spec.field("activeDeadlineSeconds");
    if deadline.is_set() {
        errors.forbidden(
            &deadline,
            "activeDeadlineSeconds in ReplicaSet is not Supported",
        );
    }
}

fn daemon_set(errors: &mut Errors, spec: &Place<'_>) {
    // UPSTREAM: a missing selector is noticed only because it matches nothing.
    if spec.field("selector").is_set() {
        selectors::workload_selector(errors, spec, "daemonset");
    }
    template(errors, spec);
    errors.not_negative(&spec.field("minReadySeconds"));
    errors.not_negative(&spec.field("revisionHistoryLimit"));
    let strategy = spec.field("updateStrategy");
    match strategy.field("type").text() {
        "OnDelete" => {}
        "RollingUpdate" => {
            let rolling = strategy.field("rollingUpdate");
            if !rolling.is_set() {
                errors.required(&rolling, "");
                return;
            }
            let (surge, unavailable) = (rolling.field("maxSurge"), rolling.field("maxUnavailable"));
            for place in [&surge, &unavailable] {
                number_or_percent(errors, place);
                not_above_all(errors, place);
            }
            match (is_zero(unavailable.value), is_zero(surge.value)) {
                (true, true) => errors.required(&unavailable, "cannot be 0 when maxSurge is 0"),
                (false, false) => {
                    errors.invalid(&surge, "may not be set when maxUnavailable is non-zero")
                }
                _ => {}
            }
        }
        _ => errors.not_supported(&strategy, &["RollingUpdate", "OnDelete"]),
    }
}

fn stateful_set(errors: &mut Errors, spec: &Place<'_>) {
    let policy = spec.field("podManagementPolicy");
    match policy.text() {
        "" => errors.required(&policy, ""),
        "OrderedReady" | "Parallel" => {}
        _ => errors.invalid(&policy, "must be 'OrderedReady' or 'Parallel'"),
    }
    let strategy = spec.field("updateStrategy");
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "" => errors.required(&strategy, ""),
        "OnDelete" => {
            if rolling.is_set() {
                errors.invalid(&rolling, "only allowed for updateStrategy 'RollingUpdate'");
            }
        }
        "RollingUpdate" => errors.not_negative(&rolling.field("partition")),
        _ => errors.invalid(&strategy, "must be 'RollingUpdate' or 'OnDelete'"),
    }
    let retention = spec.field("persistentVolumeClaimRetentionPolicy");
    for name in ["whenDeleted", "whenScaled"] {
        errors.one_of_if_set(&retention.field(name), &["Retain", "Delete"]);
    }
    errors.not_negative(&spec.field("replicas"));
    errors.not_negative(&spec.field("minReadySeconds"));
    let ordinals = spec.field("ordinals");
    errors.not_negative(&ordinals.field("start"));
    let service = spec.field("serviceName");
    if !service.text().is_empty() {
        errors.syntax(&service, syntax::validate_dns1123_label);
    }
    selectors::workload_selector(errors, spec, "statefulset");
    let with_claims = with_claim_volumes(spec.value);
    compilable_template(errors, &spec.showing(&with_claims), "");
    let claims = spec.field("volumeClaimTemplates");
    for claim in claims.items() {
        let claim_spec = claim.field("spec");
        if claim_spec.is_set() {
            super::storage::claim_spec(errors, &claim_spec);
        } else {
            errors.required(&claim_spec, "");
        }
    }
}

fn replication_controller(errors: &mut Errors, spec: &Place<'_>) {
    errors.not_negative(&spec.field("minReadySeconds"));
    let selector = spec.field("selector");
    labels(errors, &selector);
    if selector.is_empty() {
        errors.required(&selector, "");
    }
    errors.not_negative(&spec.field("replicas"));
    let template = spec.field("template");
    if !template.is_set() {
        errors.required(&template, "");
        return;
    }
    let given = template.value["metadata"]["labels"].clone();
    let matches = selector
        .entries()
        .all(|(key, value)| given.get(key) == Some(value.value));
    if !selector.is_empty() && !matches {
        let metadata = template.field("metadata");
        errors.invalid(
            &metadata.field("labels"),
            "`selector` does not match template `labels`",
        );
    }
    pod::template(errors, &template);
    runs_forever(errors, &template);
}

/// A revision's data is what it is for.
pub(super) fn controller_revision(errors: &mut Errors, root: &Place<'_>, old: Option<&Value>) {
    let data = root.field("data");
    if !data.is_set() {
        errors.required(&data, "data is mandatory");
    }
    errors.not_negative(&root.field("revision"));
    if let Some(old) = old {
        errors.immutable(&data, old.get("data").unwrap_or(&Value::Null));
    }
}
