//! Taking work in batches, as a network card does that interrupts once for many packets.
//!
//! A busy API server answers and tells of changes one by one, and a thread that is woken for each of them spends half
//! of its time waking up: into the kernel, out again, a read of a few hundred bytes, cold caches. A worker that has
//! just worked therefore rests for the rest of its beat before it waits for more; what arrived meanwhile is taken in
//! one go. After a quiet time the first change is handled at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::Instant;

/// How long a beat is: 500 a second are few beside the thousands of answers and events of a busy second, and nobody
/// waits longer than this for one of them.
const BEAT: Duration = Duration::from_millis(2);

/// A worker that slept for so long is not busy: it does what it was woken for and waits again, without a rest. An
/// idle process wakes for timers, mostly, and resting would wake it twice.
const QUIET: Duration = Duration::from_millis(10);

/// Makes the one worker of a runtime work in beats.
pub(crate) fn keep(builder: &mut Builder) -> &mut Builder {
    let beat = Arc::new(Mutex::new(Beat::new(Instant::now())));
    let wakes = Arc::clone(&beat);
    builder
        .on_thread_unpark(move || lock(&wakes).wake(Instant::now()))
        .on_thread_park(move || {
            let left = lock(&beat).left(Instant::now());
            rest(left);
            lock(&beat).waits_since = Instant::now();
        })
}

struct Beat {
    waits_since: Instant,
    woken_at: Instant,
    busy: bool,
}

impl Beat {
    fn new(now: Instant) -> Beat {
        Beat {
            waits_since: now,
            woken_at: now,
            busy: false,
        }
    }

    fn wake(&mut self, now: Instant) {
        self.busy = now.duration_since(self.waits_since) < QUIET;
        self.woken_at = now;
    }

    /// How long to rest before waiting for more.
    fn left(&self, now: Instant) -> Duration {
        if self.busy {
            BEAT.saturating_sub(now.duration_since(self.woken_at))
        } else {
            Duration::ZERO
        }
    }
}

/// Nobody else takes it: both ends are on the worker's own thread.
fn lock(beat: &Mutex<Beat>) -> MutexGuard<'_, Beat> {
    beat.lock().unwrap_or_else(PoisonError::into_inner)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the thread has nothing to do, and the runtime of a real process knows no virtual time"
)]
fn rest(rest: Duration) {
    if !rest.is_zero() {
        std::thread::sleep(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_busy_worker_rests() {
        let start = Instant::now();
        let at = |micros: u64| start + Duration::from_micros(micros);
        let mut beat = Beat::new(start);
        beat.wake(at(50_000));
        assert_eq!(beat.left(at(50_100)), Duration::ZERO, "after a quiet time");
        beat.waits_since = at(50_100);
        beat.wake(at(50_900));
        assert_eq!(
            beat.left(at(51_100)),
            Duration::from_micros(1_800),
            "the rest of the beat"
        );
        assert_eq!(
            beat.left(at(53_000)),
            Duration::ZERO,
            "the work took longer"
        );
        beat.waits_since = at(53_000);
        beat.wake(at(53_000) + QUIET);
        assert_eq!(beat.left(at(70_000)), Duration::ZERO, "quiet again");
    }
}
