//! Taking work in batches, as a network card does that interrupts once for many packets.
//!
//! A busy API server answers and tells of changes one by one, and a thread that is woken for each of them spends half
//! of its time waking up: into the kernel, out again, a read of a few hundred bytes, cold caches. A worker that has
//! just worked therefore rests for the rest of its beat before it waits for more; what arrived meanwhile is taken in
//! one go. After a quiet time the first changes are handled at once.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::Instant;

/// How long a beat is: 500 a second are few beside the thousands of answers and events of a busy second, and nobody
/// waits longer than this for one of them.
const BEAT: Duration = Duration::from_millis(2);

/// A worker that slept for so long is not busy: it does what it was woken for and waits again, without a rest.
const QUIET: Duration = Duration::from_millis(10);

/// So many wakes in a row without a quiet time make a worker busy. An idle process wakes for a timer, sends what is
/// due, and wakes for the answer and for the event that tells of it; a rest would be one wake more.
const RUSH: u32 = 4;

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
    /// Wakes since the last quiet time.
    in_a_row: u32,
}

impl Beat {
    fn new(now: Instant) -> Beat {
        Beat {
            waits_since: now,
            woken_at: now,
            in_a_row: 0,
        }
    }

    fn wake(&mut self, now: Instant) {
        self.in_a_row = match now.duration_since(self.waits_since) < QUIET {
            true => self.in_a_row.saturating_add(1),
            false => 0,
        };
        self.woken_at = now;
    }

    /// How long to rest before waiting for more.
    fn left(&self, now: Instant) -> Duration {
        if self.in_a_row >= RUSH {
            BEAT.saturating_sub(now.duration_since(self.woken_at))
        } else {
            Duration::ZERO
        }
    }
}

/// Nobody else takes it: both ends are on the worker's own thread.
fn lock(beat: &Mutex<Beat>) -> MutexGuard<'_, Beat> {
    beat.lock()
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
        for wake in 1..RUSH {
            beat.waits_since = at(50_100);
            beat.wake(at(50_900));
            let left = beat.left(at(50_950));
            assert_eq!(left, Duration::ZERO, "wake {wake} of a few");
        }
        beat.waits_since = at(50_950);
        beat.wake(at(51_000));
        assert_eq!(
            beat.left(at(51_200)),
            Duration::from_micros(1_800),
            "the rest of the beat"
        );
        assert_eq!(
            beat.left(at(53_100)),
            Duration::ZERO,
            "the work took longer"
        );
        beat.waits_since = at(53_100);
        beat.wake(at(53_100) + QUIET);
        assert_eq!(beat.left(at(70_000)), Duration::ZERO, "quiet again");
    }
}
