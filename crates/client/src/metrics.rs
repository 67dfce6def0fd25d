//! The `rest_client_*` metrics, with upstream's names, labels and buckets.

mod transport;

pub(crate) use transport::{AuthorityReload, Expiry, PluginCall, TransportMetrics};

use std::time::Duration;

use http::Method;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

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
    transport: TransportMetrics,
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
            transport: TransportMetrics::register(registry)?,
        })
    }

    pub(crate) fn transport(&self) -> &TransportMetrics {
        &self.transport
    }

    pub(crate) fn for_host(&self, host: &str) -> HostMetrics {
        self.transport.asked_for(true);
        HostMetrics {
            metrics: self.clone(),
            host: host.into(),
        }
    }
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

#[cfg(test)]
mod tests;
