//! How long a write takes to reach each of many watchers.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use real_tests::Api;
use serde_json::json;

use super::client::{self, Lines, Target};
use super::{NAMESPACE, one_thread};

const WATCHERS: usize = 1_000;
/// Each is seen by all watchers, so the 99th percentile is of 20,000 deliveries.
const WRITES: usize = 20;
/// Longer than opening all watches takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// The 99th percentile, in milliseconds.
pub(super) fn latency(api: &Api) -> Result<f64> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let revision = api.get(&path)?["metadata"]["resourceVersion"]
        .as_str()
        .context("no revision")?
        .to_owned();
    let watch = format!("{path}?watch=true&resourceVersion={revision}");
    let watch = client::request("GET", &watch, "");
    let crowd = Crowd::default();
    let mut latencies = std::thread::scope(|scope| -> Result<Vec<u64>> {
        let watching = scope.spawn(|| crowd.watch(&Target::of(api), &watch));
        let written = crowd.write(|number| {
            api.create(&path, &json!({"metadata": {"name": format!("w{number}")}}))
                .map(drop)
        });
        let latencies = watching
            .join()
            .map_err(|_| anyhow::anyhow!("a watcher panicked"))?;
        written.and(latencies)
    })?;
    latencies.sort_unstable();
    let p99 = latencies
        .get(latencies.len() * 99 / 100)
        .context("nothing was delivered")?;
    Ok(*p99 as f64 / 1e6)
}

/// What the writer and the watchers know of each other.
struct Crowd {
    origin: Instant,
    /// When the last write began, in nanoseconds.
    written: AtomicU64,
    open: AtomicUsize,
}

impl Default for Crowd {
    fn default() -> Crowd {
        Crowd {
            origin: Instant::now(),
            written: AtomicU64::new(0),
            open: AtomicUsize::new(0),
        }
    }
}

impl Crowd {
    fn now(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    fn write(&self, write: impl Fn(usize) -> Result<()>) -> Result<()> {
        let patience = Instant::now() + PATIENCE;
        while self.open.load(Ordering::Relaxed) < WATCHERS && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(20));
        }
        let opened = self.open.load(Ordering::Relaxed);
        ensure!(
            opened == WATCHERS,
            "{opened} of {WATCHERS} watches could be opened; is the limit of open files too low?"
        );
        for number in 0..WRITES {
            self.written.store(self.now(), Ordering::Relaxed);
            write(number)?;
            // Long enough for the last watcher, so that each delivery is measured from its own write.
            std::thread::sleep(Duration::from_millis(400));
        }
        Ok(())
    }

    /// How long each delivery took, in nanoseconds.
    fn watch(&self, target: &Target, request: &[u8]) -> Result<Vec<u64>> {
        one_thread()?.block_on(async {
            let all = (0..WATCHERS).map(|_| self.watch_once(target, request));
            let joined = tokio::time::timeout(2 * PATIENCE, try_join_all(all)).await;
            Ok(joined.context("not all watchers saw all writes")??.concat())
        })
    }

    async fn watch_once(&self, target: &Target, request: &[u8]) -> Result<Vec<u64>> {
        let mut connection = target.connect().await?;
        connection.watch(request).await?;
        self.open.fetch_add(1, Ordering::Relaxed);
        let mut lines = Lines::default();
        let mut latencies = Vec::with_capacity(WRITES);
        while latencies.len() < WRITES {
            let seen = lines.count(connection.more().await?);
            let latency = self
                .now()
                .saturating_sub(self.written.load(Ordering::Relaxed));
            latencies.extend(std::iter::repeat_n(latency, seen));
        }
        Ok(latencies)
    }
}
