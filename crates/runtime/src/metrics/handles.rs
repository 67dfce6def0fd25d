//! What each part of the program counts with. Handles are cheap to clone and never allocate.

use std::time::Duration;

use api::ResourceType;
use prometheus::{Gauge, Histogram, IntCounter, IntGauge};

use super::Metrics;
use super::families::Families;

/// Counts what one work queue does.
#[derive(Clone)]
pub struct QueueMetrics {
    metrics: Metrics,
    adds: IntCounter,
    depth: IntGauge,
    wait: Histogram,
    work: Histogram,
    retries: IntCounter,
    unfinished: Gauge,
    longest: Gauge,
}

/// The work under way in a queue at the moment of a scrape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// For how long all busy workers together have been at their items.
    pub total: Duration,
    /// For how long the slowest of them has been at its item.
    pub longest: Duration,
}

impl QueueMetrics {
    pub(super) fn new(metrics: &Metrics, families: &Families, name: &str) -> QueueMetrics {
        let labels = &[name];
        QueueMetrics {
            metrics: metrics.clone(),
            adds: families.queue_adds.with_label_values(labels),
            depth: families.queue_depth.with_label_values(labels),
            wait: families.queue_wait.with_label_values(labels),
            work: families.queue_work.with_label_values(labels),
            retries: families.queue_retries.with_label_values(labels),
            unfinished: families.queue_unfinished.with_label_values(labels),
            longest: families.queue_longest.with_label_values(labels),
        }
    }

    /// A queue with so many items takes the place of the one that had this name before.
    pub fn begin(&self, waiting: usize) {
        self.adds.inc_by(waiting as u64);
        self.depth.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    /// An item entered the queue. Not for one that was in it already.
    pub fn on_add(&self) {
        self.adds.inc();
        self.depth.inc();
    }

    /// A worker took an item that had waited this long.
    pub fn on_get(&self, waited: Duration) {
        self.depth.dec();
        self.wait.observe(waited.as_secs_f64());
    }

    /// A worker is done with an item.
    pub fn on_done(&self, worked: Duration) {
        self.work.observe(worked.as_secs_f64());
    }

    /// An item was put back with a delay because its work failed.
    pub fn on_retry(&self) {
        self.retries.inc();
    }

    pub fn depth(&self) -> i64 {
        self.depth.get()
    }

    /// Asks the queue at each scrape what is under way, until it answers `None` (the queue is gone).
    pub fn watch_unfinished(&self, ask: impl Fn() -> Option<Unfinished> + Send + 'static) {
        let (unfinished, longest) = (self.unfinished.clone(), self.longest.clone());
        self.metrics.before_scrape(move || {
            let answer = ask();
            let now = answer.unwrap_or_default();
            unfinished.set(now.total.as_secs_f64());
            longest.set(now.longest.as_secs_f64());
            answer.is_some()
        });
    }
}

/// Counts what one informer does.
#[derive(Clone)]
pub struct InformerMetrics {
    queued: IntGauge,
    latency: Histogram,
    version: Gauge,
}

impl InformerMetrics {
    pub(super) fn new(families: &Families, name: &str, resource: &ResourceType) -> InformerMetrics {
        let labels: &[&str] = &[name, &resource.group, &resource.version, &resource.plural];
        InformerMetrics {
            queued: families.informer_queued.with_label_values(labels),
            latency: families.informer_latency.with_label_values(labels),
            version: families.informer_version.with_label_values(labels),
        }
    }

    pub fn set_queued(&self, items: usize) {
        self.queued.set(i64::try_from(items).unwrap_or(i64::MAX));
    }

    /// A batch of events was taken from the stream and handled.
    pub fn on_processed(&self, took: Duration) {
        self.latency.observe(took.as_secs_f64());
    }

    /// The store is at this revision.
    pub fn set_resource_version(&self, version: u64) {
        /// A double holds 15 decimal digits exactly; more would be rounded.
        const DIGITS: u64 = 1_000_000_000_000_000;
        self.version.set((version % DIGITS) as f64);
    }
}

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconcileResult {
    /// Nothing left to do until something changes.
    Done,
    /// To be looked at again after a while.
    Again,
    /// Failed, and put back with a growing delay.
    Retry,
    /// Failed in a way that only a change of the object can fix.
    Terminal,
    Panicked,
    /// The controller undoes its own writes repeatedly: put back with a growing delay.
    Undoes,
}

impl ReconcileResult {
    const ALL: [(ReconcileResult, &'static str); 6] = [
        (ReconcileResult::Done, "done"),
        (ReconcileResult::Again, "again"),
        (ReconcileResult::Retry, "retry"),
        (ReconcileResult::Terminal, "terminal"),
        (ReconcileResult::Panicked, "panic"),
        (ReconcileResult::Undoes, "undoes"),
    ];
}

/// Counts what one controller does.
#[derive(Clone)]
pub struct ControllerMetrics {
    /// In the order of [`ReconcileResult::ALL`].
    results: [IntCounter; 6],
    seconds: Histogram,
}

impl ControllerMetrics {
    pub(super) fn new(families: &Families, controller: &str) -> ControllerMetrics {
        ControllerMetrics {
            results: ReconcileResult::ALL
                .map(|(_, label)| families.reconciles.with_label_values(&[controller, label])),
            seconds: families.reconcile_seconds.with_label_values(&[controller]),
        }
    }

    pub fn on_reconcile(&self, result: ReconcileResult, took: Duration) {
        self.results[result as usize].inc();
        self.seconds.observe(took.as_secs_f64());
    }
}

/// Counts what one candidate for a lease does.
#[derive(Clone)]
pub struct LeaderMetrics {
    status: IntGauge,
    slow_path: IntCounter,
}

impl LeaderMetrics {
    pub(super) fn new(families: &Families, lease: &str) -> LeaderMetrics {
        LeaderMetrics {
            status: families.leader_status.with_label_values(&[lease]),
            slow_path: families.leader_slow_path.with_label_values(&[lease]),
        }
    }

    pub fn set_leading(&self, leading: bool) {
        self.status.set(i64::from(leading));
    }

    /// A renewal had to read the lease first.
    pub fn on_slow_path(&self) {
        self.slow_path.inc();
    }
}

/// Counts what one event recorder loses.
#[derive(Clone)]
pub struct EventMetrics {
    dropped: IntCounter,
}

impl EventMetrics {
    pub(super) fn new(families: &Families, component: &str) -> EventMetrics {
        EventMetrics {
            dropped: families.events_dropped.with_label_values(&[component]),
        }
    }

    pub fn on_drop(&self) {
        self.dropped.inc();
    }
}

#[cfg(test)]
mod tests {
    use super::ReconcileResult;

    #[test]
    fn results_are_counted_in_their_own_place() {
        for (place, (result, _)) in ReconcileResult::ALL.iter().enumerate() {
            assert_eq!(*result as usize, place);
        }
    }
}
