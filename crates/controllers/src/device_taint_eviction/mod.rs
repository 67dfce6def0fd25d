//! Pods that have to go because a device that they use is tainted with the effect `NoExecute`. A small controller.
//!
//! **Converges**: no pod on a node uses a claim with a device that has such a taint, unless the claim tolerates it, or
//! still does. With `DRADeviceTaintRules` each DeviceTaintRule says in the condition `EvictionInProgress` how many pods it
//! still has to evict, or would if its effect were `NoExecute`.
//!
//! **Triggers**: slices whose pool has or had such taints; rules; claims, for the pods that they are reserved for; pods
//! that are bound or learn of their claims; time, when a toleration ends, and ten seconds after a rule's eviction.
//!
//! **Writes**: patches the condition `DisruptionTarget` and deletes the pod; applies the status of rules; emits
//! `DeviceTaintManagerEviction`, also when an eviction that was due later is off.
//!
//! **Mirrors** `pkg/controller/devicetainteviction`. Times count from when the taint was added, so a restart changes
//! nothing.
//!
//! **Deliberate differences**: everything is found anew from the caches, where upstream keeps claims and pools of its own;
//! the pod is not read again before it is deleted by its uid; what is being deleted already is not counted as evicted;
//! the event says what was done, and not what is tried.

mod actions;
mod apply;
mod invariants;
mod oracle;
mod plan;
mod rule_status;
mod triggers;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::kinds::{DeviceTaintRule, EVICTION_IN_PROGRESS, Pod, ResourceClaim, ResourceSlice};
use api::{Gate, Key, ObjectId, Resource, Uid};
use parking_lot::Mutex;
use prometheus::{Histogram, IntCounter};
use runtime::events::{EventType, ObjectRef};
use runtime::metrics::Stability;
use runtime::rate_limit::Backoff;
use runtime::{Context, Controller, Error, Loop, Metrics, Next, Queue, Reconcile, Report};

use self::rule_status::{Counts, condition};
use self::triggers::Caches;
use crate::Descriptor;
use crate::oracle::View;
use crate::workload::Consistency;

pub use invariants::{converged, due};
pub use oracle::DeviceTaintOracle;
pub use plan::{Eviction, Known, TaintSource, claim_eviction, pod_eviction};
pub use triggers::Item;

pub const DESCRIPTOR: Descriptor = Descriptor {
    component: "device-taint-eviction-controller",
    caches: &[
        View::of::<Pod>(),
        View::of::<ResourceClaim>(),
        View::of::<ResourceSlice>(),
    ],
    gated_caches: &[(Gate::DRADeviceTaintRules, View::of::<DeviceTaintRule>())],
    decides_about: &[Pod::TYPE, DeviceTaintRule::TYPE],
    queues: &["device-taint-eviction-controller"],
    metrics: &["device_taint_eviction_controller_"],
    build: Some(|ctx| {
        let flag = ctx.config.device_taint_eviction_controller.concurrent_syncs;
        Some(controller(ctx, ctx.workers(flag)).into())
    }),
    oracle: Some(|| Box::<DeviceTaintOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "device-taint-eviction-controller",
        "",
        "device-taint-eviction-controller",
    )
    .gated(&["DynamicResourceAllocation", "DRADeviceTaints"])
};

/// UPSTREAM: the status of a rule changes at most this often.
const RULE_STATUS_PERIOD: Duration = Duration::from_secs(10);

pub fn controller(context: &Context, workers: usize) -> Controller<Item> {
    let caches = Arc::new(Caches::new(context));
    let (pods, claims, slices) = (caches.clone(), caches.clone(), caches.clone());
    let mut built = Loop::on::<Item>(context, Backoff::DEFAULT)
        .queue("device-taint-eviction-controller")
        .watches::<Pod>(move |change, queue| pods.on_pod(&change, queue))
        .watches::<ResourceClaim>(move |change, queue| claims.on_claim(&change, queue))
        .watches::<ResourceSlice>(move |change, queue| slices.on_slice(&change, queue));
    let mut written = Consistency::always();
    if context.gates.enabled(Gate::DRADeviceTaintRules) {
        let rules = caches.clone();
        built =
            built.watches::<DeviceTaintRule>(move |change, queue| rules.on_rule(&change, queue));
        written = written.of::<DeviceTaintRule>(context);
    }
    let (deleted, latency) = measures(&context.metrics);
    let queue = built.handle();
    built.workers(workers).reconciler(DeviceTaintEviction {
        context: context.clone(),
        caches,
        queue,
        evicted: Mutex::default(),
        written,
        deleted,
        latency,
    })
}

pub struct DeviceTaintEviction {
    context: Context,
    caches: Arc<Caches>,
    queue: Arc<Queue<Item>>,
    /// By the name of a rule: which one it was, and how many pods it has evicted.
    evicted: Mutex<BTreeMap<Key, (Uid, u64)>>,
    /// What was written to rules.
    written: Consistency,
    deleted: IntCounter,
    latency: Histogram,
}

fn measures(metrics: &Metrics) -> (IntCounter, Histogram) {
    let deleted = metrics.counter(
        "device_taint_eviction_controller_pod_deletions_total",
        "Total number of Pods deleted by DeviceTaintEvictionController since its start.",
        Stability::Alpha,
        &[],
    );
    let latency = metrics.histogram(
        "device_taint_eviction_controller_pod_deletion_duration_seconds",
        "Latency, in seconds, between the time when a device taint effect has been activated and a Pod's deletion via \
         DeviceTaintEvictionController.",
        Stability::Alpha,
        &[],
        // Upstream's buckets.
        &[
            0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0,
        ],
    );
    (
        deleted.with_label_values::<&str>(&[]),
        latency.with_label_values::<&str>(&[]),
    )
}

impl Reconcile<Item> for DeviceTaintEviction {
    async fn reconcile(&self, item: &Item, report: &Report<'_>) -> Result<Next, Error> {
        match item {
            Item::Pod(key) => self.sync_pod(key, report).await,
            Item::Rule(key) => self.sync_rule(key, report).await,
        }
    }
}

impl DeviceTaintEviction {
    async fn sync_pod(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let held = self.caches.scheduled.get(key);
        let pod = self.caches.pods.get(key);
        let is_same = |uid: &Uid| pod.as_ref().is_some_and(|pod| pod.metadata.uid == *uid);
        // What is gone needs no word.
        let held = held.filter(|(uid, _)| is_same(uid)).map(|(_, held)| held);
        let Some(pod) = pod.filter(|pod| !pod.metadata.is_terminating()) else {
            self.caches.scheduled.forget(key);
            return Ok(Next::AwaitChange);
        };
        let eviction = pod_eviction(&pod, &self.caches.known());
        let Some(eviction) = eviction else {
            if held.is_some() {
                self.caches.scheduled.forget(key);
                self.event(&pod, "Cancelling deletion");
                report.decide(ObjectId::of(&*pod), [plan::stays()]);
            }
            return Ok(Next::AwaitChange);
        };
        let now = self.context.clock.now();
        report.decide(ObjectId::of(&*pod), [eviction.line(now)]);
        if held.as_ref() != Some(&eviction) {
            self.enqueue_rules(&eviction);
        }
        let uid = &pod.metadata.uid;
        if eviction.at > now {
            let wait = eviction.at.since(now);
            self.caches.scheduled.set(key, uid, eviction);
            return Ok(Next::After(wait));
        }
        self.caches.scheduled.set(key, uid, eviction.clone());
        self.evict(&pod, &eviction).await?;
        self.caches.scheduled.forget(key);
        Ok(Next::AwaitChange)
    }

    async fn evict(&self, pod: &Pod, eviction: &Eviction) -> Result<(), Error> {
        let now = self.context.clock.now();
        match apply::mark_and_delete(&self.context.client, pod, now).await {
            // Somebody was faster.
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error.into()),
            Ok(()) => {}
        }
        self.event(pod, "Marking for deletion");
        self.deleted.inc();
        let late = self.context.clock.now().since(eviction.at);
        self.latency.observe(late.as_secs_f64());
        for (name, uid) in eviction.rules() {
            let mut evicted = self.evicted.lock();
            let counted = evicted.entry(Key::new("", name)).or_default();
            if counted.0 != *uid {
                *counted = (uid.clone(), 0);
            }
            counted.1 += 1;
        }
        self.enqueue_rules(eviction);
        Ok(())
    }

    /// UPSTREAM: not at once, because more may follow.
    fn enqueue_rules(&self, eviction: &Eviction) {
        for (name, _) in eviction.rules() {
            let rule = Item::Rule(Key::new("", name));
            self.queue.add_after(rule, RULE_STATUS_PERIOD);
        }
    }

    fn event(&self, pod: &Pod, message: &'static str) {
        let (recorder, object) = (
            &self.context.recorder,
            ObjectRef::new(&Pod::TYPE, &pod.metadata),
        );
        recorder.event(
            &object,
            EventType::Normal,
            "DeviceTaintManagerEviction",
            message.to_owned(),
        );
    }

    async fn sync_rule(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let rules = self.caches.rules.as_ref();
        let Some(rule) = rules.and_then(|rules| rules.get(key)) else {
            self.evicted.lock().remove(key);
            self.written.forget(key);
            return Ok(Next::AwaitChange);
        };
        self.written.check(key)?;
        let now = self.context.clock.now();
        let held = api::conditions::find(&rule.status.conditions, EVICTION_IN_PROGRESS);
        if let Some(held) = held
            && held.observed_generation == rule.metadata.generation
            && let Some(at) = held.last_transition_time
        {
            let since = now.since(at.micro());
            if since < RULE_STATUS_PERIOD {
                return Ok(Next::After(RULE_STATUS_PERIOD - since));
            }
        }
        let evicted = self.evicted.lock().get(key).cloned();
        let evicted = evicted.filter(|(uid, _)| *uid == rule.metadata.uid);
        let counts = Counts {
            evicted: evicted.map_or(0, |(_, count)| count),
            ..Counts::of(&rule, &self.caches.pods, &self.caches.known())
        };
        let wanted = condition(&rule, counts, now.time());
        if held.is_some_and(|held| rule_status::is_same(held, &wanted)) {
            return Ok(Next::AwaitChange);
        }
        report.decide(ObjectId::of(&*rule), [rule_status::line(&wanted)]);
        let revision = apply::rule_status(&self.context.client, &rule, &wanted).await?;
        self.written.note::<DeviceTaintRule>(key, revision);
        Ok(Next::AwaitChange)
    }
}
