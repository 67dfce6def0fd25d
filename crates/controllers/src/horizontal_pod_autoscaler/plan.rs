//! From an autoscaler, the scale of its target and what was measured to what is done. Pure, but for the memory.

use std::sync::Arc;
use std::time::Duration;

use api::conditions::{self, Condition, ConditionStatus};
use api::kinds::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus, MetricStatus, Pod};
use api::{Key, MicroTime, Time};

use super::behavior::{Bounds, Memory, Normalized};
use super::calculator::{Settings, Tolerances};
use super::metric::{Failure, Target, propose};
use super::read::Reading;
use super::reason::Reason;
use crate::scale::Scale;

/// What is configured for all autoscalers.
#[derive(Clone, Copy, Debug)]
pub struct Configuration {
    pub downscale_window: Duration,
    pub tolerance: f64,
    pub cpu_initialization_period: Duration,
    pub initial_readiness_delay: Duration,
    /// The gates `HPAScaleToZero`, `HPAConfigurableTolerance` and `PodLevelResources`.
    pub scales_to_zero: bool,
    pub has_tolerances: bool,
    pub pod_level_requests: bool,
}

/// What has to be known before anything is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Metrics,
    /// The number of replicas is out of bounds: no metric is asked.
    Bound {
        replicas: i32,
        why: &'static str,
    },
    /// Somebody has scaled the target to zero: it is left alone.
    Disabled,
}

/// What was observed beside the scale.
pub enum Observed {
    /// Nothing was asked for.
    Nothing,
    BadSelector(SelectorFailure),
    Metrics {
        pods: Vec<Arc<Pod>>,
        /// In the order of the spec.
        readings: Vec<Result<Reading, String>>,
    },
}

/// Why the target's pods are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectorFailure {
    Missing,
    Invalid(String),
    Ambiguous { selector: String, by: Vec<Key> },
}

/// What is done, and what the status says of it if the target is scaled, or need not be.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub status: HorizontalPodAutoscalerStatus,
    pub rescale: Option<Rescale>,
    pub reasons: Vec<Reason>,
    /// What the sync is to report as failed, although it may have scaled.
    pub error: Option<String>,
    /// Of each metric: how many replicas it asks for, or whether the spec is to blame that it does not.
    pub computed: Vec<Result<i32, bool>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rescale {
    pub to: i32,
    /// As the event says it.
    pub why: String,
}

/// The time of day, and one that is never set.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub now: MicroTime,
    pub steady: MicroTime,
}

const BELOW_LEAST: &str = "Current number of replicas below Spec.MinReplicas";
const ABOVE_MOST: &str = "Current number of replicas above Spec.MaxReplicas";

/// What has to be known to decide about a target with this many replicas.
pub fn need(hpa: &HorizontalPodAutoscaler, current: i32, configuration: &Configuration) -> Need {
    let (least, most) = (hpa.min_replicas(), hpa.spec.max_replicas);
    match current {
        0 => {
            let by_us = configuration.scales_to_zero && was_scaled_to_zero(hpa);
            match by_us && (least != 0 || has_whole_metrics(hpa)) {
                true => Need::Metrics,
                false => Need::Disabled,
            }
        }
        current if current > most => Need::Bound {
            replicas: most,
            why: ABOVE_MOST,
        },
        current if current < least => Need::Bound {
            replicas: least,
            why: BELOW_LEAST,
        },
        _ => Need::Metrics,
    }
}

/// Decides what becomes of the target.
pub fn plan(
    hpa: &HorizontalPodAutoscaler,
    scale: &Scale,
    observed: Observed,
    memory: &mut Memory,
    configuration: &Configuration,
    at: Moment,
) -> Plan {
    let current = scale.spec.replicas;
    memory.begin(current, at.steady);
    let mut work = Work::new(hpa, current, configuration, at);
    work.set(
        "AbleToScale",
        true,
        "SucceededGetScale",
        "the HPA controller was able to get the target's current scale",
    );
    match (need(hpa, current, configuration), observed) {
        (Need::Disabled, _) => work.disable(),
        (Need::Bound { replicas, why }, _) => work.bound(replicas, why),
        (Need::Metrics, Observed::BadSelector(failure)) => work.refuse(&failure),
        (Need::Metrics, Observed::Metrics { pods, readings }) => {
            work.by_metrics(scale, &pods, readings, memory);
        }
        // Nothing was read: the next sync will.
        (Need::Metrics, Observed::Nothing) => work.plan.rescale = None,
    }
    work.plan
}

/// The status of an autoscaler whose target's scale could not be read.
pub fn plan_without_scale(
    hpa: &HorizontalPodAutoscaler,
    error: &str,
    now: Time,
) -> HorizontalPodAutoscalerStatus {
    let mut status = hpa.status.clone();
    let message =
        format!("the HPA controller was unable to get the target's current scale: {error}");
    set(
        &mut status,
        "AbleToScale",
        false,
        "FailedGetScale",
        message,
        now,
    );
    status
}

impl Plan {
    /// The status after the target was scaled.
    pub fn scaled(
        &mut self,
        hpa: &HorizontalPodAutoscaler,
        configuration: &Configuration,
        now: Time,
    ) {
        let Some(rescale) = &self.rescale else {
            return;
        };
        let (to, status) = (rescale.to, &mut self.status);
        let from = status.current_replicas;
        let message = format!("the HPA controller was able to update the target scale to {to}");
        set(
            status,
            "AbleToScale",
            true,
            "SucceededRescale",
            message,
            now,
        );
        if !configuration.scales_to_zero {
            conditions::remove(&mut status.conditions, SCALED_TO_ZERO);
        } else if from > 0 && to == 0 && hpa.min_replicas() == 0 && has_whole_metrics(hpa) {
            let message = "the HPA controller scaled the workload to zero";
            set(status, SCALED_TO_ZERO, true, "ScaledToZero", message, now);
        } else {
            let message = "the HPA controller did not scale the workload to zero";
            set(
                status,
                SCALED_TO_ZERO,
                false,
                "NotScaledToZero",
                message,
                now,
            );
        }
        status.desired_replicas = to;
        status.last_scale_time = Some(now);
    }

    /// The status after the API server refused to scale the target.
    pub fn refused(&mut self, hpa: &HorizontalPodAutoscaler, error: &str, now: Time) {
        let message = format!("the HPA controller was unable to update the target scale: {error}");
        let status = &mut self.status;
        set(
            status,
            "AbleToScale",
            false,
            "FailedUpdateScale",
            message,
            now,
        );
        status.desired_replicas = hpa.status.desired_replicas;
    }
}

const SCALED_TO_ZERO: &str = "ScaledToZero";

struct Work<'a> {
    hpa: &'a HorizontalPodAutoscaler,
    current: i32,
    configuration: &'a Configuration,
    at: Moment,
    plan: Plan,
}

impl<'a> Work<'a> {
    fn new(
        hpa: &'a HorizontalPodAutoscaler,
        current: i32,
        configuration: &'a Configuration,
        at: Moment,
    ) -> Work<'a> {
        // UPSTREAM: the status is built from scratch, but for its conditions and the time of the last change.
        let status = HorizontalPodAutoscalerStatus {
            current_replicas: current,
            desired_replicas: current,
            current_metrics: Vec::new(),
            ..hpa.status.clone()
        };
        Work {
            hpa,
            current,
            configuration,
            at,
            plan: Plan {
                status,
                rescale: None,
                reasons: Vec::new(),
                error: None,
                computed: Vec::new(),
            },
        }
    }

    fn disable(&mut self) {
        let message = "scaling is disabled since the replica count of the target is zero";
        self.set("ScalingActive", false, "ScalingDisabled", message);
        if !self.configuration.scales_to_zero {
            conditions::remove(&mut self.plan.status.conditions, SCALED_TO_ZERO);
        }
        self.plan.reasons.push(Reason::Disabled);
    }

    fn bound(&mut self, replicas: i32, why: &str) {
        self.plan.reasons.push(Reason::OutOfBounds {
            current: self.current,
            to: replicas,
        });
        self.rescale(replicas, why.to_owned());
    }

    fn rescale(&mut self, to: i32, why: String) {
        self.plan.rescale = Some(Rescale { to, why });
    }

    /// The pods of the target are not known: nothing is done.
    fn refuse(&mut self, failure: &SelectorFailure) {
        let (event, reason, message, error) = match failure {
            SelectorFailure::Missing => (
                "SelectorRequired",
                "InvalidSelector",
                "the HPA target's scale is missing a selector".to_owned(),
                "selector is required".to_owned(),
            ),
            SelectorFailure::Invalid(why) => {
                let error = format!(
                    "couldn't convert selector into a corresponding internal selector object: {why}"
                );
                ("InvalidSelector", "InvalidSelector", error.clone(), error)
            }
            SelectorFailure::Ambiguous { selector, by } => {
                let by: Vec<String> = by
                    .iter()
                    .map(|key| format!("{{{} {}}}", key.name, key.namespace))
                    .collect();
                let by = by.join(" ");
                let error =
                    format!("pods by selector {selector} are controlled by multiple HPAs: [{by}]");
                (
                    "AmbiguousSelector",
                    "AmbiguousSelector",
                    error.clone(),
                    error,
                )
            }
        };
        self.plan.reasons.push(Reason::Failed {
            reason: event,
            why: error.clone(),
        });
        self.set("ScalingActive", false, reason, message);
        self.give_up(error);
    }

    fn give_up(&mut self, error: String) {
        self.plan.status.desired_replicas = self.hpa.status.desired_replicas;
        self.plan.reasons.push(Reason::Failed {
            reason: "FailedComputeMetricsReplicas",
            why: error.clone(),
        });
        self.plan.error = Some(error);
    }

    fn by_metrics(
        &mut self,
        scale: &Scale,
        pods: &[Arc<Pod>],
        readings: Vec<Result<Reading, String>>,
        memory: &mut Memory,
    ) {
        let target = Target {
            hpa: self.hpa,
            pods,
            wanted: scale.spec.replicas,
            present: scale.status.replicas,
            tolerances: self.tolerances(),
            settings: Settings {
                cpu_initialization_period: self.configuration.cpu_initialization_period,
                initial_readiness_delay: self.configuration.initial_readiness_delay,
                pod_level_requests: self.configuration.pod_level_requests,
                now: self.at.now,
            },
        };
        let mut best: Option<(i32, String)> = None;
        let mut failures: Vec<Failure> = Vec::new();
        for (spec, reading) in self.hpa.spec.metrics.iter().zip(readings) {
            match propose(spec, reading, target) {
                Ok(proposed) => {
                    self.plan.computed.push(Ok(proposed.replicas));
                    self.plan.status.current_metrics.push(proposed.status);
                    self.plan.reasons.push(Reason::Proposes {
                        metric: proposed.name.clone(),
                        replicas: proposed.replicas,
                    });
                    let is_more = best
                        .as_ref()
                        .is_none_or(|(most, _)| *most == 0 || proposed.replicas > *most);
                    if is_more {
                        best = Some((proposed.replicas, proposed.name));
                    }
                }
                Err(failure) => {
                    self.plan.computed.push(Err(failure.is_spec));
                    self.plan
                        .status
                        .current_metrics
                        .push(MetricStatus::default());
                    self.plan.reasons.push(Reason::Unmeasured {
                        reason: failure.reason,
                        why: failure.why.clone(),
                    });
                    failures.push(failure);
                }
            }
        }
        let error = failures.first().map(|first| {
            let (invalid, all) = (failures.len(), self.hpa.spec.metrics.len());
            format!(
                "invalid metrics ({invalid} invalid out of {all}), first error is: {}",
                first.error
            )
        });
        // Fewer replicas are only believed if all metrics agree.
        let best = best.filter(|(replicas, _)| error.is_none() || *replicas >= self.current);
        match (best, error) {
            (Some((replicas, name)), error) => {
                self.plan.error = error;
                self.follow(replicas, &name, memory);
            }
            (None, Some(error)) => {
                if let Some(first) = failures.first() {
                    let message = format!(
                        "the HPA was unable to compute the replica count: {}",
                        first.why
                    );
                    self.set("ScalingActive", false, first.reason, message);
                }
                self.give_up(error);
            }
            // An autoscaler without metrics, which the API server does not admit.
            (None, None) => self.give_up("invalid metrics (0 invalid out of 0)".to_owned()),
        }
    }

    /// Follows the highest proposal as far as it may be.
    fn follow(&mut self, proposed: i32, name: &str, memory: &mut Memory) {
        let message =
            format!("the HPA was able to successfully calculate a replica count from {name}");
        self.set("ScalingActive", true, "ValidMetricFound", message);
        let (current, least) = (self.current, self.hpa.min_replicas());
        let bounds = Bounds {
            least,
            most: self.hpa.spec.max_replicas,
            current,
            downscale_window: self.configuration.downscale_window,
        };
        let behavior = self.hpa.spec.behavior.as_ref();
        let done = memory.normalize(behavior, proposed, bounds, self.at.steady);
        self.note(proposed, &done);
        let mut why = match proposed.cmp(&current) {
            std::cmp::Ordering::Greater => format!("{name} above target"),
            std::cmp::Ordering::Less => "All metrics below target".to_owned(),
            std::cmp::Ordering::Equal => String::new(),
        };
        let mut replicas = done.replicas;
        // A minimum that was raised holds for what we scaled to zero, too.
        if current == 0 && replicas < least {
            replicas = least;
            if why.is_empty() {
                why = BELOW_LEAST.to_owned();
            }
        }
        if replicas != current {
            self.rescale(replicas, why);
        }
    }

    fn note(&mut self, proposed: i32, done: &Normalized) {
        let (reason, message) = done.able;
        self.set("AbleToScale", true, reason, message);
        let (reason, message) = done.limited;
        self.set(
            "ScalingLimited",
            done.replicas != done.stabilized,
            reason,
            message,
        );
        // The steady clock and the time of day go on alike from here.
        let on_the_clock =
            |at: Option<MicroTime>| at.map(|at| self.at.now.plus(at.since(self.at.steady)).time());
        let (opens_at, next_at) = (on_the_clock(done.opens_at), on_the_clock(done.next_at));
        if done.is_disabled {
            // Whatever else holds it: nothing comes of the proposal.
            self.plan.reasons.push(Reason::TurnedOff {
                proposed,
                grows: proposed > self.current,
            });
        } else if done.stabilized != proposed {
            self.plan.reasons.push(Reason::Stabilized {
                proposed,
                kept: done.stabilized,
                opens_at,
            });
        }
        if done.replicas != done.stabilized && !done.is_disabled {
            self.plan.reasons.push(Reason::Limited {
                wanted: done.stabilized,
                allowed: done.replicas,
                reason: done.limited.0,
                has_policies: self.hpa.spec.behavior.is_some(),
                next_at,
            });
        }
        if done.replicas == self.current {
            self.plan.reasons.push(Reason::Stays {
                replicas: self.current,
            });
        } else {
            self.plan.reasons.push(Reason::Scales {
                from: self.current,
                to: done.replicas,
            });
        }
    }

    fn tolerances(&self) -> Tolerances {
        let own = self.configuration.tolerance;
        let behavior = self.hpa.spec.behavior.as_ref();
        let behavior = behavior.filter(|_| self.configuration.has_tolerances);
        let of = |rules: Option<&api::kinds::ScalingRules>| {
            let tolerance = rules.and_then(|rules| rules.tolerance.as_ref());
            tolerance.map_or(own, api::quantity::Quantity::to_f64)
        };
        Tolerances {
            down: of(behavior.and_then(|behavior| behavior.scale_down.as_ref())),
            up: of(behavior.and_then(|behavior| behavior.scale_up.as_ref())),
        }
    }

    fn set(&mut self, condition: &str, holds: bool, reason: &str, message: impl Into<Arc<str>>) {
        let now = self.at.now.time();
        set(
            &mut self.plan.status,
            condition,
            holds,
            reason,
            message,
            now,
        );
    }
}

fn set(
    status: &mut HorizontalPodAutoscalerStatus,
    condition: &str,
    holds: bool,
    reason: &str,
    message: impl Into<Arc<str>>,
    now: Time,
) {
    let value = match holds {
        true => ConditionStatus::True,
        false => ConditionStatus::False,
    };
    let condition = Condition::new(condition, value, reason, message, now);
    conditions::update_in_place(&mut status.conditions, condition);
}

fn was_scaled_to_zero(hpa: &HorizontalPodAutoscaler) -> bool {
    conditions::is_true(&hpa.status.conditions, SCALED_TO_ZERO)
}

/// Has it a metric that says something without any pod?
fn has_whole_metrics(hpa: &HorizontalPodAutoscaler) -> bool {
    let mut kinds = hpa.spec.metrics.iter().map(|metric| &*metric.r#type);
    kinds.any(|kind| matches!(kind, "Object" | "External"))
}
