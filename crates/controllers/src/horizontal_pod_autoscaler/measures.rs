//! What is measured of the autoscalers: upstream's names, labels and buckets.

use std::time::Duration;

use prometheus::{GaugeVec, HistogramVec, IntCounterVec};
use runtime::Metrics;
use runtime::metrics::Stability;

#[derive(Clone)]
pub(super) struct Measures {
    reconciliations: IntCounterVec,
    reconciliation_seconds: HistogramVec,
    computations: IntCounterVec,
    computation_seconds: HistogramVec,
    autoscalers: GaugeVec,
    desired: GaugeVec,
}

/// What came of a sync, or of one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Fine,
    Spec,
    Internal,
}

impl Outcome {
    fn label(self) -> &'static str {
        match self {
            Outcome::Fine => "none",
            Outcome::Spec => "spec",
            Outcome::Internal => "internal",
        }
    }
}

impl Measures {
    pub(super) fn new(metrics: &Metrics) -> Measures {
        // A millisecond, doubled fourteen times: upstream's buckets.
        let buckets: Vec<f64> = (0..15).map(|power| 0.001 * f64::from(1 << power)).collect();
        Measures {
            reconciliations: metrics.counter(
                "horizontal_pod_autoscaler_controller_reconciliations_total",
                "Syncs of autoscalers, by what was done ('scale_down', 'scale_up', 'none') and what went wrong ('spec', 'internal', 'none')",
                Stability::Beta,
                &["action", "error"],
            ),
            reconciliation_seconds: metrics.histogram(
                "horizontal_pod_autoscaler_controller_reconciliation_duration_seconds",
                "How long a sync of an autoscaler took, by what was done and what went wrong",
                Stability::Beta,
                &["action", "error"],
                &buckets,
            ),
            computations: metrics.counter(
                "horizontal_pod_autoscaler_controller_metric_computation_total",
                "Metrics that were evaluated, by what they asked for, what went wrong and their type",
                Stability::Beta,
                &["action", "error", "metric_type"],
            ),
            computation_seconds: metrics.histogram(
                "horizontal_pod_autoscaler_controller_metric_computation_duration_seconds",
                "How long it took to read and evaluate a metric, by what it asked for, what went wrong and its type",
                Stability::Beta,
                &["action", "error", "metric_type"],
                &buckets,
            ),
            autoscalers: metrics.gauge(
                "horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers",
                "How many autoscalers there are",
                Stability::Alpha,
                &[],
            ),
            desired: metrics.gauge(
                "horizontal_pod_autoscaler_controller_desired_replicas",
                "How many replicas an autoscaler last asked for",
                Stability::Alpha,
                &["namespace", "hpa_name"],
            ),
        }
    }

    pub(super) fn on_sync(&self, change: i32, outcome: Outcome, took: Duration) {
        let labels = [action(change), outcome.label()];
        self.reconciliations.with_label_values(&labels).inc();
        self.reconciliation_seconds
            .with_label_values(&labels)
            .observe(took.as_secs_f64());
    }

    pub(super) fn on_metric(&self, change: i32, outcome: Outcome, kind: &str, took: Duration) {
        let labels = [action(change), outcome.label(), kind];
        self.computations.with_label_values(&labels).inc();
        self.computation_seconds
            .with_label_values(&labels)
            .observe(took.as_secs_f64());
    }

    pub(super) fn set_count(&self, autoscalers: usize) {
        let none: [&str; 0] = [];
        let count = u32::try_from(autoscalers).unwrap_or(u32::MAX);
        self.autoscalers
            .with_label_values(&none)
            .set(f64::from(count));
    }

    pub(super) fn set_desired(&self, namespace: &str, name: &str, replicas: i32) {
        let labels = [namespace, name];
        self.desired
            .with_label_values(&labels)
            .set(f64::from(replicas));
    }

    /// An autoscaler that is gone asks for nothing.
    pub(super) fn forget(&self, namespace: &str, name: &str) {
        // It may never have been measured.
        let _ = self.desired.remove_label_values(&[namespace, name]);
    }
}

fn action(change: i32) -> &'static str {
    match change {
        1.. => "scale_up",
        0 => "none",
        _ => "scale_down",
    }
}
