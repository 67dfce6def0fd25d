//! The families that every process has, as upstream declares them.

use prometheus::core::Collector;
use prometheus::{
    GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry,
};

use super::Stability::{self, Alpha, Beta};

pub(super) struct Families {
    pub(super) queue_adds: IntCounterVec,
    pub(super) queue_depth: IntGaugeVec,
    pub(super) queue_wait: HistogramVec,
    pub(super) queue_work: HistogramVec,
    pub(super) queue_unfinished: GaugeVec,
    pub(super) queue_longest: GaugeVec,
    pub(super) queue_retries: IntCounterVec,

    pub(super) informer_queued: IntGaugeVec,
    pub(super) informer_latency: HistogramVec,
    pub(super) informer_version: GaugeVec,

    pub(super) leader_status: IntGaugeVec,
    pub(super) leader_slow_path: IntCounterVec,

    pub(super) reconciles: IntCounterVec,
    pub(super) reconcile_seconds: HistogramVec,
    pub(super) events_dropped: IntCounterVec,
}

/// 10 ns to 10 s, tenfold. The bounds are the products that Go's doubles give, so that the `le`
/// labels are the same text.
const QUEUE_SECONDS: [f64; 10] = [
    1e-8,
    1e-7,
    1e-6,
    9.999999999999999e-6,
    9.999999999999999e-5,
    0.001,
    0.01,
    0.1,
    1.0,
    10.0,
];

const INFORMER_SECONDS: [f64; 12] = [
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// 100 us to 100 s: a reconcile without requests takes far less than one that waits for the server.
const RECONCILE_SECONDS: [f64; 13] = [
    0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 50.0, 100.0,
];

const QUEUE: &[&str] = &["name"];
const INFORMER: &[&str] = &["name", "group", "version", "resource"];

impl Families {
    pub(super) fn register(registry: &Registry) -> Families {
        let (queue_adds, queue_depth, queue_retries) = queue_counts(registry);
        let (queue_wait, queue_work, queue_unfinished, queue_longest) = queue_times(registry);
        let (informer_queued, informer_latency, informer_version) = informers(registry);
        let (leader_status, leader_slow_path) = leaders(registry);
        Families {
            queue_adds,
            queue_depth,
            queue_wait,
            queue_work,
            queue_unfinished,
            queue_longest,
            queue_retries,
            informer_queued,
            informer_latency,
            informer_version,
            leader_status,
            leader_slow_path,
            reconciles: counter(
                registry,
                Alpha,
                "controller_reconcile_total",
                "Number of reconciles, by controller and by how they ended.",
                &["controller", "result"],
            ),
            reconcile_seconds: histogram(
                registry,
                Alpha,
                "controller_reconcile_seconds",
                "How long in seconds a reconcile takes.",
                &["controller"],
                &RECONCILE_SECONDS,
            ),
            events_dropped: counter(
                registry,
                Alpha,
                "event_recorder_dropped_total",
                "Number of events dropped because too many were waiting to be written.",
                &["component"],
            ),
        }
    }
}

fn queue_counts(registry: &Registry) -> (IntCounterVec, IntGaugeVec, IntCounterVec) {
    (
        counter(
            registry,
            Beta,
            "workqueue_adds_total",
            "Total number of adds handled by workqueue",
            QUEUE,
        ),
        int_gauge(
            registry,
            Beta,
            "workqueue_depth",
            "Current depth of workqueue",
            QUEUE,
        ),
        counter(
            registry,
            Beta,
            "workqueue_retries_total",
            "Total number of retries handled by workqueue",
            QUEUE,
        ),
    )
}

fn queue_times(registry: &Registry) -> (HistogramVec, HistogramVec, GaugeVec, GaugeVec) {
    (
        histogram(
            registry,
            Beta,
            "workqueue_queue_duration_seconds",
            "How long in seconds an item waits in workqueue before it is taken.",
            QUEUE,
            &QUEUE_SECONDS,
        ),
        histogram(
            registry,
            Beta,
            "workqueue_work_duration_seconds",
            "How long in seconds the work on an item from workqueue takes.",
            QUEUE,
            &QUEUE_SECONDS,
        ),
        gauge(
            registry,
            Beta,
            "workqueue_unfinished_work_seconds",
            "Seconds of work under way that work_duration has not counted yet. Its rate of growth \
             tells how many workers are stuck.",
            QUEUE,
        ),
        gauge(
            registry,
            Beta,
            "workqueue_longest_running_processor_seconds",
            "For how many seconds the longest running worker has been at its item.",
            QUEUE,
        ),
    )
}

fn informers(registry: &Registry) -> (IntGaugeVec, HistogramVec, GaugeVec) {
    (
        int_gauge(
            registry,
            Alpha,
            "informer_queued_items",
            "Number of events received and not yet handled.",
            INFORMER,
        ),
        histogram(
            registry,
            Alpha,
            "informer_processing_latency_seconds",
            "How long in seconds the handling of events takes.",
            INFORMER,
            &INFORMER_SECONDS,
        ),
        gauge(
            registry,
            Alpha,
            "informer_store_resource_version",
            "The 15 least significant digits of the store's resource version.",
            INFORMER,
        ),
    )
}

fn leaders(registry: &Registry) -> (IntGaugeVec, IntCounterVec) {
    (
        int_gauge(
            registry,
            Alpha,
            "leader_election_master_status",
            "1 while this process holds the lease 'name', 0 while it stands by.",
            QUEUE,
        ),
        counter(
            registry,
            Alpha,
            "leader_election_slowpath_total",
            "Number of renewals of the lease 'name' that had to read it first.",
            QUEUE,
        ),
    )
}

fn counter(
    registry: &Registry,
    stability: Stability,
    name: &str,
    help: &str,
    labels: &[&str],
) -> IntCounterVec {
    let options = Opts::new(name, stability.mark(help));
    added(registry, IntCounterVec::new(options, labels))
}

fn int_gauge(
    registry: &Registry,
    stability: Stability,
    name: &str,
    help: &str,
    labels: &[&str],
) -> IntGaugeVec {
    let options = Opts::new(name, stability.mark(help));
    added(registry, IntGaugeVec::new(options, labels))
}

fn gauge(
    registry: &Registry,
    stability: Stability,
    name: &str,
    help: &str,
    labels: &[&str],
) -> GaugeVec {
    let options = Opts::new(name, stability.mark(help));
    added(registry, GaugeVec::new(options, labels))
}

fn histogram(
    registry: &Registry,
    stability: Stability,
    name: &str,
    help: &str,
    labels: &[&str],
    buckets: &[f64],
) -> HistogramVec {
    let options = HistogramOpts::new(name, stability.mark(help)).buckets(buckets.to_vec());
    added(registry, HistogramVec::new(options, labels))
}

fn added<C: Collector + Clone + 'static>(registry: &Registry, family: prometheus::Result<C>) -> C {
    let family = family.expect("the names in this file are valid");
    registry
        .register(Box::new(family.clone()))
        .expect("the names in this file are distinct");
    family
}
