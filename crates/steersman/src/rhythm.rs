//! Taking work in batches, as a network card does that interrupts once for many packets.
//!
//! A busy API server answers and tells of changes one by one, and a thread that is woken for each of them spends half
//! of its time waking up: into the kernel, out again, a read of a few hundred bytes, cold caches. A worker that has
//! just worked therefore rests for the rest of its beat before it waits for more; what arrived meanwhile is taken in
//! one go. After a quiet time the first change is handled at once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::Instant;

/// How long a beat is: 500 a second are few beside the thousands of answers and events of a busy second, and nobody
/// waits longer than this for one of them.
const BEAT: Duration = Duration::from_millis(2);

/// Makes the one worker of a runtime work in beats.
pub(crate) fn keep(builder: &mut Builder) -> &mut Builder {
    let woken_at = Arc::new(Mutex::new(Instant::now()));
    let wakes = Arc::clone(&woken_at);
    builder
        .on_thread_unpark(move || {
            *wakes.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        })
        .on_thread_park(move || {
            let woken_at = *woken_at.lock().unwrap_or_else(PoisonError::into_inner);
            rest(BEAT.saturating_sub(woken_at.elapsed()));
        })
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
