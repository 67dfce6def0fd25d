//! Jobs that have been finished for long enough are deleted.
//!
//! **Converges**: no job is there longer than `ttlSecondsAfterFinished` after its end.
//!
//! **Woken by**: a finished job with that field, when it is seen or changes; time.
//!
//! **Writes**: deletes the job in the foreground, with its uid as precondition.
//!
//! **Mirrors** `pkg/controller/ttlafterfinished`.

mod invariants;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api::kinds::Job;
use api::{Key, MicroTime, Resource};
use client::{DeleteOptions, Propagation};
use futures_util::future::BoxFuture;
use prometheus::Histogram;
use runtime::controller::Controller;
use runtime::metrics::Stability;
use runtime::rate_limit::Backoff;
use runtime::{Change, Error, Informers, Next, Queue, Reconcile, Store, mutation};

use crate::Tools;

pub use invariants::{converged, safe};

/// The name in `--controllers`.
pub const NAME: &str = "ttl-after-finished-controller";

pub struct TtlAfterFinished {
    tools: Tools,
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

pub fn controller(informers: &Informers, tools: Tools, workers: usize) -> Controller {
    let informer = informers.of::<Job>();
    let queue = Arc::new(Queue::new(Backoff::DEFAULT));
    let wakes = queue.clone();
    informer.on_change(move |change| {
        if let Change::Added(job) | Change::Updated { new: job, .. } = change
            && needs_cleanup(job)
        {
            wakes.add(job.key());
        }
    });
    // 100 ms, doubled thirteen times: upstream's buckets.
    let buckets: Vec<f64> = (0..14).map(|power| 0.1 * f64::from(1 << power)).collect();
    let none: [&str; 0] = [];
    let seconds = tools.metrics.histogram(
        "ttl_after_finished_controller_job_deletion_duration_seconds",
        "How long after its time was over a job was deleted",
        Stability::Alpha,
        &[],
        &buckets,
    );
    Controller {
        name: NAME,
        queue,
        workers,
        retries_max: None,
        waits_for: vec![informer.synced()],
        metrics: None,
        reconciler: Arc::new(TtlAfterFinished {
            tools,
            jobs: informer.store().clone(),
            seconds: seconds.with_label_values(&none),
        }),
    }
}

fn needs_cleanup(job: &Job) -> bool {
    !job.metadata.is_terminating()
        && job.spec.ttl_seconds_after_finished.is_some()
        && job.finished().is_some()
}

/// Pure: is it time?
pub fn judge(job: &Job, now: MicroTime) -> Verdict {
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

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::NotOurs => f.write_str("kept: it is not finished or has no time to live"),
            Verdict::NoTime => f.write_str("kept: its conditions do not say when it finished"),
            Verdict::Later(left) => write!(f, "kept for {} s more", left.as_secs()),
            Verdict::Expired { .. } => f.write_str("deleted: its time to live is over"),
        }
    }
}

impl Reconcile for TtlAfterFinished {
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, Error>> {
        Box::pin(self.sync(key))
    }
}

impl TtlAfterFinished {
    async fn sync(&self, key: &Key) -> Result<Next, Error> {
        let Some(job) = self.jobs.get(key) else {
            return Ok(Next::AwaitChange);
        };
        let verdict = self.judge(key, &job)?;
        let Verdict::Expired { .. } = verdict else {
            return Ok(wait(verdict));
        };
        // The time to live may have been prolonged a moment ago.
        let fresh: Job = match self.tools.client.get_as(&key.namespace, &key.name).await {
            Ok(fresh) => fresh,
            Err(error) if error.is_not_found() => return Ok(Next::AwaitChange),
            Err(error) => return Err(error.into()),
        };
        let verdict = self.judge(key, &fresh)?;
        let Verdict::Expired { since } = verdict else {
            return Ok(wait(verdict));
        };
        let options = DeleteOptions {
            uid: Some(fresh.metadata.uid.clone()),
            propagation: Some(Propagation::Foreground),
            ..DeleteOptions::default()
        };
        let client = &self.tools.client;
        client
            .delete(&Job::TYPE, &key.namespace, &key.name, &options)
            .await?;
        self.seconds.observe(since.as_secs_f64());
        Ok(Next::AwaitChange)
    }

    fn judge(&self, key: &Key, job: &Job) -> Result<Verdict, Error> {
        let now = self.tools.clock.now();
        let mut verdict = judge(job, now);
        if matches!(verdict, Verdict::Later(_)) && mutation::on("jobs-die-young") {
            verdict = Verdict::Expired {
                since: Duration::ZERO,
            };
        }
        let line = match verdict {
            Verdict::Later(left) => format!(
                "kept until {}: its time to live is not over",
                now.plus(left).time()
            ),
            other => other.to_string(),
        };
        let line = [line].into_iter();
        self.tools.decisions.record(NAME, key, now, line);
        match verdict {
            Verdict::NoTime => Err(Error::Retry(format!(
                "unable to find the time when the Job {key} finished"
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
