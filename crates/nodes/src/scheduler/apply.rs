//! Carries out what was planned.

use std::sync::Arc;

use api::conditions::{self, Condition, ConditionStatus};
use api::{Istr, Key, Resource};
use bytes::Bytes;
use client::{DeleteOptions, Error, Patch};
use runtime::{EventType, ObjectRef};
use serde_json::json;
use tracing::{debug, warn};

use super::Scheduler;
use super::delayed::{Binding, Choice};
use super::devices::ClaimWrite;
use super::filter::Rejection;
use super::plan::Plan;
use super::preempt::Preemption;
use super::volumes::{SELECTED_NODE, Volumes};
use crate::pod::Pod;
use crate::storage::{PersistentVolume, PersistentVolumeClaim};

/// Marks volumes that were not kept for a claim by their creators.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

impl Scheduler {
    pub(super) async fn apply(&self, pod: Arc<Pod>, plan: Plan) {
        match plan {
            Plan::Hold => {
                let now = self.clock.now();
                let mut state = self.state.lock();
                state.pending.park(&pod.key(), Rejection::BY_DEVICES, now);
            }
            Plan::Bind {
                node,
                volumes,
                devices,
            } => {
                if let Err(error) = self.write_device_claims(&pod, &devices).await {
                    self.withdraw(&pod.key());
                    return self.put_back(&pod, &error);
                }
                match volumes.is_empty() {
                    true => self.bind(&pod, &node).await,
                    false => self.choose_volumes(&pod, &node, &volumes).await,
                }
            }
            Plan::Wait {
                message,
                helped_by,
                preemption,
            } => {
                let outcome = self.report(&pod, &message, preemption.as_ref()).await;
                if let Some(preemption) = &preemption {
                    self.preempt(&pod, preemption).await;
                }
                let mut state = self.state.lock();
                let now = self.clock.now();
                match outcome {
                    Ok(()) => state.pending.park(&pod.key(), helped_by, now),
                    Err(error) => {
                        debug!(pod = %pod.key(), error = %client::describe(&error), "cannot report, will retry");
                        state.pending.retry(&pod.key(), now);
                    }
                }
            }
        }
    }

    async fn bind(&self, pod: &Pod, node: &Istr) {
        let meta = &pod.metadata;
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": &*meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let (namespace, name) = (meta.namespace.as_str(), &*meta.name);
        let body = binding.to_string();
        match self
            .client
            .create_subresource(&Pod::TYPE, namespace, name, "binding", body)
            .await
        {
            Ok(_) => {
                let message = format!("Successfully assigned {namespace}/{name} to {node}");
                self.recorder
                    .event(&ObjectRef::of(pod), EventType::Normal, "Scheduled", message);
            }
            Err(error) => self.undo(pod, &error),
        }
    }

    /// Gives claims their devices and lets the pod use them. What was written stays written: the next attempt finds it.
    async fn write_device_claims(&self, pod: &Pod, devices: &[ClaimWrite]) -> Result<(), Error> {
        for (at, write) in devices.iter().enumerate() {
            let now = self.clock.now().time();
            if let Err(error) = write.apply(&self.client, pod, now).await {
                if let Some(known) = &self.storage.devices {
                    let unwritten = devices[at..].iter();
                    unwritten.for_each(|write| known.allocating().end(write.uid()));
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// The pod is not on the node that we assumed it on.
    fn undo(&self, pod: &Pod, error: &Error) {
        let key = pod.key();
        self.withdraw(&key);
        if error.is_not_found() {
            // Deleted meanwhile.
            return;
        }
        self.put_back(pod, error);
    }

    fn withdraw(&self, key: &Key) {
        let mut state = self.state.lock();
        // The informer may have seen the binding after all: an answer can be lost.
        if state.cache.placed(key).is_some_and(|placed| placed.assumed) {
            state.cache.remove(key);
        }
        state.awaiting_claims.remove(key);
    }

    fn put_back(&self, pod: &Pod, error: &Error) {
        let key = pod.key();
        let mut state = self.state.lock();
        warn!(pod = %key, error = %client::describe(error), "cannot bind, will retry");
        if state.cache.placed(&key).is_none() {
            state.pending.add(&key, pod.spec.priority);
            state.pending.retry(&key, self.clock.now());
        }
    }

    /// Keeps volumes for unbound claims, and tells the others where theirs are to be made. The pod is bound when they
    /// all are.
    async fn choose_volumes(&self, pod: &Pod, node: &Istr, volumes: &Choice) {
        self.state
            .lock()
            .awaiting_claims
            .insert(pod.key(), node.clone());
        for binding in &volumes.bindings {
            if let Err(error) = self.keep(binding).await {
                return self.undo(pod, &error);
            }
        }
        let patch = json!({"metadata": {"annotations": {SELECTED_NODE: node}}}).to_string();
        let patch = Patch::Merge(Bytes::from(patch));
        for claim in &volumes.provisions {
            let (namespace, name) = (claim.namespace.as_str(), &*claim.name);
            let told = self
                .client
                .patch(&PersistentVolumeClaim::TYPE, namespace, name, None, &patch)
                .await;
            if let Err(error) = told {
                return self.undo(pod, &error);
            }
        }
    }

    /// The volume is kept for the claim, which the binder then binds to it. One that another claim has got meanwhile is
    /// not: it has another revision.
    async fn keep(&self, binding: &Binding) -> Result<(), Error> {
        let (volume, claim) = (&binding.volume.metadata, &binding.claim.metadata);
        let mut patch = json!({
            "metadata": {
                "uid": volume.uid, "resourceVersion": volume.resource_version.to_string(),
            },
            "spec": {"claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim.namespace,
                "name": &*claim.name,
                "uid": claim.uid,
            }},
        });
        if binding.volume.spec.claim_ref.is_none() {
            patch["metadata"]["annotations"] = json!({BOUND_BY_CONTROLLER: "yes"});
        }
        let patch = Patch::Merge(Bytes::from(patch.to_string()));
        let kind = &PersistentVolume::TYPE;
        let kept = self.client.patch(kind, "", &volume.name, None, &patch);
        kept.await.map(|_| ())
    }

    /// Binds pods whose claims have all got their volumes.
    pub(super) async fn bind_those_whose_claims_are_bound(&self) {
        let waiting: Vec<(Key, Istr)> = {
            let state = self.state.lock();
            state
                .awaiting_claims
                .iter()
                .map(|(key, node)| (key.clone(), node.clone()))
                .collect()
        };
        for (key, node) in waiting {
            let Some(pod) = self.pods.get(&key) else {
                continue;
            };
            let is_bound = |name: &str| {
                let claim = self.storage.claim(&key.namespace, name);
                claim.is_some_and(|claim| claim.is_bound())
            };
            if pod.claims.iter().all(|claim| is_bound(&claim.name)) {
                self.state.lock().awaiting_claims.remove(&key);
                self.bind(&pod, &node).await;
            }
        }
    }

    /// Says why the pod has no node, if that is news.
    async fn report(
        &self,
        pod: &Pod,
        message: &str,
        preemption: Option<&Preemption>,
    ) -> Result<(), Error> {
        let object = ObjectRef::of(pod);
        self.recorder
            .event(&object, EventType::Warning, "FailedScheduling", message);
        let nominated = preemption.map_or(pod.status.nominated_node_name.as_str(), |one| {
            one.node.as_str()
        });
        let held = conditions::find(&pod.status.conditions, "PodScheduled");
        let known = held.is_some_and(|held| {
            held.is_false() && held.reason == "Unschedulable" && &*held.message == message
        });
        if known && pod.status.nominated_node_name == *nominated {
            return Ok(());
        }
        let now = self.clock.now().time();
        let mut condition = Condition::new(
            "PodScheduled",
            ConditionStatus::False,
            "Unschedulable",
            message,
            now,
        );
        if let Some(held) = held.filter(|held| held.is_false()) {
            condition.last_transition_time = held.last_transition_time;
        }
        let mut status = json!({"conditions": [condition]});
        if preemption.is_some() {
            status["nominatedNodeName"] = json!(nominated);
        }
        self.patch_status(pod, status).await
    }

    async fn preempt(&self, pod: &Pod, preemption: &Preemption) {
        for victim in &preemption.victims {
            let message = format!(
                "Preempted by pod {} on node {}",
                pod.metadata.uid, preemption.node
            );
            let condition = Condition::new(
                "DisruptionTarget",
                ConditionStatus::True,
                "PreemptionByScheduler",
                format!(
                    "{}: preempting to accommodate a higher priority pod",
                    super::NAME
                ),
                self.clock.now().time(),
            );
            let options = DeleteOptions::exactly(&victim.metadata.uid);
            let (namespace, name) = (victim.metadata.namespace.as_str(), &*victim.metadata.name);
            let marked = self
                .patch_status(victim, json!({"conditions": [condition]}))
                .await;
            let deleted = match marked {
                Ok(()) => self
                    .client
                    .delete(&Pod::TYPE, namespace, name, &options)
                    .await
                    .map(|_| ()),
                Err(error) => Err(error),
            };
            match deleted {
                Err(error) if !error.is_not_found() && !error.is_conflict() => {
                    warn!(pod = %victim.key(), error = %client::describe(&error), "cannot preempt");
                }
                _ => self.recorder.event(
                    &ObjectRef::of(&**victim),
                    EventType::Normal,
                    "Preempted",
                    message,
                ),
            }
        }
    }

    async fn patch_status(&self, pod: &Pod, status: serde_json::Value) -> Result<(), Error> {
        let meta = &pod.metadata;
        let body = json!({"metadata": {"uid": meta.uid}, "status": status}).to_string();
        let patch = Patch::Strategic(Bytes::from(body));
        let patched = self
            .client
            .patch(
                &Pod::TYPE,
                &meta.namespace,
                &meta.name,
                Some("status"),
                &patch,
            )
            .await;
        match patched {
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            other => other.map(|_| ()),
        }
    }
}
