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
        self.active.insert((Reverse(priority), number, key.clone()));
        let waiting = Waiting {
            priority,
            number,
            attempts: 0,
            place: Place::Active,
        };
        self.waiting.insert(key.clone(), waiting);
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
            Place::Parked { .. } | Place::InHand { .. } => {}
        }
    }

    /// The next pod to plan. It is in hand until it is removed or parked.
    pub(super) fn pop(&mut self, now: MicroTime) -> Option<Key> {
        while let Some((until, _)) = self.cooling.first()
            && *until <= now
        {
            let (_, key) = self.cooling.pop_first()?;
            self.activate(&key);
        }
        let (_, _, key) = self.active.pop_first()?;
        if let Some(waiting) = self.waiting.get_mut(&key) {
            waiting.attempts += 1;
            waiting.place = Place::InHand { changed: 0 };
        }
        Some(key)
    }

    /// No node would do; these changes could help.
    pub(super) fn park(&mut self, key: &Key, helped_by: u8, now: MicroTime) {
        let Some(waiting) = self.waiting.get_mut(key) else {
            return;
        };
        let Place::InHand { changed } = waiting.place else {
            return;
        };
        waiting.place = Place::Parked {
            since: now,
            helped_by,
        };
        if changed & helped_by != 0 {
            self.cool(key, now);
        }
    }

    /// Something went wrong that was not the pod's fault: again after its back-off.
    pub(super) fn retry(&mut self, key: &Key, now: MicroTime) {
        self.take_from_place(key);
        if let Some(waiting) = self.waiting.get_mut(key) {
            waiting.attempts += 1;
            waiting.place = Place::Parked {
                since: now,
                helped_by: 0,
            };
            self.cool(key, now);
        }
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
        for (key, waiting) in &mut self.waiting {
            match &mut waiting.place {
                Place::Parked { helped_by, .. } if *helped_by & event != 0 => {
                    helped.push(key.clone())
                }
                Place::InHand { changed } => *changed |= event,
                _ => {}
            }
        }
        for key in helped {
            self.cool(&key, now);
        }
    }

    /// Lets a parked pod be tried again when its back-off is over.
    fn cool(&mut self, key: &Key, now: MicroTime) {
        let Some(waiting) = self.waiting.get_mut(key) else {
            return;
        };
        let Place::Parked { since, .. } = waiting.place else {
            return;
        };
        let doubled =
            BACKOFF_BASE * 2_u32.saturating_pow(waiting.attempts.saturating_sub(1).min(10));
        let until = since.plus(doubled.min(BACKOFF_MAX));
        if until <= now {
            return self.activate(key);
        }
        waiting.place = Place::Cooling { until };
        self.cooling.insert((until, key.clone()));
    }

    fn activate(&mut self, key: &Key) {
        if let Some(waiting) = self.waiting.get_mut(key) {
            waiting.place = Place::Active;
            self.active
                .insert((Reverse(waiting.priority), waiting.number, key.clone()));
        }
    }

    /// Tries again those that have been parked for too long.
    pub(super) fn flush(&mut self, now: MicroTime) {
        let stale = |waiting: &Waiting| match waiting.place {
            Place::Parked { since, .. } => now.since(since) >= PARKED_AT_MOST,
            _ => false,
        };
        let stale: Vec<Key> = self
            .waiting
            .iter()
            .filter(|(_, one)| stale(one))
            .map(|(key, _)| key.clone())
            .collect();
        for key in stale {
            self.activate(&key);
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
