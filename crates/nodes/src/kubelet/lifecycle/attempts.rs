//! When a kubelet tries again what has failed.

use std::time::Duration;

use api::MicroTime;

use super::Course;

/// UPSTREAM: the kubelet's back-off for crashing containers and failing pulls: 10 s doubling to 5 min.
pub(super) const BACKOFF_BASE_S: u64 = 10;
pub(super) const BACKOFF_MAX_S: u64 = 300;

/// Waits between attempts: the first, doubling up to the longest.
pub(super) struct Attempts {
    base: Duration,
    max: Duration,
}

impl Attempts {
    pub(super) const TO_PULL: Attempts = Attempts {
        base: Duration::from_secs(BACKOFF_BASE_S),
        max: Duration::from_secs(BACKOFF_MAX_S),
    };

    /// UPSTREAM: a pod whose sync failed is looked at again after 10 s.
    pub(super) const TO_CONFIGURE: Attempts = Attempts {
        base: Duration::from_secs(10),
        max: Duration::from_secs(10),
    };

    /// UPSTREAM: what failed to mount is tried again after 500 ms, doubling to 2m2s.
    pub(super) const TO_MOUNT: Attempts = Attempts {
        base: Duration::from_millis(500),
        max: Duration::from_secs(122),
    };

    /// The last attempt at or before `now`, and the one after it.
    pub(super) fn around(&self, first: MicroTime, now: MicroTime) -> (MicroTime, MicroTime) {
        let mut attempt = first;
        let mut wait = self.base;
        loop {
            let next = attempt.plus(wait);
            if next > now {
                return (attempt, next);
            }
            attempt = next;
            if wait == self.max {
                // From here on attempts are evenly spaced: no need to walk through days of them.
                let rounds = now.since(next).as_micros() / self.max.as_micros();
                let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
                attempt = next.plus(self.max.saturating_mul(rounds));
            }
            wait = (wait * 2).min(self.max);
        }
    }
}

impl Course<'_> {
    /// May the pod's volumes be mounted? If not, each attempt says why.
    pub(super) fn mounts(&mut self) -> bool {
        let facts = self.facts;
        if facts.mount_errors.is_empty() {
            return true;
        }
        let (attempt_at, next_at) = Attempts::TO_MOUNT.around(self.starts_at(), facts.now);
        if self.is_news(attempt_at) {
            for error in facts.mount_errors {
                self.tell(true, "FailedMount", error.clone(), String::new());
            }
        }
        self.wake_at(next_at);
        false
    }

    /// Has nobody been told yet of what happened at this moment? Asks for this look to be remembered.
    pub(super) fn is_news(&mut self, at: MicroTime) -> bool {
        self.outcome.is_remembered = true;
        self.facts.last_look.is_none_or(|looked| looked < at)
    }
}
