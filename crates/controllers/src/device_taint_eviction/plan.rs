//! Whether and when a pod has to go because of its devices. Pure.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api::decision::{Line, reasons};
use api::kinds::{
    AllocatedDevice, Device, DeviceTaintRule, Pod, PodClaim, ResourceClaim, ResourceSlice,
    SCHEDULING_GROUP,
};
use api::taints::{Taint, TaintEffect, Toleration, TolerationOperator};
use api::{Istr, MicroTime, Uid};
use runtime::{Index, IndexValue, Store};

/// When a pod has to go, or all pods that use a claim, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    pub at: MicroTime,
    pub because: BTreeSet<TaintSource>,
}

/// Where a taint comes from, in upstream's order: rules first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaintSource {
    Rule {
        name: Istr,
        uid: Uid,
    },
    Slice {
        driver: Istr,
        pool: Istr,
        device: Istr,
        /// Its place among the taints of the device.
        number: usize,
    },
}

/// What is known of devices and claims.
pub struct Known<'a> {
    pub claims: &'a Store<ResourceClaim>,
    /// Needs the index [`BY_POOL`].
    pub slices: &'a Store<ResourceSlice>,
    /// Those with the effect `NoExecute`.
    pub rules: Vec<Arc<DeviceTaintRule>>,
    /// May claims be those of pod groups?
    pub has_groups: bool,
}

/// Slices by the pool that they are part of.
pub const BY_POOL: Index<ResourceSlice> = Index {
    name: "pool",
    values: |slice, found| found(pool_of(&slice.spec.driver, &slice.spec.pool.name)),
};

/// Names of drivers are DNS names, so no two pools share a value.
pub fn pool_of(driver: &str, pool: &str) -> IndexValue {
    IndexValue::In(Istr::new(driver), Istr::new(pool))
}

/// Longer than any toleration that means something: no time overflows.
const TOLERATION_MAX_SECONDS: u64 = 100 * 365 * 24 * 3600;

/// When the pod has to go because of any of the claims that it uses. A pod that nobody has bound has no devices yet.
pub fn pod_eviction(pod: &Pod, known: &Known<'_>) -> Option<Eviction> {
    if pod.node_name.is_empty() {
        return None;
    }
    let claims = pod.claims().iter();
    let evictions = claims.filter_map(|entry| {
        let claim = known
            .claims
            .find(&pod.metadata.namespace, entry.claim_name()?)?;
        let is_used = uses(pod, entry, &claim, known.has_groups);
        is_used.then(|| claim_eviction(&claim, known)).flatten()
    });
    evictions.reduce(|mut one, other| {
        one.at = one.at.min(other.at);
        one.because.extend(other.because);
        one
    })
}

/// Is this the claim that the entry means, and may the pod use it?
fn uses(pod: &Pod, entry: &PodClaim, claim: &ResourceClaim, has_groups: bool) -> bool {
    let group = pod.pod_group().filter(|_| has_groups);
    let owner = claim.metadata.controller();
    let is_for_pod = entry.template().is_none()
        || claim.metadata.is_controlled_by(&pod.metadata.uid)
        || owner.is_some_and(|owner| {
            owner.kind == "PodGroup"
                && owner.group() == SCHEDULING_GROUP
                && group.is_some_and(|group| owner.name == **group)
        });
    let mut consumers = claim.status.reserved_for.iter();
    is_for_pod
        && consumers.any(|consumer| {
            // A pod does not know the uid of its group.
            let is_group = consumer.api_group == SCHEDULING_GROUP
                && consumer.resource == "podgroups"
                && group.is_some_and(|group| *group == consumer.name);
            consumer.uid == pod.metadata.uid || is_group
        })
}

/// When pods that use the claim have to go: the first moment at which a taint of one of its devices is not tolerated
/// any longer.
pub fn claim_eviction(claim: &ResourceClaim, known: &Known<'_>) -> Option<Eviction> {
    let allocation = claim.status.allocation.as_ref()?;
    let mut first: Option<MicroTime> = None;
    let mut because = BTreeSet::new();
    for allocated in &*allocation.devices.results {
        for_each_taint(allocated, known, |taint, source| {
            let Some(time) = tolerated(&allocated.tolerations, taint) else {
                return;
            };
            because.insert(source);
            // UPSTREAM: the API server says when each taint was added; one without a time drives nobody away.
            if let Some(added) = taint.time_added {
                let at = added.micro().plus(time);
                first = Some(first.map_or(at, |first| first.min(at)));
            }
        });
    }
    first.map(|at| Eviction { at, because })
}

/// The taints of a device that drive pods away: its driver's and those of rules.
fn for_each_taint(
    allocated: &AllocatedDevice,
    known: &Known<'_>,
    mut found: impl FnMut(&Taint, TaintSource),
) {
    let (driver, pool, name) = (&allocated.driver, &allocated.pool, &allocated.device);
    let slices = known.slices.by(&BY_POOL, &pool_of(driver, pool));
    if let Some(device) = device(&slices, name) {
        for (number, taint) in device.taints.iter().enumerate() {
            if taint.effect == TaintEffect::NoExecute {
                let source = TaintSource::Slice {
                    driver: driver.clone(),
                    pool: pool.clone(),
                    device: name.clone(),
                    number,
                };
                found(taint, source);
            }
        }
    }
    let rules = known.rules.iter();
    for rule in rules.filter(|rule| rule.selects(driver, pool, name)) {
        let source = TaintSource::Rule {
            name: Istr::new(&rule.metadata.name),
            uid: rule.metadata.uid.clone(),
        };
        found(&rule.spec.taint, source);
    }
}

/// The slices of a pool that count: those of its latest generation.
pub fn current(slices: &[Arc<ResourceSlice>]) -> impl Iterator<Item = &Arc<ResourceSlice>> {
    let generation = |slice: &Arc<ResourceSlice>| slice.spec.pool.generation;
    let latest = slices.iter().map(generation).max();
    let slices = slices.iter();
    slices.filter(move |slice| Some(generation(slice)) == latest)
}

fn device<'a>(slices: &'a [Arc<ResourceSlice>], name: &str) -> Option<&'a Device> {
    let mut devices = current(slices).flat_map(|slice| slice.spec.devices.iter());
    devices.find(|device| device.name == *name)
}

/// For how long the taint is tolerated; none if it is for ever.
fn tolerated(tolerations: &[Toleration], taint: &Taint) -> Option<Duration> {
    let mut least: Option<u64> = None;
    let matching = tolerations.iter().filter(|toleration| {
        // UPSTREAM: one for all effects does not keep a pod.
        toleration.effect == TaintEffect::NoExecute && tolerates(toleration, taint)
    });
    for toleration in matching {
        let seconds = u64::try_from(toleration.toleration_seconds?).unwrap_or(0);
        let seconds = seconds.min(TOLERATION_MAX_SECONDS);
        least = Some(least.map_or(seconds, |least| least.min(seconds)));
    }
    Some(Duration::from_secs(least.unwrap_or(0)))
}

/// As for nodes, without the comparison of numbers.
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let by_value = match toleration.operator {
        TolerationOperator::Unset | TolerationOperator::Equal => toleration.value == taint.value,
        TolerationOperator::Exists => true,
        _ => false,
    };
    let by_effect = toleration.effect.is_unset() || toleration.effect == taint.effect;
    by_value && by_effect && (toleration.key.is_empty() || toleration.key == taint.key)
}

impl Eviction {
    /// The rules among the reasons.
    pub fn rules(&self) -> impl Iterator<Item = (&Istr, &Uid)> {
        self.because.iter().filter_map(|source| match source {
            TaintSource::Rule { name, uid } => Some((name, uid)),
            TaintSource::Slice { .. } => None,
        })
    }

    pub fn line(&self, now: MicroTime) -> Line {
        let sources: Vec<String> = self.because.iter().map(ToString::to_string).collect();
        let why = sources.join(", ");
        match self.at > now {
            true => Line::waits(reasons::EVICTED_LATER, "is evicted")
                .because(why)
                .until(self.at.time()),
            false => Line::acts(reasons::EVICTED, "evicts it").because(why),
        }
    }
}

pub fn stays() -> Line {
    Line::states("Stays", "stays").because("no taint of its devices drives it away any longer")
}

impl fmt::Display for TaintSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaintSource::Rule { name, .. } => {
                write!(f, "DeviceTaintRule {name} taints its device")
            }
            TaintSource::Slice {
                driver,
                pool,
                device,
                ..
            } => write!(f, "its device {driver}/{pool}/{device} is tainted"),
        }
    }
}
