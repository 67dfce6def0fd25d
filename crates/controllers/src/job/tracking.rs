//! Which finished pods are counted in this sync, and which finalizers go. Pure.
//!
//! A pod is counted exactly once, whatever crashes in between: its uid goes into
//! `status.uncountedTerminatedPods` first, then its finalizer goes, then its uid makes room for one more
//! in the counter. Of an indexed job the indexes that succeeded say as much, so uids are kept of
//! failures alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::collections::HashSet;
use api::conditions::{self, Condition};
use api::kinds::{JobStatus, Phase, Pod};
use api::{MicroTime, Uid};

use super::assess::Assessment;
use super::indexes::{Indexes, completion_index, valid_index};
use super::policy::{self, Action};
use super::snapshot::Snapshot;
use super::status::{Concluded, FAILURE_TARGET, SUCCESS_CRITERIA_MET, final_condition};

/// Upstream's `MaxUncountedPods`: so many uids make the status about 20 KB long.
pub const UNCOUNTED_MAX: usize = 500;

#[derive(Clone)]
pub struct Tracking {
    /// What the status says before any finalizer goes.
    pub status: JobStatus,
    /// Is that worth a write?
    pub flush: bool,
    /// The job was suspended or resumed: reason and message of the event.
    pub news: Option<(&'static str, &'static str)>,
    /// Pods that may go once the status is written.
    pub release: Vec<Arc<Pod>>,
    /// Pods that have a finalizer now.
    pub tracked: HashSet<Uid>,
    /// The last condition of the job, if it ends.
    pub end: Option<Condition>,
    /// More pods wait to be counted than one sync takes.
    pub more: bool,
    /// What the pod failure policy did to pods of this sync.
    pub actions: BTreeMap<Action, u64>,
    /// Pods that are being deleted, if the job's end waits for them.
    pub awaited: i32,
}

pub fn track(
    snapshot: &Snapshot,
    assessed: &Assessment,
    concluded: Concluded,
    now: MicroTime,
) -> Tracking {
    let tracked = snapshot
        .pods
        .iter()
        .filter(|pod| snapshot.is_tracked(pod))
        .map(|pod| pod.metadata.uid.clone())
        .collect();
    let mut tracking = Tracking {
        status: concluded.status,
        flush: concluded.changed,
        news: concluded.news,
        release: Vec::new(),
        tracked,
        end: None,
        more: false,
        actions: BTreeMap::new(),
        awaited: concluded.awaited,
    };
    tracking.flush |= count_released(&mut tracking.status, &tracking.tracked);
    let new_indexes = tracking.count(snapshot, assessed, concluded.ending.as_ref());
    tracking.set_indexes(assessed, &new_indexes);
    if let Some(ending) = concluded.ending {
        tracking.announce(&ending, now);
    }
    tracking
}

impl Tracking {
    /// Goes through the pods that have their finalizer; gives the indexes that succeeded.
    fn count(
        &mut self,
        snapshot: &Snapshot,
        assessed: &Assessment,
        ending: Option<&Condition>,
    ) -> BTreeSet<u32> {
        let job = &*snapshot.job;
        let mut pods: Vec<&Arc<Pod>> = snapshot.pods.iter().collect();
        if job.is_indexed() {
            pods.sort_by_cached_key(|pod| completion_index(pod));
        }
        let mut new_indexes = BTreeSet::new();
        for pod in pods.into_iter().filter(|pod| snapshot.is_tracked(pod)) {
            if !may_go(snapshot, assessed, pod, ending) {
                continue;
            }
            self.release.push(pod.clone());
            let failed = snapshot.is_failed(pod)
                // When a job fails, every pod that has not ended has failed.
                || ending.is_some_and(|ending| ending.type_ != SUCCESS_CRITERIA_MET);
            if pod.status.phase == Phase::Succeeded && !snapshot.was_uncounted_failure(pod) {
                self.count_success(snapshot, assessed, pod, &mut new_indexes);
            } else if failed {
                self.count_failure(snapshot, pod);
            }
            if new_indexes.len() + self.uncounted() >= UNCOUNTED_MAX {
                self.more = true;
                break;
            }
        }
        new_indexes
    }

    fn count_success(
        &mut self,
        snapshot: &Snapshot,
        assessed: &Assessment,
        pod: &Pod,
        new_indexes: &mut BTreeSet<u32>,
    ) {
        match &assessed.indexes {
            Some(state) => {
                if let Some(index) = valid_index(&snapshot.job, pod)
                    && !state.before.contains(index)
                {
                    new_indexes.insert(index);
                    self.flush = true;
                }
            }
            None if snapshot.was_uncounted_success(pod) => {}
            None => {
                let uncounted = self
                    .status
                    .uncounted_terminated_pods
                    .get_or_insert_default();
                uncounted.succeeded.push(pod.metadata.uid.clone());
                self.flush = true;
            }
        }
    }

    fn count_failure(&mut self, snapshot: &Snapshot, pod: &Pod) {
        let job = &*snapshot.job;
        if snapshot.was_uncounted_failure(pod)
            || (job.is_indexed() && valid_index(job, pod).is_none())
        {
            return;
        }
        let policy = job.spec.pod_failure_policy.as_deref();
        let action = policy::failure_rule(policy, pod).map(|met| met.action);
        if let Some(action) = action {
            *self.actions.entry(action).or_default() += 1;
        }
        if action != Some(Action::Ignore) {
            let uncounted = self
                .status
                .uncounted_terminated_pods
                .get_or_insert_default();
            uncounted.failed.push(pod.metadata.uid.clone());
            self.flush = true;
        }
    }

    fn uncounted(&self) -> usize {
        let uncounted = self.status.uncounted_terminated_pods.as_ref();
        uncounted.map_or(0, |held| held.succeeded.len() + held.failed.len())
    }

    fn set_indexes(&mut self, assessed: &Assessment, new: &BTreeSet<u32>) {
        let Some(state) = &assessed.indexes else {
            return;
        };
        let new = Indexes::of(new.iter().copied());
        let succeeded = state.succeeded.merge(&new);
        let completed: Box<str> = succeeded.to_string().into();
        let failed: Option<Box<str>> = state
            .failed
            .as_ref()
            .map(|failed| failed.to_string().into());
        let status = &mut self.status;
        self.flush |= completed != status.completed_indexes || failed != status.failed_indexes;
        status.succeeded = i32::try_from(succeeded.len()).unwrap_or(i32::MAX);
        status.completed_indexes = completed;
        status.failed_indexes = failed;
    }

    /// The end is announced before finalizers are removed, so that a crash in between cannot change it.
    fn announce(&mut self, ending: &Condition, now: MicroTime) {
        let held = &mut self.status.conditions;
        let interim = matches!(&*ending.type_, FAILURE_TARGET | SUCCESS_CRITERIA_MET);
        if interim && conditions::find(held, &ending.type_).is_none_or(|held| !held.is_true()) {
            held.push(ending.clone());
            self.flush = true;
        }
        self.end = Some(final_condition(ending, now));
    }
}

/// May the pod lose its finalizer in this sync, once it is counted?
fn may_go(
    snapshot: &Snapshot,
    assessed: &Assessment,
    pod: &Pod,
    ending: Option<&Condition>,
) -> bool {
    if snapshot.job.metadata.is_terminating()
        || ending.is_some()
        || pod.status.phase == Phase::Succeeded
    {
        return true;
    }
    let delayed = assessed.indexes.as_ref().is_some_and(|state| {
        let held = completion_index(pod).and_then(|index| state.delayed.get(&index));
        held.is_some_and(|held| held.metadata.uid == pod.metadata.uid)
    });
    // What waits for its successor waits in vain where none can come, and the namespace would wait for it.
    snapshot.is_failed(pod) && (!delayed || snapshot.namespace_ends)
}

/// Pods that have lost their finalizer move from the lists into the counters. True if any did.
pub fn count_released(status: &mut JobStatus, tracked: &HashSet<Uid>) -> bool {
    let Some(uncounted) = &mut status.uncounted_terminated_pods else {
        return false;
    };
    let moved = |uids: &mut Vec<Uid>, counter: &mut i32| {
        let before = uids.len();
        uids.retain(|uid| tracked.contains(uid));
        let released = before - uids.len();
        *counter = counter.saturating_add(i32::try_from(released).unwrap_or(i32::MAX));
        released > 0
    };
    let succeeded = moved(&mut uncounted.succeeded, &mut status.succeeded);
    let failed = moved(&mut uncounted.failed, &mut status.failed);
    succeeded || failed
}
