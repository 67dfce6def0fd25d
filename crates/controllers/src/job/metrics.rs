//! Figures that only jobs have, under upstream's names.

use std::collections::BTreeMap;
use std::time::Duration;

use api::Gate;
use api::conditions::Condition;
use api::kinds::{Job, JobStatus, Pod};
use prometheus::{HistogramVec, IntCounterVec};
use runtime::Metrics;
use runtime::metrics::Stability;

use super::indexes::Indexes;
use super::plan::{Act, Plan};
use super::policy::Action;
use super::snapshot::{Snapshot, is_tracked};
use super::status::COMPLETE;

pub struct JobMetrics {
    sync_seconds: HistogramVec,
    syncs: IntCounterVec,
    finished: IntCounterVec,
    managed_by_others: IntCounterVec,
    pods_finished: IntCounterVec,
    policy_actions: IntCounterVec,
    tracked: IntCounterVec,
    indexes_finished: IntCounterVec,
    pods_created: IntCounterVec,
}

/// What a sync did, as upstream labels it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncAction {
    Reconciling,
    Tracking,
    PodsCreated,
    PodsDeleted,
}

impl SyncAction {
    pub fn of(plan: &Plan) -> SyncAction {
        match plan.act {
            Act::Hold | Act::End(_) => SyncAction::Reconciling,
            Act::Nothing => SyncAction::Tracking,
            Act::Delete(_) => SyncAction::PodsDeleted,
            Act::Create(_) | Act::Wait(_) => SyncAction::PodsCreated,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            SyncAction::Reconciling => "reconciling",
            SyncAction::Tracking => "tracking",
            SyncAction::PodsCreated => "pods_created",
            SyncAction::PodsDeleted => "pods_deleted",
        }
    }
}

impl JobMetrics {
    pub fn new(metrics: &Metrics) -> JobMetrics {
        // 4 ms, doubled fourteen times: upstream's buckets.
        let buckets: Vec<f64> = (0..15).map(|power| 0.004 * f64::from(1 << power)).collect();
        let of_sync = ["completion_mode", "result", "action"];
        let counter = |name: &str, help: &str, stability, labels: &[&str]| {
            metrics.counter(&format!("job_controller_{name}"), help, stability, labels)
        };
        let (stable, beta, alpha) = (Stability::Stable, Stability::Beta, Stability::Alpha);
        JobMetrics {
            sync_seconds: metrics.histogram(
                "job_controller_job_sync_duration_seconds",
                "How long looking at a job took",
                stable,
                &of_sync,
                &buckets,
            ),
            syncs: counter(
                "job_syncs_total",
                "How often jobs were looked at",
                stable,
                &of_sync,
            ),
            finished: counter(
                "jobs_finished_total",
                "Jobs that finished",
                stable,
                &["completion_mode", "result", "reason"],
            ),
            managed_by_others: counter(
                "jobs_by_external_controller_total",
                "Jobs that another controller manages",
                alpha,
                &["controller_name"],
            ),
            pods_finished: counter(
                "job_pods_finished_total",
                "Finished pods that were counted",
                stable,
                &["completion_mode", "result"],
            ),
            policy_actions: counter(
                "pod_failures_handled_by_failure_policy_total",
                "Failed pods by what the pod failure policy did about them",
                beta,
                &["action"],
            ),
            tracked: counter(
                "terminated_pods_tracking_finalizer_total",
                "Finished pods with the finalizer of jobs, as they come (add) and go (delete)",
                beta,
                &["event"],
            ),
            indexes_finished: counter(
                "job_finished_indexes_total",
                "Indexes that finished, by whether the limit of failures is global or perIndex",
                alpha,
                &["status", "backoffLimit"],
            ),
            pods_created: counter(
                "job_pods_creation_total",
                "Pods that were created, or were not, by why",
                alpha,
                &["reason", "status"],
            ),
        }
    }

    pub fn synced(&self, job: &Job, action: SyncAction, succeeded: bool, took: Duration) {
        let result = if succeeded { "success" } else { "error" };
        let labels = [mode(job), result, action.as_str()];
        self.syncs.with_label_values(&labels).inc();
        let seconds = self.sync_seconds.with_label_values(&labels);
        seconds.observe(took.as_secs_f64());
    }

    pub fn managed_by_others(&self, manager: &str) {
        self.managed_by_others.with_label_values(&[manager]).inc();
    }

    pub fn job_finished(&self, job: &Job, end: &Condition) {
        let result = result(end.type_ == COMPLETE);
        let labels = [mode(job), result, &*end.reason];
        self.finished.with_label_values(&labels).inc();
    }

    /// Two statuses of a job, the later one written just now.
    pub fn pods_counted(&self, job: &Job, before: &JobStatus, after: &JobStatus) {
        let mut succeeded = after.succeeded - before.succeeded;
        if job.is_indexed() {
            let count = |text: &str| i64::from(Indexes::parse(text, job.index_count()).len());
            let grown = count(&after.completed_indexes) - count(&before.completed_indexes);
            let limit = match job.spec.backoff_limit_per_index {
                Some(_) => "perIndex",
                None => "global",
            };
            add(&self.indexes_finished, &["succeeded", limit], grown);
            let failed = |status: &JobStatus| status.failed_indexes.as_deref().map_or(0, count);
            let failed = failed(after) - failed(before);
            if failed > 0 {
                add(&self.indexes_finished, &["failed", limit], failed);
            }
            // An index that is out of range after a scale-down is no negative success.
            succeeded = i32::try_from(grown).unwrap_or(0);
        }
        let failed = after.failed - before.failed;
        add(
            &self.pods_finished,
            &[mode(job), "succeeded"],
            succeeded.into(),
        );
        add(&self.pods_finished, &[mode(job), "failed"], failed.into());
    }

    pub fn policy_applied(&self, actions: &BTreeMap<Action, u64>) {
        for (action, count) in actions {
            let family = &self.policy_actions;
            family.with_label_values(&[action.as_str()]).inc_by(*count);
        }
    }

    pub fn pods_created(&self, snapshot: &Snapshot, failures: i32, created: u64, refused: u64) {
        let terminating = snapshot.terminating().next().is_some();
        let reason = if !snapshot.gates.enabled(Gate::JobPodReplacementPolicy) {
            "new"
        } else if snapshot.job.spec.pod_replacement_policy == "Failed" && failures > 0 {
            "recreate_failed"
        } else if failures > 0 || terminating {
            "recreate_terminating_or_failed"
        } else {
            "new"
        };
        for (status, count) in [("succeeded", created), ("failed", refused)] {
            if count > 0 {
                let family = &self.pods_created;
                family.with_label_values(&[reason, status]).inc_by(count);
            }
        }
    }

    pub fn tracked_pod_changed(&self, old: Option<&Pod>, new: Option<&Pod>) {
        let waits = |pod: Option<&Pod>| pod.is_some_and(|pod| pod.is_finished() && is_tracked(pod));
        let event = match (waits(old), waits(new)) {
            (false, true) => "add",
            (true, false) => "delete",
            _ => return,
        };
        self.tracked.with_label_values(&[event]).inc();
    }
}

fn add(family: &IntCounterVec, labels: &[&str], count: i64) {
    // UPSTREAM: the series is there from the first status on, be it at zero.
    let series = family.with_label_values(labels);
    series.inc_by(u64::try_from(count).unwrap_or(0));
}

fn result(succeeded: bool) -> &'static str {
    if succeeded { "succeeded" } else { "failed" }
}

fn mode(job: &Job) -> &'static str {
    if job.is_indexed() {
        "Indexed"
    } else {
        "NonIndexed"
    }
}
