//! Jobs on a schedule. A small controller.
//!
//! **Converges**: for each time of a CronJob's schedule one Job is created from its template, unless the CronJob is
//! suspended, the time is past `startingDeadlineSeconds`, or `concurrencyPolicy` forbids it while another runs. Of
//! starts that were missed the last one is made up for. Its status lists the jobs that run and the last start and
//! success; of finished jobs as many stay as the history limits say.
//!
//! **Triggers**: any change of the CronJob, but for its schedule and time zone: a new schedule holds from its next time
//! on, and does not make up for what it would have missed; any change of a job that it controls; time, 100 ms after the
//! next scheduled one.
//!
//! **Writes**: creates jobs around the raw template, named after the minute they are scheduled for, which is what keeps
//! a crash from starting one twice; deletes finished jobs, and running ones that are replaced; puts its own status;
//! emits `SuccessfulCreate`, `FailedCreate`, `SuccessfulDelete`, `FailedDelete`, `FailedGet`, `SawCompletedJob`,
//! `MissingJob`, `UnexpectedJob`, `JobAlreadyActive`, `TooManyMissedTimes`, `UnknownTimeZone`, `UnsupportedSchedule`,
//! `UnparseableSchedule`, `UnParseableCronJobSchedule` and `InvalidSchedule`.
//!
//! **Mirrors** `pkg/controller/cronjob`, and robfig/cron v3 (`cron`). Upstream decides and writes in turns; here a sync
//! deletes finished jobs, asks the API server where caches and the active list disagree, plans, starts, and writes the
//! status once.
//!
//! **Deliberate differences**: jobs belong to the CronJob whose uid they carry, not to any of its name; deletions carry the job's uid as a precondition; a job that
//! ended before the status knew of it is not deleted until it does, and so not started again; one that runs and that the
//! status never knew of is put on the active list; where somebody else's job
//! has the name, the next time is waited for; a job that is gone already is no failure to delete it; what the API server
//! said about the active list is what the status is written on, so that there is no conflict. `MissSchedule` is not
//! emitted: what is due is never past its deadline, in upstream neither. A start that the deadline forbids is a decision.

mod actions;
mod apply;
mod invariants;
mod new_job;
mod oracle;
mod plan;
mod reason;
mod schedule;
mod times;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::decision::{Explain, Line};
use api::kinds::{CronJob, Job};
use api::{Key, MicroTime, ObjectId, Resource, Time};
use prometheus::Histogram;
use runtime::metrics::Stability;
use runtime::rate_limit::Backoff;
use runtime::triggers::by_controller;
use runtime::{
    Change, Context, Controller, Error, IndexValue, Loop, Next, Owns, Queue, Reconcile, Report,
    Store,
};

use self::plan::next_run;
use self::reason::Event;
use self::schedule::{DELTA, Timing, read};
use crate::Descriptor;
use crate::oracle::View;
use crate::workload::Consistency;

pub use invariants::{converged, safe};
pub use oracle::CronJobOracle;
pub use plan::{Plan, Snapshot, Start, plan, plan_cleanup, scheduled_for};
pub use reason::Reason;

pub const DESCRIPTOR: Descriptor = Descriptor {
    component: "cronjob-controller",
    caches: &[View::of::<CronJob>(), View::of::<Job>()],
    decides_about: &[CronJob::TYPE],
    queues: &["cronjob"],
    metrics: &["cronjob_controller_"],
    in_preview: true,
    oracle: Some(|| Box::<CronJobOracle>::default()),
    actions: &actions::ACTIONS,
    build: Some(|ctx| {
        let workers = ctx.workers(ctx.config.cron_job_controller.concurrent_syncs);
        Some(controller(ctx, workers).into())
    }),
    ..Descriptor::named("cronjob-controller", "cronjob", "cronjob-controller")
};

pub fn controller(context: &Context, workers: usize) -> Controller {
    let cron_jobs = Arc::new(CronJobs::new(context));
    let enqueued = cron_jobs.clone();
    Loop::on_objects::<CronJob>(context, Backoff::DEFAULT)
        .queue("cronjob")
        .decides_on::<CronJob>(move |change, queue, report| enqueued.enqueue(change, queue, report))
        // Nobody adopts: a job belongs to whom it names as its controller.
        .owns(Owns::<Job, CronJob>::selected_by(|_, _| false))
        .workers(workers)
        .reconciler(Syncs(cron_jobs))
}

fn skew(context: &Context) -> Histogram {
    // One second, doubled nine times: upstream's buckets.
    let buckets: Vec<f64> = (0..10).map(|power| f64::from(1 << power)).collect();
    let family = context.metrics.histogram(
        "cronjob_controller_job_creation_skew_duration_seconds",
        "How long after its scheduled time a job was created",
        Stability::Stable,
        &[],
        &buckets,
    );
    let none: [&str; 0] = [];
    family.with_label_values(&none)
}

pub struct CronJobs {
    context: Context,
    cron_jobs: Arc<Store<CronJob>>,
    jobs: Arc<Store<Job>>,
    consistency: Consistency,
    skew: Histogram,
}

struct Syncs(Arc<CronJobs>);

impl Reconcile for Syncs {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        self.0.sync(key, report).await
    }
}

impl CronJobs {
    fn new(context: &Context) -> CronJobs {
        let consistency = Consistency::always();
        CronJobs {
            context: context.clone(),
            cron_jobs: context.informers.store::<CronJob>(),
            jobs: context.informers.store::<Job>(),
            consistency: consistency.of::<CronJob>(context).of::<Job>(context),
            skew: skew(context),
        }
    }

    /// Any change enqueues a CronJob, and a change of its schedule when that comes next.
    fn enqueue(&self, change: Change<'_, CronJob>, queue: &Queue, report: &Report<'_>) {
        match change {
            Change::Updated { old, new }
                if old.spec.schedule != new.spec.schedule
                    || old.spec.time_zone != new.spec.time_zone =>
            {
                self.reschedule(new, queue, report);
            }
            Change::Deleted(gone) => {
                // A namesake that is created at once must not wait for what this one wrote.
                self.consistency.forget(&gone.key());
                queue.add(gone.key());
            }
            change => queue.add(change.object().key()),
        }
    }

    fn reschedule(&self, cron_job: &CronJob, queue: &Queue, report: &Report<'_>) {
        let schedule = match read(cron_job, self.context.clock.zone()) {
            Ok(schedule) => schedule,
            Err(_) => {
                let text = &cron_job.spec.schedule;
                let message = format!("unparseable schedule for cronjob: {text}");
                let event = Event::warning("UnParseableCronJobSchedule", message);
                return self.emit(cron_job, event);
            }
        };
        let now = self.context.clock.now();
        let next = Timing::of(cron_job).next(&schedule, now);
        let line = Line::from(&next_run(cron_job, next));
        report.decide(ObjectId::of(cron_job), [line]);
        match next {
            Some(next) => queue.add_after(cron_job.key(), wait(next, now)),
            None => queue.add(cron_job.key()),
        }
    }

    async fn sync(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        self.consistency.check(key)?;
        let Some(cached) = self.cron_jobs.get(key) else {
            self.consistency.forget(key);
            return Ok(Next::AwaitChange);
        };
        let owner = IndexValue::Uid(cached.metadata.uid.clone());
        let mut jobs = self.jobs.by(&by_controller(), &owner);
        jobs.sort_by(|one, two| one.metadata.name.cmp(&two.metadata.name));
        let surplus = plan_cleanup(&cached, &jobs);
        let deleted = self.delete_finished(&cached, &surplus).await;
        let looked_up = self.look_up(&cached, &jobs).await;
        let snapshot = Snapshot {
            cron_job: looked_up.cron_job.unwrap_or(cached),
            jobs,
            deleted,
            missing: looked_up.missing,
            unread: looked_up.failure.is_some(),
            local: self.context.clock.zone().clone(),
        };
        let cron_job = &*snapshot.cron_job;
        // One reading of the clock for everything that is decided.
        let plan = plan(&snapshot, self.context.clock.now());
        let cleaned = surplus.iter().map(|(_, reason)| Line::from(reason));
        report.decide(ObjectId::of(cron_job), cleaned.chain(plan.explain()));
        for event in plan.reasons.iter().filter_map(Reason::event) {
            self.emit(cron_job, event);
        }
        let mut status = plan.status.clone();
        let started = match &plan.start {
            Some(start) => self.start(key, &snapshot, start, &mut status).await,
            None => Ok(()),
        };
        if status != cron_job.status {
            self.put_status(key, cron_job, &status).await?;
        }
        started?;
        if let Some(start) = &plan.start
            && status.last_schedule_time != Some(start.scheduled)
        {
            let job = start.name.clone();
            let reasons = [Reason::NameTaken { job }, next_run(cron_job, plan.next)];
            report.decide(ObjectId::of(cron_job), reasons.iter().map(Line::from));
        }
        match looked_up.failure {
            Some(failure) => Err(failure),
            None => Ok(plan.next.map_or(Next::AwaitChange, |next| {
                Next::After(wait(next, self.context.clock.now()))
            })),
        }
    }
}

/// How long until a sync is due for this time.
fn wait(next: Time, now: MicroTime) -> std::time::Duration {
    next.micro().plus(DELTA).since(now)
}
