//! A run in which nothing goes wrong, for tests of what oracles remember.

use std::time::Duration;

use api::{Clock, Gates, GoDuration, Key, MicroTime, Time};

use super::change::Actor;
use super::world::{Lag, Run, Sight};
use crate::Config;
use crate::config::Flags;

impl Run {
    /// Everybody sees everything, and it is always this time.
    pub(crate) fn calm(at: Time) -> Run {
        Run {
            clock: Clock::fixed(at),
            skew: Duration::ZERO,
            gates: Gates::default(),
            config: Config::read(&Zero),
            root_ca: "",
            has_lag: false,
            lag: Box::new(NoLag),
            acting: None,
            has_slow_requests: false,
            is_contended: false,
            led_since: at.micro(),
            lost_changes_at: None,
            unacknowledged: Box::new(|_| 0),
        }
    }
}

struct NoLag;

impl Lag for NoLag {
    fn sight(&self, _: Actor, _: &str, _: &Key) -> Sight {
        Sight::Seen
    }

    fn sight_of_deletions(&self, _: Actor, _: &str) -> Sight {
        Sight::Seen
    }

    fn is_behind(&self, _: Actor, _: &str) -> bool {
        false
    }

    fn was_behind_since(&self, _: Actor, _: &str, _: MicroTime) -> bool {
        false
    }
}

/// Every setting is zero.
struct Zero;

impl Flags for Zero {
    fn bool(&self, _: &str) -> bool {
        false
    }

    fn int32(&self, _: &str) -> i32 {
        0
    }

    fn float(&self, _: &str) -> f64 {
        0.0
    }

    fn float32(&self, _: &str) -> f32 {
        0.0
    }

    fn text(&self, _: &str) -> &str {
        ""
    }

    fn duration(&self, _: &str) -> GoDuration {
        GoDuration::ZERO
    }
}
