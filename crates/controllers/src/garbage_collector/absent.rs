//! Owners that are known to be gone.
//!
//! A uid never comes back, so what is absent once is absent for good; the cache is bounded only
//! because memory is. It spares a request for each of the thousands of pods of one deleted owner.

use std::collections::VecDeque;

use api::collections::HashSet;

use super::identity::Identity;

/// Upstream's size. A miss costs a request, nothing else.
const CAPACITY: usize = 500;

#[derive(Default)]
pub(super) struct AbsentOwners {
    known: HashSet<Identity>,
    by_age: VecDeque<Identity>,
}

impl AbsentOwners {
    pub(super) fn add(&mut self, owner: Identity) {
        if !self.known.insert(owner.clone()) {
            return;
        }
        self.by_age.push_back(owner);
        if self.by_age.len() > CAPACITY
            && let Some(oldest) = self.by_age.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    pub(super) fn has(&self, owner: &Identity) -> bool {
        self.known.contains(owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Istr;

    fn owner(number: usize) -> Identity {
        Identity {
            kind: Istr::new("Pod"),
            api_version: Istr::new("v1"),
            namespace: Istr::new("ns"),
            name: "p".into(),
            uid: number.to_string().as_str().into(),
        }
    }

    // Upstream: TestAbsentOwnerCache.
    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut absent = AbsentOwners::default();
        for number in 0..=CAPACITY {
            absent.add(owner(number));
            absent.add(owner(number));
        }
        assert!(!absent.has(&owner(0)));
        assert!(absent.has(&owner(1)) && absent.has(&owner(CAPACITY)));
        let elsewhere = Identity {
            namespace: Istr::new("other"),
            ..owner(1)
        };
        assert!(!absent.has(&elsewhere), "all coordinates count");
    }
}
