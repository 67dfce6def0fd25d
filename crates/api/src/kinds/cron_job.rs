//! What controllers read of a CronJob.

use serde::{Deserialize, Serialize};

use crate::intern::Istr;
use crate::meta::{Meta, or_default};
use crate::resource::ResourceType;
use crate::template::Template;
use crate::time::Time;
use crate::uid::Uid;

/// The annotation of a Job that says for which time its CronJob created it.
pub const CRON_JOB_SCHEDULED_TIMESTAMP: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct CronJob {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: CronJobSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: CronJobStatus,
}

crate::view!(
    CronJob,
    ResourceType::namespaced("batch", "v1", "cronjobs", "CronJob")
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobSpec {
    pub schedule: Box<str>,
    pub time_zone: Option<Box<str>>,
    pub starting_deadline_seconds: Option<i64>,
    /// `Allow`, `Forbid` or `Replace`; empty means `Allow`.
    #[serde(deserialize_with = "or_default")]
    pub concurrency_policy: Istr,
    #[serde(deserialize_with = "or_default")]
    pub suspend: bool,
    /// Metadata and spec of the Jobs to come. Not of pods, but as opaque.
    pub job_template: Template,
    pub successful_jobs_history_limit: Option<i32>,
    pub failed_jobs_history_limit: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobStatus {
    /// Jobs that were started and have not been seen to end.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub active: Vec<ObjectReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_successful_time: Option<Time>,
}

/// Names an object of any kind, as a status keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectReference {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub kind: Box<str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub namespace: Box<str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub name: Box<str>,
    #[serde(skip_serializing_if = "Uid::is_empty")]
    pub uid: Uid,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub api_version: Box<str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub resource_version: Box<str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub field_path: Box<str>,
}

impl ObjectReference {
    pub fn new(resource: &ResourceType, meta: &Meta) -> ObjectReference {
        ObjectReference {
            kind: resource.kind.as_ref().into(),
            namespace: (&*meta.namespace).into(),
            name: (&*meta.name).into(),
            uid: meta.uid.clone(),
            api_version: resource.api_version().into(),
            resource_version: meta.resource_version.to_string().into(),
            field_path: "".into(),
        }
    }
}

impl CronJobStatus {
    pub fn has_active(&self, uid: &Uid) -> bool {
        self.active.iter().any(|job| job.uid == *uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Resource;

    #[test]
    fn a_status_reads_and_prints_alike() {
        let status = r#"{"active":[{"kind":"Job","namespace":"default","name":"a-1","uid":"u","apiVersion":"batch/v1","resourceVersion":"7"}],"lastScheduleTime":"2024-01-01T00:00:00Z","lastSuccessfulTime":"2023-12-31T23:59:00Z"}"#;
        let json = format!(r#"{{"status":{status}}}"#);
        let cron_job = CronJob::decode(json.as_bytes()).unwrap();
        assert_eq!(serde_json::to_string(&cron_job.status).unwrap(), status);
        assert!(cron_job.status.has_active(&"u".into()));
        assert_eq!(
            serde_json::to_string(&CronJobStatus::default()).unwrap(),
            "{}"
        );
    }

    #[test]
    fn a_spec_is_read_and_its_template_kept_as_it_is() {
        let template = r#"{"metadata":{"labels":{"a":"b"}},"spec":{"new":1.50}}"#;
        let json = format!(
            r#"{{"spec":{{"schedule":"@daily","timeZone":null,"suspend":null,"concurrencyPolicy":"Forbid","jobTemplate":{template}}}}}"#
        );
        let spec = CronJob::decode(json.as_bytes()).unwrap().spec;
        assert_eq!(
            (&*spec.schedule, spec.time_zone, spec.suspend),
            ("@daily", None, false)
        );
        assert_eq!(spec.concurrency_policy, "Forbid");
        assert_eq!(spec.job_template.raw(), template);
        assert_eq!(spec.job_template.labels().get("a"), Some("b"));
    }
}
