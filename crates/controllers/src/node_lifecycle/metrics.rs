//! What is measured of zones, under upstream's names.

use std::time::Duration;

use prometheus::{GaugeVec, Histogram, IntCounterVec};
use runtime::Metrics;
use runtime::metrics::Stability;

use super::zones::Count;

pub(super) struct LifecycleMetrics {
    size: GaugeVec,
    health: GaugeVec,
    down: GaugeVec,
    evictions: IntCounterVec,
    node: Histogram,
    all: Histogram,
}

impl LifecycleMetrics {
    pub(super) fn new(metrics: &Metrics) -> LifecycleMetrics {
        let gauge = |name: &str, help: &str| {
            let name = format!("node_collector_{name}");
            metrics.gauge(&name, help, Stability::Alpha, &["zone"])
        };
        // UPSTREAM: eight buckets, each four times as long as the one before.
        let durations = |name: &str, help: &str, first: f64| {
            let name = format!("node_collector_{name}_duration_seconds");
            let buckets: Vec<f64> = (0..8).map(|step| first * 4_f64.powi(step)).collect();
            let family = metrics.histogram(&name, help, Stability::Alpha, &[], &buckets);
            family.with_label_values::<&str>(&[])
        };
        LifecycleMetrics {
            size: gauge("zone_size", "Nodes of a zone"),
            health: gauge(
                "zone_health",
                "Share of a zone's nodes that are ready, in percent",
            ),
            down: gauge(
                "unhealthy_nodes_in_zone",
                "Nodes of a zone that are not ready",
            ),
            evictions: metrics.counter(
                "node_collector_evictions_total",
                "Nodes that were tainted so that their pods leave, since this process started",
                Stability::Stable,
                &["zone"],
            ),
            node: durations(
                "update_node_health",
                "Time to look at the health of a node",
                0.001,
            ),
            all: durations(
                "update_all_nodes_health",
                "Time to look at the health of all nodes",
                0.01,
            ),
        }
    }

    /// A zone that was not there before shows up with no evictions.
    pub(super) fn on_zone(&self, zone: &str) {
        self.evictions.with_label_values(&[zone]).inc_by(0);
    }

    pub(super) fn on_count(&self, zone: &str, count: Count) {
        let (down, size) = (count.down as f64, (count.ready + count.down) as f64);
        // Nobody is ill where nobody is.
        let health = if size > 0.0 {
            100.0 * (size - down) / size
        } else {
            100.0
        };
        self.size.with_label_values(&[zone]).set(size);
        self.health.with_label_values(&[zone]).set(health);
        self.down.with_label_values(&[zone]).set(down);
    }

    pub(super) fn on_eviction(&self, zone: &str) {
        self.evictions.with_label_values(&[zone]).inc();
    }

    pub(super) fn on_node(&self, took: Duration) {
        self.node.observe(took.as_secs_f64());
    }

    pub(super) fn on_all(&self, took: Duration) {
        self.all.observe(took.as_secs_f64());
    }
}
