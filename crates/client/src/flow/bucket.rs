//! The token bucket of client-go: a burst at once, then a steady rate, in the order of arrival.

use parking_lot::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

pub(crate) struct Bucket {
    per_second: f64,
    burst: f64,
    state: Mutex<State>,
}

struct State {
    /// Below zero: so many requests have reserved their turn and wait for it.
    tokens: f64,
    filled_at: Instant,
}

impl Bucket {
    pub(crate) fn new(per_second: f64, burst: u32) -> Bucket {
        // A bucket that holds nothing would never let anything through.
        let burst = f64::from(burst.max(1));
        Bucket {
            per_second,
            burst,
            state: Mutex::new(State {
                tokens: burst,
                filled_at: Instant::now(),
            }),
        }
    }

    pub(crate) async fn acquire(&self) {
        let wait = self.reserve();
        if wait.is_zero() {
            return;
        }
        let mut reservation = Reservation {
            bucket: self,
            taken: false,
        };
        tokio::time::sleep(wait).await;
        reservation.taken = true;
    }

    /// Takes a token, on credit if there is none, and says when it will be there.
    fn reserve(&self) -> Duration {
        let mut state = self.lock();
        let now = Instant::now();
        let refill = now.duration_since(state.filled_at).as_secs_f64() * self.per_second;
        state.tokens = (state.tokens + refill).min(self.burst) - 1.0;
        state.filled_at = now;
        if state.tokens >= 0.0 {
            Duration::ZERO
        } else {
            // A rate of one request a century is as good as never; a Duration could not hold it.
            Duration::try_from_secs_f64(-state.tokens / self.per_second)
                .unwrap_or(Duration::MAX / 4)
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// Gives the token back when the caller stops waiting for it.
struct Reservation<'a> {
    bucket: &'a Bucket,
    taken: bool,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if !self.taken {
            self.bucket.lock().tokens += 1.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Flow;

    async fn milliseconds_for(flow: &Flow, requests: usize) -> u128 {
        let started = Instant::now();
        for _ in 0..requests {
            let _permit = flow.acquire().await;
        }
        started.elapsed().as_millis()
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_then_a_steady_rate() {
        let flow = Flow::bucket(20.0, 30);
        assert_eq!(milliseconds_for(&flow, 30).await, 0);
        // tokio's timer rounds each wait up to the next millisecond.
        assert!((1000..=1020).contains(&milliseconds_for(&flow, 20).await));
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(
            milliseconds_for(&flow, 30).await,
            0,
            "the bucket holds no more than its burst"
        );
        assert!(milliseconds_for(&flow, 1).await > 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_stops_waiting_gives_the_token_back() {
        let flow = Flow::bucket(1.0, 1);
        let _first = flow.acquire().await;
        for _ in 0..10 {
            let gave_up = tokio::time::timeout(Duration::from_millis(1), flow.acquire()).await;
            assert!(gave_up.is_err());
        }
        assert!(milliseconds_for(&flow, 1).await <= 1000);
    }

    #[tokio::test(start_paused = true)]
    async fn no_rate_is_no_limit() {
        assert_eq!(milliseconds_for(&Flow::bucket(-1.0, 0), 1000).await, 0);
        assert_eq!(milliseconds_for(&Flow::bucket(0.0, 5), 1000).await, 0);
    }
}
