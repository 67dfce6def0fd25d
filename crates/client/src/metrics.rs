//! The `rest_client_*` metrics, with upstream's names, labels and buckets.

use std::time::Duration;

use http::Method;
use prometheus::{
    Gauge, Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry,
};

use crate::Error;

/// The metrics of all clients of a process. Cheap to clone; give it to each client with the host it talks to.
#[derive(Clone)]
pub struct Metrics {
    requests: IntCounterVec,
    retries: IntCounterVec,
    duration: HistogramVec,
    waiting: HistogramVec,
    request_size: HistogramVec,
    response_size: HistogramVec,
    transports: IntGauge,
    transports_created: IntCounterVec,
}

const SECONDS: &[f64] = &[
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];

/// 64 bytes to 16 MiB.
const BYTES: &[f64] = &[
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];

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

impl Metrics {
    /// Creates them all in a registry. They can be there only once.
    pub fn register(registry: &Registry) -> Result<Metrics, prometheus::Error> {
        let histogram = |name: &str, help: &str, buckets: &[f64]| {
            let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
            let histogram = HistogramVec::new(options, &["verb", "host"])?;
            registry.register(Box::new(histogram.clone()))?;
            Ok::<_, prometheus::Error>(histogram)
        };
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let transports = IntGauge::new(
            "rest_client_transport_cache_entries",
            "Transports that are in use.",
        )?;
        registry.register(Box::new(transports.clone()))?;
        register_plugin_metrics(registry)?;
        Ok(Metrics {
            requests: counter(
                "rest_client_requests_total",
                "HTTP requests by status code, method and host.",
                &["code", "method", "host"],
            )?,
            retries: counter(
                "rest_client_request_retries_total",
                "Requests sent again, by status code, verb and host.",
                &["code", "verb", "host"],
            )?,
            duration: histogram(
                "rest_client_request_duration_seconds",
                "How long requests took, retries and throttling included, by verb and host.",
                SECONDS,
            )?,
            waiting: histogram(
                "rest_client_rate_limiter_duration_seconds",
                "How long requests waited for their turn on our side, by verb and host.",
                SECONDS,
            )?,
            request_size: histogram(
                "rest_client_request_size_bytes",
                "Size of request bodies by verb and host.",
                BYTES,
            )?,
            response_size: histogram(
                "rest_client_response_size_bytes",
                "Size of response bodies by verb and host.",
                BYTES,
            )?,
            transports,
            transports_created: counter(
                "rest_client_transport_create_calls_total",
                "Transports asked for, by whether there was one (hit) or one was made (miss).",
                &["result"],
            )?,
        })
    }

    /// Someone needed a transport; say whether there was one already.
    pub fn transport_asked_for(&self, found: bool) {
        let result = if found { "hit" } else { "miss" };
        self.transports_created.with_label_values(&[result]).inc();
        if !found {
            self.transports.inc();
        }
    }

    pub(crate) fn for_host(&self, host: &str) -> HostMetrics {
        HostMetrics {
            metrics: self.clone(),
            host: host.into(),
        }
    }
}

/// Upstream shows these two even where no exec plugin is configured: certificates that never expire, none rotated.
fn register_plugin_metrics(registry: &Registry) -> Result<(), prometheus::Error> {
    let ttl = Gauge::new(
        "rest_client_exec_plugin_ttl_seconds",
        "Seconds until the first certificate of an exec plugin expires; infinite without one.",
    )?;
    ttl.set(f64::INFINITY);
    registry.register(Box::new(ttl))?;
    let options = HistogramOpts::new(
        "rest_client_exec_plugin_certificate_rotation_age",
        "How long certificates of exec plugins lived before they were rotated, in seconds.",
    );
    let ages = Histogram::with_opts(options.buckets(CERTIFICATE_AGES.to_vec()))?;
    registry.register(Box::new(ages))
}

/// The metrics of the clients of one host.
#[derive(Clone)]
pub(crate) struct HostMetrics {
    metrics: Metrics,
    host: std::sync::Arc<str>,
}

impl HostMetrics {
    pub(crate) fn attempted(
        &self,
        method: &Method,
        request_bytes: usize,
        code: Result<u16, &Error>,
    ) {
        let code = code_label(code);
        self.metrics
            .requests
            .with_label_values(&[code.as_str(), method.as_str(), &self.host])
            .inc();
        if request_bytes > 0 {
            self.observe(&self.metrics.request_size, method, request_bytes as f64);
        }
    }

    pub(crate) fn retried(&self, method: &Method, error: &Error) {
        let code = code_label(Err(error));
        self.metrics
            .retries
            .with_label_values(&[code.as_str(), method.as_str(), &self.host])
            .inc();
    }

    pub(crate) fn waited(&self, method: &Method, waited: Duration) {
        self.observe(&self.metrics.waiting, method, waited.as_secs_f64());
    }

    pub(crate) fn finished(&self, method: &Method, took: Duration) {
        self.observe(&self.metrics.duration, method, took.as_secs_f64());
    }

    pub(crate) fn received(&self, method: &Method, response_bytes: usize) {
        self.observe(&self.metrics.response_size, method, response_bytes as f64);
    }

    fn observe(&self, histogram: &HistogramVec, method: &Method, value: f64) {
        histogram
            .with_label_values(&[method.as_str(), &self.host])
            .observe(value);
    }
}

/// UPSTREAM: a request without an answer counts under this code.
fn code_label(code: Result<u16, &Error>) -> String {
    let code = match code {
        Ok(code) => Some(code),
        Err(error) => error.status().map(|status| status.code),
    };
    code.map_or_else(|| "<error>".to_owned(), |code| code.to_string())
}
