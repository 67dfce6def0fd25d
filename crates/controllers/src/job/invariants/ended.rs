//! How the pods of a job ended, as far as that is certain: what its counters are held to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::kinds::{JOB_COMPLETION_INDEX, JOB_TRACKING, Job, OnExitCodes, Phase, Pod};
use api::{MicroTime, Uid};

/// What became of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    pub at: MicroTime,
    pub has_succeeded: bool,
    pub index: Option<u32>,
    /// What the pod failure policy does about it.
    pub action: Option<Box<str>>,
    /// It was being deleted by then, or was not held: then it may have counted as failed before it ended, or for nothing.
    pub is_doubtful: bool,
}

/// What became of all pods of a job.
#[derive(Clone, Debug, Default)]
pub struct Ends {
    pods: BTreeMap<Uid, Ended>,
    /// Pods that were deleted before they ended: each of them may count as failed.
    deleted: BTreeSet<Uid>,
    /// Since when the job is to end: what ends later may be overlooked.
    pub ending_at: Option<MicroTime>,
    /// Pods were taken from it, or given to it: then nobody knows what it counts.
    pub is_unsure: bool,
}

impl Ends {
    /// Takes in a pod of the job as it is now. `window` is how long the controller may have overlooked that it has ended.
    pub fn note(&mut self, job: &Job, pod: &Pod, now: MicroTime, window: Duration) {
        let (meta, phase) = (&pod.metadata, pod.status.phase);
        if !pod.is_finished() {
            if meta.is_terminating() {
                self.deleted.insert(meta.uid.clone());
            }
            return;
        }
        let action = action_on(job, pod).map(Box::from);
        if let Some(known) = self.pods.get_mut(&meta.uid) {
            // What the policy says changed after the pod had ended.
            known.is_doubtful |= known.action != action;
            if meta.is_terminating() {
                self.note_deletion(&meta.uid, now, window);
            }
            return;
        }
        let index = meta.annotation(JOB_COMPLETION_INDEX);
        let index = index.and_then(|text| text.parse().ok());
        let ended = Ended {
            at: now,
            has_succeeded: phase == Phase::Succeeded,
            index: index.filter(|index| *index < job.index_count()),
            action,
            is_doubtful: meta.is_terminating() || !meta.has_finalizer(JOB_TRACKING),
        };
        self.pods.insert(meta.uid.clone(), ended);
    }

    /// UPSTREAM: a pod that is one too many loses its finalizer and is deleted. If it ended a moment before, that is lost.
    pub fn note_deletion(&mut self, pod: &Uid, now: MicroTime, window: Duration) {
        if let Some(known) = self.pods.get_mut(pod) {
            known.is_doubtful |= now.since(known.at) <= window;
        }
    }

    /// Those that must have been counted, with their uids: `window` is how long the controller may have overlooked one.
    pub fn certain(&self, window: Duration) -> impl Iterator<Item = (&Uid, &Ended)> + Clone {
        let is_early = move |ended: &Ended| {
            let last = self.ending_at.map(|at| at.minus(window));
            last.is_none_or(|last| ended.at < last)
        };
        let pods = self.pods.iter();
        pods.filter(move |(_, ended)| !ended.is_doubtful && is_early(ended))
    }

    /// All that may have been counted.
    pub fn possible(&self) -> impl Iterator<Item = &Ended> {
        self.pods.values()
    }

    /// How many pods were deleted, and did not end well for all that is known.
    pub fn deleted(&self) -> usize {
        self.deleted.len()
    }
}

/// What the first rule of the pod failure policy that a failed pod meets does about it.
fn action_on<'a>(job: &'a Job, pod: &Pod) -> Option<&'a str> {
    let policy = job.spec.pod_failure_policy.as_deref()?;
    if pod.status.phase != Phase::Failed {
        return None;
    }
    let has_condition = |type_: &str, status: &str| {
        let held = pod.condition(type_);
        held.is_some_and(|held| *held.status == *status)
    };
    let rule = policy.rules.iter().find(|rule| match &rule.on_exit_codes {
        Some(codes) => has_failed_with(pod, codes),
        None => {
            let mut patterns = rule.on_pod_conditions.iter();
            patterns.any(|it| has_condition(&it.type_, &it.status))
        }
    });
    rule.map(|rule| &*rule.action)
}

fn has_failed_with(pod: &Pod, codes: &OnExitCodes) -> bool {
    let failures = pod.ended().map_or(&[][..], |ended| &ended.failures);
    failures.iter().any(|exit| {
        let name = codes.container_name.as_ref();
        let is_meant = name.is_none_or(|name| *name == exit.container);
        is_meant && codes.values.contains(&exit.code) == (codes.operator == "In")
    })
}
