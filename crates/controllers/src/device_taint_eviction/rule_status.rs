//! What a rule says of its evictions: upstream's words. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::conditions::{Condition, ConditionStatus};
use api::decision::{Line, counted};
use api::kinds::{DeviceTaintRule, EVICTION_IN_PROGRESS, Pod};
use api::taints::TaintEffect;
use api::{Istr, Time};
use runtime::Store;

use super::plan::{Known, current, pod_eviction};

/// The effect of a rule that only shows what it would do.
const NONE: &str = "None";

/// What a rule does, or would do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Devices that it selects, among those that are offered and those that are in use.
    pub published: u64,
    pub allocated: u64,
    /// Pods that it has to evict, and their namespaces.
    pub pods: u64,
    pub namespaces: u64,
    /// Pods that it has evicted since we began.
    pub evicted: u64,
}

impl Counts {
    /// Counts what the rule needs to know: all pods are looked at, but rarely.
    pub fn of(rule: &Arc<DeviceTaintRule>, pods: &Store<Pod>, known: &Known<'_>) -> Counts {
        let mut counts = Counts::default();
        if rule.spec.taint.effect == TaintEffect::NoExecute {
            counts.count_pods(rule, pods, known);
        } else if is_none(&rule.spec.taint.effect) {
            let mut evicting = DeviceTaintRule::clone(rule);
            evicting.spec.taint.effect = TaintEffect::NoExecute;
            let imagined = Known {
                rules: vec![Arc::new(evicting)],
                ..*known
            };
            counts.count_pods(rule, pods, &imagined);
            counts.count_devices(rule, known);
        }
        counts
    }

    fn count_pods(&mut self, rule: &DeviceTaintRule, pods: &Store<Pod>, known: &Known<'_>) {
        let mut namespaces: BTreeSet<Istr> = BTreeSet::new();
        for pod in pods.list() {
            if pod.metadata.is_terminating() || pod.claims().is_empty() {
                continue;
            }
            let eviction = pod_eviction(&pod, known);
            let is_by_rule = eviction.is_some_and(|eviction| {
                let mut rules = eviction.rules();
                rules.any(|(_, uid)| *uid == rule.metadata.uid)
            });
            if is_by_rule {
                self.pods += 1;
                namespaces.insert(pod.metadata.namespace.clone());
            }
        }
        self.namespaces = namespaces.len() as u64;
    }

    fn count_devices(&mut self, rule: &DeviceTaintRule, known: &Known<'_>) {
        let mut pools = std::collections::BTreeMap::<_, Vec<_>>::new();
        for slice in known.slices.list() {
            let pool = (slice.spec.driver.clone(), slice.spec.pool.name.clone());
            pools.entry(pool).or_default().push(slice);
        }
        for ((driver, pool), slices) in &pools {
            let devices = current(slices).flat_map(|slice| slice.spec.devices.iter());
            let selected = devices.filter(|device| rule.selects(driver, pool, &device.name));
            self.published += selected.count() as u64;
        }
        for claim in known.claims.list() {
            let results = claim.status.allocation.iter();
            let results = results.flat_map(|allocation| allocation.devices.results.iter());
            let selected = results.filter(|it| rule.selects(&it.driver, &it.pool, &it.device));
            self.allocated += selected.count() as u64;
        }
    }
}

fn is_none(effect: &TaintEffect) -> bool {
    matches!(effect, TaintEffect::Other(word) if word.as_str() == NONE)
}

/// The condition that the rule should have.
pub fn condition(rule: &DeviceTaintRule, counts: Counts, now: Time) -> Condition {
    let effect = &rule.spec.taint.effect;
    let (status, reason, mut message) = if *effect == TaintEffect::NoExecute {
        evicting(counts)
    } else if is_none(effect) {
        (ConditionStatus::False, "NoEffect", imagined(counts))
    } else {
        let message = "Eviction only happens for the NoExecute effect.".to_owned();
        (ConditionStatus::False, "OtherEffect", message)
    };
    if counts.evicted > 0 {
        if !message.is_empty() {
            message.push(' ');
        }
        let pods = counted(counts.evicted, "pod");
        message.push_str(&format!("{pods} evicted since starting the controller."));
    }
    Condition {
        observed_generation: rule.metadata.generation,
        ..Condition::new(EVICTION_IN_PROGRESS, status, reason, message, now)
    }
}

fn evicting(counts: Counts) -> (ConditionStatus, &'static str, String) {
    if counts.pods > 0 {
        let pods = match counts.pods {
            1 => "1 pod needs".to_owned(),
            many => format!("{many} pods need"),
        };
        let message = format!("{pods} to be evicted in {}.", namespaces(counts.namespaces));
        (ConditionStatus::True, "PodsPendingEviction", message)
    } else if counts.evicted > 0 {
        (ConditionStatus::False, "Completed", String::new())
    } else {
        (ConditionStatus::False, "NotStarted", String::new())
    }
}

fn imagined(counts: Counts) -> String {
    format!(
        "{} selected. {} selected. {} would be evicted in {} if the effect was NoExecute. This information will not be \
         updated again. Recreate the DeviceTaintRule to trigger an update.",
        counted(counts.published, "published device"),
        counted(counts.allocated, "allocated device"),
        counted(counts.pods, "pod"),
        namespaces(counts.namespaces),
    )
}

fn namespaces(count: u64) -> String {
    match count {
        1 => "1 namespace".to_owned(),
        many => format!("{many} different namespaces"),
    }
}

/// Do both say the same? When does not matter.
pub fn is_same(held: &Condition, wanted: &Condition) -> bool {
    held.status == wanted.status
        && held.reason == wanted.reason
        && held.message == wanted.message
        && held.observed_generation == wanted.observed_generation
}

pub fn line(condition: &Condition) -> Line {
    let what = format!("says {}", condition.reason);
    Line::acts("SaysProgress", what).because(condition.message.to_string())
}
