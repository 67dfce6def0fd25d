//! What objects use up of a ResourceQuota: one answer for the API server, which refuses what does not fit, and for the
//! controller, which counts again.
//!
//! A kind is counted by its [`Evaluator`]; an object of it is an [`Item`]. Names of resources are upstream's:
//! `requests.cpu`, `count/deployments.apps`, `gold.storageclass.storage.k8s.io/requests.storage`. Mirrors
//! `pkg/quota/v1/evaluator/core` and `apiserver/pkg/quota/v1/generic`.

mod claims;
mod devices;
mod pods;
mod scopes;
mod services;

#[cfg(test)]
mod tests;

use crate::amounts::Amounts;
use crate::gates::{Gate, Gates};
use crate::intern::Istr;
use crate::kinds::{PersistentVolumeClaim, Pod, ResourceClaim, Service};
use crate::quantity::{Format, Quantity};
use crate::time::MicroTime;

pub use devices::{DeviceClasses, is_paid_by, paying_pod};
pub use pods::{PodCharge, charged_until, missing_requests};
pub use scopes::{Scope, matches, matches_gated};

/// Kinds that nobody counts: what is not stored, and events, which were never counted.
pub const IGNORED: [(&str, &str); 10] = [
    ("", "bindings"),
    ("", "componentstatuses"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("", "events"),
    ("events.k8s.io", "events"),
];

/// Core kinds that had a name of their own before `count/` existed.
const LEGACY_COUNTS: [&str; 4] = [
    "configmaps",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
];

/// How the objects of one kind are counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Evaluator {
    kind: Counted,
    /// `count/…`.
    count: Istr,
    /// Its older name, if it has one.
    legacy: Option<Istr>,
    /// Does an expansion that was given up count as far as it got? The gate RecoverVolumeExpansionFailure.
    counts_allocated: bool,
}

/// What more than the number of objects matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counted {
    Pods,
    Services,
    Claims,
    Devices,
    Objects,
}

impl Evaluator {
    /// The evaluator of a resource, by its group and plural.
    pub fn of(group: &str, plural: &str) -> Evaluator {
        let count = match group {
            "" => format!("count/{plural}"),
            _ => format!("count/{plural}.{group}"),
        };
        let kind = match (group, plural) {
            ("", "pods") => Counted::Pods,
            ("", "services") => Counted::Services,
            ("", "persistentvolumeclaims") => Counted::Claims,
            ("resource.k8s.io", "resourceclaims") => Counted::Devices,
            _ => Counted::Objects,
        };
        let is_legacy = group.is_empty() && LEGACY_COUNTS.contains(&plural);
        Evaluator {
            kind,
            count: count.into(),
            legacy: is_legacy.then(|| plural.into()),
            counts_allocated: true,
        }
    }

    /// The same, as these gates have it.
    #[must_use]
    pub fn gated(self, gates: Gates) -> Evaluator {
        Evaluator {
            counts_allocated: gates.enabled(Gate::RecoverVolumeExpansionFailure),
            ..self
        }
    }

    pub fn counted(&self) -> Counted {
        self.kind
    }

    /// Is a quota's resource one that objects of this kind use up?
    pub fn tracks(&self, resource: &str, classes: &DeviceClasses) -> bool {
        let named =
            self.count == resource || self.legacy.as_ref().is_some_and(|name| name == resource);
        named
            || match self.kind {
                Counted::Pods => pods::tracks(resource),
                Counted::Services => services::tracks(resource),
                Counted::Claims => claims::tracks(resource),
                Counted::Devices => devices::tracks(resource, classes),
                Counted::Objects => false,
            }
    }

    /// The resources of a quota that objects of this kind use up, in order.
    pub fn tracked<'a>(
        &self,
        hard: impl IntoIterator<Item = &'a Istr>,
        classes: &DeviceClasses,
    ) -> Vec<&'a Istr> {
        let hard = hard.into_iter();
        hard.filter(|resource| self.tracks(resource, classes))
            .collect()
    }

    /// What one object uses up.
    pub fn usage(&self, item: &Item<'_>, now: MicroTime) -> Amounts {
        let mut usage = match item {
            Item::Pod(pod) => pods::usage(pod, now),
            Item::Service(service) => services::usage(service),
            Item::Claim(claim) => claims::usage(claim, self.counts_allocated),
            Item::Devices(claim, classes, pod) => {
                devices::usage(claim, classes, pod.map(|pod| (pod, now)))
            }
            Item::Other => Amounts::new(),
        };
        usage.insert(self.count.clone(), one());
        if let Some(name) = &self.legacy {
            usage.insert(name.clone(), one());
        }
        usage
    }
}

/// An object, as far as it matters how much it uses.
#[derive(Clone, Copy)]
pub enum Item<'a> {
    Pod(&'a Pod),
    Service(&'a Service),
    Claim(&'a PersistentVolumeClaim),
    /// With the pod whose extended resources it stands for, if there is one: those are the pod's to pay for.
    Devices(&'a ResourceClaim, &'a DeviceClasses, Option<&'a Pod>),
    Other,
}

/// The group and plural of the kind that `count/…` names, or an old name.
pub fn counted_kind(resource: &str) -> Option<(&str, &str)> {
    match resource.strip_prefix("count/") {
        Some(qualified) => {
            let (plural, group) = qualified.split_once('.').unwrap_or((qualified, ""));
            Some((group, plural))
        }
        None => LEGACY_COUNTS.contains(&resource).then_some(("", resource)),
    }
}

/// Could a name mean devices? Whether it does depends on the device classes.
pub fn may_be_devices(resource: &str) -> bool {
    devices::is_by_class(resource) || pods::is_extended(resource)
}

fn one() -> Quantity {
    number(1)
}

fn number(count: usize) -> Quantity {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    Quantity::new(count, Format::DecimalSi)
}
