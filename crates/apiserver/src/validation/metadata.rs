//! Names, labels, annotations, owners and finalizers: what all kinds have in common.

use std::collections::BTreeSet;

use api::syntax;
use serde_json::Value;

use super::addresses::canonical_ip_address;
use super::place::{Errors, Place};
use crate::kinds::Kind;
use crate::status::Cause;

/// Annotations may be large but not without bound.
pub(crate) const ANNOTATIONS_MAX: usize = 256 * 1024;

/// The check that a kind's names must pass.
pub(super) fn name_check(kind: &Kind) -> fn(&str) -> Vec<String> {
    match (&*kind.group, &*kind.kind) {
        ("", "Namespace" | "Service") => syntax::validate_dns1123_label,
        ("apps", "StatefulSet") => stateful_set_name,
        ("batch", "CronJob") => cron_job_name,
        // What else a bundle's name must be follows from its signer.
        ("rbac.authorization.k8s.io", _) | ("certificates.k8s.io", "ClusterTrustBundle") => {
            syntax::validate_path_segment
        }
        ("networking.k8s.io", "IPAddress") => canonical_ip_address,
        _ => syntax::validate_dns1123_subdomain,
    }
}

/// A StatefulSet's name becomes part of its pods' DNS names.
fn stateful_set_name(name: &str) -> Vec<String> {
    if name.contains('.') {
        vec!["must not contain dots".to_owned()]
    } else {
        syntax::validate_dns1123_label(name)
    }
}

/// 11 of the 63 letters are for the time that Job names end with.
fn cron_job_name(name: &str) -> Vec<String> {
    let mut faults = syntax::validate_dns1123_subdomain(name);
    if faults.is_empty() && name.len() > 52 {
        faults.push("must be no more than 52 characters".to_owned());
    }
    faults
}

pub(super) fn create(errors: &mut Errors, kind: &Kind, root: &Place<'_>) {
    let metadata = root.field("metadata");
    let check = name_check(kind);
    let (name, generate) = (metadata.field("name"), metadata.field("generateName"));
    if !generate.text().is_empty() {
        // What is appended makes a trailing hyphen fine.
        let stem = generate
            .text()
            .strip_suffix('-')
            .map(|stem| format!("{stem}a"));
        for fault in check(stem.as_deref().unwrap_or(generate.text())) {
            errors.invalid(&generate, &fault);
        }
    }
    if name.text().is_empty() {
        errors.required(&name, "name or generateName is required");
    } else {
        errors.syntax(&name, check);
    }
    let namespace = metadata.field("namespace");
    if kind.namespaced && namespace.text().is_empty() {
        errors.required(&namespace, "");
    } else if kind.namespaced {
        errors.syntax(&namespace, syntax::validate_dns1123_label);
    } else if !namespace.text().is_empty() {
        errors.forbidden(&namespace, "not allowed on this type");
    }
    common(errors, &metadata, qualifies_finalizers(root));
}

/// The metadata of an object within a custom object: any name that can be part of a path will do, or none.
pub(crate) fn embedded(metadata: &Value, path: &str) -> Vec<Cause> {
    let mut errors = Errors::default();
    let place = Place::root(metadata);
    for member in ["generateName", "name"] {
        let name = place.field(member);
        if !name.text().is_empty() {
            errors.syntax(&name, syntax::validate_path_segment);
        }
    }
    let namespace = place.field("namespace");
    if !namespace.text().is_empty() {
        errors.syntax(&namespace, syntax::validate_dns1123_label);
    }
    common(&mut errors, &place, false);
    for cause in &mut errors.0 {
        cause.field = format!("{path}.{}", cause.field);
    }
    errors.0
}

pub(super) fn update(errors: &mut Errors, root: &Place<'_>, old: &Value) {
    let metadata = root.field("metadata");
    let before = &old["metadata"];
    // Most writes leave it as it is, and that was found in order before.
    if metadata.value == before {
        return;
    }
    common(errors, &metadata, qualifies_finalizers(root));
    for name in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        let place = metadata.field(name);
        errors.immutable(&place, before.get(name).unwrap_or(&Value::Null));
    }
    // Nobody can be given a reason to wait once the object is going.
    if before["deletionTimestamp"].is_string() {
        let finalizers = metadata.field("finalizers");
        let old: BTreeSet<_> = before["finalizers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let added: Vec<_> = finalizers
            .items()
            .map(|item| item.text())
            .filter(|name| !old.contains(name))
            .collect();
        if !added.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers {}",
                go_list(&added)
            );
            errors.forbidden(&finalizers, &detail);
        }
    }
}

/// `[]string{"a", "b"}`
fn go_list(items: &[&str]) -> String {
    let quoted: Vec<_> = items.iter().map(|item| syntax::go_quote(item)).collect();
    format!("[]string{{{}}}", quoted.join(", "))
}

/// UPSTREAM: custom kinds and their definitions use the generic checks, which let finalizers without a domain pass.
fn qualifies_finalizers(root: &Place<'_>) -> bool {
    let api_version = root.field("apiVersion");
    let group = api_version
        .text()
        .split_once('/')
        .map_or("", |(group, _)| group);
    let built_in = crate::kinds::built_in()
        .iter()
        .any(|kind| kind.group == group);
    built_in && group != "apiextensions.k8s.io"
}

fn common(errors: &mut Errors, metadata: &Place<'_>, qualified: bool) {
    errors.not_negative(&metadata.field("generation"));
    let label_place = metadata.field("labels");
    labels(errors, &label_place);
    let annotation_place = metadata.field("annotations");
    annotations(errors, &annotation_place);
    owners(errors, metadata);
    finalizers(errors, &metadata.field("finalizers"), qualified);
}

pub(super) fn labels(errors: &mut Errors, place: &Place<'_>) {
    for (key, value) in place.entries() {
        let shown = Value::from(key);
        errors.syntax(&place.showing(&shown), syntax::validate_qualified_name);
        errors.syntax(&place.showing(value.value), syntax::validate_label_value);
    }
}

pub(super) fn annotations(errors: &mut Errors, place: &Place<'_>) {
    let mut size = 0;
    for (key, value) in place.entries() {
        size += key.len() + value.text().len();
        let (lower, shown) = (key.to_lowercase(), Value::from(key));
        for fault in syntax::validate_qualified_name(&lower) {
            errors.invalid(&place.showing(&shown), &fault);
        }
    }
    if size > ANNOTATIONS_MAX {
        errors.too_long(place, ANNOTATIONS_MAX);
    }
}

fn owners(errors: &mut Errors, metadata: &Place<'_>) {
    let owners = metadata.field("ownerReferences");
    let mut controllers = Vec::new();
    for owner in owners.items() {
        // UPSTREAM: these errors do not say which reference they are about.
        let place = owners.showing(owner.value);
        if owner
            .field("apiVersion")
            .text()
            .rsplit('/')
            .next()
            .is_none_or(str::is_empty)
        {
            errors.invalid(&place.field("apiVersion"), "version must not be empty");
        }
        for name in ["kind", "name", "uid"] {
            let field = place.field(name);
            if field.text().is_empty() {
                errors.invalid(&field, "must not be empty");
            }
        }
        let (version, kind) = (owner.field("apiVersion").text(), owner.field("kind").text());
        if (version, kind) == ("v1", "Event") {
            errors.invalid(&place, "/v1, Kind=Event is disallowed from being an owner");
        }
        if owner.field("controller").flag() {
            controllers.push(format!("{kind}/{}", owner.field("name").text()));
        }
    }
    if let [first, second, ..] = controllers.as_slice() {
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        errors.invalid(&owners, &detail);
    }
}

fn finalizers(errors: &mut Errors, place: &Place<'_>, qualified: bool) {
    for finalizer in place.items() {
        errors.syntax(
            &place.showing(finalizer.value),
            syntax::validate_qualified_name,
        );
        let standard = matches!(
            finalizer.text(),
            "foregroundDeletion" | "orphan" | "kubernetes"
        );
        if qualified && !finalizer.text().contains('/') && !standard {
            errors.invalid(
                &finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            );
        }
    }
    let has = |name: &str| place.items().any(|finalizer| finalizer.text() == name);
    if has("foregroundDeletion") && has("orphan") {
        errors.invalid(
            place,
            "finalizer foregroundDeletion and orphan cannot be both set",
        );
    }
}
