//! What is remembered of quotas between two syncs: which charges a count may lack.
//!
//! The API server charges a quota first and creates what it charged for after that, and we hear of the two by different
//! watches. A count that lacks such an object must not lower what is used: the charge would be lost. Our own writes
//! charge for nothing, so nobody waits for what came before them.

use std::time::Duration;

use api::collections::HashMap;
use api::kinds::ResourceQuota;
use api::{Key, MicroTime, Resource};
use parking_lot::Mutex;

/// For so long what was charged may be on its way: from the API server's admission to its storage, and to our cache.
const IN_FLIGHT: Duration = Duration::from_millis(100);

/// For so long a quota waits for caches that may lack something. Two seconds are longer than a watch takes; a kind in
/// which nothing happens says nothing of how new its cache is.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// For so long after a count objects come of which it cannot be said whether the count had their charge.
const IN_DOUBT: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct Charges(Mutex<HashMap<Key, Charge>>);

/// A revision, and when it was seen or written.
type Revision = (u64, MicroTime);

struct Charge {
    /// The newest revision that somebody else has written, and the one before it.
    charged: Revision,
    previous: Revision,
    /// What our last count made of the quota.
    counted: Revision,
    /// Since when caches have been waited for.
    waits_since: Option<MicroTime>,
}

impl Charges {
    /// The cache has this revision of the quota.
    pub fn on_seen(&self, quota: &ResourceQuota, now: MicroTime) {
        let revision = quota.metadata.resource_version;
        let first = (revision, now);
        let mut all = self.0.lock();
        let held = all.entry(quota.key()).or_insert(Charge {
            charged: first,
            previous: first,
            // Whoever led before us may have counted just now.
            counted: first,
            waits_since: None,
        });
        if held.charged.0 != revision && held.counted.0 != revision {
            held.previous = std::mem::replace(&mut held.charged, first);
        }
    }

    /// A count of ours has made this revision of the quota.
    pub fn on_counted(&self, key: &Key, revision: u64, now: MicroTime) {
        if let Some(held) = self.0.lock().get_mut(key) {
            held.counted = (revision, now);
            // The watch was faster than the answer, and could not know whose write it was.
            if held.charged.0 == revision {
                held.charged = held.previous;
            }
        }
    }

    /// The revision that caches must have reached before a count of theirs may lower what is used. No cache has while
    /// a charge is on its way, and every cache once they have been waited for long enough.
    pub fn awaited(&self, key: &Key, now: MicroTime) -> u64 {
        let all = self.0.lock();
        let Some(held) = all.get(key) else {
            return 0;
        };
        let (revision, seen_at) = held.charged;
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

    /// May our last count lack an object that comes to the cache at this revision, although the quota was charged for it
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

    /// A quota that somebody else has charged at revision 10, and that we have counted at 12.
    fn counted() -> (Charges, Key) {
        let (charges, key) = (Charges::default(), quota(1).key());
        charges.on_seen(&quota(10), at(0));
        charges.on_counted(&key, 12, at(1000));
        (charges, key)
    }

    #[test]
    fn no_cache_has_to_be_as_new_as_our_own_write() {
        let (charges, key) = counted();
        assert_eq!(charges.awaited(&key, at(1001)), 10);
        charges.on_seen(&quota(12), at(1002));
        assert_eq!(charges.awaited(&key, at(1003)), 10);
        // The watch tells of the next one before the API server answers.
        charges.on_seen(&quota(14), at(2000));
        charges.on_counted(&key, 14, at(2001));
        assert_eq!(charges.awaited(&key, at(2002)), 10);
        charges.on_seen(&quota(15), at(3000));
        assert_eq!(charges.awaited(&key, at(3200)), 15);
    }

    #[test]
    fn a_charge_is_on_its_way_for_a_moment_and_nobody_waits_for_ever() {
        let (charges, key) = counted();
        for ms in (1100..3100).step_by(50) {
            charges.on_seen(&quota(ms), at(ms));
            assert_eq!(charges.awaited(&key, at(ms + 1)), u64::MAX);
            charges.wait(&key, at(ms + 1));
        }
        assert_eq!(charges.awaited(&key, at(3101)), 0);
        charges.wait_no_longer(&key);
        assert_eq!(charges.awaited(&key, at(3101)), u64::MAX);
        assert_eq!(charges.awaited(&key, at(3150)), 3050);
    }

    #[test]
    fn a_count_may_lack_what_is_older_than_it_and_what_comes_soon_after_it() {
        let (charges, key) = counted();
        assert!(charges.may_lack(&key, 11, at(60_000)));
        assert!(charges.may_lack(&key, 13, at(5_999)));
        assert!(!charges.may_lack(&key, 13, at(6_000)));
    }
}
