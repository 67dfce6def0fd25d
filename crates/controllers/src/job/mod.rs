//! Job: pods that run to their end. A workload.
//!
//! **Converges**: as many pods run at once as `parallelism` says until as many have succeeded as
//! `completions` says (any one where it says nothing; each index once where the job is indexed), or until
//! a limit is reached (`backoffLimit`, `backoffLimitPerIndex`, `maxFailedIndexes`,
//! `activeDeadlineSeconds`) or a policy decides (`podFailurePolicy`, `successPolicy`). Then the remaining
//! pods go, and when they are gone the job is `Complete` or `Failed`.
//!
//! **Counts exactly once**: pods carry a finalizer until the status knows of them; see `tracking`.
//!
//! **Triggers**: a change of the spec, at once; its pods and its status, a second later, so that many ends
//! are counted together; time, when a deadline or a back-off is over.
//!
//! **Writes**: creates pods (at most 500 a sync, by slow start), patches their finalizer off, deletes
//! them, adopts and releases them; creates Workloads and PodGroups by gate (`gang`); puts its own status; emits
//! `WorkloadCreated`, `SuccessfulCreate`, `FailedCreate`,
//! `SuccessfulDelete`, `FailedDelete`, `Suspended`, `Resumed`, `Completed`, `TooManySucceededPods`,
//! `UnknownCompletionMode`, and a warning with the reason of a failure. A second, small reconciler takes
//! the finalizer off pods whose job is gone or over.
//!
//! **Mirrors** `pkg/controller/job`. Upstream decides and writes in turns through one function; here a
//! sync is `snapshot` → `assess` (where does the job stand?) → `plan` (which pods?) → the pods are written
//! → `status` → `tracking` (who is counted, and loses its finalizer?) → the status is written, finalizers go, and
//! the status is written again.
//!
//! **Deliberate differences**: deletions carry the pod's uid as a precondition; a pod that could not be
//! created is not counted as created in the metrics; in a namespace that is going away pods that were
//! refused do not count as active; a job that is being deleted gets no Workload and no PodGroup.

mod actions;
mod apply;
mod assess;
mod backoff;
mod finalizers;
mod gang;
mod indexes;
mod invariants;
mod metrics;
mod oracle;
mod orphans;
mod plan;
mod policy;
mod reason;
mod snapshot;
mod state;
mod status;
mod tracking;
mod writes;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::decision::{Explain, Line};
use api::kinds::{JOB_TRACKING, Job, Pod, PodGroup, Workload as GangWorkload};
use api::labels::Matcher;
use api::{Gate, Gates, Key, LabelSelector, LabelSet, MicroTime, Resource};
use runtime::events::{EventType, ObjectRef};
use runtime::rate_limit::Backoff;
use runtime::{
    Change, Context, Controller, Error, Expectations, Loop, Owns, Queue, Runnable, Store,
};

use self::finalizers::Finalizers;
use self::gang::{Gang, GangCaches};
use self::metrics::{JobMetrics, SyncAction};
use self::orphans::OrphanPods;
use self::plan::BATCH;
use self::state::JobStates;
use self::tracking::{Tracking, track};
use crate::Descriptor;
use crate::oracle::View;
use crate::workload::claim::wants_orphan;
use crate::workload::{
    Claimer, Consistency, Driver, KeyState, Observed, PodControl, StatusChange, Workload,
    candidates,
};

pub use actions::doubt_if_killed;
pub use assess::{Assessment, assess};
pub use invariants::{
    awaits_successor, born_well, came_to_an_end, converged, counted_once, finalizer_removed,
    goes_forward, is_held, safe,
};
pub use oracle::{CERTAIN, JobOracle};
pub use plan::{Act, Plan, plan};
pub use reason::Reason;
pub use snapshot::{Remembered, Snapshot};

pub const DESCRIPTOR: Descriptor = Descriptor {
    component: "job-controller",
    caches: &[View::of::<Job>(), View::of::<Pod>()],
    gated_caches: &[
        (Gate::WorkloadWithJob, View::of::<GangWorkload>()),
        (Gate::WorkloadWithJob, View::of::<PodGroup>()),
    ],
    decides_about: &[Job::TYPE],
    in_preview: true,
    queues: &["job", "job_orphan_pod"],
    metrics: &["job_controller_"],
    build: Some(|ctx| {
        let workers = ctx.workers(ctx.config.job_controller.concurrent_syncs);
        let Controllers { jobs, orphans } = controller(ctx, workers);
        let loops = vec![jobs.into(), orphans.into()];
        Some(Runnable::together(ctx.controller, loops))
    }),
    oracle: Some(|| Box::<JobOracle>::default()),
    workloads: &[actions::WORKLOADS],
    ..Descriptor::named("job-controller", "job", "job-controller")
};

/// The loop of jobs, and the one of pods that no job holds any more.
pub struct Controllers {
    pub jobs: Controller,
    pub orphans: Controller,
}

/// Upstream's `DefaultJobApiBackOff` and `MaxJobApiBackOff`; no bucket.
const RETRIES: Backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(60));

pub fn controller(context: &Context, workers: usize) -> Controllers {
    let jobs = Jobs::new(context);
    let orphans = Loop::on::<Key>(context, RETRIES)
        .queue("job_orphan_pod")
        .reads::<Job>()
        .reads::<Pod>()
        .workers(workers);
    let finalizers = Arc::new(Finalizers {
        jobs: jobs.jobs.clone(),
        pods: jobs.pods.clone(),
        orphans: orphans.handle(),
        states: jobs.states.clone(),
        metrics: jobs.metrics.clone(),
    });
    let orphans = orphans.reconciler(OrphanPods {
        context: context.clone(),
        jobs: jobs.jobs.clone(),
        pods: jobs.pods.clone(),
    });
    let jobs = jobs.watching(finalizers, workers);
    Controllers { jobs, orphans }
}

/// A change of the spec enqueues a job at once; its status, only after a moment, so that many pods that end together are
/// counted together. A finished job needs nothing more.
fn enqueue(change: &Change<'_, Job>, queue: &Queue, metrics: &JobMetrics, gates: Gates) {
    match change {
        Change::Added(job) => {
            if let Some(manager) = job.external_manager(gates) {
                metrics.managed_by_others(manager);
            }
            queue.add(job.key());
        }
        Change::Updated { new, .. } if new.finished().is_some() => {}
        Change::Updated { old, new } if old.metadata.generation == new.metadata.generation => {
            queue.add_after(new.key(), BATCH);
        }
        Change::Updated { new, .. } => queue.add(new.key()),
        Change::Deleted(job) => queue.add(job.key()),
    }
}

fn selects(job: &Job, labels: &LabelSet) -> bool {
    let selector = job.spec.selector.as_ref();
    selector.is_some_and(|selector| wants_orphan(selector, labels))
}

pub struct Jobs {
    context: Context,
    jobs: Arc<Store<Job>>,
    pods: Arc<Store<Pod>>,
    gangs: Option<GangCaches>,
    control: PodControl,
    states: Arc<JobStates>,
    metrics: Arc<JobMetrics>,
}

impl Jobs {
    fn new(context: &Context) -> Jobs {
        let jobs = context.informers.store::<Job>();
        let pods = context.informers.store::<Pod>();
        let consistency = Consistency::gated(
            context,
            Gate::StaleControllerConsistencyJob,
            "job_controller_stale_sync_skips_total",
        );
        let gangs = GangCaches::new(context);
        let mut consistency = consistency.of::<Job>(context).of::<Pod>(context);
        if gangs.is_some() {
            let with_workloads = consistency.of::<GangWorkload>(context);
            consistency = with_workloads.of::<PodGroup>(context);
        }
        let expectations = Expectations::watched(&context.metrics, context.controller);
        Jobs {
            context: context.clone(),
            jobs,
            pods,
            gangs,
            control: PodControl::new(context.client.clone(), context.recorder.clone()),
            states: Arc::new(JobStates::new(expectations, Arc::new(consistency))),
            metrics: Arc::new(JobMetrics::new(&context.metrics)),
        }
    }

    /// The loop of jobs.
    fn watching(self, finalizers: Arc<Finalizers>, workers: usize) -> Controller {
        let (context, states) = (self.context.clone(), self.states.clone());
        let (of_jobs, of_pods, metrics) = (finalizers.clone(), finalizers, self.metrics.clone());
        let mut building = Loop::on_objects::<Job>(&context, RETRIES).queue("job");
        if self.gangs.is_some() {
            // UPSTREAM: what becomes of them is seen at the next sync; they enqueue no job.
            building = building.reads::<GangWorkload>().reads::<PodGroup>();
        }
        let gates = context.gates;
        building
            .watches::<Job>(move |change, queue| {
                enqueue(&change, queue, &metrics, gates);
                of_jobs.on_job(change);
            })
            .owns(
                Owns::<Pod, Job>::selected_by(selects)
                    .expecting(&states.expectations)
                    .finished(|job| job.finished().is_some())
                    .batched(BATCH),
            )
            .watches::<Pod>(move |change, _| of_pods.on_pod(change))
            .workers(workers)
            .reconciler(Driver::new(
                &context,
                &states.consistency,
                Some(&states.expectations),
                self,
            ))
    }
}

/// Where the job stands, and what follows.
pub struct Planned {
    assessed: Assessment,
    gang: Gang,
    plan: Plan,
}

impl Explain for Planned {
    fn explain(&self) -> Vec<Line> {
        let reasons = self.plan.reasons.iter().map(Line::from);
        self.gang.line().into_iter().chain(reasons).collect()
    }
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

impl crate::workload::Outcome for Outcome {
    fn into_failure(self) -> Option<Error> {
        self.failure
    }
}

impl Workload for Jobs {
    type Object = Job;
    type Snapshot = Snapshot;
    type Plan = Planned;
    type Outcome = Outcome;
    type Status = Tracking;

    async fn observe(
        &self,
        key: &Key,
        job: Arc<Job>,
        may_act: bool,
    ) -> Result<Observed<Snapshot>, Error> {
        let cached = self.jobs.resource_version();
        if job.external_manager(self.context.gates).is_some()
            || self.states.is_finished(&job, cached)
        {
            return Ok(Observed::done(None));
        }
        if job.finished().is_some() {
            self.states.forget(key);
            return Ok(Observed::done(None));
        }
        if !matches!(&*job.spec.completion_mode, "" | "NonIndexed" | "Indexed") {
            let message = "Skipped Job sync because completion mode is unknown";
            let (object, reason) = (ObjectRef::of(&*job), "UnknownCompletionMode");
            let recorder = &self.context.recorder;
            recorder.event(&object, EventType::Warning, reason, message);
            let line = Line::states("UnknownCompletionMode", "has an unknown completion mode");
            return Ok(Observed::done(line.because("nothing is done for it")));
        }
        // Before the pods are looked at: one that comes in between would be expected no more, and not seen.
        let remembered = self.states.of(key, self.pods.resource_version(), may_act);
        let pods = self.claim(&job).await?;
        let mut snapshot = Snapshot::new(job, pods, remembered, self.context.gates);
        let gangs = self.gangs.as_ref();
        snapshot.gang = gangs.and_then(|gangs| gangs.observe(&snapshot.job));
        Ok(Observed::Snapshot(snapshot))
    }

    fn plan(&self, snapshot: &Snapshot, now: MicroTime) -> Planned {
        let assessed = assess(snapshot, now);
        let gang = gang::plan(&snapshot.job, &snapshot.pods, snapshot.gang.as_ref());
        let plan = plan(snapshot, &assessed, now);
        Planned {
            assessed,
            gang,
            plan,
        }
    }

    async fn apply(
        &self,
        key: &Key,
        snapshot: &Snapshot,
        planned: &Planned,
    ) -> Result<Outcome, Error> {
        // Before the pods, which name the group.
        let group = self.ensure_gang(key, &snapshot.job, &planned.gang).await?;
        let group = group.as_deref();
        Ok(self.write_pods(key, snapshot, planned, group).await)
    }

    fn status(
        &self,
        snapshot: &Snapshot,
        planned: &Planned,
        outcome: &Outcome,
        now: MicroTime,
    ) -> (Tracking, StatusChange) {
        let Planned { assessed, plan, .. } = planned;
        let concluded = status::conclude(snapshot, assessed, plan, outcome, now);
        // Counting has its own rules about what is worth a write.
        (track(snapshot, assessed, concluded, now), StatusChange::Now)
    }

    async fn write_status(
        &self,
        _: &KeyState,
        snapshot: &Snapshot,
        planned: &Planned,
        tracking: &Tracking,
    ) -> Result<(), Error> {
        self.count_pods(&snapshot.job, &planned.assessed, tracking)
            .await
    }

    /// A back-off, or the deadline of the job.
    fn wait(
        &self,
        _: &Snapshot,
        planned: &Planned,
        _: &Tracking,
        _: MicroTime,
        _: MicroTime,
    ) -> Option<Duration> {
        let backoff = match planned.plan.act {
            Act::Wait(wait) => Some(wait),
            _ => None,
        };
        backoff
            .into_iter()
            .chain(planned.assessed.deadline_in)
            .min()
    }

    fn synced(&self, job: &Job, planned: Option<&Planned>, ok: bool, took: Duration) {
        let action = planned.map_or(SyncAction::Reconciling, |planned| {
            SyncAction::of(&planned.plan)
        });
        self.metrics.synced(job, action, ok, took);
    }

    fn forget(&self, key: &Key) {
        self.states.forget(key);
    }
}

impl Jobs {
    /// The pods of the job, after adopting and releasing.
    async fn claim(&self, job: &Arc<Job>) -> Result<Vec<Arc<Pod>>, Error> {
        let selector = LabelSelector::compile_optional(job.spec.selector.as_ref())
            .map_err(|error| Error::Terminal(format!("the selector is invalid: {error}")))?;
        let candidates = candidates(&job.metadata, &self.pods);
        let mut selects = Matcher::new(|labels: &LabelSet| selector.matches(labels));
        let claimed = Claimer::new(&self.context.client, &**job)
            .with_finalizer(JOB_TRACKING)
            .claim(
                candidates,
                self.states.consistency.kind::<Pod>(),
                |pod: &Pod| selects.of(&pod.metadata.labels),
            )
            .await?;
        let adopted = |pod| snapshot::as_adopted(job, pod);
        Ok(claimed.into_iter().map(adopted).collect())
    }
}
