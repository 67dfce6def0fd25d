//! Resource claims: their number, and the devices that they may get, by class.

use std::collections::BTreeMap;

use super::pods;
use crate::amounts::{Amounts, add, raise};
use crate::intern::Istr;
use crate::kinds::{DeviceClass, DeviceCount, EXTENDED_RESOURCE_CLAIM, Pod, ResourceClaim};
use crate::meta::OwnerRef;
use crate::quantity::{Format, Quantity};
use crate::time::MicroTime;

const BY_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
const IMPLICIT: &str = "requests.deviceclass.resource.kubernetes.io/";
/// UPSTREAM: a claim for all devices may get as many as fit into a claim's status.
const ALL_DEVICES: i64 = 32;

/// The extended resource that each device class stands for, where it stands for one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceClasses {
    /// Devices count in the notation of extended resources, too.
    as_extended: bool,
    by_name: BTreeMap<Istr, Istr>,
}

impl DeviceClasses {
    pub fn new<'a>(classes: impl IntoIterator<Item = &'a DeviceClass>) -> DeviceClasses {
        let named = classes.into_iter().filter_map(|class| {
            let resource = class.spec.extended_resource_name.clone()?;
            Some((Istr::new(&class.metadata.name), resource))
        });
        DeviceClasses {
            as_extended: true,
            by_name: named.collect(),
        }
    }

    fn resource_of(&self, class: &str) -> Option<&Istr> {
        self.by_name.get(class)
    }

    fn has_resource(&self, resource: &str) -> bool {
        self.by_name.values().any(|held| held == resource)
    }
}

pub(super) fn is_by_class(resource: &str) -> bool {
    resource.ends_with(BY_CLASS)
}

pub(super) fn tracks(resource: &str, classes: &DeviceClasses) -> bool {
    if is_by_class(resource) {
        return true;
    }
    if let Some(class) = resource.strip_prefix(IMPLICIT) {
        return classes.resource_of(class).is_some();
    }
    let plain = resource.strip_prefix("requests.").unwrap_or_default();
    pods::is_extended(resource) && classes.has_resource(plain)
}

/// `pod` is the one whose extended resources the claim stands for: what it pays for is not paid for twice.
pub(super) fn usage(
    claim: &ResourceClaim,
    classes: &DeviceClasses,
    pod: Option<(&Pod, MicroTime)>,
) -> Amounts {
    let mut usage = Amounts::new();
    for request in &claim.spec.devices.requests {
        match request.first_available.as_slice() {
            [] => {
                if let Some(exactly) = &request.exactly {
                    add(&mut usage, &devices(exactly));
                }
            }
            // Of several that would do, the worst for each class.
            several => {
                let mut worst = Amounts::new();
                for count in several {
                    raise(&mut worst, &devices(count));
                }
                add(&mut usage, &worst);
            }
        }
    }
    let paid = pod
        .map(|(pod, now)| pods::usage(pod, now))
        .unwrap_or_default();
    let extended = extended(&usage, classes);
    for (name, mut amount) in extended {
        if let Some(paid) = paid.get(&name) {
            amount -= paid;
        }
        if amount.sign() > 0 {
            usage.insert(name, amount);
        }
    }
    usage
}

/// The same devices in the notation of extended resources.
fn extended(usage: &Amounts, classes: &DeviceClasses) -> Amounts {
    let mut extended = Amounts::new();
    if !classes.as_extended {
        return extended;
    }
    for (name, amount) in usage {
        let Some(class) = name
            .strip_suffix(BY_CLASS)
            .filter(|class| !class.is_empty())
        else {
            continue;
        };
        extended.insert(format!("{IMPLICIT}{class}").into(), amount.clone());
        if let Some(resource) = classes.resource_of(class) {
            extended.insert(format!("requests.{resource}").into(), amount.clone());
        }
    }
    extended
}

fn devices(count: &DeviceCount) -> Amounts {
    let number = match &*count.allocation_mode {
        "ExactCount" => count.count,
        "All" => ALL_DEVICES,
        // UPSTREAM: a mode of a newer version counts for nothing.
        _ => 0,
    };
    let name = format!("{}{BY_CLASS}", count.device_class_name);
    Amounts::from([(name.into(), Quantity::new(number, Format::DecimalSi))])
}

/// Is this the pod whose extended resources the claim stands for? `others` are the claims of the namespace: of several
/// that say so the oldest is believed, unless the pod says which.
pub fn is_paid_by<'a>(
    claim: &ResourceClaim,
    pod: &Pod,
    others: impl IntoIterator<Item = &'a ResourceClaim>,
) -> bool {
    let Some(owner) = paying_pod(claim) else {
        return false;
    };
    if owner.uid != pod.metadata.uid {
        return false;
    }
    if let Some(named) = pod.extended_resource_claim() {
        return named == &*claim.metadata.name;
    }
    let age = |claim: &ResourceClaim| (claim.metadata.created_at, claim.metadata.name.clone());
    let mut others = others.into_iter();
    !others.any(|other| {
        let same = paying_pod(other).is_some_and(|other| other.uid == owner.uid);
        same && age(other) < age(claim)
    })
}

/// The pod that a claim for extended resources belongs to.
pub fn paying_pod(claim: &ResourceClaim) -> Option<&OwnerRef> {
    if claim.metadata.annotation(EXTENDED_RESOURCE_CLAIM) != Some("true") {
        return None;
    }
    let owner = claim.metadata.controller()?;
    (owner.kind == "Pod" && owner.api_version == "v1").then_some(owner)
}
