//! Pods that were announced to go and did not: the condition `DisruptionTarget` is taken back.

use std::sync::Arc;
use std::time::Duration;

use api::decision::Line;
use api::kinds::Pod;
use api::{Key, MicroTime, ObjectId, Resource};
use client::Patch;
use runtime::rate_limit::Backoff;
use runtime::{Change, Context, Controller, Error, Loop, Next, Reconcile, Report, Store};
use serde_json::json;

/// How long a pod may say that it is about to go without being deleted. Upstream's number.
pub const STALE_AFTER: Duration = Duration::from_secs(120);

const CONDITION: &str = "DisruptionTarget";

/// How long until the pod's condition is stale; none if it never will be.
pub fn stale_after(pod: &Pod, now: MicroTime) -> Option<Duration> {
    if pod.metadata.is_terminating() || pod.is_finished() {
        return None;
    }
    let held = pod.condition(CONDITION)?;
    // A kubelet may take as long as it likes between saying so and doing so.
    if held.status != "True" || held.reason == "TerminationByKubelet" {
        return None;
    }
    let since = held.last_transition_time;
    Some(since.map_or(Duration::ZERO, |since| {
        since.micro().plus(STALE_AFTER).since(now)
    }))
}

pub(super) fn controller(context: &Context) -> Controller {
    let clock = context.clock.clone();
    Loop::on::<Key>(context, Backoff::DEFAULT)
        .queue("stale_pod_disruption")
        .watches::<Pod>(move |change, queue| {
            let pod = change.object();
            if !matches!(change, Change::Deleted(_))
                && let Some(wait) = stale_after(pod, clock.now())
            {
                queue.add_after(pod.key(), wait);
            }
        })
        .reconciler(StalePods {
            context: context.clone(),
            pods: context.informers.store::<Pod>(),
        })
}

struct StalePods {
    context: Context,
    pods: Arc<Store<Pod>>,
}

impl Reconcile for StalePods {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let now = self.context.clock.now();
        let Some(pod) = self.pods.get(key) else {
            return Ok(Next::AwaitChange);
        };
        match stale_after(&pod, now) {
            None => Ok(Next::AwaitChange),
            Some(wait) if !wait.is_zero() => Ok(Next::After(wait)),
            Some(_) => {
                let line = Line::acts("TakesBack", "sets the condition DisruptionTarget to False")
                    .because("it was announced two minutes ago, and the pod was not deleted");
                report.decide(ObjectId::of(&*pod), [line]);
                self.take_back(&pod, now).await?;
                Ok(Next::AwaitChange)
            }
        }
    }
}

impl StalePods {
    /// On top of what was read: a newer announcement wins.
    async fn take_back(&self, pod: &Pod, now: MicroTime) -> Result<(), client::Error> {
        let meta = &pod.metadata;
        let mut condition = json!({
            "type": CONDITION, "status": "False", "reason": null, "message": null,
            "lastProbeTime": null, "lastTransitionTime": now.time(),
        });
        if meta.generation > 0 {
            condition["observedGeneration"] = json!(meta.generation);
        }
        let patch = json!({
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version.to_string()},
            "status": {"conditions": [condition]},
        });
        let patch = Patch::Strategic(patch.to_string().into());
        let client = &self.context.client;
        client
            .patch(
                &Pod::TYPE,
                &meta.namespace,
                &meta.name,
                Some("status"),
                &patch,
            )
            .await
            .map(drop)
    }
}
