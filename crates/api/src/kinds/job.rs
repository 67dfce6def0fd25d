//! What controllers read of a Job.

use serde::{Deserialize, Serialize};

use crate::conditions::Condition;
use crate::gates::{Gate, Gates};
use crate::intern::Istr;
use crate::meta::{Meta, or_default};
use crate::resource::ResourceType;
use crate::selector::LabelSelector;
use crate::template::Template;
use crate::time::Time;
use crate::uid::Uid;

use super::replicaset::is_zero;

/// Holds a pod of a job until the job has counted it.
pub const JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// The annotation, and the label, that says which index of a job a pod works on.
pub const JOB_COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// How often the pod's index had failed before, as far as that counts.
pub const JOB_INDEX_FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-failure-count";
/// How often it had failed in ways that the pod failure policy ignores.
pub const JOB_INDEX_IGNORED_FAILURE_COUNT: &str =
    "batch.kubernetes.io/job-index-ignored-failure-count";
/// The value of `managedBy` that means upstream's controller, and ours.
pub const JOB_CONTROLLER: &str = "kubernetes.io/job-controller";

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct Job {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: JobSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: JobStatus,
}

crate::view!(Job, ResourceType::namespaced("batch", "v1", "jobs", "Job"));

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSpec {
    pub parallelism: Option<i32>,
    pub completions: Option<i32>,
    pub active_deadline_seconds: Option<i64>,
    pub backoff_limit: Option<i32>,
    pub backoff_limit_per_index: Option<i32>,
    pub max_failed_indexes: Option<i32>,
    /// Empty means `NonIndexed`.
    #[serde(deserialize_with = "or_default")]
    pub completion_mode: Istr,
    #[serde(deserialize_with = "or_default")]
    pub suspend: bool,
    pub selector: Option<LabelSelector>,
    pub template: Template,
    pub pod_failure_policy: Option<Box<PodFailurePolicy>>,
    pub success_policy: Option<Box<SuccessPolicy>>,
    #[serde(deserialize_with = "or_default")]
    pub pod_replacement_policy: Istr,
    pub managed_by: Option<Istr>,
    pub ttl_seconds_after_finished: Option<i32>,
}

/// What to do about failed pods, by how they failed; the first rule that matches counts.
#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct PodFailurePolicy {
    #[serde(deserialize_with = "or_default")]
    pub rules: Vec<PodFailureRule>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct PodFailureRule {
    pub action: Istr,
    pub on_exit_codes: Option<OnExitCodes>,
    #[serde(deserialize_with = "or_default")]
    pub on_pod_conditions: Vec<OnPodCondition>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct OnExitCodes {
    pub container_name: Option<Istr>,
    pub operator: Istr,
    #[serde(deserialize_with = "or_default")]
    pub values: Vec<i32>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct OnPodCondition {
    #[serde(rename = "type")]
    pub type_: Istr,
    pub status: Istr,
}

/// When an indexed job has succeeded early.
#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct SuccessPolicy {
    #[serde(deserialize_with = "or_default")]
    pub rules: Vec<SuccessRule>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SuccessRule {
    pub succeeded_indexes: Option<Box<str>>,
    pub succeeded_count: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    #[serde(skip_serializing_if = "is_zero")]
    pub active: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub succeeded: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<i32>,
    /// `1,3-5,7`, as [`failed_indexes`](JobStatus::failed_indexes).
    #[serde(skip_serializing_if = "str::is_empty")]
    pub completed_indexes: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_indexes: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncounted_terminated_pods: Option<UncountedPods>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<i32>,
}

/// Finished pods that still have their finalizer, and are in no counter yet.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, Default)]
#[serde(default)]
pub struct UncountedPods {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub succeeded: Vec<Uid>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub failed: Vec<Uid>,
}

impl Job {
    /// The condition that says that the job is over: completed or failed.
    pub fn finished(&self) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| {
            (condition.type_ == "Complete" || condition.type_ == "Failed") && condition.is_true()
        })
    }

    pub fn is_indexed(&self) -> bool {
        self.spec.completion_mode == "Indexed"
    }

    // The API server defaults these; the numbers are its own, for objects that never passed one.

    pub fn parallelism(&self) -> i32 {
        self.spec.parallelism.unwrap_or(1)
    }

    pub fn backoff_limit(&self) -> i32 {
        self.spec.backoff_limit.unwrap_or(6)
    }

    /// How many indexes an indexed job has.
    pub fn index_count(&self) -> u32 {
        let completions = self.spec.completions.unwrap_or(0);
        u32::try_from(completions).unwrap_or(0)
    }

    /// The other controller that this job was given to, if it was.
    pub fn external_manager(&self, gates: Gates) -> Option<&Istr> {
        let named = self.spec.managed_by.as_ref()?;
        (gates.enabled(Gate::JobManagedBy) && *named != JOB_CONTROLLER).then_some(named)
    }

    /// Is a pod replaced only when it has failed for good, and not while it is being deleted?
    pub fn replaces_failed_pods_only(&self, gates: Gates) -> bool {
        let asks = self.spec.pod_replacement_policy == "Failed";
        (asks && gates.enabled(Gate::JobPodReplacementPolicy))
            || self.spec.pod_failure_policy.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Resource;

    // Issue 21, point 18: versions that still have these gates.
    #[test]
    fn gates_decide_who_manages_a_job_and_when_pods_are_replaced() {
        let job = br#"{"spec":{"managedBy":"example.com/other","podReplacementPolicy":"Failed"}}"#;
        let job = Job::decode(job).unwrap();
        let (all, none) = (
            Gates::default(),
            Gates::default()
                .with(Gate::JobManagedBy, false)
                .with(Gate::JobPodReplacementPolicy, false),
        );
        assert!(job.external_manager(all).is_some() && job.replaces_failed_pods_only(all));
        assert!(job.external_manager(none).is_none() && !job.replaces_failed_pods_only(none));
    }

    #[test]
    fn a_status_reads_and_prints_alike() {
        let status = r#"{"conditions":[{"type":"SuccessCriteriaMet","status":"True","lastProbeTime":"2024-01-01T00:00:00Z","lastTransitionTime":"2024-01-01T00:00:00Z","reason":"CompletionsReached","message":"Reached expected number of succeeded pods"}],"startTime":"2024-01-01T00:00:00Z","succeeded":2,"terminating":0,"completedIndexes":"0,1","failedIndexes":"","uncountedTerminatedPods":{"failed":["u"]},"ready":0}"#;
        let job = Job::decode(format!(r#"{{"status":{status}}}"#).as_bytes()).unwrap();
        assert_eq!(serde_json::to_string(&job.status).unwrap(), status);
        let nothing = JobStatus {
            uncounted_terminated_pods: Some(UncountedPods::default()),
            ..JobStatus::default()
        };
        assert_eq!(
            serde_json::to_string(&nothing).unwrap(),
            r#"{"uncountedTerminatedPods":{}}"#
        );
    }

    // Upstream: TestFinishedCondition.
    #[test]
    fn a_job_is_over_when_a_condition_says_so() {
        let over = |type_: &str, status: &str| {
            let conditions = format!(
                r#"[{{"type":"X","status":"True"}},{{"type":"{type_}","status":"{status}"}}]"#
            );
            let json = format!(r#"{{"status":{{"conditions":{conditions}}}}}"#);
            let job = Job::decode(json.as_bytes()).unwrap();
            job.finished().map(|condition| condition.type_.to_string())
        };
        assert_eq!(over("Complete", "True").as_deref(), Some("Complete"));
        assert_eq!(over("Failed", "True").as_deref(), Some("Failed"));
        assert_eq!(over("Failed", "False"), None);
        assert_eq!(over("Complete", "Unknown"), None);
        assert_eq!(over("FailureTarget", "True"), None);
    }

    #[test]
    fn policies_are_read() {
        let job = Job::decode(
            br#"{"spec":{"completionMode":null,"suspend":null,"managedBy":"example.com/other","podReplacementPolicy":"Failed",
            "podFailurePolicy":{"rules":[{"action":"FailJob","onExitCodes":{"containerName":null,"operator":"In","values":[1,42]},"onPodConditions":null},
            {"action":"Ignore","onPodConditions":[{"type":"DisruptionTarget","status":"True"}]}]},
            "successPolicy":{"rules":[{"succeededIndexes":"0-2","succeededCount":1}]}}}"#,
        )
        .unwrap();
        let rules = &job.spec.pod_failure_policy.as_ref().unwrap().rules;
        assert_eq!(rules[0].on_exit_codes.as_ref().unwrap().values, [1, 42]);
        assert_eq!(rules[1].on_pod_conditions[0].type_, "DisruptionTarget");
        let success = &job.spec.success_policy.as_ref().unwrap().rules[0];
        assert_eq!(success.succeeded_indexes.as_deref(), Some("0-2"));
        assert!(!job.is_indexed() && job.replaces_failed_pods_only(Gates::default()));
        let manager = job.external_manager(Gates::default());
        assert_eq!(manager, Some(&"example.com/other".into()));
        assert_eq!((job.parallelism(), job.backoff_limit()), (1, 6));
    }
}
