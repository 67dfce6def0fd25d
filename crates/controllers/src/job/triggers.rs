//! Which changes wake which jobs, and which pods are to be freed of a finalizer that nobody needs.
//!
//! A job is woken at once when its spec changes; by its pods, and by its status, only after a second, so
//! that many pods that end together are counted together.

use std::sync::Arc;

use api::kinds::{Job, Pod};
use api::{OwnerRef, Resource};
use runtime::triggers::{by_controller, resolve_owner};
use runtime::{Change, IndexValue, Queue, Store};

use super::memory::Memory;
use super::metrics::JobMetrics;
use super::plan::BATCH;
use super::snapshot::is_tracked;
use crate::workload::claim::wants_orphan;

pub struct Triggers {
    pub jobs: Arc<Store<Job>>,
    pub pods: Arc<Store<Pod>>,
    pub queue: Arc<Queue>,
    /// Pods that may have a finalizer in vain.
    pub orphans: Arc<Queue>,
    pub memory: Arc<Memory>,
    pub metrics: Arc<JobMetrics>,
}

impl Triggers {
    pub fn on_job(&self, change: Change<'_, Job>) {
        let job = change.object();
        match change {
            Change::Added(job) => {
                if let Some(manager) = job.external_manager() {
                    self.metrics.managed_by_others(manager);
                }
                self.queue.add(job.key());
                // Its pods may have been seen before it, and nobody knew then that it was over.
                if job.finished().is_some() {
                    self.free_pods_of(job);
                }
            }
            // Its pods should have been let go before it was finished; this makes sure.
            Change::Updated { new, .. } if new.finished().is_some() => {
                self.memory.forget(&new.key());
                self.free_pods_of(new);
            }
            Change::Updated { old, new } if old.metadata.generation == new.metadata.generation => {
                self.queue.add_after(new.key(), BATCH);
            }
            Change::Updated { new, .. } => self.queue.add(new.key()),
            Change::Deleted(_) => {
                self.memory.forget(&job.key());
                self.queue.add(job.key());
                self.free_pods_of(job);
            }
        }
    }

    pub fn on_pod(&self, change: Change<'_, Pod>) {
        match change {
            Change::Added(pod) => {
                self.metrics.tracked_pod_changed(None, Some(pod));
                match pod.metadata.is_terminating() {
                    // A restart may show us a pod that is already on its way out: that is no creation.
                    true => self.deleted(pod, false),
                    false => self.added(pod),
                }
            }
            Change::Updated { old, new } => {
                self.metrics.tracked_pod_changed(Some(old), Some(new));
                if !Arc::ptr_eq(old, new) {
                    self.updated(old, new);
                }
            }
            Change::Deleted(pod) => {
                self.metrics.tracked_pod_changed(Some(pod), None);
                self.deleted(pod, true);
            }
        }
    }

    fn added(&self, pod: &Pod) {
        match pod.metadata.controller() {
            Some(reference) => {
                if let Some(job) = self.owner(pod, reference) {
                    self.memory.expectations.creation_observed(&job.key());
                    self.wake(&job);
                    self.free_if_over(&job, pod);
                }
            }
            None => {
                self.free(pod);
                self.wake_all_matching(pod);
            }
        }
    }

    fn updated(&self, old: &Pod, new: &Pod) {
        if new.metadata.is_terminating() {
            // Graceful deletion: the job need not wait until the pod is really gone.
            return self.deleted(new, false);
        }
        let (before, after) = (old.metadata.controller(), new.metadata.controller());
        let moved = before != after;
        if moved && let Some(reference) = before {
            self.owner_saw(new, reference);
        }
        if let Some(reference) = after {
            self.owner_saw(new, reference);
            return;
        }
        self.free(new);
        if moved || old.metadata.labels != new.metadata.labels {
            self.wake_all_matching(new);
        }
    }

    fn owner_saw(&self, pod: &Pod, reference: &OwnerRef) {
        let Some(job) = self.owner(pod, reference) else {
            return;
        };
        if !is_tracked(pod) {
            self.memory.released(&job.key(), &pod.metadata.uid);
        }
        self.wake(&job);
        self.free_if_over(&job, pod);
    }

    /// A finalizer that is back, because the API server lost that it was taken off. Upstream leaves it until the next
    /// resync, half a day later.
    fn free_if_over(&self, job: &Job, pod: &Pod) {
        if job.finished().is_some() {
            self.free(pod);
        }
    }

    fn deleted(&self, pod: &Pod, gone: bool) {
        let reference = pod.metadata.controller();
        let job = reference.and_then(|reference| self.owner(pod, reference));
        let Some(job) = job.filter(|job| job.finished().is_none()) else {
            // No job will let it go.
            return self.free(pod);
        };
        let key = job.key();
        let expectations = &self.memory.expectations;
        expectations.deletion_observed(&key, &pod.key());
        if gone || !is_tracked(pod) {
            self.memory.released(&key, &pod.metadata.uid);
        }
        self.wake(&job);
    }

    fn owner(&self, pod: &Pod, reference: &OwnerRef) -> Option<Arc<Job>> {
        resolve_owner(&self.jobs, &pod.metadata.namespace, reference)
    }

    fn wake(&self, job: &Job) {
        self.queue.add_after(job.key(), BATCH);
    }

    fn wake_all_matching(&self, pod: &Pod) {
        for job in self.jobs.in_namespace(&pod.metadata.namespace) {
            if selects(&job, pod) {
                self.wake(&job);
            }
        }
    }

    fn free(&self, pod: &Pod) {
        if is_tracked(pod) {
            self.orphans.add(pod.key());
        }
    }

    fn free_pods_of(&self, job: &Job) {
        let meta = &job.metadata;
        let own = IndexValue::Uid(meta.uid.clone());
        for pod in self.pods.by(&by_controller(), &own) {
            self.free(&pod);
        }
        let nobodys = IndexValue::Text(meta.namespace.clone());
        for pod in self.pods.by(&by_controller(), &nobodys) {
            if is_tracked(&pod) && selects(job, &pod) {
                self.free(&pod);
            }
        }
    }
}

fn selects(job: &Job, pod: &Pod) -> bool {
    let selector = job.spec.selector.as_ref();
    selector.is_some_and(|selector| wants_orphan(selector, &pod.metadata.labels))
}
