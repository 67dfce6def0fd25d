//! Writes pods, counts them, removes their finalizers: the only place with IO. It decides nothing.

use std::sync::Arc;

use api::conditions::Condition;
use api::kinds::{Job, JobStatus, Pod};
use api::{Key, Meta, Resource};
use futures_util::future::join_all;
use runtime::Error;
use runtime::events::{EventType, ObjectRef};

use super::assess::Assessment;
use super::plan::{Act, Wanted};
use super::snapshot::{self, Snapshot};
use super::status::{COMPLETE, finish};
use super::tracking::{Tracking, count_released};
use super::writes::{NewPods, remove_finalizer};
use super::{Jobs, Outcome, Planned};
use crate::workload::status::put_status;

impl Jobs {
    pub(super) async fn write_pods(
        &self,
        key: &Key,
        snapshot: &Snapshot,
        planned: &Planned,
        group: Option<&str>,
    ) -> Outcome {
        match &planned.plan.act {
            Act::Hold | Act::Nothing | Act::Wait(_) => Outcome::default(),
            Act::End(pods) => self.delete(snapshot, pods).await,
            Act::Delete(pods) => self.discard(key, snapshot, pods).await,
            Act::Create(wanted) => {
                let new = NewPods::of(&snapshot.job, group);
                let assessed = &planned.assessed;
                self.create(key, snapshot, assessed, &new, wanted).await
            }
        }
    }

    async fn create(
        &self,
        key: &Key,
        snapshot: &Snapshot,
        assessed: &Assessment,
        new: &NewPods<'_>,
        wanted: &Wanted,
    ) -> Outcome {
        let object = ObjectRef::of(&*snapshot.job);
        let same = new.any();
        let body = |at: usize| match (wanted, &assessed.indexes) {
            (Wanted::Indexes(indexes), Some(state)) => new.for_index(indexes[at], state),
            _ => same.clone(),
        };
        let (expectations, consistency) = (&self.states.expectations, &self.states.consistency);
        expectations.expect_creations(key, wanted.len());
        let done = self
            .control
            .create_all(
                &object,
                key,
                (expectations, consistency),
                wanted.len(),
                body,
            )
            .await;
        let indexes = assessed.indexes.as_ref();
        let awaited = indexes.is_some_and(|state| !state.delayed.is_empty());
        let created = done.created as u64;
        let refused = done.failures.len() as u64;
        let mut failure = done.failures.into_iter().next();
        if let Some(error) = done.namespace_ends
            && awaited
            && self.states.set_namespace_ends(key)
        {
            // Once: pods that waited for these are looked at again.
            failure.get_or_insert(error);
        }
        let failures = assessed.failed;
        self.metrics
            .pods_created(snapshot, failures, created, refused);
        Outcome {
            created: i32::try_from(done.created).unwrap_or(i32::MAX),
            failure: failure.map(Error::from),
            ..Outcome::default()
        }
    }

    /// Deletes pods that are counted before they are gone.
    async fn delete(&self, snapshot: &Snapshot, pods: &[Arc<Pod>]) -> Outcome {
        let object = ObjectRef::of(&*snapshot.job);
        let results = join_all(pods.iter().map(|pod| self.control.delete(&object, pod))).await;
        let mut outcome = Outcome::default();
        for (pod, result) in pods.iter().zip(results) {
            outcome.note_deletion(pod, result);
        }
        outcome
    }

    /// Deletes pods that nobody counts.
    async fn discard(&self, key: &Key, snapshot: &Snapshot, pods: &[Arc<Pod>]) -> Outcome {
        let object = ObjectRef::of(&*snapshot.job);
        let expectations = &self.states.expectations;
        expectations.expect_deletions(key, pods.iter().map(|pod| pod.key()));
        let remove = |pod: &'_ Arc<Pod>| {
            let (object, pod) = (&object, pod.clone());
            async move {
                if snapshot::is_tracked(&pod) {
                    let revision = remove_finalizer(&self.context.client, &pod).await?;
                    self.states.consistency.note::<Pod>(key, revision);
                }
                self.control.delete(object, &pod).await
            }
        };
        let results = join_all(pods.iter().map(remove)).await;
        let mut outcome = Outcome::default();
        for (pod, result) in pods.iter().zip(results) {
            if result.is_err() {
                expectations.deletion_observed(key, &pod.key());
            }
            outcome.note_deletion(pod, result);
        }
        outcome
    }

    /// Writes what is to be counted, removes the finalizers, and writes what came of it.
    pub(super) async fn count_pods(
        &self,
        job: &Job,
        assessed: &Assessment,
        tracking: &Tracking,
    ) -> Result<(), Error> {
        let (key, mut tracking) = (&job.key(), tracking.clone());
        if let Some((reason, message)) = tracking.news {
            let recorder = &self.context.recorder;
            recorder.event(&ObjectRef::of(job), EventType::Normal, reason, message);
        }
        let mut written = Status {
            meta: job.metadata.clone(),
            last: job.status.clone(),
        };
        if tracking.flush {
            self.put(key, job, &mut written, &tracking.status).await?;
            self.states.set_backoff(key, assessed.backoff);
        }
        self.metrics.policy_applied(&tracking.actions);
        let failure = self.remove_finalizers(key, &mut tracking).await;
        let counted = count_released(&mut tracking.status, &tracking.tracked);
        if let Some(failure) = failure {
            if counted {
                self.put(key, job, &mut written, &tracking.status).await?;
            }
            return Err(failure);
        }
        let now = self.context.clock.now();
        let end = tracking.end.as_ref().filter(|_| !tracking.more);
        let end = end.filter(|end| finish(&mut tracking.status, tracking.awaited, end, now));
        if counted || end.is_some() {
            self.put(key, job, &mut written, &tracking.status).await?;
        }
        if let Some(end) = end {
            let revision = written.meta.resource_version;
            self.states.set_finished(job, revision);
            self.announce(job, &tracking.status, end);
        }
        Ok(())
    }

    /// Takes the finalizers off; gives the first failure.
    async fn remove_finalizers(&self, key: &Key, tracking: &mut Tracking) -> Option<Error> {
        let pods = &tracking.release;
        if pods.is_empty() {
            return None;
        }
        let uids = pods.iter().map(|pod| pod.metadata.uid.clone());
        self.states.expect_released(key, uids);
        let client = &self.context.client;
        let results = join_all(pods.iter().map(|pod| remove_finalizer(client, pod))).await;
        let mut failure = None;
        for (pod, result) in pods.iter().zip(results) {
            let uid = &pod.metadata.uid;
            match result {
                Ok(revision) => {
                    self.states.consistency.note::<Pod>(key, revision);
                    self.states.released_at(key, uid, revision);
                    tracking.tracked.remove(uid);
                }
                Err(error) => {
                    self.states.released(key, uid);
                    if error.is_not_found() {
                        tracking.tracked.remove(uid);
                    } else {
                        failure.get_or_insert(Error::from(error));
                    }
                }
            }
        }
        failure
    }

    async fn put(
        &self,
        key: &Key,
        job: &Job,
        written: &mut Status,
        status: &JobStatus,
    ) -> Result<(), Error> {
        let client = &self.context.client;
        let revision = put_status::<Job>(client, &written.meta, status).await?;
        written.meta.resource_version = revision;
        self.states.consistency.note::<Job>(key, revision);
        self.metrics.pods_counted(job, &written.last, status);
        written.last = status.clone();
        Ok(())
    }

    fn announce(&self, job: &Job, status: &JobStatus, end: &Condition) {
        let object = ObjectRef::of(job);
        let tell = |type_, reason: &str, message: &str| {
            let recorder = &self.context.recorder;
            recorder.event(&object, type_, reason.to_owned(), message);
        };
        if end.type_ == COMPLETE {
            let wanted = job.spec.completions;
            if wanted.is_some_and(|wanted| status.succeeded > wanted) {
                let message = "Too many succeeded pods running after completion count reached";
                tell(EventType::Warning, "TooManySucceededPods", message);
            }
            tell(EventType::Normal, "Completed", "Job completed");
        } else {
            tell(EventType::Warning, &end.reason, &end.message);
        }
        self.metrics.job_finished(job, end);
    }
}

/// The job as we wrote it last.
struct Status {
    meta: Meta,
    last: JobStatus,
}

impl Outcome {
    fn note_deletion(&mut self, pod: &Pod, result: Result<(), client::Error>) {
        match result {
            Err(error) if !error.is_not_found() => {
                self.failure.get_or_insert(Error::from(error));
            }
            _ => {
                self.deleted += 1;
                self.deleted_ready += i32::from(pod.is_ready());
            }
        }
    }
}
