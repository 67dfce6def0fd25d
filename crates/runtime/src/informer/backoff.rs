//! How long a stream that failed waits before it is asked for again: client-go's numbers.

use std::time::Duration;

use api::Rng;
use tokio::time::Instant;

/// 800 ms doubling to 30 s, each time up to twice as long by chance; forgotten after two good minutes.
pub(super) struct Backoff {
    rng: Rng,
    next: Duration,
    last_wait: Option<Instant>,
}

const BACKOFF_BASE: Duration = Duration::from_millis(800);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// A server that cannot be reached costs nothing to ask: it is found soon after it is back.
const BACKOFF_MAX_UNREACHABLE: Duration = Duration::from_secs(4);
const BACKOFF_RESET: Duration = Duration::from_secs(120);

impl Backoff {
    pub(super) fn new(rng: Rng) -> Backoff {
        Backoff {
            rng,
            next: BACKOFF_BASE,
            last_wait: None,
        }
    }

    pub(super) fn reset(&mut self) {
        self.next = BACKOFF_BASE;
    }

    pub(super) async fn wait_for_server(&mut self) {
        self.next = self.next.min(BACKOFF_MAX_UNREACHABLE);
        self.wait(None).await;
    }

    pub(super) async fn wait(&mut self, at_least: Option<Duration>) {
        self.reset_if_long_lived();
        let jittered = self.next.mul_f64(1.0 + self.rng.unit());
        self.next = (self.next * 2).min(BACKOFF_MAX);
        tokio::time::sleep(jittered.max(at_least.unwrap_or_default())).await;
        self.last_wait = Some(Instant::now());
    }

    fn reset_if_long_lived(&mut self) {
        if self
            .last_wait
            .is_some_and(|then| then.elapsed() > BACKOFF_RESET)
        {
            self.next = BACKOFF_BASE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn waited(backoff: &mut Backoff, at_least: Option<Duration>) -> Duration {
        let start = Instant::now();
        backoff.wait(at_least).await;
        start.elapsed()
    }

    fn within(wait: Duration, shortest_ms: u64) {
        let shortest = Duration::from_millis(shortest_ms);
        assert!(
            (shortest..=shortest * 2).contains(&wait),
            "{wait:?} is not once or twice {shortest:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn waits_double_from_800_milliseconds_to_30_seconds() {
        for seed in 0..20 {
            let mut backoff = Backoff::new(Rng::from_seed(seed));
            for shortest in [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000] {
                within(waited(&mut backoff, None).await, shortest);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn trouble_is_forgotten_after_two_minutes_or_when_a_stream_has_delivered() {
        let mut backoff = Backoff::new(Rng::from_seed(1));
        for _ in 0..5 {
            backoff.wait(None).await;
        }
        tokio::time::advance(Duration::from_secs(119)).await;
        within(waited(&mut backoff, None).await, 25_600);
        tokio::time::advance(Duration::from_secs(121)).await;
        within(waited(&mut backoff, None).await, 800);
        backoff.reset();
        within(waited(&mut backoff, None).await, 800);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_says_when_is_not_asked_sooner() {
        let mut backoff = Backoff::new(Rng::from_seed(1));
        let minute = Duration::from_secs(60);
        assert_eq!(waited(&mut backoff, Some(minute)).await, minute);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_away_is_asked_every_few_seconds() {
        let mut backoff = Backoff::new(Rng::from_seed(1));
        for _ in 0..10 {
            let start = Instant::now();
            backoff.wait_for_server().await;
            assert!(start.elapsed() <= BACKOFF_MAX_UNREACHABLE * 2);
        }
    }
}
