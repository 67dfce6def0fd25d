//! Time that passes faster or slower than the wall's: for demonstrations.
//!
//! Tokio can be told to stand still and to be moved by hand. A thread that sleeps in real time says how much of
//! it has passed, and tokio's time is moved by a multiple of that. Every timer of the process follows, and so
//! does [`crate::clock::following_tokio`]; the network and the disk go on at their own speed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::Stop;

/// How often time is moved: often enough that a watch looks smooth, rarely enough that it costs little.
const TICK: Duration = Duration::from_millis(5);

/// A machine that is busy with something else makes time pass more slowly. It must not jump: requests that are
/// under way would all be overdue at once.
const LONGEST: Duration = Duration::from_millis(20);

/// How many times as fast as on the wall time passes. It can be changed while it passes; clones share it.
#[derive(Clone)]
pub struct Speed(Arc<AtomicU64>);

impl Speed {
    pub fn new(factor: f64) -> Speed {
        Speed(Arc::new(AtomicU64::new(factor.to_bits())))
    }

    pub fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    pub fn set(&self, factor: f64) {
        self.0.store(factor.to_bits(), Ordering::Relaxed);
    }
}

/// Moves tokio's time at up to `speed` times the speed of real time until the signal comes. It has to run on a
/// current-thread runtime, and [`tokio::time::pause`] must have been called there.
pub async fn run(speed: Speed, stop: Stop) {
    let (passed, mut told) = mpsc::channel::<Duration>(1);
    // While a blocking task lives, tokio does not jump to the next timer whenever it has nothing to do.
    let _ticker = tokio::task::spawn_blocking(move || tick(&passed));
    while let Some(Some(real)) = stop.or(told.recv()).await {
        tokio::time::advance(real.min(LONGEST).mul_f64(speed.get())).await;
    }
}

/// Sends how much real time has passed, until the receiver is dropped.
#[expect(
    clippy::disallowed_methods,
    reason = "this is where real time becomes virtual"
)]
fn tick(passed: &mpsc::Sender<Duration>) {
    let mut last = std::time::Instant::now();
    loop {
        std::thread::sleep(TICK);
        let now = std::time::Instant::now();
        if passed.blocking_send(now - last).is_err() {
            return;
        }
        last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_hour_passes_in_a_moment() {
        let (stopper, stop) = Stop::new();
        let pace = crate::spawn(run(Speed::new(1_000_000.0), stop));
        let begun = tokio::time::Instant::now();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(begun.elapsed() >= Duration::from_secs(3600));
        stopper.stop();
        pace.await.expect("it ends when it is told to");
    }
}
