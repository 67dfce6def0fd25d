//! Finalizers of pods: which were seen to go, and which nobody needs any more.
//!
//! A job removes the finalizers of its pods itself, while it runs. A pod whose job is gone, over, or was never there
//! goes into the queue of orphans.

use std::sync::Arc;

use api::kinds::{Job, Pod};
use api::{OwnerRef, Resource};
use runtime::triggers::{by_controller, resolve_owner};
use runtime::{Change, IndexValue, Queue, Store};

use super::metrics::JobMetrics;
use super::selects;
use super::snapshot::is_tracked;
use super::state::JobStates;

pub struct Finalizers {
    pub jobs: Arc<Store<Job>>,
    pub pods: Arc<Store<Pod>>,
    /// Pods that may have a finalizer in vain.
    pub orphans: Arc<Queue>,
    pub states: Arc<JobStates>,
    pub metrics: Arc<JobMetrics>,
}

impl Finalizers {
    pub fn on_job(&self, change: Change<'_, Job>) {
        match change {
            // Its pods may have been seen before it, and nobody knew then that it was over.
            Change::Added(job) if job.finished().is_some() => self.orphan_pods_of(job),
            // Its pods should have lost theirs before it was finished; this makes sure.
            Change::Updated { new, .. } if new.finished().is_some() => {
                self.states.forget(&new.key());
                self.orphan_pods_of(new);
            }
            Change::Deleted(job) => self.orphan_pods_of(job),
            Change::Added(_) | Change::Updated { .. } => {}
        }
    }

    pub fn on_pod(&self, change: Change<'_, Pod>) {
        match change {
            Change::Added(pod) => {
                self.metrics.tracked_pod_changed(None, Some(pod));
                match pod.metadata.is_terminating() {
                    true => self.deleted(pod, false),
                    false => self.seen(pod, pod.metadata.controller()),
                }
            }
            Change::Updated { old, new } => {
                self.metrics.tracked_pod_changed(Some(old), Some(new));
                if Arc::ptr_eq(old, new) {
                    return;
                }
                if new.metadata.is_terminating() {
                    return self.deleted(new, false);
                }
                let (before, after) = (old.metadata.controller(), new.metadata.controller());
                if before != after && before.is_some() {
                    self.seen(new, before);
                }
                self.seen(new, after);
            }
            Change::Deleted(pod) => {
                self.metrics.tracked_pod_changed(Some(pod), None);
                self.deleted(pod, true);
            }
        }
    }

    /// A pod that this reference says to belong to a job.
    fn seen(&self, pod: &Pod, reference: Option<&OwnerRef>) {
        let Some(reference) = reference else {
            return self.orphan(pod);
        };
        let Some(job) = self.owner(pod, reference) else {
            return;
        };
        if !is_tracked(pod) {
            self.states.released(&job.key(), &pod.metadata.uid);
        }
        // A finalizer that is back, because the API server lost that it was removed. Upstream leaves it until the
        // next resync, half a day later.
        if job.finished().is_some() {
            self.orphan(pod);
        }
    }

    fn deleted(&self, pod: &Pod, gone: bool) {
        let reference = pod.metadata.controller();
        let job = reference.and_then(|reference| self.owner(pod, reference));
        let Some(job) = job.filter(|job| job.finished().is_none()) else {
            // No job will remove it.
            return self.orphan(pod);
        };
        if gone || !is_tracked(pod) {
            self.states.released(&job.key(), &pod.metadata.uid);
        }
    }

    fn owner(&self, pod: &Pod, reference: &OwnerRef) -> Option<Arc<Job>> {
        resolve_owner(&self.jobs, &pod.metadata.namespace, reference)
    }

    fn orphan(&self, pod: &Pod) {
        if is_tracked(pod) {
            self.orphans.add(pod.key());
        }
    }

    fn orphan_pods_of(&self, job: &Job) {
        let meta = &job.metadata;
        let own = IndexValue::Uid(meta.uid.clone());
        for pod in self.pods.by(&by_controller(), &own) {
            self.orphan(&pod);
        }
        let nobodys = IndexValue::Text(meta.namespace.clone());
        for pod in self.pods.by(&by_controller(), &nobodys) {
            if selects(job, &pod.metadata.labels) {
                self.orphan(&pod);
            }
        }
    }
}
