//! Somebody who asks for `/healthz` all the time, on a new connection each time, as a kubelet does.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use real_tests::Api;

/// Often enough that a short stall is seen.
const EVERY: Duration = Duration::from_millis(10);
/// What counts for a probe that is not answered at all: longer than any that is.
const UNANSWERED: f64 = 90.0;

pub(super) struct Health {
    stopping: Arc<AtomicBool>,
    thread: JoinHandle<Vec<f64>>,
}

impl Health {
    pub(super) fn start(server: SocketAddr, authority: &str) -> Health {
        let stopping = Arc::new(AtomicBool::new(false));
        let (told, authority) = (Arc::clone(&stopping), authority.to_owned());
        let thread = std::thread::spawn(move || {
            let mut took = Vec::new();
            while !told.load(Ordering::Relaxed) {
                let started = Instant::now();
                let healthy = Api::new(server, &authority, None)
                    .and_then(|api| api.send("GET", "/healthz", "application/json", &[]))
                    .is_ok_and(|answer| answer.status == 200);
                took.push(if healthy {
                    started.elapsed().as_secs_f64()
                } else {
                    UNANSWERED
                });
                std::thread::sleep(EVERY);
            }
            took
        });
        Health { stopping, thread }
    }

    /// Ends it; the time within which 99 of 100 probes were answered, in seconds.
    pub(super) fn p99(self) -> Result<f64> {
        self.stopping.store(true, Ordering::Relaxed);
        let took = self.thread.join().unwrap_or_default();
        ensure!(!took.is_empty(), "nobody asked for /healthz");
        Ok(percentile(took))
    }
}

/// The worst where there are too few for a percentile.
fn percentile(mut took: Vec<f64>) -> f64 {
    took.sort_by(f64::total_cmp);
    took[(took.len() * 99 / 100).min(took.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_hundred_is_left_out_and_of_few_none() {
        let mut took = vec![0.1; 199];
        took.push(9.0);
        assert_eq!(percentile(took), 0.1);
        assert_eq!(percentile(vec![0.1, 9.0]), 9.0);
    }
}
