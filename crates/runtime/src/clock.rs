//! Where the time comes from.

use api::cron::Zone;
use api::{Clock, MicroTime, Time};

/// The wall clock, in the zone of the machine: what production runs on.
pub fn wall() -> Clock {
    let read = || {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place that reads the wall clock"
        )]
        let now = std::time::SystemTime::now();
        let since_epoch = now
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        MicroTime::default().plus(since_epoch)
    };
    Clock::new(read).in_zone(Zone::of_machine())
}

/// The wall clock, set forward, in the zone of the machine.
pub fn wall_ahead(ahead: std::time::Duration) -> Clock {
    let wall = wall();
    let zone = wall.zone().clone();
    Clock::new(move || wall.now().plus(ahead)).in_zone(zone)
}

/// A clock that starts at `start` and moves with tokio's time, which a test or the simulator may
/// have paused, in UTC. Call it inside a runtime.
pub fn following_tokio(start: Time) -> Clock {
    following_tokio_from(start.micro())
}

/// The same, from a moment that is known more exactly.
pub fn following_tokio_from(start: MicroTime) -> Clock {
    let origin = tokio::time::Instant::now();
    Clock::new(move || start.plus(origin.elapsed()))
}

/// Starts with what `clock` says and is never set: by it one measures how long something lasts. The time of day may
/// jump by an hour, and what was to last five minutes must not be over, or take sixty-five.
pub fn steady(clock: &Clock) -> Clock {
    following_tokio_from(clock.now())
}
