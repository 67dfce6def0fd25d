//! The Job that a CronJob creates: its name and its body.

use api::json::Node;
use api::kinds::{CRON_JOB_SCHEDULED_TIMESTAMP, CronJob, Job};
use api::{Resource, Time};

use crate::workload::claim::controller_reference;
use api::cron::{Zone, ZoneError};

/// The minutes since 1970 are part of the name: the API server refuses a second job for the same time.
pub fn job_name(cron_job: &str, scheduled: Time) -> Box<str> {
    // UPSTREAM: Go's division cuts towards zero.
    format!("{cron_job}-{}", scheduled.unix() / 60).into()
}

/// What is posted. The spec is the template's, as it came; of its metadata labels and annotations count.
pub fn body(cron_job: &CronJob, name: &str, scheduled: Time) -> Result<Node, ZoneError> {
    let template = &cron_job.spec.job_template;
    let zone = Zone::load(cron_job.spec.time_zone.as_deref().unwrap_or_default())?;
    let annotations = template
        .annotations()
        .with(CRON_JOB_SCHEDULED_TIMESTAMP, &zone.print(scheduled));
    let mut body = Node::object();
    body.set(&["apiVersion"], Node::text(&Job::TYPE.api_version()));
    body.set(&["kind"], Node::text(&Job::TYPE.kind));
    body.set(&["metadata", "name"], Node::text(name));
    let namespace = Node::text(&cron_job.metadata.namespace);
    body.set(&["metadata", "namespace"], namespace);
    if !template.labels().is_empty() {
        body.set(&["metadata", "labels"], Node::of(template.labels()));
    }
    body.set(&["metadata", "annotations"], Node::of(&annotations));
    let owner = controller_reference(cron_job);
    body.set(&["metadata", "ownerReferences"], Node::of(&[owner]));
    if let Some(spec) = template.node().get(&["spec"]) {
        body.set(&["spec"], spec.clone());
    }
    Ok(body)
}
