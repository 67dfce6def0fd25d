//! What a controller has asked for and not yet seen.
//!
//! A cache lags behind our own writes. Between a create and the watch event that shows it, a
//! reconcile would count one pod too few and create it again. So a key that expects creations or
//! deletions is left alone until they were observed, or until five minutes have passed: an event
//! may have been lost, and acting late is better than never.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use api::Key;
use api::collections::{HashMap, HashSet};
use tokio::time::Instant;

use crate::metrics::Metrics;
use crate::mutation;
use crate::pending_work::Pending;

/// Upstream's `ExpectationsTimeout`.
pub const EXPIRY: Duration = Duration::from_secs(5 * 60);

#[derive(Default)]
pub struct Expectations {
    held: Mutex<HashMap<Key, Held>>,
}

struct Held {
    creations: i64,
    /// Deletions are tracked by pod, so that a pod seen twice (terminating, then gone) counts once.
    deletions: HashSet<Key>,
    since: Instant,
}

impl Expectations {
    /// May the key be acted upon? Yes when all was seen, when it waited too long, or when nothing
    /// was ever expected.
    pub fn satisfied(&self, key: &Key) -> bool {
        if mutation::on("skip-expectations") {
            return true;
        }
        self.with(|held| match held.get(key) {
            Some(held) => held.is_fulfilled() || held.since.elapsed() > EXPIRY,
            None => true,
        })
    }

    /// How long until the key may be acted upon if nothing is seen; `None` when it may be now. Whoever
    /// expects something looks again then: the event that would wake it may be the one that was lost.
    pub fn wait(&self, key: &Key) -> Option<Duration> {
        self.with(|held| {
            let held = held.get(key).filter(|held| !held.is_fulfilled())?;
            // A moment later, because it is then that the time is over.
            let left = EXPIRY.checked_sub(held.since.elapsed())?;
            Some(left + Duration::from_millis(1))
        })
    }

    /// Expects `count` creations, and nothing else any more.
    pub fn expect_creations(&self, key: &Key, count: usize) {
        let since = Instant::now();
        self.with(|held| {
            held.insert(
                key.clone(),
                Held {
                    creations: count as i64,
                    deletions: HashSet::default(),
                    since,
                },
            )
        });
    }

    /// Expects these objects to be deleted, and nothing else any more.
    pub fn expect_deletions(&self, key: &Key, objects: impl IntoIterator<Item = Key>) {
        self.expect(key, 0, objects);
    }

    /// Expects both at once, as a controller that creates and deletes in one sync does.
    pub fn expect(&self, key: &Key, creations: usize, deletions: impl IntoIterator<Item = Key>) {
        let since = Instant::now();
        let deletions = deletions.into_iter().collect();
        self.with(|held| {
            held.insert(
                key.clone(),
                Held {
                    creations: creations as i64,
                    deletions,
                    since,
                },
            )
        });
    }

    /// A creation was seen, or will never happen.
    pub fn creation_observed(&self, key: &Key) {
        self.creations_observed(key, 1);
    }

    pub fn creations_observed(&self, key: &Key, count: usize) {
        self.with(|held| {
            if let Some(held) = held.get_mut(key) {
                held.creations -= count as i64;
            }
        });
    }

    /// A deletion was seen, or will never happen.
    pub fn deletion_observed(&self, key: &Key, object: &Key) {
        self.with(|held| {
            if let Some(held) = held.get_mut(key)
                && !mutation::on("leak-expected-deletions")
            {
                held.deletions.remove(object);
            }
        });
    }

    /// The owner is gone: nothing is expected of it any more.
    pub fn forget(&self, key: &Key) {
        if mutation::on("remember-the-dead") {
            return;
        }
        self.with(|held| held.remove(key));
    }

    /// Expectations of a controller, which are part of the pending work of its process.
    pub fn watched(metrics: &Metrics, controller: &str) -> Arc<Expectations> {
        let expectations = Arc::<Expectations>::default();
        let held = Arc::downgrade(&expectations);
        metrics
            .pending_work()
            .watch(controller, move || Some(held.upgrade()?.pending_work()));
        expectations
    }

    /// Keys that still wait, and all that something is remembered of. What has waited too long is no longer
    /// waited for.
    fn pending_work(&self) -> Pending {
        let waits = |held: &Held| !held.is_fulfilled() && held.since.elapsed() <= EXPIRY;
        let (mut expecting, mut keys): (Vec<String>, Vec<String>) = Default::default();
        self.with(|held| {
            keys.extend(held.keys().map(ToString::to_string));
            let waiting = held.iter().filter(|(_, held)| waits(held));
            expecting.extend(waiting.map(|(key, _)| key.to_string()));
        });
        expecting.sort();
        keys.sort();
        Pending {
            expecting,
            held: keys,
            ..Pending::default()
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<Key, Held>) -> T) -> T {
        act(&mut self.held.lock())
    }
}

impl Held {
    fn is_fulfilled(&self) -> bool {
        self.creations <= 0 && self.deletions.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture() -> (Expectations, Key) {
        (Expectations::default(), Key::new("ns", "rs"))
    }

    async fn pass(seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn says_how_long_to_wait_for_what_was_lost() {
        let (expectations, key) = fixture();
        assert_eq!(expectations.wait(&key), None);
        expectations.expect_creations(&key, 1);
        pass(100).await;
        let wait = expectations.wait(&key).unwrap();
        assert_eq!(wait, Duration::from_millis(200_001));
        expectations.creation_observed(&key);
        assert_eq!(expectations.wait(&key), None);
        expectations.expect_creations(&key, 1);
        pass(301).await;
        assert!(expectations.satisfied(&key) && expectations.wait(&key).is_none());
    }

    // Upstream: TestControllerExpectations.
    #[test]
    fn counts_down_to_satisfied() {
        let (expectations, key) = fixture();
        assert!(expectations.satisfied(&key), "nothing expected yet");
        expectations.expect_creations(&key, 2);
        assert!(!expectations.satisfied(&key));
        expectations.creation_observed(&key);
        assert!(!expectations.satisfied(&key));
        expectations.creation_observed(&key);
        expectations.creation_observed(&key);
        assert!(
            expectations.satisfied(&key),
            "one more than expected does no harm"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn expires_after_five_minutes() {
        let (expectations, key) = fixture();
        expectations.expect_creations(&key, 1);
        pass(300).await;
        assert!(!expectations.satisfied(&key));
        pass(1).await;
        assert!(expectations.satisfied(&key));
    }

    // Upstream: TestUIDExpectations.
    #[test]
    fn a_deletion_seen_twice_counts_once() {
        let (expectations, key) = fixture();
        let (a, b) = (Key::new("ns", "a"), Key::new("ns", "b"));
        expectations.expect_deletions(&key, [a.clone(), b.clone()]);
        expectations.deletion_observed(&key, &a);
        expectations.deletion_observed(&key, &a);
        assert_eq!(expectations.pending_work().expecting, ["ns/rs"]);
        expectations.deletion_observed(&key, &b);
        assert!(expectations.satisfied(&key));
        let ends = expectations.pending_work();
        assert_eq!((ends.expecting.len(), ends.held.len()), (0, 1));
    }

    #[test]
    fn a_forgotten_key_is_free() {
        let (expectations, key) = fixture();
        expectations.expect_creations(&key, 5);
        expectations.forget(&key);
        assert!(expectations.satisfied(&key));
        expectations.creation_observed(&key);
        assert_eq!(expectations.pending_work(), Pending::default());
    }
}
