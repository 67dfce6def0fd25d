//! What the caches, and our own memory, say about one job.

use std::sync::Arc;

use api::collections::HashSet;
use api::kinds::{JOB_TRACKING, Job, Phase, Pod};
use api::{Gates, Uid};

use super::backoff::Backoff;
use super::gang::Found;
use super::indexes::valid_index;

pub struct Snapshot {
    pub job: Arc<Job>,
    /// All pods of the job, those that it adopted a moment ago with their finalizer.
    pub pods: Vec<Arc<Pod>>,
    /// Those that neither ended nor are being deleted.
    pub active: Vec<Arc<Pod>>,
    /// All creations and deletions of earlier rounds were seen.
    pub may_act: bool,
    /// Pods whose finalizer we removed and that the cache still shows with it.
    pub leaving: HashSet<Uid>,
    /// No pod can be made any more.
    pub namespace_ends: bool,
    /// What was remembered of failures when the status was last written.
    pub backoff: Backoff,
    pub gates: Gates,
    /// The Workloads and PodGroups of a job whose pods are of use only together; none of any other.
    pub gang: Option<Found>,
    uncounted_succeeded: HashSet<Uid>,
    uncounted_failed: HashSet<Uid>,
}

/// What our own memory adds to the caches.
#[derive(Default)]
pub struct Remembered {
    pub may_act: bool,
    pub leaving: HashSet<Uid>,
    pub backoff: Backoff,
    /// No pod can be made any more.
    pub namespace_ends: bool,
}

impl Snapshot {
    pub fn new(
        job: Arc<Job>,
        pods: Vec<Arc<Pod>>,
        remembered: Remembered,
        gates: Gates,
    ) -> Snapshot {
        let active = pods.iter().filter(|pod| pod.is_active()).cloned().collect();
        let uncounted = job.status.uncounted_terminated_pods.clone();
        let uncounted = uncounted.unwrap_or_default();
        Snapshot {
            active,
            job,
            pods,
            may_act: remembered.may_act,
            leaving: remembered.leaving,
            backoff: remembered.backoff,
            namespace_ends: remembered.namespace_ends,
            gates,
            gang: None,
            uncounted_succeeded: uncounted.succeeded.into_iter().collect(),
            uncounted_failed: uncounted.failed.into_iter().collect(),
        }
    }

    /// Has its finalizer, as far as we know: it is in no counter yet.
    pub fn is_tracked(&self, pod: &Pod) -> bool {
        is_tracked(pod) && !self.leaving.contains(&pod.metadata.uid)
    }

    /// Failed, or counts as failed because it is being deleted and will be replaced at once.
    pub fn is_failed(&self, pod: &Pod) -> bool {
        match pod.status.phase {
            Phase::Failed => true,
            Phase::Succeeded => false,
            _ => pod.metadata.is_terminating() && !self.job.replaces_failed_pods_only(self.gates),
        }
    }

    /// Tracked pods with an index that the job has, if it has indexes.
    pub fn countable(&self) -> impl Iterator<Item = &Arc<Pod>> {
        let indexed = self.job.is_indexed();
        self.pods.iter().filter(move |pod| {
            self.is_tracked(pod) && (!indexed || valid_index(&self.job, pod).is_some())
        })
    }

    /// Pods that succeeded, and pods that failed, and that the status does not know of.
    pub fn newly_finished(&self) -> (Vec<&Pod>, Vec<&Pod>) {
        let (mut succeeded, mut failed) = (Vec::new(), Vec::new());
        for pod in self.countable() {
            let uid = &pod.metadata.uid;
            if pod.status.phase == Phase::Succeeded {
                if !self.uncounted_succeeded.contains(uid) {
                    succeeded.push(&**pod);
                }
            } else if self.is_failed(pod) && !self.uncounted_failed.contains(uid) {
                failed.push(&**pod);
            }
        }
        (succeeded, failed)
    }

    pub fn terminating(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.iter().filter(|pod| pod.is_terminating())
    }

    pub fn was_uncounted_success(&self, pod: &Pod) -> bool {
        self.uncounted_succeeded.contains(&pod.metadata.uid)
    }

    pub fn was_uncounted_failure(&self, pod: &Pod) -> bool {
        self.uncounted_failed.contains(&pod.metadata.uid)
    }
}

/// Does the pod carry the finalizer of jobs?
pub fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.has_finalizer(JOB_TRACKING)
}

/// A pod that was adopted has the finalizer now, whatever the cache says.
pub(super) fn as_adopted(job: &Job, mut pod: Arc<Pod>) -> Arc<Pod> {
    let known = pod
        .metadata
        .owners
        .iter()
        .any(|owner| owner.uid == job.metadata.uid);
    if !known && !is_tracked(&pod) {
        let held = &mut Arc::make_mut(&mut pod).metadata;
        let finalizers = held.finalizers.iter().cloned();
        held.finalizers =
            api::meta::intern_names(finalizers.chain([JOB_TRACKING.into()]).collect());
    }
    pod
}
