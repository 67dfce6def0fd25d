//! Pods that wait for a node.
//!
//! A pod is *active* (to be planned as soon as possible, by priority), *parked* (no node would do; it waits
//! until something changes that could help) or *cooling* (something changed, but its back-off is not over).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::{Key, MicroTime};

#[derive(Default)]
pub(super) struct Pending {
    active: BTreeSet<(Reverse<i32>, u64, Key)>,
    cooling: BTreeSet<(MicroTime, Key)>,
    /// By what could help them: a change in the cluster touches only those that it helps.
    parked: BTreeMap<u8, BTreeSet<Key>>,
    in_hand: BTreeSet<Key>,
    waiting: BTreeMap<Key, Waiting>,
    next_number: u64,
}

struct Waiting {
    priority: i32,
    /// Pods of one priority keep the order in which they came.
    number: u64,
    attempts: u32,
    place: Place,
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Active,
    Cooling {
        until: MicroTime,
    },
    Parked {
        since: MicroTime,
        helped_by: u8,
    },
    /// Being planned right now; what changes meanwhile must not be missed.
    InHand {
        changed: u8,
    },
}

/// UPSTREAM: 1 s doubling to 10 s between attempts of one pod.
const BACKOFF_BASE: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// UPSTREAM: a parked pod is tried again after this long, should a change have been missed.
const PARKED_AT_MOST: Duration = Duration::from_secs(300);

impl Pending {
    /// A pod that wants a node. One that waits already keeps its place.
    pub(super) fn add(&mut self, key: &Key, priority: i32) {
        if self.waiting.contains_key(key) {
            return;
        }
        let number = self.next_number;
        self.next_number += 1;
        let waiting = Waiting {
            priority,
            number,
            attempts: 0,
            place: Place::Active,
        };
        self.waiting.insert(key.clone(), waiting);
        self.put_in_place(key, Place::Active);
    }

    pub(super) fn remove(&mut self, key: &Key) {
        self.take_from_place(key);
        self.waiting.remove(key);
    }

    fn take_from_place(&mut self, key: &Key) {
        let Some(waiting) = self.waiting.get(key) else {
            return;
        };
        match waiting.place {
            Place::Active => {
                self.active
                    .remove(&(Reverse(waiting.priority), waiting.number, key.clone()));
            }
            Place::Cooling { until } => {
                self.cooling.remove(&(until, key.clone()));
            }
            Place::Parked { helped_by, .. } => {
                if let Some(parked) = self.parked.get_mut(&helped_by) {
                    parked.remove(key);
                }
            }
            Place::InHand { .. } => {
                self.in_hand.remove(key);
            }
        }
    }

    fn put_in_place(&mut self, key: &Key, place: Place) {
        self.take_from_place(key);
        let Some(waiting) = self.waiting.get_mut(key) else {
            return;
        };
        waiting.place = place;
        match place {
            Place::Active => {
                self.active
                    .insert((Reverse(waiting.priority), waiting.number, key.clone()));
            }
            Place::Cooling { until } => {
                self.cooling.insert((until, key.clone()));
            }
            Place::Parked { helped_by, .. } => {
                self.parked
                    .entry(helped_by)
                    .or_default()
                    .insert(key.clone());
            }
            Place::InHand { .. } => {
                self.in_hand.insert(key.clone());
            }
        }
    }

    /// The next pod to plan. It is in hand until it is removed or parked.
    pub(super) fn pop(&mut self, now: MicroTime) -> Option<Key> {
        while let Some((until, key)) = self.cooling.first()
            && *until <= now
        {
            let key = key.clone();
            self.put_in_place(&key, Place::Active);
        }
        let (_, _, key) = self.active.first()?;
        let key = key.clone();
        self.put_in_place(&key, Place::InHand { changed: 0 });
        if let Some(waiting) = self.waiting.get_mut(&key) {
            waiting.attempts += 1;
        }
        Some(key)
    }

    /// No node would do; these changes could help.
    pub(super) fn park(&mut self, key: &Key, helped_by: u8, now: MicroTime) {
        let Some(Waiting {
            place: Place::InHand { changed },
            ..
        }) = self.waiting.get(key)
        else {
            return;
        };
        let was_helped = changed & helped_by != 0;
        self.put_in_place(
            key,
            Place::Parked {
                since: now,
                helped_by,
            },
        );
        if was_helped {
            self.cool(key, now);
        }
    }

    /// Something went wrong that was not the pod's fault: again after its back-off.
    pub(super) fn retry(&mut self, key: &Key, now: MicroTime) {
        if let Some(waiting) = self.waiting.get_mut(key) {
            waiting.attempts += 1;
        }
        self.put_in_place(
            key,
            Place::Parked {
                since: now,
                helped_by: 0,
            },
        );
        self.cool(key, now);
    }

    /// A pod that itself changed may fit now.
    pub(super) fn changed(&mut self, key: &Key, now: MicroTime) {
        if let Some(waiting) = self.waiting.get_mut(key) {
            if let Place::InHand { changed } = &mut waiting.place {
                *changed = u8::MAX;
            }
            self.cool(key, now);
        }
    }

    /// Something changed in the cluster: wakes the pods that it could help.
    pub(super) fn wake(&mut self, event: u8, now: MicroTime) {
        let mut helped: Vec<Key> = Vec::new();
        for (helped_by, keys) in &mut self.parked {
            if helped_by & event != 0 {
                helped.extend(std::mem::take(keys));
            }
        }
        for key in helped {
            self.cool(&key, now);
        }
        for key in &self.in_hand {
            if let Some(Waiting {
                place: Place::InHand { changed },
                ..
            }) = self.waiting.get_mut(key)
            {
                *changed |= event;
            }
        }
    }

    /// Lets a parked pod be tried again when its back-off is over.
    fn cool(&mut self, key: &Key, now: MicroTime) {
        let Some(waiting) = self.waiting.get(key) else {
            return;
        };
        let Place::Parked { since, .. } = waiting.place else {
            return;
        };
        let doubled =
            BACKOFF_BASE * 2_u32.saturating_pow(waiting.attempts.saturating_sub(1).min(10));
        let until = since.plus(doubled.min(BACKOFF_MAX));
        let place = match until <= now {
            true => Place::Active,
            false => Place::Cooling { until },
        };
        self.put_in_place(key, place);
    }

    /// Tries again those that have been parked for too long.
    pub(super) fn flush(&mut self, now: MicroTime) {
        let is_stale = |key: &&Key| {
            let place = self.waiting.get(*key).map(|waiting| waiting.place);
            matches!(place, Some(Place::Parked { since, .. }) if now.since(since) >= PARKED_AT_MOST)
        };
        let stale: Vec<Key> = self
            .parked
            .values()
            .flatten()
            .filter(is_stale)
            .cloned()
            .collect();
        for key in stale {
            self.put_in_place(&key, Place::Active);
        }
    }

    /// When time alone will make a pod active; `None` while one is, or when all are parked.
    pub(super) fn next_due(&self) -> Option<MicroTime> {
        self.cooling.first().map(|(until, _)| *until)
    }

    pub(super) fn has_parked(&self) -> bool {
        self.waiting
            .values()
            .any(|one| matches!(one.place, Place::Parked { .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> MicroTime {
        MicroTime::from_unix_micros(seconds * 1_000_000)
    }

    fn key(name: &str) -> Key {
        Key::new("ns", name)
    }

    fn popped(pending: &mut Pending, now: i64) -> Vec<String> {
        std::iter::from_fn(|| pending.pop(at(now)))
            .map(|key| key.name.to_string())
            .collect()
    }

    #[test]
    fn by_priority_then_by_arrival() {
        let mut pending = Pending::default();
        for (name, priority) in [("z", 0), ("a", 0), ("vip", 10)] {
            pending.add(&key(name), priority);
        }
        assert_eq!(popped(&mut pending, 0), ["vip", "z", "a"]);
    }

    #[test]
    fn a_parked_pod_waits_for_what_can_help_it() {
        let mut pending = Pending::default();
        pending.add(&key("a"), 0);
        assert_eq!(popped(&mut pending, 0), ["a"]);
        pending.park(&key("a"), 1, at(0));
        pending.wake(2, at(5));
        assert_eq!(popped(&mut pending, 5), Vec::<String>::new());
        pending.wake(1, at(5));
        assert_eq!(popped(&mut pending, 5), ["a"]);
    }

    #[test]
    fn backs_off_between_attempts() {
        let mut pending = Pending::default();
        pending.add(&key("a"), 0);
        let mut now = 0;
        let mut waits = Vec::new();
        for _ in 0..6 {
            assert_eq!(popped(&mut pending, now), ["a"]);
            pending.park(&key("a"), 1, at(now));
            pending.wake(1, at(now));
            let due = pending.next_due().unwrap().time().unix();
            waits.push(due - now);
            now = due;
        }
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
    }

    #[test]
    fn a_change_while_a_pod_is_in_hand_is_not_missed() {
        let mut pending = Pending::default();
        pending.add(&key("a"), 0);
        assert_eq!(popped(&mut pending, 0), ["a"]);
        pending.wake(1, at(0));
        pending.park(&key("a"), 1, at(0));
        assert_eq!(pending.next_due(), Some(at(1)));
    }

    #[test]
    fn parked_pods_are_tried_again_in_the_end() {
        let mut pending = Pending::default();
        pending.add(&key("a"), 0);
        popped(&mut pending, 0);
        pending.park(&key("a"), 0, at(0));
        pending.flush(at(299));
        assert_eq!(popped(&mut pending, 299), Vec::<String>::new());
        pending.flush(at(300));
        assert_eq!(popped(&mut pending, 300), ["a"]);
    }

    #[test]
    fn a_removed_pod_is_gone_from_everywhere() {
        let mut pending = Pending::default();
        pending.add(&key("a"), 0);
        pending.remove(&key("a"));
        assert_eq!(popped(&mut pending, 0), Vec::<String>::new());
        pending.add(&key("b"), 0);
        popped(&mut pending, 0);
        pending.park(&key("b"), 1, at(0));
        pending.wake(1, at(0));
        pending.remove(&key("b"));
        assert_eq!(pending.next_due(), None);
    }
}
