//! Figures of mirrored slices, under upstream's names.

use std::time::Duration;

use api::Key;
use api::collections::HashMap;
use parking_lot::Mutex;
use prometheus::{Gauge, Histogram, IntCounterVec};
use runtime::Metrics;
use runtime::metrics::Stability;

use super::plan::Counts;

pub struct MirrorMetrics {
    added: Histogram,
    updated: Histogram,
    removed: Histogram,
    skipped: Histogram,
    seconds: Histogram,
    endpoints: Gauge,
    slices: Gauge,
    ideal_slices: Gauge,
    pub changes: IntCounterVec,
    mirrored: Mutex<HashMap<Key, Counts>>,
}

impl MirrorMetrics {
    pub fn new(metrics: &Metrics) -> MirrorMetrics {
        let named = |name: &str| format!("endpoint_slice_mirroring_controller_{name}");
        let none: [&str; 0] = [];
        let alpha = Stability::Alpha;
        // 2, and 1 ms, doubled fourteen times: upstream's buckets.
        let counts: Vec<f64> = (1..=15).map(|power| f64::from(1 << power)).collect();
        let seconds: Vec<f64> = (0..15).map(|power| 0.001 * f64::from(1 << power)).collect();
        let histogram = |name: &str, help: &str, buckets: &[f64]| {
            let family = metrics.histogram(&named(name), help, alpha, &[], buckets);
            family.with_label_values(&none)
        };
        let gauge = |name: &str, help: &str| {
            let family = metrics.gauge(&named(name), help, alpha, &[]);
            family.with_label_values(&none)
        };
        MirrorMetrics {
            added: histogram(
                "endpoints_added_per_sync",
                "Endpoints that a sync added",
                &counts,
            ),
            updated: histogram(
                "endpoints_updated_per_sync",
                "Endpoints that a sync changed",
                &counts,
            ),
            removed: histogram(
                "endpoints_removed_per_sync",
                "Endpoints that a sync removed",
                &counts,
            ),
            skipped: histogram(
                "addresses_skipped_per_sync",
                "Addresses that are not mirrored",
                &counts,
            ),
            seconds: histogram("endpoints_sync_duration", "How long a sync took", &seconds),
            endpoints: gauge("endpoints_desired", "Endpoints that are to be mirrored"),
            slices: gauge("num_endpoint_slices", "Slices that mirror Endpoints"),
            ideal_slices: gauge(
                "desired_endpoint_slices",
                "Slices there would be if all were full",
            ),
            changes: metrics.counter(
                &named("changes"),
                "Slices that were written",
                alpha,
                &["operation"],
            ),
            mirrored: Mutex::default(),
        }
    }

    pub fn took(&self, took: Duration) {
        self.seconds.observe(took.as_secs_f64());
    }

    pub fn planned(&self, key: &Key, counts: Counts) {
        self.added.observe(counts.added as f64);
        self.updated.observe(counts.updated as f64);
        self.removed.observe(counts.removed as f64);
        self.skipped.observe(counts.skipped as f64);
        let before = self.mirrored.lock().insert(key.clone(), counts);
        self.replace(before.unwrap_or_default(), counts);
    }

    pub fn forget(&self, key: &Key) {
        if let Some(before) = self.mirrored.lock().remove(key) {
            self.replace(before, Counts::default());
        }
    }

    fn replace(&self, before: Counts, after: Counts) {
        let difference = |after: usize, before: usize| after as f64 - before as f64;
        self.endpoints
            .add(difference(after.endpoints, before.endpoints));
        self.slices.add(difference(after.slices, before.slices));
        self.ideal_slices
            .add(difference(after.ideal_slices, before.ideal_slices));
    }
}
