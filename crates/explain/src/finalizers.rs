//! Who holds an object that is being deleted.

use serde_json::Value;

use crate::Obstacle;
use crate::facts::kind_of;
use crate::json::{list, time};

/// Well-known finalizers and what they wait for.
const KNOWN: [(&str, &str); 11] = [
    (
        "foregroundDeletion",
        "until everything that it owns is gone",
    ),
    ("orphan", "until its dependents are orphaned"),
    ("kubernetes.io/pvc-protection", "as long as a pod uses it"),
    (
        "kubernetes.io/pv-protection",
        "as long as a claim is bound to it",
    ),
    (
        "kubernetes.io/vac-protection",
        "as long as a volume or a claim names it",
    ),
    ("kubernetes", "until everything in it is gone"),
    (
        "batch.kubernetes.io/job-tracking",
        "until its Job has counted it",
    ),
    (
        "service.kubernetes.io/load-balancer-cleanup",
        "until the cloud has removed its load balancer",
    ),
    (
        "external-provisioner.volume.kubernetes.io/finalizer",
        "until the storage driver has removed its volume",
    ),
    (
        "networking.k8s.io/service-cidr-finalizer",
        "as long as a Service has an address that no other ServiceCIDR gives out",
    ),
    (
        "customresourcecleanup.apiextensions.k8s.io",
        "until all objects of its kind are gone",
    ),
];

/// The obstacle of an object that is being deleted and has finalizers.
pub(crate) fn holding(object: &Value) -> Option<Obstacle> {
    let since = time(object, "/metadata/deletionTimestamp")?;
    let held: Vec<String> = names(object).map(describe).collect();
    if held.is_empty() {
        return None;
    }
    Some(Obstacle::of(object, format!("held by {}", held.join(" and "))).since(Some(since)))
}

pub(crate) fn names(object: &Value) -> impl Iterator<Item = &str> {
    let meta = list(object, "/metadata/finalizers");
    let spec = match kind_of(object) {
        "Namespace" => list(object, "/spec/finalizers"),
        _ => &[],
    };
    meta.iter().chain(spec).filter_map(Value::as_str)
}

/// What a well-known finalizer waits for.
fn until(finalizer: &str) -> Option<&'static str> {
    // The name of the driver follows.
    if finalizer.starts_with("external-attacher/") {
        return Some("as long as it is attached to a node");
    }
    let known = KNOWN.iter().find(|(name, _)| *name == finalizer);
    known.map(|(_, until)| *until)
}

/// `finalizer a/b, which a controller of "a" has to remove`
pub(crate) fn describe(finalizer: &str) -> String {
    if let Some(until) = until(finalizer) {
        return format!("finalizer {finalizer} {until}");
    }
    match finalizer.split_once('/') {
        Some((domain, _)) => {
            format!("finalizer {finalizer}, which the controller of {domain} has to remove")
        }
        None => format!("finalizer {finalizer}, which its controller has to remove"),
    }
}

/// Finalizers that only a person can do something about when nobody removes them.
pub(crate) fn foreign(object: &Value) -> bool {
    names(object).any(|name| until(name).is_none())
}
