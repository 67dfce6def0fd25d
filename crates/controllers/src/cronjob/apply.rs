//! Everything of a sync that talks to the API server. Decides nothing.

use std::sync::Arc;

use api::kinds::{CronJob, CronJobStatus, Job, ObjectReference};
use api::{Key, Meta, Resource, Time, Uid};
use client::{DeleteOptions, Propagation};
use runtime::Error;
use runtime::events::ObjectRef;
use serde::Deserialize;

use super::CronJobs;
use super::new_job::body;
use super::plan::{Snapshot, Start};
use super::reason::{Event, Reason};
use crate::workload::status::put_status;

/// What the API server has now that the caches do not.
pub struct LookedUp {
    /// The CronJob, if it knows of starts that the cached one does not.
    pub cron_job: Option<Arc<CronJob>>,
    pub missing: Vec<Uid>,
    pub failure: Option<Error>,
}

impl CronJobs {
    /// Deletes finished jobs that are too many; gives those that are gone.
    pub(super) async fn delete_finished(
        &self,
        cron_job: &CronJob,
        jobs: &[(Arc<Job>, Reason)],
    ) -> Vec<Uid> {
        let mut deleted = Vec::new();
        for (job, _) in jobs {
            let reference = ObjectReference::new(&Job::TYPE, &job.metadata);
            match self.delete(cron_job, &reference).await {
                Ok(()) => deleted.push(job.metadata.uid.clone()),
                // The cache has not seen it go.
                Err(error) if error.is_not_found() => deleted.push(job.metadata.uid.clone()),
                // The next count tries again.
                Err(error) => self.emit(cron_job, failed_delete(&error)),
            }
        }
        deleted
    }

    /// Asks for what cached jobs and the active list do not agree about.
    pub(super) async fn look_up(&self, cron_job: &CronJob, jobs: &[Arc<Job>]) -> LookedUp {
        let mut found = LookedUp {
            cron_job: None,
            missing: Vec::new(),
            failure: None,
        };
        let is_unlisted = |status: &CronJobStatus, job: &Job| {
            job.finished().is_none() && !status.has_active(&job.metadata.uid)
        };
        let Meta {
            namespace, name, ..
        } = &cron_job.metadata;
        let unlisted = jobs.iter().filter(|job| is_unlisted(&cron_job.status, job));
        let unlisted: Vec<&Arc<Job>> = unlisted.collect();
        if !unlisted.is_empty() {
            match self.context.client.get_as::<CronJob>(namespace, name).await {
                Ok(live) => {
                    let is_known = |job: &&Arc<Job>| live.status.has_active(&job.metadata.uid);
                    let is_newer = live.metadata.uid == cron_job.metadata.uid
                        && live.status.last_schedule_time > cron_job.status.last_schedule_time;
                    let knows_more = is_newer || unlisted.iter().any(is_known);
                    found.cron_job = knows_more.then(|| Arc::new(live));
                }
                Err(error) => {
                    found.failure = Some(error.into());
                    return found;
                }
            }
        }
        let status = &found.cron_job.as_deref().unwrap_or(cron_job).status;
        let is_unseen = |listed: &&ObjectReference| {
            let mut uids = jobs.iter().map(|job| &job.metadata.uid);
            !uids.any(|uid| *uid == listed.uid)
        };
        for listed in status.active.iter().filter(is_unseen) {
            let job = self.get_job(listed).await;
            match job {
                // Another job of the same name is not that job.
                Ok(job) if job.metadata.uid != listed.uid => found.missing.push(listed.uid.clone()),
                Ok(_) => {}
                Err(error) if error.is_not_found() => found.missing.push(listed.uid.clone()),
                Err(error) => {
                    found.failure = Some(error.into());
                    break;
                }
            }
        }
        found
    }

    /// Replaces and creates jobs, and notes in the status what was done.
    pub(super) async fn start(
        &self,
        key: &Key,
        snapshot: &Snapshot,
        start: &Start,
        status: &mut CronJobStatus,
    ) -> Result<(), Error> {
        let cron_job = &*snapshot.cron_job;
        for job in &start.replaces {
            if let Err(error) = self.get_job(job).await {
                self.emit(
                    cron_job,
                    Event::warning("FailedGet", format!("Get job: {error}")),
                );
                return Err(error.into());
            }
            if let Err(error) = self.delete(cron_job, job).await {
                self.emit(cron_job, failed_delete(&error));
                return Err(error.into());
            }
            status.active.retain(|listed| listed.uid != job.uid);
        }
        if let Some(reference) = self.create(key, cron_job, start).await? {
            status.active.push(reference);
            status.last_schedule_time = Some(start.scheduled);
        }
        Ok(())
    }

    /// Creates the job. None if somebody else has one of that name.
    async fn create(
        &self,
        key: &Key,
        cron_job: &CronJob,
        start: &Start,
    ) -> Result<Option<ObjectReference>, Error> {
        let (namespace, name) = (&cron_job.metadata.namespace, &start.name);
        let body = body(cron_job, name, start.scheduled)
            .map_err(|error| Error::Terminal(error.to_string()))?
            .to_string();
        let client = &self.context.client;
        match client
            .create_metadata_only(&Job::TYPE, namespace, body)
            .await
        {
            Ok(answer) => {
                let made = metadata(&answer);
                self.consistency.note::<Job>(key, made.resource_version);
                self.observe_skew(made.created_at, start.scheduled);
                let message = format!("Created job {}", made.name);
                self.emit(cron_job, Event::normal("SuccessfulCreate", message));
                Ok(Some(ObjectReference::new(&Job::TYPE, &made)))
            }
            // A crash, or a lost answer, may have kept us from noting that we created it.
            Err(error) if error.is_already_exists() => {
                let found: Job = client.get_as(namespace, name).await?;
                let is_ours = found.metadata.is_controlled_by(&cron_job.metadata.uid);
                self.consistency
                    .note::<Job>(key, found.metadata.resource_version);
                Ok(is_ours.then(|| ObjectReference::new(&Job::TYPE, &found.metadata)))
            }
            Err(error) => {
                // A namespace that is going away refuses everything: no news to anyone.
                if !error.is_namespace_terminating() {
                    let message = format!("Error creating job: {error}");
                    self.emit(cron_job, Event::warning("FailedCreate", message));
                }
                Err(error.into())
            }
        }
    }

    /// Writes the status on top of what was read.
    pub(super) async fn put_status(
        &self,
        key: &Key,
        cron_job: &CronJob,
        status: &CronJobStatus,
    ) -> Result<(), Error> {
        let client = &self.context.client;
        let revision = put_status::<CronJob>(client, &cron_job.metadata, status).await?;
        self.consistency.note::<CronJob>(key, revision);
        Ok(())
    }

    async fn get_job(&self, job: &ObjectReference) -> Result<Job, client::Error> {
        self.context.client.get_as(&job.namespace, &job.name).await
    }

    /// Deletes this very job, and its pods after it.
    async fn delete(&self, cron_job: &CronJob, job: &ObjectReference) -> Result<(), client::Error> {
        let options = DeleteOptions {
            propagation: Some(Propagation::Background),
            ..DeleteOptions::exactly(&job.uid)
        };
        let client = &self.context.client;
        client
            .delete(&Job::TYPE, &job.namespace, &job.name, &options)
            .await?;
        let message = format!("Deleted job {}", job.name);
        self.emit(cron_job, Event::normal("SuccessfulDelete", message));
        Ok(())
    }

    pub(super) fn emit(&self, cron_job: &CronJob, event: Event) {
        let object = ObjectRef::of(cron_job);
        let recorder = &self.context.recorder;
        recorder.event(&object, event.event_type, event.reason, event.message);
    }

    fn observe_skew(&self, created_at: Time, scheduled: Time) {
        let seconds = created_at.unix().saturating_sub(scheduled.unix());
        self.skew.observe(seconds as f64);
    }
}

fn failed_delete(error: &client::Error) -> Event {
    Event::warning("FailedDelete", format!("Deleted job: {error}"))
}

fn metadata(answer: &[u8]) -> Meta {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Answer {
        metadata: Meta,
    }
    let answer: Answer = serde_json::from_slice(answer).unwrap_or_default();
    answer.metadata
}
