//! Job: pods that run to their end.
//!
//! **Converges**: as many pods run at once as `parallelism` says until as many have succeeded as
//! `completions` says (any one where it says nothing; each index once where the job is indexed), or until
//! a limit is reached (`backoffLimit`, `backoffLimitPerIndex`, `maxFailedIndexes`,
//! `activeDeadlineSeconds`) or a policy decides (`podFailurePolicy`, `successPolicy`). Then the remaining
//! pods go, and when they are gone the job is `Complete` or `Failed`.
//!
//! **Counts exactly once**: pods carry a finalizer until the status knows of them; see `tracking`.
//!
//! **Woken by**: a change of the spec, at once; its pods and its status, a second later, so that many ends
//! are counted together; time, when a deadline or a back-off is over.
//!
//! **Writes**: creates pods (at most 500 a round, by slow start), patches their finalizer off, deletes
//! them, adopts and releases them; puts its own status; emits `SuccessfulCreate`, `FailedCreate`,
//! `SuccessfulDelete`, `FailedDelete`, `Suspended`, `Resumed`, `Completed`, `TooManySucceededPods`,
//! `UnknownCompletionMode`, and a warning with the reason of a failure. A second, small reconciler takes
//! the finalizer off pods whose job is gone or over.
//!
//! **Mirrors** `pkg/controller/job`. Upstream decides and writes in turns through one function; here a
//! round is `snapshot` → `assess` (where does the job stand?) → `plan` (which pods?) → the pods are written
//! → `status` → `tracking` (who is counted and let go?) → the status is written, finalizers go, and the
//! status is written again.
//!
//! **Deliberate differences**: deletions carry the pod's uid as a precondition; a pod that could not be
//! created is not counted as created in the metrics; in a namespace that is going away pods that were
//! refused do not count as active. Gang scheduling (`WorkloadWithJob`, alpha) is not there.

mod assess;
mod backoff;
mod indexes;
mod invariants;
mod memory;
mod metrics;
mod orphans;
mod plan;
mod policy;
mod reason;
mod round;
mod snapshot;
mod status;
mod tracking;
mod triggers;
mod writes;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::kinds::{Job, Pod};
use api::{Gate, Key};
use futures_util::future::BoxFuture;
use runtime::controller::Controller;
use runtime::events::{EventType, ObjectRef};
use runtime::rate_limit::Backoff;
use runtime::triggers::by_controller;
use runtime::{Error, Informers, Next, Queue, Reconcile, Store};

use self::memory::Memory;
use self::metrics::{Deed, JobMetrics};
use self::orphans::OrphanPods;
use self::triggers::Triggers;
use crate::Tools;
use crate::workload::{OwnWrites, PodControl};

pub use assess::{Assessment, assess};
pub use invariants::{
    awaits_successor, born_well, came_to_an_end, converged, counted_once, goes_forward, is_held,
    let_go, safe,
};
pub use plan::{Act, Plan, plan};
pub use reason::Reason;
pub use snapshot::{Remembered, Snapshot};

/// The name in `--controllers`.
pub const NAME: &str = "job-controller";

pub struct JobController {
    tools: Tools,
    jobs: Arc<Store<Job>>,
    pods: Arc<Store<Pod>>,
    control: PodControl,
    memory: Arc<Memory>,
    metrics: Arc<JobMetrics>,
}

/// The controller of jobs, and the one of pods that no job holds any more.
pub struct Controllers {
    pub jobs: Controller,
    pub orphans: Controller,
}

/// What writing pods came to.
#[derive(Default)]
pub struct Outcome {
    pub created: i32,
    pub deleted: i32,
    pub deleted_ready: i32,
    /// The first failure; all were reported as events.
    pub failure: Option<Error>,
}

/// Upstream's `DefaultJobApiBackOff` and `MaxJobApiBackOff`; no bucket.
const RETRIES: Backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(60));

pub fn controller(informers: &Informers, tools: Tools, workers: usize) -> Controllers {
    let (jobs, pods) = (informers.of::<Job>(), informers.of::<Pod>());
    pods.add_index(&by_controller());
    let queue = Arc::new(Queue::new(RETRIES));
    let orphans = Arc::new(Queue::new(RETRIES));
    let own_writes = OwnWrites::gated(
        &tools,
        Gate::StaleControllerConsistencyJob,
        "job_controller_stale_sync_skips_total",
    );
    let own_writes = own_writes.of(jobs.store()).of(pods.store());
    let memory = Arc::new(Memory::new(own_writes));
    let metrics = Arc::new(JobMetrics::new(&tools.metrics));
    let triggers = Arc::new(Triggers {
        jobs: jobs.store().clone(),
        pods: pods.store().clone(),
        queue: queue.clone(),
        orphans: orphans.clone(),
        memory: memory.clone(),
        metrics: metrics.clone(),
    });
    let on_job = triggers.clone();
    jobs.on_change(move |change| on_job.on_job(change));
    pods.on_change(move |change| triggers.on_pod(change));
    let controller = |queue, reconciler| Controller {
        name: NAME,
        queue,
        workers,
        retries_max: None,
        waits_for: vec![jobs.synced(), pods.synced()],
        metrics: None,
        reconciler,
    };
    let freeing = OrphanPods {
        tools: tools.clone(),
        jobs: jobs.store().clone(),
        pods: pods.store().clone(),
    };
    let reconciler = JobController {
        control: PodControl::new(tools.client.clone(), tools.recorder.clone()),
        tools,
        jobs: jobs.store().clone(),
        pods: pods.store().clone(),
        memory,
        metrics,
    };
    Controllers {
        jobs: controller(queue, Arc::new(reconciler)),
        orphans: controller(orphans, Arc::new(freeing)),
    }
}

impl Reconcile for JobController {
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, Error>> {
        Box::pin(self.sync(key))
    }
}

impl JobController {
    async fn sync(&self, key: &Key) -> Result<Next, Error> {
        self.memory.own_writes.check(key)?;
        let Some(job) = self.jobs.get(key) else {
            self.memory.forget(key);
            return Ok(Next::AwaitChange);
        };
        let cached = self.jobs.resource_version();
        if job.external_manager().is_some() || self.memory.is_finished(&job, cached) {
            return Ok(Next::AwaitChange);
        }
        if job.finished().is_some() {
            self.memory.forget(key);
            return Ok(Next::AwaitChange);
        }
        if !matches!(&*job.spec.completion_mode, "" | "NonIndexed" | "Indexed") {
            let message = "Skipped Job sync because completion mode is unknown";
            let (object, reason) = (ObjectRef::of(&*job), "UnknownCompletionMode");
            let recorder = &self.tools.recorder;
            recorder.event(&object, EventType::Warning, reason, message);
            return Ok(Next::AwaitChange);
        }
        let began = self.tools.clock.now();
        let mut deed = Deed::Reconciling;
        let result = self.round(key, &job, &mut deed).await;
        let took = self.tools.clock.now().since(began);
        self.metrics.synced(&job, deed, result.is_ok(), took);
        result
    }
}
