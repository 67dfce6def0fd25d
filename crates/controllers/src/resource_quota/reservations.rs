//! What is remembered of quotas between two syncs: which reservations a count may lack.
//!
//! The API server reserves quota first and creates what it reserved it for after that, and we hear of the two by different
//! watches. A count that lacks such an object must not lower what is used: the reservation would be lost. Our own writes
//! reserve nothing, so nobody waits for what came before them.

use std::time::Duration;

use api::collections::HashMap;
use api::kinds::ResourceQuota;
use api::{Key, MicroTime, Resource};
use parking_lot::Mutex;

/// For so long what was reserved may be on its way: from the API server's admission to its storage, and to our cache.
const IN_FLIGHT: Duration = Duration::from_millis(100);

/// For so long a quota waits for caches that may lack something. Two seconds are longer than a watch takes; a kind in
/// which nothing happens says nothing of how new its cache is.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// For so long after a count objects come of which it cannot be said whether the count had their reservation.
const IN_DOUBT: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct Reservations(Mutex<HashMap<Key, Reservation>>);

/// A revision, and when it was seen or written.
type Revision = (u64, MicroTime);

struct Reservation {
    /// The newest revision that somebody else has written, and the one before it.
    reserved: Revision,
    previous: Revision,
    /// What our last count made of the quota.
    counted: Revision,
    /// Since when caches have been waited for.
    waits_since: Option<MicroTime>,
}

impl Reservations {
    /// The cache has this revision of the quota.
    pub fn on_seen(&self, quota: &ResourceQuota, now: MicroTime) {
        let revision = quota.metadata.resource_version;
        let first = (revision, now);
        let mut all = self.0.lock();
        let held = all.entry(quota.key()).or_insert(Reservation {
            reserved: first,
            previous: first,
            // The leader before us may have counted just now.
            counted: first,
            waits_since: None,
        });
        if held.reserved.0 != revision && held.counted.0 != revision {
            held.previous = std::mem::replace(&mut held.reserved, first);
        }
    }

    /// A count of ours has made this revision of the quota.
    pub fn on_counted(&self, key: &Key, revision: u64, now: MicroTime) {
        if let Some(held) = self.0.lock().get_mut(key) {
            held.counted = (revision, now);
            // The watch was faster than the answer, and could not know whose write it was.
            if held.reserved.0 == revision {
                held.reserved = held.previous;
            }
        }
    }

    /// The revision that caches must have reached before a count of theirs may lower what is used. No cache has while
    /// a reservation is on its way, and every cache once they have been waited for long enough.
    pub fn awaited(&self, key: &Key, now: MicroTime) -> u64 {
        let all = self.0.lock();
        let Some(held) = all.get(key) else {
            return 0;
        };
        let (revision, seen_at) = held.reserved;
        match held.waits_since {
            Some(since) if now.since(since) >= PATIENCE => 0,
            _ if now.since(seen_at) < IN_FLIGHT => u64::MAX,
            _ => revision,
        }
    }

    pub fn wait(&self, key: &Key, now: MicroTime) {
        if let Some(held) = self.0.lock().get_mut(key) {
            held.waits_since.get_or_insert(now);
        }
    }

    pub fn wait_no_longer(&self, key: &Key) {
        if let Some(held) = self.0.lock().get_mut(key) {
            held.waits_since = None;
        }
    }

    /// May our last count lack an object that comes to the cache at this revision, although quota was reserved for it
    /// before or never?
    pub fn may_lack(&self, key: &Key, revision: u64, now: MicroTime) -> bool {
        let all = self.0.lock();
        let counted = all.get(key).map(|held| held.counted);
        counted.is_none_or(|(counted, at)| revision < counted || now.since(at) < IN_DOUBT)
    }

    pub fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use api::{Meta, Time};

    use super::*;

    /// Milliseconds, counted from some day on.
    fn at(ms: u64) -> MicroTime {
        Time::from_unix(1000)
            .micro()
            .plus(Duration::from_millis(ms))
    }

    fn quota(revision: u64) -> ResourceQuota {
        ResourceQuota {
            metadata: Meta {
                resource_version: revision,
                ..Meta::default()
            },
            ..ResourceQuota::default()
        }
    }

    /// A quota that somebody else has reserved of at revision 10, and that we have counted at 12.
    fn counted() -> (Reservations, Key) {
        let (reservations, key) = (Reservations::default(), quota(1).key());
        reservations.on_seen(&quota(10), at(0));
        reservations.on_counted(&key, 12, at(1000));
        (reservations, key)
    }

    #[test]
    fn no_cache_has_to_be_as_new_as_our_own_write() {
        let (reservations, key) = counted();
        assert_eq!(reservations.awaited(&key, at(1001)), 10);
        reservations.on_seen(&quota(12), at(1002));
        assert_eq!(reservations.awaited(&key, at(1003)), 10);
        // The watch tells of the next one before the API server answers.
        reservations.on_seen(&quota(14), at(2000));
        reservations.on_counted(&key, 14, at(2001));
        assert_eq!(reservations.awaited(&key, at(2002)), 10);
        reservations.on_seen(&quota(15), at(3000));
        assert_eq!(reservations.awaited(&key, at(3200)), 15);
    }

    #[test]
    fn a_reservation_is_on_its_way_for_a_moment_and_nobody_waits_for_ever() {
        let (reservations, key) = counted();
        for ms in (1100..3100).step_by(50) {
            reservations.on_seen(&quota(ms), at(ms));
            assert_eq!(reservations.awaited(&key, at(ms + 1)), u64::MAX);
            reservations.wait(&key, at(ms + 1));
        }
        assert_eq!(reservations.awaited(&key, at(3101)), 0);
        reservations.wait_no_longer(&key);
        assert_eq!(reservations.awaited(&key, at(3101)), u64::MAX);
        assert_eq!(reservations.awaited(&key, at(3150)), 3050);
    }

    #[test]
    fn a_count_may_lack_what_is_older_than_it_and_what_comes_soon_after_it() {
        let (reservations, key) = counted();
        assert!(reservations.may_lack(&key, 11, at(60_000)));
        assert!(reservations.may_lack(&key, 13, at(5_999)));
        assert!(!reservations.may_lack(&key, 13, at(6_000)));
    }
}
