//! Resource names and amounts: what containers, pods, quotas and limit ranges may ask for.

use api::quantity::Quantity;
use api::syntax;
use serde_json::Value;

use super::place::{Errors, Place};
use crate::resources::{is_whole, quantity};

/// Who asks: it decides which names are known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Container,
    Pod,
}

/// Requests and limits of a container or a pod.
pub(super) fn requirements(errors: &mut Errors, place: &Place<'_>, usage: Use) {
    let (requests, limits) = (place.field("requests"), place.field("limits"));
    list(errors, &limits, usage);
    list(errors, &requests, usage);
    for (name, request) in requests.entries() {
        let Some(request) = quantity(request.value) else {
            continue;
        };
        let wrong = |errors: &mut Errors, why: &str| {
            let shown = Value::from(request.to_string());
            errors.invalid(&requests.showing(&shown), why);
        };
        match limits.value.get(name).and_then(quantity) {
            Some(limit) if request != limit && !is_overcommittable(name) => {
                wrong(errors, &format!("must be equal to {name} limit of {limit}"));
            }
            Some(limit) if request > limit => {
                let why = format!("must be less than or equal to {name} limit of {limit}");
                wrong(errors, &why);
            }
            None if !is_overcommittable(name) => {
                errors.required(
                    &limits,
                    "Limit must be set for non overcommitable resources",
                );
            }
            _ => {}
        }
    }
    let given = |name: &str| !requests.field(name).is_empty() || !limits.field(name).is_empty();
    let huge = requests
        .entries()
        .chain(limits.entries())
        .any(|(name, _)| name.starts_with("hugepages-"));
    for amounts in [&limits, &requests] {
        for (name, amount) in amounts.entries() {
            let page = name
                .strip_prefix("hugepages-")
                .and_then(|size| Quantity::parse(size).ok());
            if let Some(page) = page
                && let Some(given) = quantity(amount.value)
                && page.sign() > 0
                && !(is_whole(&page) && given.value() % page.value() == 0)
            {
                let shown = amount.text();
                let why = format!("{shown} is not positive integer multiple of {name}");
                errors.invalid(&amount, &why);
            }
        }
    }
    if huge && !given("cpu") && !given("memory") {
        errors.forbidden(place, "HugePages require cpu or memory");
    }
}

pub(super) fn list(errors: &mut Errors, place: &Place<'_>, usage: Use) {
    for (name, amount) in place.entries() {
        resource_name(errors, &amount, name, usage);
        value(errors, name, &amount);
    }
}

/// The name of a resource that containers may ask for.
pub(super) fn of_container(errors: &mut Errors, place: &Place<'_>) {
    resource_name(errors, place, place.text(), Use::Container);
}

fn resource_name(errors: &mut Errors, place: &Place<'_>, name: &str, usage: Use) {
    if matches!(name, "cpu" | "memory") {
        // Well-formed, and everyone may ask for them.
        return;
    }
    let shown = Value::from(name);
    let place = place.showing(&shown);
    qualified(errors, &place, name);
    let pod_level = matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
    if usage == Use::Pod && !pod_level {
        errors.not_supported(&place, &["cpu", "hugepages-", "memory"]);
        return;
    }
    let standard = pod_level || name == "ephemeral-storage";
    if !standard && !name.contains('/') {
        errors.invalid(&place, "must be a standard resource for containers");
    } else if name.contains('/') && !is_extended(name) {
        errors.invalid(&place, "doesn't follow extended resource name standard");
    }
}

/// A well-formed name, standard or with a domain.
pub(super) fn qualified(errors: &mut Errors, place: &Place<'_>, name: &str) {
    let faults = syntax::validate_qualified_name(name);
    for fault in &faults {
        errors.invalid(place, fault);
    }
    if faults.is_empty() && !name.contains('/') && !is_standard(name) {
        errors.invalid(place, "must be a standard resource type or fully qualified");
    }
}

/// Names without a domain that mean something somewhere.
pub(super) fn is_standard(name: &str) -> bool {
    const NAMES: [&str; 21] = [
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "storage",
        "requests.storage",
        "services.nodeports",
        "services.loadbalancers",
        "serviceaccounts",
    ];
    NAMES.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
}

/// Names that the quota system counts itself.
pub(super) fn is_standard_quota(name: &str) -> bool {
    !name.contains('/') && is_standard(name) && !matches!(name, "storage" | "serviceaccounts")
}

fn is_extended(name: &str) -> bool {
    let native = name.contains("kubernetes.io/") || name.starts_with("requests.");
    !native && syntax::validate_qualified_name(&format!("requests.{name}")).is_empty()
}

/// A non-negative amount, whole for what comes in pieces.
pub(super) fn value(errors: &mut Errors, name: &str, place: &Place<'_>) {
    let Some(amount) = quantity(place.value) else {
        return;
    };
    not_negative(errors, place, &amount);
    let counted = matches!(
        name,
        "pods"
            | "resourcequotas"
            | "services"
            | "replicationcontrollers"
            | "secrets"
            | "configmaps"
            | "persistentvolumeclaims"
            | "services.nodeports"
            | "services.loadbalancers"
    );
    let whole = counted || name.starts_with("count/") || is_extended_name(name);
    if whole && !is_whole(&amount) {
        errors.invalid(place, "must be an integer");
    }
}

fn is_extended_name(name: &str) -> bool {
    name.contains('/')
        && !name.contains("storageclass.storage.k8s.io/")
        && is_extended(name.trim_start_matches("requests."))
}

pub(super) fn not_negative(errors: &mut Errors, place: &Place<'_>, amount: &Quantity) {
    if amount.sign() < 0 {
        errors.invalid(place, "must be greater than or equal to 0");
    }
}

/// Whether requests may be less than limits: not for what cannot be shared.
fn is_overcommittable(name: &str) -> bool {
    !name.starts_with("hugepages-") && (!name.contains('/') || name.contains("kubernetes.io/"))
}
