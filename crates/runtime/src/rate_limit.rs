//! How long a failed key waits before it is tried again.

use std::hash::Hash;
use std::time::Duration;

use api::collections::HashMap;
use tokio::time::Instant;

/// Upstream's default: the longer of a per-item exponential delay and an overall token bucket.
pub struct RateLimiter<T> {
    failures: HashMap<T, u32>,
    base: Duration,
    max: Duration,
    bucket: Option<Bucket>,
}

/// Delays per item. The defaults are those of client-go's work queue.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    pub base: Duration,
    pub max: Duration,
    /// Retries a second over all items, and how many may come at once.
    pub bucket: Option<(f64, f64)>,
}

impl Backoff {
    /// 5 ms doubling up to 1000 s, and at most 10 retries a second after the first 100.
    pub const DEFAULT: Backoff = Backoff {
        base: Duration::from_millis(5),
        max: Duration::from_secs(1000),
        bucket: Some((10.0, 100.0)),
    };

    /// Exponential alone.
    pub const fn exponential(base: Duration, max: Duration) -> Backoff {
        Backoff {
            base,
            max,
            bucket: None,
        }
    }
}

impl<T: Hash + Eq + Clone> RateLimiter<T> {
    pub fn new(backoff: Backoff) -> RateLimiter<T> {
        RateLimiter {
            failures: HashMap::default(),
            base: backoff.base,
            max: backoff.max,
            bucket: backoff.bucket.map(|(rate, burst)| Bucket::new(rate, burst)),
        }
    }

    /// Counts one more failure of `item` and says how long it has to wait.
    pub fn delay(&mut self, item: &T, now: Instant) -> Duration {
        let failures = self.failures.entry(item.clone()).or_insert(0);
        let exponential = exponential(self.base, *failures).min(self.max);
        *failures += 1;
        match &mut self.bucket {
            Some(bucket) => exponential.max(bucket.reserve(now)),
            None => exponential,
        }
    }

    /// The same for a failure that is not the item's own: it waits no longer than `most`, takes no turn from
    /// others, and from there on its failures are not counted.
    pub fn delay_within(&mut self, item: &T, most: Duration) -> Duration {
        let failures = self.failures.entry(item.clone()).or_insert(0);
        let wait = exponential(self.base, *failures).min(self.max);
        if wait < most {
            *failures += 1;
        }
        wait.min(most)
    }

    pub fn forget(&mut self, item: &T) {
        self.failures.remove(item);
    }

    /// Items that have failed and were not forgotten.
    pub fn failing(&self) -> impl Iterator<Item = &T> {
        self.failures.keys()
    }

    pub fn failures(&self, item: &T) -> u32 {
        self.failures.get(item).copied().unwrap_or(0)
    }
}

/// The base, doubled with each failure.
fn exponential(base: Duration, failures: u32) -> Duration {
    // 2^63 is past every maximum already.
    let factor = 1_u64 << failures.min(63);
    Duration::try_from_secs_f64(base.as_secs_f64() * factor as f64).unwrap_or(Duration::MAX)
}

/// A token bucket that hands out tokens of the future.
struct Bucket {
    rate: f64,
    burst: f64,
    tokens: f64,
    refilled_at: Option<Instant>,
}

impl Bucket {
    fn new(rate: f64, burst: f64) -> Bucket {
        Bucket {
            rate,
            burst,
            tokens: burst,
            refilled_at: None,
        }
    }

    fn reserve(&mut self, now: Instant) -> Duration {
        let elapsed = self
            .refilled_at
            .map_or(Duration::ZERO, |then| now.saturating_duration_since(then));
        self.refilled_at = Some(now);
        self.tokens = (self.tokens + elapsed.as_secs_f64() * self.rate).min(self.burst) - 1.0;
        if self.tokens >= 0.0 {
            Duration::ZERO
        } else {
            Duration::from_secs_f64(-self.tokens / self.rate)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_the_items_fault_waits_less_and_counts_less() {
        let mut limiter = RateLimiter::new(Backoff::DEFAULT);
        let most = Duration::from_millis(50);
        let mut waits = |count: usize| -> Vec<u128> {
            let wait = |_| limiter.delay_within(&"a", most).as_millis();
            (0..count).map(wait).collect()
        };
        assert_eq!(waits(6), [5, 10, 20, 40, 50, 50]);
        waits(1000);
        assert_eq!(limiter.failures(&"a"), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn doubles_up_to_the_maximum() {
        let mut limiter = RateLimiter::new(Backoff::exponential(
            Duration::from_millis(5),
            Duration::from_secs(1),
        ));
        let now = Instant::now();
        let delays: Vec<u128> = (0..10)
            .map(|_| limiter.delay(&"a", now).as_millis())
            .collect();
        assert_eq!(delays, [5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert_eq!(limiter.failures(&"a"), 10);
        limiter.forget(&"a");
        assert_eq!(limiter.delay(&"a", now).as_millis(), 5);
        for _ in 0..200 {
            limiter.delay(&"b", now);
        }
        assert_eq!(limiter.delay(&"b", now), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_bucket_spreads_many_items() {
        let mut limiter = RateLimiter::new(Backoff::DEFAULT);
        let now = Instant::now();
        let delays: Vec<Duration> = (0..110).map(|item| limiter.delay(&item, now)).collect();
        assert_eq!(delays[99], Duration::from_millis(5));
        assert_eq!(delays[109].as_millis(), 1000);
    }
}
