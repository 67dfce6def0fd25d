//! Figures of endpoint slices, under upstream's names.

use api::Key;
use api::collections::HashMap;
use api::kinds::Service;
use api::{Istr, Resource};
use parking_lot::Mutex;
use prometheus::{Gauge, GaugeVec, Histogram, HistogramVec, IntCounterVec};
use runtime::metrics::Stability;
use runtime::{Error, Metrics};

use super::plan::Plan;
use super::snapshot::Closeness;

pub struct SliceMetrics {
    added: Histogram,
    removed: Histogram,
    endpoints: Gauge,
    slices: Gauge,
    ideal_slices: Gauge,
    pub changes: IntCounterVec,
    changed: HistogramVec,
    syncs: IntCounterVec,
    by_distribution: GaugeVec,
    services: Mutex<HashMap<Key, Figures>>,
}

/// What a service counts for.
#[derive(Clone, Debug, Default)]
struct Figures {
    endpoints: usize,
    slices: usize,
    ideal_slices: usize,
    distribution: Option<Istr>,
}

impl SliceMetrics {
    pub fn new(metrics: &Metrics) -> SliceMetrics {
        let named = |name: &str| format!("endpoint_slice_controller_{name}");
        let (beta, alpha) = (Stability::Beta, Stability::Alpha);
        let none: [&str; 0] = [];
        // 2, doubled fourteen times: upstream's buckets.
        let buckets: Vec<f64> = (1..=15).map(|power| f64::from(1 << power)).collect();
        let per_sync = |name: &str, help: &str| {
            let family = metrics.histogram(&named(name), help, beta, &[], &buckets);
            family.with_label_values(&none)
        };
        let gauge = |name: &str, help: &str| {
            let family = metrics.gauge(&named(name), help, beta, &[]);
            family.with_label_values(&none)
        };
        let counter = |name: &str, help: &str, label: &str| {
            metrics.counter(&named(name), help, alpha, &[label])
        };
        SliceMetrics {
            added: per_sync("endpoints_added_per_sync", "Endpoints that a sync added"),
            removed: per_sync(
                "endpoints_removed_per_sync",
                "Endpoints that a sync removed",
            ),
            endpoints: gauge("endpoints_desired", "Endpoints that services should have"),
            slices: gauge("num_endpoint_slices", "Slices that services have"),
            ideal_slices: gauge(
                "desired_endpoint_slices",
                "Slices that services would have if all were full",
            ),
            changes: counter("changes", "Slices that were written", "operation"),
            changed: metrics.histogram(
                &named("endpointslices_changed_per_sync"),
                "Slices that a sync wrote",
                alpha,
                &["topology", "traffic_distribution"],
                &[],
            ),
            syncs: counter(
                "syncs",
                "Services that were looked at, by how it went",
                "result",
            ),
            by_distribution: metrics.gauge(
                &named("services_count_by_traffic_distribution"),
                "Services by the distribution of traffic that they ask for",
                beta,
                &["traffic_distribution"],
            ),
            services: Mutex::default(),
        }
    }

    pub fn synced(&self, error: Option<&Error>) {
        let result = match error {
            None => "success",
            Some(Error::Stale { .. }) => "stale",
            Some(_) => "error",
        };
        self.syncs.with_label_values(&[result]).inc();
    }

    /// So many slices of a family were written.
    pub fn changed(&self, service: &Service, closeness: Closeness, count: usize) {
        let topology = match closeness {
            Closeness::Proportional => "Auto",
            _ => "Disabled",
        };
        let distribution = distribution(service, closeness);
        let distribution = distribution.as_deref().unwrap_or_default();
        self.changed
            .with_label_values(&[topology, distribution])
            .observe(count as f64);
    }

    pub fn planned(&self, service: &Service, plan: &Plan<'_>) {
        let mut figures = Figures {
            distribution: distribution(service, plan.closeness),
            ..Figures::default()
        };
        for family in &plan.families {
            self.added.observe(family.added as f64);
            self.removed.observe(family.removed as f64);
            figures.endpoints += family.desired.endpoints.len();
            figures.slices += family.slices();
            figures.ideal_slices += family.ideal_slices;
        }
        self.replace(&service.key(), Some(figures));
    }

    pub fn forget(&self, key: &Key) {
        self.replace(key, None);
    }

    fn replace(&self, key: &Key, figures: Option<Figures>) {
        let mut services = self.services.lock();
        let before = match figures.clone() {
            Some(figures) => services.insert(key.clone(), figures),
            None => services.remove(key),
        };
        let (before, after) = (before.unwrap_or_default(), figures.unwrap_or_default());
        let difference = |after: usize, before: usize| after as f64 - before as f64;
        self.endpoints
            .add(difference(after.endpoints, before.endpoints));
        self.slices.add(difference(after.slices, before.slices));
        self.ideal_slices
            .add(difference(after.ideal_slices, before.ideal_slices));
        if before.distribution != after.distribution {
            let count = |name: &Option<Istr>, by: f64| {
                if let Some(name) = name {
                    self.by_distribution.with_label_values(&[&**name]).add(by);
                }
            };
            count(&before.distribution, -1.0);
            count(&after.distribution, 1.0);
        }
    }
}

/// The distribution that decides about hints.
fn distribution(service: &Service, closeness: Closeness) -> Option<Istr> {
    let asked = service.spec.traffic_distribution.clone();
    asked.filter(|_| closeness.is_distribution())
}
