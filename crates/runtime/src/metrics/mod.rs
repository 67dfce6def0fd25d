//! What the process measures, under upstream's names, labels and buckets.
//!
//! Dashboards and alerts made for kube-controller-manager keep working, so names, help texts'
//! stability marks, label names and bucket bounds are theirs. Each part of the program takes a
//! handle once ([`Metrics::queue`], [`Metrics::informer`], …) and counts through atomics from then
//! on: nothing is looked up or allocated where work is done.

mod families;
mod handles;
mod text;

pub use handles::{
    ControllerMetrics, EventMetrics, InformerMetrics, LeaderMetrics, QueueMetrics, ReconcileResult,
    Unfinished,
};
pub use text::CONTENT_TYPE;

use parking_lot::Mutex;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use api::ResourceType;
use prometheus::core::Collector;
use prometheus::{GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

use crate::pending_work::PendingWork;
use families::Families;

/// All metrics of one process, or of one simulated process. Cheap to clone.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    families: Families,
    rest: client::Metrics,
    /// Run before each scrape, for values that are computed instead of kept. One that answers
    /// false belongs to something that is gone, and is dropped.
    before_scrape: Mutex<Vec<Box<dyn FnMut() -> bool + Send>>>,
    /// Families that controllers asked for. Controllers are built anew for each term of leadership,
    /// and go on counting where the last term ended.
    asked_for: Mutex<BTreeMap<String, (Shape, Box<dyn Any + Send>)>>,
    pending_work: PendingWork,
}

/// Upstream's promise of how long a metric keeps its name; scrapers see it in the help text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    Alpha,
    Beta,
    Stable,
}

/// What a family looks like, whether or not it has samples yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    pub kind: &'static str,
    /// In the order in which scrapers see them.
    pub labels: Vec<String>,
    pub buckets: Vec<f64>,
}

impl Metrics {
    pub fn new() -> Metrics {
        let registry = Registry::new();
        let families = Families::register(&registry);
        let rest = client::Metrics::register(&registry)
            .expect("the client's families have names of their own");
        Metrics(Arc::new(Inner {
            registry,
            families,
            rest,
            before_scrape: Mutex::new(Vec::new()),
            asked_for: Mutex::default(),
            pending_work: PendingWork::default(),
        }))
    }

    /// Everything measured so far in the Prometheus text format 0.0.4.
    pub fn render(&self) -> String {
        self.lock_hooks().retain_mut(|hook| hook());
        text::render(&self.0.registry.gather())
    }

    /// What is unfinished in the queues that are measured here.
    pub fn pending_work(&self) -> &PendingWork {
        &self.0.pending_work
    }

    /// Where others register families of their own.
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// Runs before each scrape until it answers false.
    pub fn before_scrape(&self, hook: impl FnMut() -> bool + Send + 'static) {
        self.lock_hooks().push(Box::new(hook));
    }

    /// The handle of the work queue `name`.
    pub fn queue(&self, name: &str) -> QueueMetrics {
        QueueMetrics::new(self, &self.0.families, name)
    }

    /// The handle of an informer. `name` tells apart the informer factories of a process; upstream's
    /// controller manager has one, named after itself.
    pub fn informer(&self, name: &str, resource: &ResourceType) -> InformerMetrics {
        InformerMetrics::new(&self.0.families, name, resource)
    }

    pub fn controller(&self, name: &str) -> ControllerMetrics {
        ControllerMetrics::new(&self.0.families, name)
    }

    pub fn leader(&self, lease: &str) -> LeaderMetrics {
        LeaderMetrics::new(&self.0.families, lease)
    }

    pub fn events(&self, component: &str) -> EventMetrics {
        EventMetrics::new(&self.0.families, component)
    }

    /// The `rest_client_*` families, for [`client::Client::with_metrics`].
    pub fn rest(&self) -> &client::Metrics {
        &self.0.rest
    }

    /// A family of counters for a controller. Asking again gives the same family. Asking for another
    /// one by the same name gives a family that is not registered, and logs that: that is a
    /// mistake in our code.
    pub fn counter(
        &self,
        name: &str,
        help: &str,
        stability: Stability,
        labels: &[&str],
    ) -> IntCounterVec {
        let family = IntCounterVec::new(Opts::new(name, stability.mark(help)), labels)
            .expect("metric and label names in our code are valid");
        self.register(name, Shape::new("counter", labels, &[]), family)
    }

    /// A family of gauges for a controller; see [`Metrics::counter`].
    pub fn gauge(&self, name: &str, help: &str, stability: Stability, labels: &[&str]) -> GaugeVec {
        let family = GaugeVec::new(Opts::new(name, stability.mark(help)), labels)
            .expect("metric and label names in our code are valid");
        self.register(name, Shape::new("gauge", labels, &[]), family)
    }

    /// A family of histograms for a controller; see [`Metrics::counter`].
    pub fn histogram(
        &self,
        name: &str,
        help: &str,
        stability: Stability,
        labels: &[&str],
        buckets: &[f64],
    ) -> HistogramVec {
        let options = HistogramOpts::new(name, stability.mark(help)).buckets(buckets.to_vec());
        let family = HistogramVec::new(options, labels)
            .expect("metric and label names and buckets in our code are valid");
        self.register(name, Shape::new("histogram", labels, buckets), family)
    }

    /// The families that were asked for by name so far.
    pub fn asked_for(&self) -> BTreeMap<String, Shape> {
        let held = self.0.asked_for.lock();
        held.iter()
            .map(|(name, (shape, _))| (name.clone(), shape.clone()))
            .collect()
    }

    fn register<C: Collector + Clone + 'static>(&self, name: &str, shape: Shape, family: C) -> C {
        let mut held = self.0.asked_for.lock();
        let known = held
            .get(name)
            .and_then(|(_, known)| known.downcast_ref::<C>());
        if let Some(known) = known.filter(|known| same_shape(*known, &family)) {
            return known.clone();
        }
        match self.0.registry.register(Box::new(family.clone())) {
            Ok(()) => {
                held.insert(name.to_owned(), (shape, Box::new(family.clone())));
            }
            Err(error) => {
                tracing::error!(name, %error, "metric is registered twice and will not be scraped");
            }
        }
        family
    }

    fn lock_hooks(&self) -> parking_lot::MutexGuard<'_, Vec<Box<dyn FnMut() -> bool + Send>>> {
        self.0.before_scrape.lock()
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

impl Shape {
    fn new(kind: &'static str, labels: &[&str], buckets: &[f64]) -> Shape {
        let mut labels: Vec<String> = labels.iter().map(ToString::to_string).collect();
        labels.sort();
        Shape {
            kind,
            labels,
            buckets: buckets.to_vec(),
        }
    }
}

impl Stability {
    fn mark(self, help: &str) -> String {
        let mark = match self {
            Stability::Alpha => "ALPHA",
            Stability::Beta => "BETA",
            Stability::Stable => "STABLE",
        };
        format!("[{mark}] {help}")
    }
}

/// Equal help text and label names.
fn same_shape(one: &impl Collector, two: &impl Collector) -> bool {
    let shape = |family: &dyn Collector| {
        let all: Vec<u64> = family.desc().iter().map(|desc| desc.dim_hash).collect();
        all
    };
    shape(one) == shape(two)
}

#[cfg(test)]
mod tests;
