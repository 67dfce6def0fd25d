//! As many replicas as metrics ask for. A small controller.
//!
//! **Converges**: the target of each HorizontalPodAutoscaler, of any kind with a scale, has as many replicas as the
//! metric that asks for most says: within `minReplicas` and `maxReplicas`, not for a change that is smaller than the
//! tolerance, not faster than the policies of its `behavior` allow, and fewer only after the stabilization window. A
//! target that somebody has scaled to zero is left alone.
//!
//! **Triggers**: time alone, every `--horizontal-pod-autoscaler-sync-period` from when the autoscaler was first seen,
//! however long a sync takes.
//!
//! **Writes**: puts the scale of the target on top of what it read, and its own status; emits `SuccessfulRescale`,
//! `FailedRescale`, `FailedGetScale`, `FailedComputeMetricsReplicas`, `FailedGetResourceMetric`,
//! `FailedGetContainerResourceMetric`, `FailedGetPodsMetric`, `FailedGetObjectMetric`, `FailedGetExternalMetric`,
//! `InvalidMetricSourceType`, `SelectorRequired`, `InvalidSelector`, `AmbiguousSelector` and `FailedUpdateStatus`.
//!
//! **Mirrors** `pkg/controller/podautoscaler`: `calculator` is its replica calculator, `behavior` what comes after it,
//! `read` the three metrics APIs. What was proposed and done lately is remembered by the process; another leader starts
//! over, with what there is as the first proposal.
//!
//! **Deliberate differences**: the period does not drift by the time that a sync takes; a metrics API that hangs is given
//! up after 30 seconds; sums and shares that overflow, or are divided by zero, are bounded; a pod whose readiness is
//! unknown counts as not ready; proposals that are older than their window are forgotten at once; the gauge of an
//! autoscaler that is gone goes, too.

mod actions;
mod behavior;
mod calculator;
mod invariants;
mod measures;
mod metric;
mod plan;
mod read;
mod reason;
mod requests;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::decision::Line;
use api::kinds::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus, Pod};
use api::selector::Selector;
use api::{Clock, Gate, Key, LabelSet, ObjectId, Resource, ResourceType};
use parking_lot::Mutex;
use runtime::events::{EventType, ObjectRef};
use runtime::rate_limit::Backoff;
use runtime::{Change, Context, Controller, Error, Loop, Next, Reconcile, Report, Store};
use tokio::time::Instant;

use self::measures::{Measures, Outcome};
use self::read::Metrics;
use crate::oracle::View;
use crate::scale::{Scale, ScaleError, Scales};
use crate::workload::status::put_status;
use crate::{Config, Descriptor};

pub use behavior::{Bounds, Memory, Normalized};
pub use calculator::{Measured, PodMetric, PodMetrics, Proposal, Settings, Tolerances};
pub use invariants::AutoscalerOracle;
pub use metric::{Failure, Proposed, Target, propose};
pub use plan::{Configuration, Moment, Need, Observed, Plan, Rescale, SelectorFailure, need, plan};
pub use read::Reading;
pub use reason::Reason;

pub const DESCRIPTOR: Descriptor = Descriptor {
    component: "horizontal-pod-autoscaler",
    caches: &[View::of::<HorizontalPodAutoscaler>(), View::of::<Pod>()],
    decides_about: &[HorizontalPodAutoscaler::TYPE],
    in_preview: true,
    reads_metrics: true,
    queues: &["horizontalpodautoscaler"],
    metrics: &["horizontal_pod_autoscaler_controller_"],
    build: Some(|ctx| {
        let workers = ctx.workers(ctx.config.hpa_controller.concurrent_syncs);
        let period = ctx.config.hpa_controller.sync_period.to_std();
        Some(controller(ctx, workers, period, configuration(ctx.config, ctx)).into())
    }),
    oracle: Some(|| Box::<AutoscalerOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "horizontal-pod-autoscaler-controller",
        "horizontalpodautoscaling",
        "horizontal-pod-autoscaler",
    )
};

fn configuration(config: &Config, context: &Context) -> Configuration {
    let flags = &config.hpa_controller;
    Configuration {
        downscale_window: flags.downscale_stabilization.to_std(),
        tolerance: flags.tolerance,
        cpu_initialization_period: flags.cpu_initialization_period.to_std(),
        initial_readiness_delay: flags.initial_readiness_delay.to_std(),
        scales_to_zero: context.gates.enabled(Gate::HPAScaleToZero),
        has_tolerances: context.gates.enabled(Gate::HPAConfigurableTolerance),
        pod_level_requests: context.gates.enabled(Gate::PodLevelResources),
    }
}

/// `period` is how often each autoscaler is looked at.
pub fn controller(
    context: &Context,
    workers: usize,
    period: Duration,
    configuration: Configuration,
) -> Controller {
    // A flag of zero must not keep a processor busy.
    let period = period.max(SHORTEST_PERIOD);
    let pods = context.informers.store::<Pod>();
    pods.index_labels();
    let scales = Arc::new(Scales::new(&context.client));
    let known = Arc::new(Mutex::new(BTreeMap::new()));
    let (measures, seen) = (Measures::new(&context.metrics), known.clone());
    let counted = measures.clone();
    Loop::on_objects::<HorizontalPodAutoscaler>(context, Backoff::DEFAULT)
        .queue("horizontalpodautoscaler")
        .watches::<HorizontalPodAutoscaler>(move |change, queue| {
            let key = change.object().key();
            let mut seen = seen.lock();
            match change {
                Change::Deleted(_) => {
                    seen.remove(&key);
                    queue.add(key);
                }
                // A change is not acted on before its time, as any other sync.
                _ if seen.contains_key(&key) => {}
                _ => {
                    let due = Instant::now() + period;
                    seen.insert(key.clone(), Known::due_at(due));
                    queue.add_after(key, period);
                }
            }
            counted.set_count(seen.len());
        })
        .reads::<Pod>()
        .workers(workers)
        .reconciler(Autoscalers {
            steady: runtime::clock::steady(&context.clock),
            context: context.clone(),
            autoscalers: context.informers.store::<HorizontalPodAutoscaler>(),
            pods,
            metrics: Metrics::new(&context.client, &scales, period),
            scales,
            configuration,
            period,
            known,
            measures,
        })
}

/// As short as a period may be.
const SHORTEST_PERIOD: Duration = Duration::from_millis(100);

/// How often a scale is put again on top of what somebody else has just written. Upstream's number.
const CONFLICTS_MAX: usize = 5;

/// What is remembered of an autoscaler.
struct Known {
    due: Instant,
    memory: Memory,
    /// Of the target's pods, as its scale last said.
    selector: Option<Selector>,
}

impl Known {
    fn due_at(due: Instant) -> Known {
        Known {
            due,
            memory: Memory::default(),
            selector: None,
        }
    }
}

pub struct Autoscalers {
    context: Context,
    /// Windows and periods are measured by it.
    steady: Clock,
    autoscalers: Arc<Store<HorizontalPodAutoscaler>>,
    pods: Arc<Store<Pod>>,
    scales: Arc<Scales>,
    metrics: Metrics,
    configuration: Configuration,
    period: Duration,
    known: Arc<Mutex<BTreeMap<Key, Known>>>,
    measures: Measures,
}

impl Reconcile for Autoscalers {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let Some(hpa) = self.autoscalers.get(key) else {
            self.measures.forget(&key.namespace, &key.name);
            return Ok(Next::AwaitChange);
        };
        let begun = Instant::now();
        let (change, outcome) = self.sync(key, &hpa, report).await;
        self.measures.on_sync(change, outcome, begun.elapsed());
        Ok(Next::After(self.until_due(key)))
    }
}

impl Autoscalers {
    /// How long until the next time of its period.
    fn until_due(&self, key: &Key) -> Duration {
        let now = Instant::now();
        let mut known = self.known.lock();
        let Some(known) = known.get_mut(key) else {
            return self.period;
        };
        while known.due <= now {
            known.due += self.period;
        }
        known.due - now
    }

    /// By how many replicas the target was changed, and what went wrong.
    async fn sync(
        &self,
        key: &Key,
        hpa: &HorizontalPodAutoscaler,
        report: &Report<'_>,
    ) -> (i32, Outcome) {
        let (resource, scale) = match self.scale(hpa).await {
            Ok(found) => found,
            Err(error) => return self.without_scale(hpa, &error, report).await,
        };
        let (observed, took) = self.observe(key, hpa, &scale).await;
        let at = Moment {
            now: self.context.clock.now(),
            steady: self.steady.now(),
        };
        let mut plan = {
            let mut known = self.known.lock();
            let mut none = Memory::default();
            let known = known.get_mut(key);
            let memory = known.map_or(&mut none, |known| &mut known.memory);
            plan(hpa, &scale, observed, memory, &self.configuration, at)
        };
        self.explain(hpa, &plan, report);
        self.measure(hpa, &plan, &took);
        let mut outcome = match plan.error {
            Some(_) => Outcome::Internal,
            None => Outcome::Fine,
        };
        let change = match &plan.rescale {
            None => 0,
            Some(rescale) => {
                let (from, rescale) = (scale.spec.replicas, rescale.clone());
                match self.rescale(hpa, &resource, scale, rescale.to).await {
                    Ok(()) => {
                        plan.scaled(hpa, &self.configuration, at.now.time());
                        self.note_change(key, hpa, from, &rescale);
                        rescale.to.saturating_sub(from)
                    }
                    Err(error) => {
                        plan.refused(hpa, &error.to_string(), at.now.time());
                        let Rescale { to, why } = rescale;
                        let message = format!("New size: {to}; reason: {why}; error: {error}");
                        self.emit(hpa, EventType::Warning, "FailedRescale", message);
                        outcome = Outcome::Internal;
                        0
                    }
                }
            }
        };
        let desired = plan.status.desired_replicas;
        self.measures
            .set_desired(&key.namespace, &key.name, desired);
        if !self.put_status(hpa, &plan.status).await {
            outcome = Outcome::Internal;
        }
        (change, outcome)
    }

    /// The scale of the target, in the first version of its kind that has one.
    async fn scale(
        &self,
        hpa: &HorizontalPodAutoscaler,
    ) -> Result<(ResourceType, Scale), ScaleError> {
        let target = &hpa.spec.scale_target_ref;
        let found = self.scales.resources(&target.api_version, &target.kind);
        let mut first = None;
        for resource in found.await? {
            let namespace = &hpa.metadata.namespace;
            match self.scales.read(&resource, namespace, &target.name).await {
                Ok(scale) => return Ok((resource, scale)),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.map_or_else(
            || ScaleError::NotScalable(target.kind.to_string()),
            ScaleError::Client,
        ))
    }

    async fn without_scale(
        &self,
        hpa: &HorizontalPodAutoscaler,
        error: &ScaleError,
        report: &Report<'_>,
    ) -> (i32, Outcome) {
        let why = error.to_string();
        let reason = Reason::Failed {
            reason: "FailedGetScale",
            why: why.clone(),
        };
        report.decide(ObjectId::of(hpa), [Line::from(&reason)]);
        self.emit(hpa, EventType::Warning, "FailedGetScale", why.clone());
        let now = self.context.clock.now().time();
        let status = plan::plan_without_scale(hpa, &why, now);
        self.put_status(hpa, &status).await;
        let outcome = match error {
            ScaleError::GroupVersion(_) => Outcome::Spec,
            _ => Outcome::Internal,
        };
        (0, outcome)
    }

    /// Reads what the decision rests on, and how long each metric took.
    async fn observe(
        &self,
        key: &Key,
        hpa: &HorizontalPodAutoscaler,
        scale: &Scale,
    ) -> (Observed, Vec<Duration>) {
        let needs = need(hpa, scale.spec.replicas, &self.configuration);
        if needs != Need::Metrics {
            return (Observed::Nothing, Vec::new());
        }
        let text = &scale.status.selector;
        let (selector, pods) = match self.select(key, text) {
            Ok(found) => found,
            Err(failure) => return (Observed::BadSelector(failure), Vec::new()),
        };
        let (mut readings, mut took) = (Vec::new(), Vec::new());
        let query = selector.to_string();
        for spec in &hpa.spec.metrics {
            let begun = Instant::now();
            let read = self.metrics.read(&key.namespace, spec, &query).await;
            readings.push(read);
            took.push(begun.elapsed());
        }
        (Observed::Metrics { pods, readings }, took)
    }

    fn measure(&self, hpa: &HorizontalPodAutoscaler, plan: &Plan, took: &[Duration]) {
        let metrics = hpa.spec.metrics.iter().zip(&plan.computed).zip(took);
        for ((spec, computed), took) in metrics {
            let (change, outcome) = match computed {
                Ok(replicas) => {
                    let change = replicas.saturating_sub(hpa.status.current_replicas);
                    (change, Outcome::Fine)
                }
                Err(true) => (0, Outcome::Spec),
                Err(false) => (0, Outcome::Internal),
            };
            self.measures
                .on_metric(change, outcome, &spec.r#type, *took);
        }
    }

    /// The pods of the target, if no other autoscaler scales them, too.
    fn select(&self, key: &Key, text: &str) -> Result<(Selector, Vec<Arc<Pod>>), SelectorFailure> {
        if text.is_empty() {
            return Err(SelectorFailure::Missing);
        }
        let selector =
            Selector::parse(text).map_err(|error| SelectorFailure::Invalid(error.to_string()))?;
        let mut known = self.known.lock();
        if let Some(known) = known.get_mut(key) {
            known.selector = Some(selector.clone());
        }
        let selects = |labels: &LabelSet| selector.matches(labels);
        let mut pods = self.pods.labelled(&key.namespace, selects);
        pods.sort_by(|one, two| one.metadata.name.cmp(&two.metadata.name));
        let scales_some = |other: &Selector| {
            let mut labels = pods.iter().map(|pod| &pod.metadata.labels);
            labels.any(|labels| other.matches(labels))
        };
        let first = Key::new(&key.namespace, "");
        let by: Vec<Key> = known
            .range(first..)
            .take_while(|(other, _)| other.namespace == key.namespace)
            .filter(|(_, known)| known.selector.as_ref().is_some_and(scales_some))
            .map(|(other, _)| other.clone())
            .collect();
        match by.len() {
            0 | 1 => Ok((selector, pods)),
            _ => Err(SelectorFailure::Ambiguous {
                selector: text.to_owned(),
                by,
            }),
        }
    }

    fn explain(&self, hpa: &HorizontalPodAutoscaler, plan: &Plan, report: &Report<'_>) {
        report.decide(ObjectId::of(hpa), plan.reasons.iter().map(Line::from));
        for reason in &plan.reasons {
            if let Reason::Failed { reason, why } | Reason::Unmeasured { reason, why } = reason {
                self.emit(hpa, EventType::Warning, reason, why.clone());
            }
        }
    }

    /// Puts the scale; on a conflict once more on top of what is there now.
    async fn rescale(
        &self,
        hpa: &HorizontalPodAutoscaler,
        resource: &ResourceType,
        mut scale: Scale,
        to: i32,
    ) -> Result<(), client::Error> {
        let mut left = CONFLICTS_MAX;
        loop {
            let error = match self.scales.update(resource, &scale, to).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            left -= 1;
            if !error.is_conflict() || left == 0 {
                return Err(error);
            }
            let (namespace, name) = (&hpa.metadata.namespace, &hpa.spec.scale_target_ref.name);
            if let Ok(latest) = self.scales.read(resource, namespace, name).await {
                scale = latest;
            }
        }
    }

    fn note_change(&self, key: &Key, hpa: &HorizontalPodAutoscaler, from: i32, rescale: &Rescale) {
        let Rescale { to, why } = rescale;
        let message = format!("New size: {to}; reason: {why}");
        self.emit(hpa, EventType::Normal, "SuccessfulRescale", message);
        let now = self.steady.now();
        if let Some(known) = self.known.lock().get_mut(key) {
            let behavior = hpa.spec.behavior.as_ref();
            known.memory.note_change(behavior, from, *to, now);
        }
    }

    /// Writes the status if it is another one; false if the API server said no.
    async fn put_status(
        &self,
        hpa: &HorizontalPodAutoscaler,
        status: &HorizontalPodAutoscalerStatus,
    ) -> bool {
        if *status == hpa.status {
            return true;
        }
        let client = &self.context.client;
        let put = put_status::<HorizontalPodAutoscaler>(client, &hpa.metadata, status).await;
        if let Err(error) = &put {
            let message = error.to_string();
            self.emit(hpa, EventType::Warning, "FailedUpdateStatus", message);
        }
        put.is_ok()
    }

    fn emit(
        &self,
        hpa: &HorizontalPodAutoscaler,
        event_type: EventType,
        reason: &'static str,
        message: String,
    ) {
        let object = ObjectRef::of(hpa);
        self.context
            .recorder
            .event(&object, event_type, reason, message);
    }
}
