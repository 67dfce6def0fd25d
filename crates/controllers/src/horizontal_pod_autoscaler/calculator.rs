//! From what was measured to how many replicas there should be. Pure.
//!
//! Everything is counted in thousandths, as upstream does. Numbers that make no sense (a target of zero, usage that
//! overflows) give a bounded answer or an error, and never a panic.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::kinds::{Phase, Pod};
use api::{MicroTime, Time};

use super::requests::request_of;

/// Usage of one pod, and when and over which time it was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodMetric {
    pub value: i64,
    pub at: Time,
    pub window: Duration,
}

/// By the name of the pod.
pub type PodMetrics = BTreeMap<Arc<str>, PodMetric>;

/// How far usage may be from the target without anything being done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerances {
    pub down: f64,
    pub up: f64,
}

/// What holds for all pods of one calculation.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub cpu_initialization_period: Duration,
    pub initial_readiness_delay: Duration,
    pub pod_level_requests: bool,
    pub now: MicroTime,
}

/// What pods of a resource are measured against.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    pub pods: &'a [Arc<Pod>],
    /// `cpu`, `memory`, …; empty for a metric that is no resource.
    pub resource: &'a str,
    /// Empty for whole pods.
    pub container: &'a str,
    pub tolerances: Tolerances,
    pub current: i32,
    pub settings: Settings,
}

/// How many replicas one metric asks for, and what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposal {
    pub replicas: i32,
    /// In thousandths: the average of a pod, or the value of the whole.
    pub usage: i64,
    /// In percent of what pods request, where the target is of that kind.
    pub utilization: Option<i32>,
}

const NO_PODS: &str = "no pods returned by selector while calculating replica count";
const NO_METRICS: &str = "did not receive metrics for targeted pods (pods might be unready)";

impl Tolerances {
    pub fn hold(self, ratio: f64) -> bool {
        (1.0 - self.down) <= ratio && ratio <= (1.0 + self.up)
    }
}

/// For a target in percent of what pods request.
pub fn by_utilization(
    metrics: PodMetrics,
    target: i32,
    measured: &Measured<'_>,
) -> Result<Proposal, String> {
    let mut groups = Groups::of(metrics, measured)?;
    let mut requests = BTreeMap::new();
    for pod in measured.pods {
        let request = request_of(
            pod,
            measured.container,
            measured.resource,
            measured.settings.pod_level_requests,
        )?;
        requests.insert(pod.metadata.name.clone(), request);
    }
    let first = utilization(&groups.metrics, &requests, target)?;
    let (ratio, usage) = (first.ratio, first.usage);
    let proposal = |replicas: i32| Proposal {
        replicas,
        usage,
        utilization: Some(first.utilization),
    };
    if groups.is_complete(ratio) {
        return Ok(proposal(groups.complete(ratio, measured)));
    }
    // On the way down a pod without a metric counts as using all that it requests, or as much as the target says if
    // that is more.
    let fallback = i64::from(target.max(100));
    groups.fill(ratio, |pod| {
        let request = requests.get(pod).copied().unwrap_or(0);
        request.saturating_mul(fallback) / 100
    });
    let again = utilization(&groups.metrics, &requests, target)?.ratio;
    Ok(proposal(groups.replicas(ratio, again, measured)))
}

/// For a target in what one pod uses.
pub fn by_value(
    metrics: PodMetrics,
    target: i64,
    measured: &Measured<'_>,
) -> Result<Proposal, String> {
    let mut groups = Groups::of(metrics, measured)?;
    let (ratio, usage) = average(&groups.metrics, target);
    let proposal = |replicas: i32| Proposal {
        replicas,
        usage,
        utilization: None,
    };
    if groups.is_complete(ratio) {
        return Ok(proposal(groups.complete(ratio, measured)));
    }
    groups.fill(ratio, |_| target);
    let (again, _) = average(&groups.metrics, target);
    Ok(proposal(groups.replicas(ratio, again, measured)))
}

/// For a value of something that is no pod.
pub fn by_total(usage: i64, target: i64, measured: &Measured<'_>) -> Result<Proposal, String> {
    let ratio = usage as f64 / target as f64;
    let replicas = match measured.current {
        // Without pods neither they nor the tolerance say anything.
        0 => ceil(ratio),
        current if measured.tolerances.hold(ratio) => current,
        _ => {
            if measured.pods.is_empty() {
                return Err(format!("unable to calculate ready pods: {NO_PODS}"));
            }
            let is_running = |pod: &&Arc<Pod>| pod.status.phase == Phase::Running && pod.is_ready();
            let ready = measured.pods.iter().filter(is_running).count();
            ceil(ratio * ready as f64)
        }
    };
    Ok(Proposal {
        replicas,
        usage,
        utilization: None,
    })
}

/// For a value of something that is no pod, spread over the pods that there are.
pub fn by_share(usage: i64, target: i64, replicas: i32, tolerances: Tolerances) -> Proposal {
    let ratio = usage as f64 / (target as f64 * f64::from(replicas));
    let wanted = match tolerances.hold(ratio) {
        true => replicas,
        false => ceil(usage as f64 / target as f64),
    };
    let share = match usage {
        i64::MAX => i64::MAX,
        // What there is no pod for is not shared; upstream divides by zero there.
        usage if replicas == 0 => usage,
        usage => (usage as f64 / f64::from(replicas)).ceil() as i64,
    };
    Proposal {
        replicas: wanted,
        usage: share,
        utilization: None,
    }
}

/// The values of a metric together; too many are as many as there can be.
pub fn sum(values: &[i64]) -> i64 {
    values
        .iter()
        .fold(0, |sum, value| sum.saturating_add(*value))
}

/// A number of replicas. What is no number, or below zero, is none.
fn ceil(replicas: f64) -> i32 {
    // A cast of a float is bounded, and of what is no number it gives zero.
    replicas.ceil().max(0.0) as i32
}

/// Pods by what their metrics are worth.
struct Groups {
    metrics: PodMetrics,
    ready: usize,
    unready: BTreeSet<Arc<str>>,
    missing: BTreeSet<Arc<str>>,
}

impl Groups {
    fn of(mut metrics: PodMetrics, measured: &Measured<'_>) -> Result<Groups, String> {
        if measured.pods.is_empty() {
            return Err(NO_PODS.to_owned());
        }
        let mut groups = Groups {
            metrics: PodMetrics::new(),
            ready: 0,
            unready: BTreeSet::new(),
            missing: BTreeSet::new(),
        };
        for pod in measured.pods {
            let name = &pod.metadata.name;
            if pod.metadata.is_terminating() || pod.status.phase == Phase::Failed {
                metrics.remove(name);
            } else if pod.status.phase == Phase::Pending {
                groups.unready.insert(name.clone());
            } else if let Some(metric) = metrics.get(name) {
                match measured.resource == "cpu" && is_starting(pod, metric, measured.settings) {
                    true => drop(groups.unready.insert(name.clone())),
                    false => groups.ready += 1,
                }
            } else {
                groups.missing.insert(name.clone());
            }
        }
        metrics.retain(|name, _| !groups.unready.contains(name));
        if metrics.is_empty() {
            return Err(NO_METRICS.to_owned());
        }
        groups.metrics = metrics;
        Ok(groups)
    }

    /// Pods that are not ready count where they would slow an increase down.
    fn is_slowed(&self, ratio: f64) -> bool {
        !self.unready.is_empty() && ratio > 1.0
    }

    fn is_complete(&self, ratio: f64) -> bool {
        !self.is_slowed(ratio) && self.missing.is_empty()
    }

    fn complete(&self, ratio: f64, measured: &Measured<'_>) -> i32 {
        match measured.tolerances.hold(ratio) {
            true => measured.current,
            false => ceil(ratio * self.ready as f64),
        }
    }

    /// Gives pods without a metric of their own one that is careful: little on the way up, much on the way down.
    fn fill(&mut self, ratio: f64, on_the_way_down: impl Fn(&Arc<str>) -> i64) {
        let is_slowed = self.is_slowed(ratio);
        let of = |value: i64| PodMetric {
            value,
            ..PodMetric::default()
        };
        for pod in std::mem::take(&mut self.missing) {
            if ratio < 1.0 {
                let metric = of(on_the_way_down(&pod));
                self.metrics.insert(pod, metric);
            } else if ratio > 1.0 {
                self.metrics.insert(pod, of(0));
            }
        }
        if is_slowed {
            for pod in std::mem::take(&mut self.unready) {
                self.metrics.insert(pod, of(0));
            }
        }
    }

    /// The replicas when the guesses are counted too: never a change in the other direction.
    fn replicas(&self, before: f64, ratio: f64, measured: &Measured<'_>) -> i32 {
        let current = measured.current;
        let turned = (before < 1.0 && ratio > 1.0) || (before > 1.0 && ratio < 1.0);
        if measured.tolerances.hold(ratio) || turned {
            return current;
        }
        let replicas = ceil(ratio * self.metrics.len() as f64);
        let turned = (ratio < 1.0 && replicas > current) || (ratio > 1.0 && replicas < current);
        if turned { current } else { replicas }
    }
}

/// Is what a pod uses of the CPU still that of its start?
fn is_starting(pod: &Pod, metric: &PodMetric, settings: Settings) -> bool {
    let status = &pod.status;
    let (Some(started), Some(changed)) = (status.started_at, status.ready_changed_at) else {
        return true;
    };
    let started = started.micro();
    if started.plus(settings.cpu_initialization_period) > settings.now {
        // Until a whole window was measured since it got ready.
        return !status.ready || metric.at.micro() < changed.micro().plus(metric.window);
    }
    // Later only if it never was ready.
    !status.ready && started.plus(settings.initial_readiness_delay) > changed.micro()
}

struct Utilization {
    ratio: f64,
    utilization: i32,
    usage: i64,
}

fn utilization(
    metrics: &PodMetrics,
    requests: &BTreeMap<Arc<str>, i64>,
    target: i32,
) -> Result<Utilization, String> {
    let (mut used, mut requested, mut count) = (0_i128, 0_i128, 0_i128);
    for (pod, metric) in metrics {
        if let Some(request) = requests.get(pod) {
            used += i128::from(metric.value);
            requested += i128::from(*request);
            count += 1;
        }
    }
    if requested == 0 {
        return Err("no metrics returned matched known pods".to_owned());
    }
    let percent = bounded_i32(used * 100 / requested);
    Ok(Utilization {
        ratio: f64::from(percent) / f64::from(target),
        utilization: percent,
        usage: bounded_i64(used / count),
    })
}

fn average(metrics: &PodMetrics, target: i64) -> (f64, i64) {
    let used: i128 = metrics
        .values()
        .map(|metric| i128::from(metric.value))
        .sum();
    let count = i128::try_from(metrics.len()).unwrap_or(1).max(1);
    let usage = bounded_i64(used / count);
    (usage as f64 / target as f64, usage)
}

fn bounded_i32(value: i128) -> i32 {
    value.clamp(i128::from(i32::MIN), i128::from(i32::MAX)) as i32
}

fn bounded_i64(value: i128) -> i64 {
    value.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}
