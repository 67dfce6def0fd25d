//! Owners that are known to be gone.
//!
//! A uid comes back only with a server that was restored from a backup, and then somebody sees it: until then what
//! is absent once is absent for good. The cache is bounded only because memory is. It spares a request for each of the
//! thousands of pods of one deleted owner.

use std::collections::VecDeque;

use api::Uid;
use api::collections::HashMap;

use super::identity::Identity;

/// Upstream's size. A miss costs a request, nothing else.
const CAPACITY: usize = 500;

#[derive(Default)]
pub(super) struct AbsentOwners {
    /// All names that an owner was asked for by in vain.
    known: HashMap<Uid, Vec<Identity>>,
    by_age: VecDeque<Identity>,
}

impl AbsentOwners {
    pub(super) fn add(&mut self, owner: Identity) {
        let names = self.known.entry(owner.uid.clone()).or_default();
        if names.contains(&owner) {
            return;
        }
        names.push(owner.clone());
        self.by_age.push_back(owner);
        if self.by_age.len() > CAPACITY
            && let Some(oldest) = self.by_age.pop_front()
        {
            self.forget(&oldest.uid, |name| *name == oldest);
        }
    }

    pub(super) fn has(&self, owner: &Identity) -> bool {
        let names = self.known.get(&owner.uid);
        names.is_some_and(|names| names.contains(owner))
    }

    pub(super) fn has_any_name_of(&self, uid: &Uid) -> bool {
        self.known.contains_key(uid)
    }

    /// It is there after all. Names that it does not bear stay absent.
    pub(super) fn is_present(&mut self, seen: &Identity) {
        self.forget(&seen.uid, |name| {
            // Who asks for a cluster-scoped owner may have asked in a namespace.
            let is_reachable = seen.namespace.is_empty() || seen.namespace == name.namespace;
            is_reachable
                && (&seen.kind, &seen.api_version, &seen.name)
                    == (&name.kind, &name.api_version, &name.name)
        });
    }

    fn forget(&mut self, uid: &Uid, is_meant: impl Fn(&Identity) -> bool) {
        if let Some(names) = self.known.get_mut(uid) {
            names.retain(|name| !is_meant(name));
            if names.is_empty() {
                self.known.remove(uid);
            }
        }
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
