//! Jobs that have been finished for long enough are deleted. A small controller.
//!
//! **Converges**: no job is there longer than `ttlSecondsAfterFinished` after its end.
//!
//! **Triggers**: a finished job with that field, when it is seen or changes; time.
//!
//! **Writes**: deletes the job in the foreground, with its uid as precondition.
//!
//! **Mirrors** `pkg/controller/ttlafterfinished`.

mod actions;
mod invariants;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::decision::Line;
use api::kinds::Job;
use api::{Key, MicroTime, ObjectId, Resource};
use client::{DeleteOptions, Propagation};
use prometheus::Histogram;
use runtime::metrics::Stability;
use runtime::rate_limit::Backoff;
use runtime::{Change, Context, Controller, Error, Loop, Next, Reconcile, Report, Store};

use crate::Descriptor;
use crate::oracle::View;

pub use invariants::{TtlAfterFinishedOracle, converged, safe};

pub const DESCRIPTOR: Descriptor = Descriptor {
    caches: &[View::of::<Job>()],
    decides_about: &[Job::TYPE],
    queues: &["ttl_jobs_to_delete"],
    metrics: &["ttl_after_finished_controller_"],
    build: Some(|ctx| {
        let workers = ctx.workers(ctx.config.ttl_after_finished_controller.concurrent_syncs);
        Some(controller(ctx, workers).into())
    }),
    oracle: Some(|| Box::<TtlAfterFinishedOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "ttl-after-finished-controller",
        "ttl-after-finished",
        "ttl-after-finished-controller",
    )
};

pub struct TtlAfterFinished {
    context: Context,
    jobs: Arc<Store<Job>>,
    seconds: Histogram,
}

/// What time has to say about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not finished, no time to live, or being deleted already.
    NotOurs,
    /// The end of a finished job is not known.
    NoTime,
    Later(Duration),
    Expired {
        since: Duration,
    },
}

pub fn controller(context: &Context, workers: usize) -> Controller {
    // 100 ms, doubled thirteen times: upstream's buckets.
    let buckets: Vec<f64> = (0..14).map(|power| 0.1 * f64::from(1 << power)).collect();
    let none: [&str; 0] = [];
    let seconds = context.metrics.histogram(
        "ttl_after_finished_controller_job_deletion_duration_seconds",
        "How long after its time was over a job was deleted",
        Stability::Alpha,
        &[],
        &buckets,
    );
    Loop::on::<Key>(context, Backoff::DEFAULT)
        .queue("ttl_jobs_to_delete")
        .watches::<Job>(|change, queue| {
            if let Change::Added(job) | Change::Updated { new: job, .. } = change
                && needs_cleanup(job)
            {
                queue.add(job.key());
            }
        })
        .workers(workers)
        .reconciler(TtlAfterFinished {
            context: context.clone(),
            jobs: context.informers.store::<Job>(),
            seconds: seconds.with_label_values(&none),
        })
}

fn needs_cleanup(job: &Job) -> bool {
    !job.metadata.is_terminating()
        && job.spec.ttl_seconds_after_finished.is_some()
        && job.finished().is_some()
}

/// Pure: is it time?
pub fn check(job: &Job, now: MicroTime) -> Verdict {
    let (false, Some(ttl), Some(finished)) = (
        job.metadata.is_terminating(),
        job.spec.ttl_seconds_after_finished,
        job.finished(),
    ) else {
        return Verdict::NotOurs;
    };
    let Some(finished_at) = finished.last_transition_time else {
        return Verdict::NoTime;
    };
    let expires_at = finished_at.unix().saturating_add(ttl.into());
    let left = expires_at
        .saturating_mul(1_000_000)
        .saturating_sub(now.unix_micros());
    let span = Duration::from_micros(left.unsigned_abs());
    if left > 0 {
        Verdict::Later(span)
    } else {
        Verdict::Expired { since: span }
    }
}

impl Verdict {
    /// What it means for the job, said at `now`.
    fn line(self, now: MicroTime) -> Line {
        match self {
            Verdict::NotOurs => {
                Line::states("Kept", "is kept").because("it is not finished or has no time to live")
            }
            Verdict::NoTime => Line::states("NoFinishTime", "is kept")
                .because("its conditions do not say when it finished"),
            Verdict::Later(left) => Line::waits("TimeToLive", "is deleted")
                .because("ttlSecondsAfterFinished has not passed")
                .until(now.plus(left).time()),
            Verdict::Expired { .. } => {
                Line::acts("Expired", "deletes it").because("its time to live has passed")
            }
        }
    }
}

impl Reconcile for TtlAfterFinished {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let Some(job) = self.jobs.get(key) else {
            return Ok(Next::AwaitChange);
        };
        let verdict = self.check(&job, report)?;
        let Verdict::Expired { .. } = verdict else {
            return Ok(wait(verdict));
        };
        // The time to live may have been prolonged a moment ago.
        let fresh: Job = match self.context.client.get_as(&key.namespace, &key.name).await {
            Ok(fresh) => fresh,
            Err(error) if error.is_not_found() => return Ok(Next::AwaitChange),
            Err(error) => return Err(error.into()),
        };
        let verdict = self.check(&fresh, report)?;
        let Verdict::Expired { since } = verdict else {
            return Ok(wait(verdict));
        };
        let options = DeleteOptions {
            propagation: Some(Propagation::Foreground),
            ..DeleteOptions::exactly(&fresh.metadata.uid)
        };
        let client = &self.context.client;
        client
            .delete(&Job::TYPE, &key.namespace, &key.name, &options)
            .await?;
        self.seconds.observe(since.as_secs_f64());
        Ok(Next::AwaitChange)
    }
}

impl TtlAfterFinished {
    fn check(&self, job: &Job, report: &Report<'_>) -> Result<Verdict, Error> {
        let now = self.context.clock.now();
        let verdict = check(job, now);
        report.decide(ObjectId::of(job), [verdict.line(now)]);
        match verdict {
            Verdict::NoTime => Err(Error::Retry(format!(
                "unable to find the time when the Job {} finished",
                job.key()
            ))),
            other => Ok(other),
        }
    }
}

fn wait(verdict: Verdict) -> Next {
    match verdict {
        Verdict::Later(left) => Next::After(left),
        _ => Next::AwaitChange,
    }
}
