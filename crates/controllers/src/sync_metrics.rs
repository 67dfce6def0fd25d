//! How often a publisher looked, and how long that took, by the code of the answer.

use prometheus::{HistogramVec, IntCounterVec};
use runtime::Metrics;
use runtime::metrics::Stability;
use tokio::time::Instant;

pub(crate) struct SyncMetrics {
    syncs: IntCounterVec,
    seconds: HistogramVec,
}

impl SyncMetrics {
    /// Names and helps of the two families.
    pub fn new(metrics: &Metrics, total: [&str; 2], duration: [&str; 2]) -> SyncMetrics {
        // 1 ms, doubled fourteen times: upstream's buckets.
        let buckets: Vec<f64> = (0..15).map(|power| 0.001 * f64::from(1 << power)).collect();
        let alpha = Stability::Alpha;
        SyncMetrics {
            syncs: metrics.counter(total[0], total[1], alpha, &["code"]),
            seconds: metrics.histogram(duration[0], duration[1], alpha, &["code"], &buckets),
        }
    }

    pub fn on_sync(&self, start: Instant, error: Option<&client::Error>) {
        let code = match error {
            None => 200,
            Some(error) => error.status().map_or(500, |status| status.code),
        };
        let code = code.to_string();
        self.syncs.with_label_values(&[&code]).inc();
        let seconds = start.elapsed().as_secs_f64();
        self.seconds.with_label_values(&[&code]).observe(seconds);
    }
}
