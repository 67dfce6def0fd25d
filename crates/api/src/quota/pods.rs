//! Pods: their number, and what they request.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::one;
use crate::amounts::Amounts;
use crate::intern::Istr;
use crate::kinds::Pod;
use crate::pod_resources::PodResources;
use crate::quantity::Format;
use crate::time::MicroTime;

/// What a pod counts for as long as it counts, and what scopes ask about it. All pods of one template share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct PodCharge {
    /// By the names that quotas have for it.
    pub usage: Amounts,
    /// Equal amounts may be written differently, and are printed differently.
    formats: Box<[Format]>,
    pub is_best_effort: bool,
    pub has_deadline: bool,
    pub crosses_namespaces: bool,
    pub priority_class: Istr,
}

impl PodCharge {
    pub fn new(resources: &PodResources) -> PodCharge {
        let usage = compute(&resources.requests(), &resources.limits());
        PodCharge {
            formats: usage.values().map(|amount| amount.format()).collect(),
            usage,
            is_best_effort: resources.qos_class() == "BestEffort",
            ..PodCharge::default()
        }
    }
}

const BASIC: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const HUGE_PAGES: &str = "hugepages-";
const REQUESTS: &str = "requests.";
const LIMITS: &str = "limits.";
/// Devices by their class, in the notation of extended resources.
pub(super) const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

pub(super) fn tracks(resource: &str) -> bool {
    let plain = resource.strip_prefix(REQUESTS);
    let basic = plain.or(resource.strip_prefix(LIMITS)).unwrap_or(resource);
    resource == "pods"
        || BASIC.contains(&basic)
        || plain.unwrap_or(resource).starts_with(HUGE_PAGES)
        || is_extended(resource)
}

/// `requests.` and a name with a domain that is not Kubernetes' own, or a device class.
pub(super) fn is_extended(resource: &str) -> bool {
    let Some(plain) = resource.strip_prefix(REQUESTS) else {
        return false;
    };
    let is_native = !resource.contains('/') || resource.contains("kubernetes.io/");
    !is_native || plain.starts_with(DEVICE_CLASS)
}

pub(super) fn usage(pod: &Pod, now: MicroTime) -> Amounts {
    if is_charged(pod, now) {
        pod.body.charge.usage.clone()
    } else {
        Amounts::new()
    }
}

/// A pod that has ended holds nothing, nor does one that should be gone by now: its node may be lost.
fn is_charged(pod: &Pod, now: MicroTime) -> bool {
    !pod.is_finished() && charged_until(pod).is_none_or(|until| now <= until)
}

/// When a pod that is being deleted stops to count, if it is still there then.
pub fn charged_until(pod: &Pod) -> Option<MicroTime> {
    let deleted_at = pod.metadata.deleted_at?;
    let grace = pod.metadata.deletion_grace_period_seconds?;
    // UPSTREAM: the time of deletion has the grace period in it already; it is waited for twice.
    let grace = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
    Some(deleted_at.micro().plus(grace))
}

/// What requests and limits count as in a quota.
fn compute(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut total = Amounts::from([("pods".into(), one())]);
    for (name, amount) in requests {
        let plain = BASIC.contains(&&**name) || name.starts_with(HUGE_PAGES);
        if plain {
            total.insert(name.clone(), amount.clone());
        }
        let is_extended =
            name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with(REQUESTS);
        if plain || is_extended || name.starts_with(DEVICE_CLASS) {
            total.insert(format!("{REQUESTS}{name}").into(), amount.clone());
        }
    }
    for (name, amount) in limits.iter().filter(|(name, _)| BASIC.contains(&&***name)) {
        total.insert(format!("{LIMITS}{name}").into(), amount.clone());
    }
    total
}

/// What containers must say and do not, in upstream's words.
///
/// UPSTREAM: where cpu or memory is limited, every container must say what it needs.
pub fn missing_requests(pod: &PodResources, tracked: &[&Istr]) -> Option<String> {
    const REQUIRED: [&str; 6] = [
        "cpu",
        "memory",
        "requests.cpu",
        "requests.memory",
        "limits.cpu",
        "limits.memory",
    ];
    if pod.has_pod_level() {
        return None;
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in pod.containers.iter().chain(&pod.init_containers) {
        let given = compute(&container.wanted.requests, &container.wanted.limits);
        let required = tracked.iter().filter(|name| REQUIRED.contains(&&****name));
        for name in required.filter(|name| !given.contains_key(**name)) {
            missing.entry(name).or_default().insert(&container.name);
        }
    }
    let describe = |(name, containers): (&&str, &BTreeSet<&str>)| {
        let containers: Vec<&str> = containers.iter().copied().collect();
        format!("{name} for: {}", containers.join(","))
    };
    let described: Vec<String> = missing.iter().map(describe).collect();
    (!described.is_empty()).then(|| format!("must specify {}", described.join("; ")))
}
