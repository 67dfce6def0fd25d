//! What is measured below the requests: names that are looked up, exec plugins that are run, certificates that change.

use parking_lot::{Mutex, MutexGuard};
use std::sync::{Arc, Weak};
use std::time::Duration;

use api::MicroTime;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{
    Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts,
    Registry,
};

/// The metrics of all transports of a process. Cheap to clone.
#[derive(Clone)]
pub(crate) struct TransportMetrics {
    transports: IntGauge,
    asked_for: IntCounterVec,
    resolution: HistogramVec,
    plugin_calls: IntCounterVec,
    rotation_age: Histogram,
    expiries: Expiries,
    authority_reloads: IntCounterVec,
    rotations_collected: IntCounter,
}

/// A lookup takes as long as a name server does.
const RESOLUTION_SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0];

/// Ten minutes to four years.
const CERTIFICATE_AGES: &[f64] = &[
    600.0,
    1800.0,
    3600.0,
    14400.0,
    86400.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
    124_416_000.0,
];

/// How a run of an exec plugin ended, in upstream's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PluginCall {
    Succeeded,
    /// With this exit code.
    Failed(i32),
    NotFound,
    /// It could not be run to its end, for whatever reason.
    Broken,
}

/// How the certificate authorities were read again, in upstream's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuthorityReload {
    Updated,
    Unreadable,
    Unusable,
}

impl TransportMetrics {
    /// Metrics that nobody scrapes.
    pub(crate) fn unseen() -> Result<TransportMetrics, prometheus::Error> {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            IntCounterVec::new(Opts::new(name, help), labels)
        };
        let buckets = |name: &str, help: &str, bounds: &[f64]| {
            HistogramOpts::new(name, help).buckets(bounds.to_vec())
        };
        Ok(TransportMetrics {
            transports: IntGauge::new(
                "rest_client_transport_cache_entries",
                "Transports that are in use.",
            )?,
            asked_for: counter(
                "rest_client_transport_create_calls_total",
                "Transports asked for, by whether there was one (hit) or one was made (miss).",
                &["result"],
            )?,
            resolution: HistogramVec::new(
                buckets(
                    "rest_client_dns_resolution_duration_seconds",
                    "How long it took to look up names, by host.",
                    RESOLUTION_SECONDS,
                ),
                &["host"],
            )?,
            plugin_calls: counter(
                "rest_client_exec_plugin_call_total",
                "Runs of exec plugins by exit code and how they ended.",
                &["code", "call_status"],
            )?,
            rotation_age: Histogram::with_opts(buckets(
                "rest_client_exec_plugin_certificate_rotation_age",
                "How long certificates of exec plugins lived before they were rotated, in seconds.",
                CERTIFICATE_AGES,
            ))?,
            expiries: Expiries::new()?,
            authority_reloads: counter(
                "rest_client_transport_ca_reload_total",
                "How often certificate authorities were read again, by result and reason.",
                &["result", "reason"],
            )?,
            rotations_collected: IntCounter::new(
                "rest_client_transport_cert_rotation_gc_calls_total",
                "Transports that were collected as garbage: none here, they end with their last user.",
            )?,
        })
    }

    pub(crate) fn register(registry: &Registry) -> Result<TransportMetrics, prometheus::Error> {
        let metrics = TransportMetrics::unseen()?;
        let families: [Box<dyn Collector>; 8] = [
            Box::new(metrics.transports.clone()),
            Box::new(metrics.asked_for.clone()),
            Box::new(metrics.resolution.clone()),
            Box::new(metrics.plugin_calls.clone()),
            Box::new(metrics.rotation_age.clone()),
            Box::new(metrics.expiries.clone()),
            Box::new(metrics.authority_reloads.clone()),
            Box::new(metrics.rotations_collected.clone()),
        ];
        for family in families {
            registry.register(family)?;
        }
        Ok(metrics)
    }

    /// Someone needed a transport; was there one already?
    pub(crate) fn asked_for(&self, found: bool) {
        let result = if found { "hit" } else { "miss" };
        self.asked_for.with_label_values(&[result]).inc();
        if !found {
            self.transports.inc();
        }
    }

    pub(crate) fn resolved(&self, host: &str, took: Duration) {
        let histogram = self.resolution.with_label_values(&[host]);
        histogram.observe(took.as_secs_f64());
    }

    // UPSTREAM: a plugin that never ran counts with exit code 1, so that any other code than 0 is a failure.
    pub(crate) fn plugin_called(&self, call: PluginCall) {
        let (code, status) = match call {
            PluginCall::Succeeded => (0, "no_error"),
            PluginCall::Failed(code) => (code, "plugin_execution_error"),
            PluginCall::NotFound => (1, "plugin_not_found_error"),
            PluginCall::Broken => (1, "client_internal_error"),
        };
        self.plugin_calls
            .with_label_values(&[code.to_string().as_str(), status])
            .inc();
    }

    pub(crate) fn certificate_rotated(&self, age: Duration) {
        self.rotation_age.observe(age.as_secs_f64());
    }

    pub(crate) fn authorities_reloaded(&self, outcome: AuthorityReload) {
        let labels = match outcome {
            AuthorityReload::Updated => ["success", "updated"],
            AuthorityReload::Unreadable => ["failure", "read_error"],
            AuthorityReload::Unusable => ["failure", "ca_parse_error"],
        };
        self.authority_reloads.with_label_values(&labels).inc();
    }

    /// Where a transport says when the certificate of its plugin expires.
    pub(crate) fn expiry(&self, clock: &api::Clock) -> Expiry {
        let expiry = Expiry(Arc::new(Known {
            at: Mutex::new(None),
            clock: clock.clone(),
        }));
        let mut known = self.expiries.lock();
        known.retain(|other| other.strong_count() > 0);
        known.push(Arc::downgrade(&expiry.0));
        drop(known);
        expiry
    }
}

/// When one transport's certificate expires; forgotten with the transport.
pub(crate) struct Expiry(Arc<Known>);

struct Known {
    at: Mutex<Option<MicroTime>>,
    clock: api::Clock,
}

impl Expiry {
    pub(crate) fn set(&self, at: Option<MicroTime>) {
        *self.0.at.lock() = at;
    }
}

impl Known {
    /// Negative once it has passed.
    fn seconds_left(&self) -> Option<f64> {
        let at = (*self.at.lock())?;
        let micros = at.unix_micros() - self.clock.now().unix_micros();
        Some(micros as f64 / 1e6)
    }
}

/// The gauge of the first expiry, computed when it is read.
#[derive(Clone)]
struct Expiries {
    gauge: Gauge,
    known: Arc<Mutex<Vec<Weak<Known>>>>,
}

impl Expiries {
    fn new() -> Result<Expiries, prometheus::Error> {
        let gauge = Gauge::new(
            "rest_client_exec_plugin_ttl_seconds",
            "Seconds until the first certificate of an exec plugin expires; infinite without one.",
        )?;
        Ok(Expiries {
            gauge,
            known: Arc::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Known>>> {
        self.known.lock()
    }
}

impl Collector for Expiries {
    fn desc(&self) -> Vec<&Desc> {
        self.gauge.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let known: Vec<Arc<Known>> = self.lock().iter().filter_map(Weak::upgrade).collect();
        let left = known.iter().filter_map(|known| known.seconds_left());
        self.gauge.set(left.fold(f64::INFINITY, f64::min));
        self.gauge.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(registry: &Registry) -> f64 {
        let families = registry.gather();
        let family = families
            .iter()
            .find(|family| family.name() == "rest_client_exec_plugin_ttl_seconds");
        family.unwrap().get_metric()[0].get_gauge().get_value()
    }

    #[test]
    fn the_first_certificate_to_expire_counts_while_its_transport_lives() {
        let registry = Registry::new();
        let metrics = TransportMetrics::register(&registry).unwrap();
        let clock = api::Clock::fixed(api::Time::from_unix(1000));
        assert_eq!(left(&registry), f64::INFINITY);
        let (near, far) = (metrics.expiry(&clock), metrics.expiry(&clock));
        let at = |seconds| Some(api::Time::from_unix(seconds).micro());
        near.set(at(990));
        far.set(at(4600));
        assert_eq!(left(&registry), -10.0);
        drop(near);
        assert_eq!(left(&registry), 3600.0);
        far.set(None);
        assert_eq!(left(&registry), f64::INFINITY);
    }
}
