//! One round of a job: the only place with IO. It decides nothing.

use std::sync::Arc;
use std::time::Duration;

use api::conditions::Condition;
use api::kinds::{JOB_TRACKING, Job, JobStatus, Pod};
use api::{Key, LabelSelector, LabelSet, Meta, Resource};
use futures_util::future::join_all;
use runtime::events::{EventType, ObjectRef};
use runtime::{Error, Next, mutation, slow_start};

use super::assess::{Assessment, assess};
use super::metrics::Deed;
use super::plan::{Act, Wanted, plan};
use super::snapshot::{self, Snapshot};
use super::status::{COMPLETE, conclude, finish};
use super::tracking::{Tracking, count_released, track};
use super::writes::{NewPods, release};
use super::{JobController, NAME, Outcome};
use crate::workload::Claimer;
use crate::workload::status::put_status;
use api::labels::Judge;

impl JobController {
    pub(super) async fn round(
        &self,
        key: &Key,
        job: &Arc<Job>,
        deed: &mut Deed,
    ) -> Result<Next, Error> {
        // Before the pods are looked at: one that comes in between would be expected no more, and not seen.
        let remembered = self.memory.of(key, self.pods.resource_version());
        let pods = self.claim(job).await?;
        let snapshot = Snapshot::new(job.clone(), pods, remembered, self.tools.gates);
        let now = self.tools.clock.now();
        let assessed = assess(&snapshot, now);
        let plan = plan(&snapshot, &assessed, now);
        *deed = Deed::of(&plan);
        let reasons = plan.reasons.iter().map(|reason| reason.to_string());
        self.tools.decisions.record(NAME, key, now, reasons);
        let outcome = self.apply(key, &snapshot, &assessed, &plan.act).await;

        let now = self.tools.clock.now();
        let concluded = conclude(&snapshot, &assessed, &plan, &outcome, now);
        if let Some((reason, message)) = concluded.news {
            let recorder = &self.tools.recorder;
            recorder.event(&ObjectRef::of(&**job), EventType::Normal, reason, message);
        }
        let tracking = track(&snapshot, &assessed, concluded, now);
        self.track(key, job, &assessed, tracking).await?;
        if let Some(failure) = outcome.failure {
            return Err(failure);
        }
        let backoff = match plan.act {
            Act::Wait(_) if mutation::on("jobs-wait-forever") => None,
            Act::Wait(wait) => Some(wait),
            _ => None,
        };
        let waits = [
            backoff,
            assessed.deadline_in,
            self.memory.expectations.wait(key),
        ];
        Ok(next(waits))
    }

    /// The pods of the job, after adopting and releasing.
    async fn claim(&self, job: &Arc<Job>) -> Result<Vec<Arc<Pod>>, Error> {
        let selector = LabelSelector::compile_optional(job.spec.selector.as_ref())
            .map_err(|error| Error::Terminal(format!("the selector is invalid: {error}")))?;
        let candidates = snapshot::candidates(job, &self.pods);
        let mut selects = Judge::new(|labels: &LabelSet| selector.matches(labels));
        let claimed = Claimer::new(&self.tools.client, &**job)
            .with_finalizer(JOB_TRACKING)
            .claim(
                candidates,
                self.memory.own_writes.kind::<Pod>(),
                |pod: &Pod| selects.of(&pod.metadata.labels),
            )
            .await?;
        let adopted = |pod| snapshot::as_adopted(job, pod);
        Ok(claimed.into_iter().map(adopted).collect())
    }

    async fn apply(
        &self,
        key: &Key,
        snapshot: &Snapshot,
        assessed: &Assessment,
        act: &Act,
    ) -> Outcome {
        match act {
            Act::Hold | Act::Nothing | Act::Wait(_) => Outcome::default(),
            Act::End(pods) => self.delete(snapshot, pods).await,
            Act::Delete(pods) => self.discard(key, snapshot, pods).await,
            Act::Create(wanted) => self.create(key, snapshot, assessed, wanted).await,
        }
    }

    async fn create(
        &self,
        key: &Key,
        snapshot: &Snapshot,
        assessed: &Assessment,
        wanted: &Wanted,
    ) -> Outcome {
        let job = &*snapshot.job;
        let new = NewPods::of(job);
        let object = ObjectRef::of(job);
        let same = new.any();
        let body = |at: usize| match (wanted, &assessed.indexes) {
            (Wanted::Indexes(indexes), Some(state)) => new.for_index(indexes[at], state),
            _ => same.clone(),
        };
        let expectations = &self.memory.expectations;
        expectations.expect_creations(key, wanted.len());
        let attempts = slow_start(wanted.len(), |at| {
            self.control.create(&object, &key.namespace, body(at))
        })
        .await;
        let indexes = assessed.indexes.as_ref();
        let awaited = indexes.is_some_and(|state| !state.delayed.is_empty());
        let mut outcome = Outcome::default();
        let (mut unseen, mut refused) = (attempts.skipped, 0);
        for attempt in attempts.tried {
            match attempt {
                Ok(created) => {
                    outcome.created += 1;
                    let revision = created.resource_version;
                    self.memory.own_writes.note::<Pod>(key, revision);
                }
                Err(error) => {
                    unseen += 1;
                    if !error.is_namespace_terminating() {
                        refused += 1;
                        outcome.failure.get_or_insert(Error::from(error));
                    } else if awaited && self.memory.set_namespace_ends(key) {
                        // Once: pods that waited for these are looked at again.
                        outcome.failure.get_or_insert(Error::from(error));
                    }
                }
            }
        }
        expectations.creations_observed(key, unseen);
        let created = u64::from(outcome.created.unsigned_abs());
        let failures = assessed.failed;
        self.metrics
            .pods_created(snapshot, failures, created, refused);
        outcome
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
        let expectations = &self.memory.expectations;
        expectations.expect_deletions(key, pods.iter().map(|pod| pod.key()));
        let let_go = |pod: &'_ Arc<Pod>| {
            let (object, pod) = (&object, pod.clone());
            async move {
                if snapshot::is_tracked(&pod) {
                    let revision = release(&self.tools.client, &pod).await?;
                    self.memory.own_writes.note::<Pod>(key, revision);
                }
                self.control.delete(object, &pod).await
            }
        };
        let results = join_all(pods.iter().map(let_go)).await;
        let mut outcome = Outcome::default();
        for (pod, result) in pods.iter().zip(results) {
            if result.is_err() {
                expectations.deletion_observed(key, &pod.key());
            }
            outcome.note_deletion(pod, result);
        }
        outcome
    }

    /// Writes what is to be counted, lets the pods go, and writes what came of it.
    async fn track(
        &self,
        key: &Key,
        job: &Job,
        assessed: &Assessment,
        mut tracking: Tracking,
    ) -> Result<(), Error> {
        let mut written = Status {
            meta: job.metadata.clone(),
            last: job.status.clone(),
        };
        if tracking.flush && !mutation::on("jobs-let-go-uncounted") {
            self.put(key, job, &mut written, &tracking.status).await?;
            self.memory.set_backoff(key, assessed.backoff);
        }
        self.metrics.policy_applied(&tracking.actions);
        let failure = self.release_pods(key, &mut tracking).await;
        let counted = count_released(&mut tracking.status, &tracking.tracked);
        if let Some(failure) = failure {
            if counted {
                self.put(key, job, &mut written, &tracking.status).await?;
            }
            return Err(failure);
        }
        let now = self.tools.clock.now();
        let end = tracking.end.as_ref().filter(|_| !tracking.more);
        let end = end.filter(|end| finish(&mut tracking.status, end, now));
        if counted || end.is_some() {
            self.put(key, job, &mut written, &tracking.status).await?;
        }
        if let Some(end) = end {
            let revision = written.meta.resource_version;
            self.memory.set_finished(job, revision);
            self.announce(job, &tracking.status, end);
        }
        Ok(())
    }

    /// Takes the finalizers off; gives the first failure.
    async fn release_pods(&self, key: &Key, tracking: &mut Tracking) -> Option<Error> {
        let pods = &tracking.release;
        if pods.is_empty() {
            return None;
        }
        let uids = pods.iter().map(|pod| pod.metadata.uid.clone());
        self.memory.expect_released(key, uids);
        let client = &self.tools.client;
        let results = join_all(pods.iter().map(|pod| release(client, pod))).await;
        let mut failure = None;
        for (pod, result) in pods.iter().zip(results) {
            let uid = &pod.metadata.uid;
            match result {
                Ok(revision) => {
                    self.memory.own_writes.note::<Pod>(key, revision);
                    self.memory.released_at(key, uid, revision);
                    tracking.tracked.remove(uid);
                }
                Err(error) => {
                    self.memory.released(key, uid);
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
        let client = &self.tools.client;
        let revision = put_status::<Job>(client, &written.meta, status).await?;
        written.meta.resource_version = revision;
        self.memory.own_writes.note::<Job>(key, revision);
        self.metrics.pods_counted(job, &written.last, status);
        written.last = status.clone();
        Ok(())
    }

    fn announce(&self, job: &Job, status: &JobStatus, end: &Condition) {
        let object = ObjectRef::of(job);
        let tell = |type_, reason: &str, message: &str| {
            let recorder = &self.tools.recorder;
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
            // Gone, or another pod of that name by now: deleted either way.
            Err(error) if !error.is_not_found() && !error.is_conflict() => {
                self.failure.get_or_insert(Error::from(error));
            }
            _ => {
                self.deleted += 1;
                self.deleted_ready += i32::from(pod.is_ready());
            }
        }
    }
}

/// When to look again if nothing happens.
fn next(waits: [Option<Duration>; 3]) -> Next {
    match waits.into_iter().flatten().min() {
        Some(wait) => Next::After(wait),
        None => Next::AwaitChange,
    }
}
