//! Jobs, as far as their clean-up after the end reads them.

use serde::Deserialize;

use crate::conditions::Condition;
use crate::meta::{Meta, or_default};
use crate::resource::ResourceType;

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
    pub ttl_seconds_after_finished: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

impl Job {
    /// The condition that says that the job is over: completed or failed.
    pub fn finished(&self) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| {
            (condition.type_ == "Complete" || condition.type_ == "Failed") && condition.is_true()
        })
    }
}
