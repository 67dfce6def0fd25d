//! Where a job stands: what was counted, and whether it is to end. Pure.
//!
//! The order of the questions is upstream's, because a job may meet several ends at once: one that was
//! decided before stays; then failures (policy, limits, deadline, indexes); then success.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::conditions::{self, Condition};
use api::kinds::{Job, Phase, Pod};
use api::{MicroTime, Time};

use super::backoff::{Backoff, finished_at};
use super::indexes::{Indexes, valid_index};
use super::policy::{self, Action};
use super::snapshot::{Snapshot, is_tracked};
use super::status::{FAILED, FAILURE_TARGET, SUCCESS_CRITERIA_MET, condition, failure};

pub struct Assessment {
    /// Successes and failures with those of this sync; of an indexed job, indexes that succeeded.
    pub succeeded: i32,
    pub failed: i32,
    pub start_time: Option<Time>,
    /// With the failures of this sync.
    pub backoff: Backoff,
    /// Of an indexed job.
    pub indexes: Option<IndexState>,
    /// The condition that says how the job is to end, if it is.
    pub ending: Option<Condition>,
    /// When the deadline is, from now.
    pub deadline_in: Option<Duration>,
}

pub struct IndexState {
    /// What the status said.
    pub before: Indexes,
    pub succeeded: Indexes,
    /// Of a job that has a limit for each index.
    pub failed: Option<Indexes>,
    /// The last failed pod of each index that has none now: it stays until there is a replacement that
    /// takes over its count of failures.
    pub delayed: BTreeMap<u32, Arc<Pod>>,
}

pub fn assess(snapshot: &Snapshot, now: MicroTime) -> Assessment {
    let job = &*snapshot.job;
    let (new_succeeded, new_failed) = snapshot.newly_finished();
    let status = &job.status;
    let uncounted = status.uncounted_terminated_pods.as_ref();
    let policy = job.spec.pod_failure_policy.as_deref();
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let counted = new_failed.iter().filter(|pod| policy::counts(policy, pod));
    let failed = count(counted.count() + uncounted.map_or(0, |held| held.failed.len()));
    let succeeded = count(new_succeeded.len() + uncounted.map_or(0, |held| held.succeeded.len()));
    let mut assessed = Assessment {
        succeeded: status.succeeded.saturating_add(succeeded),
        failed: status.failed.saturating_add(failed),
        start_time: status
            .start_time
            .or((!job.spec.suspend).then(|| now.time())),
        backoff: snapshot.backoff.after(&new_succeeded, &new_failed),
        indexes: None,
        ending: None,
        deadline_in: None,
    };
    assessed.ending = decided(job, now)
        .or_else(|| failed_by_policy(snapshot, now))
        .or_else(|| assessed.past_limits(snapshot, now));
    if assessed.ending.is_none() {
        assessed.deadline_in = assessed.until_deadline(job, now);
    }
    if job.is_indexed() {
        assessed.assess_indexes(snapshot, now);
    }
    assessed
}

/// An end that was decided before.
fn decided(job: &Job, now: MicroTime) -> Option<Condition> {
    let held = |type_| {
        conditions::find(&job.status.conditions, type_).filter(|condition| condition.is_true())
    };
    if let Some(met) = held(SUCCESS_CRITERIA_MET) {
        return Some(met.clone());
    }
    let target = held(FAILURE_TARGET)?;
    Some(condition(
        FAILED,
        &target.reason,
        target.message.clone(),
        now,
    ))
}

fn failed_by_policy(snapshot: &Snapshot, now: MicroTime) -> Option<Condition> {
    let policy = snapshot.job.spec.pod_failure_policy.as_deref()?;
    let failed = snapshot.pods.iter().filter(|pod| snapshot.is_failed(pod));
    let message = failed
        .filter_map(|pod| policy::failure_rule(Some(policy), pod))
        .find(|met| met.action == Action::FailJob)?
        .to_string();
    Some(condition(FAILURE_TARGET, "PodFailurePolicy", message, now))
}

impl Assessment {
    fn past_limits(&self, snapshot: &Snapshot, now: MicroTime) -> Option<Condition> {
        let job = &*snapshot.job;
        let failed = |reason, message| Some(failure(snapshot.gates, reason, message, now));
        if self.failed > job.backoff_limit() || restarted_too_often(snapshot) {
            let message = "Job has reached the specified backoff limit";
            return failed("BackoffLimitExceeded", message);
        }
        if self.until_deadline(job, now) == Some(Duration::ZERO) {
            let message = "Job was active longer than specified deadline";
            return failed("DeadlineExceeded", message);
        }
        None
    }

    fn until_deadline(&self, job: &Job, now: MicroTime) -> Option<Duration> {
        let seconds = job.spec.active_deadline_seconds?;
        if job.spec.suspend {
            return None;
        }
        let allowed = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        Some(self.start_time?.micro().plus(allowed).since(now))
    }

    fn assess_indexes(&mut self, snapshot: &Snapshot, now: MicroTime) {
        let job = &*snapshot.job;
        let count = job.index_count();
        let before = Indexes::parse(&job.status.completed_indexes, count);
        let new: BTreeSet<u32> = snapshot
            .pods
            .iter()
            // UPSTREAM: pods whose finalizer is on its way out count here too; their index is in the status.
            .filter(|pod| pod.status.phase == Phase::Succeeded && is_tracked(pod))
            .filter_map(|pod| valid_index(job, pod))
            .collect();
        let succeeded = before.merge(&Indexes::of(new));
        self.succeeded = i32::try_from(succeeded.len()).unwrap_or(i32::MAX);
        let failed = job
            .spec
            .backoff_limit_per_index
            .map(|limit| failed_indexes(snapshot, limit));
        let mut delayed = BTreeMap::new();
        if let Some(failed) = &failed {
            let ending = || too_many_failed(snapshot, failed, &succeeded, now);
            self.ending = self.ending.take().or_else(ending);
            delayed = delayed_pods(snapshot, &succeeded, failed);
        }
        let policy = job.spec.success_policy.as_deref();
        if self.ending.is_none()
            && let Some(rule) = policy::success_rule(policy, count, &succeeded)
        {
            let message = format!("Matched rules at index {rule}");
            self.ending = Some(condition(
                SUCCESS_CRITERIA_MET,
                "SuccessPolicy",
                message,
                now,
            ));
        }
        self.indexes = Some(IndexState {
            before,
            succeeded,
            failed,
            delayed,
        });
    }
}

/// Restarts in place count against the limit where the template allows them.
fn restarted_too_often(snapshot: &Snapshot) -> bool {
    let running = snapshot
        .pods
        .iter()
        .filter(|pod| matches!(pod.status.phase, Phase::Running | Phase::Pending));
    let restarts = running.fold(0_i32, |sum, pod| {
        sum.saturating_add(pod.status.restarts_in_all)
    });
    let limit = snapshot.job.backoff_limit();
    // UPSTREAM: as many restarts as the limit are too many, unless the limit is none at all.
    restarts > 0 && restarts >= limit && restarts_in_place(&snapshot.job)
}

/// Looks into the template, which is read for nobody else: only once something was restarted.
fn restarts_in_place(job: &Job) -> bool {
    let template = job.spec.template.node();
    let policy = template.get(&["spec", "restartPolicy"]);
    policy.is_some_and(|policy| policy.as_str().is_some_and(|text| text == "OnFailure"))
}

fn failed_indexes(snapshot: &Snapshot, limit: i32) -> Indexes {
    let job = &*snapshot.job;
    let told = job.status.failed_indexes.as_deref().unwrap_or("");
    let policy = job.spec.pod_failure_policy.as_deref();
    let is_last = |pod: &Pod| match policy::failure_rule(policy, pod).map(|met| met.action) {
        Some(Action::FailIndex) => true,
        Some(Action::Ignore) => false,
        _ => failure_count(pod) >= limit,
    };
    let new: BTreeSet<u32> = snapshot
        .pods
        .iter()
        .filter(|pod| is_tracked(pod) && snapshot.is_failed(pod) && is_last(pod))
        .filter_map(|pod| valid_index(job, pod))
        .collect();
    Indexes::parse(told, job.index_count()).merge(&Indexes::of(new))
}

fn too_many_failed(
    snapshot: &Snapshot,
    failed: &Indexes,
    succeeded: &Indexes,
    now: MicroTime,
) -> Option<Condition> {
    let job = &*snapshot.job;
    let ends = |reason, message| Some(failure(snapshot.gates, reason, message, now));
    let max = job.spec.max_failed_indexes;
    if max.is_some_and(|max| i64::from(failed.len()) > i64::from(max)) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return ends("MaxFailedIndexesExceeded", message);
    }
    if !failed.is_empty() && failed.len() + succeeded.len() >= job.index_count() {
        return ends("FailedIndexes", "Job has failed indexes");
    }
    None
}

fn delayed_pods(
    snapshot: &Snapshot,
    succeeded: &Indexes,
    failed: &Indexes,
) -> BTreeMap<u32, Arc<Pod>> {
    let job = &*snapshot.job;
    let active: BTreeSet<u32> = indexes_of(job, &snapshot.active);
    let mut delayed: BTreeMap<u32, Arc<Pod>> = BTreeMap::new();
    for pod in snapshot.countable().filter(|pod| snapshot.is_failed(pod)) {
        let Some(index) = valid_index(job, pod) else {
            continue;
        };
        if succeeded.contains(index) || failed.contains(index) || active.contains(&index) {
            continue;
        }
        let newer = delayed.get(&index).is_none_or(|held| {
            all_failures(held) <= all_failures(pod) && finished_at(held) <= finished_at(pod)
        });
        if newer {
            delayed.insert(index, pod.clone());
        }
    }
    delayed
}

/// The indexes that these pods work on.
pub fn indexes_of<'a>(job: &Job, pods: impl IntoIterator<Item = &'a Arc<Pod>>) -> BTreeSet<u32> {
    let pods = pods.into_iter();
    pods.filter_map(|pod| valid_index(job, pod)).collect()
}

/// How often the pod's index had failed before it, as far as that counts.
pub fn failure_count(pod: &Pod) -> i32 {
    annotated(pod, api::kinds::JOB_INDEX_FAILURE_COUNT)
}

/// And in ways that were ignored.
pub fn ignored_failure_count(pod: &Pod) -> i32 {
    annotated(pod, api::kinds::JOB_INDEX_IGNORED_FAILURE_COUNT)
}

/// How often it had failed in any way.
pub fn all_failures(pod: &Pod) -> i32 {
    failure_count(pod).saturating_add(ignored_failure_count(pod))
}

/// What is missing, or no number that makes sense, is none.
fn annotated(pod: &Pod, key: &str) -> i32 {
    let text = pod.metadata.annotation(key);
    let number = text.and_then(|text| text.parse().ok());
    number.filter(|number| *number >= 0).unwrap_or(0)
}
