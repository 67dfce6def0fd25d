//! Claims for the generic ephemeral volumes of pods. A small controller.
//!
//! **Converges**: each ephemeral volume of a pod that is not being deleted has a claim, named after pod and volume,
//! created from the template in the pod and controlled by it: it goes with the pod.
//!
//! **Triggers**: a new pod with such a volume; a claim that is gone, for the pods that name it.
//!
//! **Writes**: creates claims; emits `FailedBinding` where that fails, or where a claim of that name was not created for
//! the pod, which is never used instead.
//!
//! **Mirrors** `pkg/controller/volume/ephemeral`.
//!
//! **Deliberate differences**: templates of claims are not worth a place in the cache of all pods, so a pod that lacks a
//! claim is read from the API server. A claim of somebody else is told of once, not with every try: its deletion enqueues the
//! pod. A claim that was just created is waited for, where upstream may try to create it
//! again and say that it failed.

mod actions;
mod invariants;
mod plan;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::json::Node;
use api::kinds::{PersistentVolumeClaim, Pod};
use api::{Key, ObjectId, Resource};
use prometheus::IntCounter;
use runtime::events::{EventType, ObjectRef};
use runtime::metrics::Stability;
use runtime::rate_limit::Backoff;
use runtime::{Change, Context, Controller, Error, Loop, Next, Queue, Reconcile, Report, Store};

use self::plan::{Step, claim_body, plan};
use crate::Descriptor;
use crate::oracle::View;
use crate::storage::claim_users::{BY_CLAIM, users_of};
use crate::workload::Consistency;
use crate::workload::status::revision;

pub use invariants::EphemeralVolumeOracle;

pub const DESCRIPTOR: Descriptor = Descriptor {
    component: "ephemeral_volume",
    caches: &[View::of::<Pod>(), View::of::<PersistentVolumeClaim>()],
    decides_about: &[Pod::TYPE],
    queues: &["ephemeral_volume"],
    metrics: &["ephemeral_volume_controller_"],
    build: Some(|ctx| {
        let flag = ctx.config.ephemeral_volume_controller.concurrent_syncs;
        Some(controller(ctx, ctx.workers(flag)).into())
    }),
    oracle: Some(|| Box::<EphemeralVolumeOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "ephemeral-volume-controller",
        "ephemeral-volume",
        "ephemeral-volume-controller",
    )
};

pub fn controller(context: &Context, workers: usize) -> Controller {
    let pods = context.informers.of::<Pod>();
    pods.add_index(&BY_CLAIM);
    let all = pods.store().clone();
    Loop::on::<Key>(context, Backoff::DEFAULT)
        .queue("ephemeral_volume")
        // Volumes of a pod never change, and the collector deletes what belongs to a pod that is gone.
        .watches::<Pod>(|change, queue| {
            if let Change::Added(pod) = change {
                enqueue(pod, queue);
            }
        })
        .watches::<PersistentVolumeClaim>(move |change, queue| {
            if let Change::Deleted(claim) = change {
                let pods = all.by(&BY_CLAIM, &users_of(claim));
                pods.iter().for_each(|pod| enqueue(pod, queue));
            }
        })
        .workers(workers)
        .reconciler(EphemeralVolumes {
            context: context.clone(),
            pods: pods.store().clone(),
            claims: context.informers.store::<PersistentVolumeClaim>(),
            consistency: Consistency::always().of::<PersistentVolumeClaim>(context),
            created: counter(context, "ephemeral_volume_controller_create_total"),
            failed: counter(context, "ephemeral_volume_controller_create_failures_total"),
        })
}

fn enqueue(pod: &Pod, queue: &Queue) {
    let mut volumes = pod.volumes().iter();
    if !pod.metadata.is_terminating() && volumes.any(|volume| volume.is_ephemeral) {
        queue.add(pod.key());
    }
}

fn counter(context: &Context, name: &str) -> IntCounter {
    // UPSTREAM: both have the same help.
    let help = "Number of PersistentVolumeClaim creation requests";
    let family = context.metrics.counter(name, help, Stability::Alpha, &[]);
    let none: [&str; 0] = [];
    family.with_label_values(&none)
}

pub struct EphemeralVolumes {
    context: Context,
    pods: Arc<Store<Pod>>,
    claims: Arc<Store<PersistentVolumeClaim>>,
    consistency: Consistency,
    /// Requests, also those that failed.
    created: IntCounter,
    failed: IntCounter,
}

impl Reconcile for EphemeralVolumes {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let Some(pod) = self.pods.get(key) else {
            self.consistency.forget(key);
            return Ok(Next::AwaitChange);
        };
        self.consistency.check(key)?;
        let claim = |name: &str| self.claims.find(&key.namespace, name);
        let steps = plan(&pod, claim);
        if steps.is_empty() {
            return Ok(Next::AwaitChange);
        }
        report.decide(ObjectId::of(&*pod), steps.iter().map(Step::line));
        let Some(whole) = self.read(&pod).await? else {
            return Ok(Next::AwaitChange);
        };
        for step in &steps {
            if let Err((message, error)) = self.apply(key, &pod, &whole, step).await {
                let (object, volume) = (ObjectRef::of(&*pod), step.volume());
                let message = format!("ephemeral volume {volume}: {message}");
                let recorder = &self.context.recorder;
                recorder.event(&object, EventType::Warning, "FailedBinding", message);
                return Err(error);
            }
        }
        Ok(Next::AwaitChange)
    }
}

impl EphemeralVolumes {
    /// The whole pod, if it is still that one.
    async fn read(&self, pod: &Pod) -> Result<Option<Node>, Error> {
        let (client, meta) = (&self.context.client, &pod.metadata);
        let body = match client.get(&Pod::TYPE, &meta.namespace, &meta.name).await {
            Ok(body) => body,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let live = Pod::decode(&body).map_err(|error| Error::Retry(error.to_string()))?;
        if live.metadata.uid != meta.uid || live.metadata.is_terminating() {
            return Ok(None);
        }
        let whole = Node::parse(&String::from_utf8_lossy(&body));
        let whole = whole.map_err(|error| Error::Retry(error.to_string()))?;
        Ok(Some(whole))
    }

    /// What users read of a failure, and the failure.
    async fn apply(
        &self,
        key: &Key,
        pod: &Pod,
        whole: &Node,
        step: &Step,
    ) -> Result<(), (String, Error)> {
        let (volume, claim) = match step {
            Step::Create { volume, claim } => (volume, claim),
            Step::Refuse { claim, .. } => {
                let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
                let message = format!(
                    "PVC {namespace}/{claim} was not created for pod {namespace}/{name} (pod is not owner)"
                );
                // Its deletion enqueues the pod.
                return Err((message.clone(), Error::Terminal(message)));
            }
        };
        let body = claim_body(&pod.metadata, volume, claim, whole).to_string();
        self.created.inc();
        let (client, kind) = (&self.context.client, PersistentVolumeClaim::TYPE);
        match client
            .create_metadata_only(&kind, &key.namespace, body)
            .await
        {
            Ok(answer) => {
                let written = revision(&answer);
                self.consistency.note::<PersistentVolumeClaim>(key, written);
                Ok(())
            }
            Err(error) => {
                self.failed.inc();
                Err((format!("create PVC {claim}: {error}"), error.into()))
            }
        }
    }
}
