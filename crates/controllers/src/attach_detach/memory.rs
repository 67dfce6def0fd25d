//! What no cache can say: since when a volume is to be detached, how often attaching it has failed, and what was told
//! about it. A manager that starts begins anew, as upstream's does. There is an entry for a volume and a node only while
//! the volume is attached there, or wanted.

use std::collections::BTreeMap;
use std::time::Duration;

use api::collections::HashMap;
use api::{Istr, MicroTime, Uid};
use parking_lot::Mutex;
use runtime::expectations::EXPIRY;

use super::plan::{Plan, Step};

/// How long a driver may take before it is said that it has not answered: upstream's limit of a CSI call.
pub const ATTACH_TIMEOUT: Duration = Duration::from_mins(2);

/// How soon a failure is told again, doubled each time: upstream's back-off of an operation.
pub const FIRST_RETRY: Duration = Duration::from_millis(500);
pub const LAST_RETRY: Duration = Duration::from_secs(122);

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// Since when nobody has wanted it here.
    pub unwanted_since: Option<MicroTime>,
    /// Since when its driver is waited for.
    pub awaited_since: Option<MicroTime>,
    /// How often it was told that attaching failed, and when it may be told again.
    pub failures: u32,
    pub told_again_at: MicroTime,
    /// Whether its pods were told that it is attached.
    pub is_announced: bool,
    /// Whether they were told that another node has it.
    pub is_blocked_told: bool,
    pub deleted: Option<Deleted>,
}

/// An attachment that was deleted by us, which the cache may still have: for as long as the news may be on its way. A
/// server that was restored from a backup has it again.
#[derive(Clone, Debug, PartialEq)]
pub struct Deleted {
    pub uid: Uid,
    pub until: MicroTime,
}

#[derive(Default)]
pub struct Memory(Mutex<HashMap<Istr, BTreeMap<Istr, Entry>>>);

impl Memory {
    pub fn of(&self, volume: &Istr) -> BTreeMap<Istr, Entry> {
        self.0.lock().get(volume).cloned().unwrap_or_default()
    }

    /// Notes what a plan means for the next one. Of nodes that it does not name nothing is kept.
    pub fn note(&self, volume: &Istr, plan: &Plan, now: MicroTime) {
        let mut all = self.0.lock();
        let mut held = all.remove(volume).unwrap_or_default();
        held.retain(|node, _| plan.steps.contains_key(node));
        for (node, step) in &plan.steps {
            let entry = held.entry(node.clone()).or_default();
            match step.is_unwanted() {
                true => entry.unwanted_since = entry.unwanted_since.or(Some(now)),
                false => entry.unwanted_since = None,
            }
            match step {
                Step::Attach | Step::AwaitAttach { .. } | Step::List => {
                    entry.awaited_since = entry.awaited_since.or(Some(now));
                    (entry.is_announced, entry.is_blocked_told) = (false, false);
                }
                Step::Keep => {}
                _ => {
                    (entry.awaited_since, entry.failures) = (None, 0);
                    entry.is_announced = false;
                }
            }
        }
        if !held.is_empty() {
            all.insert(volume.clone(), held);
        }
    }

    pub fn change(&self, volume: &Istr, node: &Istr, change: impl FnOnce(&mut Entry)) {
        let mut all = self.0.lock();
        let held = all.get_mut(volume).and_then(|held| held.get_mut(node));
        if let Some(entry) = held {
            change(entry);
        }
    }
}

impl Entry {
    pub fn on_deleted(&mut self, uid: Uid, now: MicroTime) {
        let until = now.plus(EXPIRY);
        self.deleted = Some(Deleted { uid, until });
    }

    /// A failure is told: when may it be told again?
    pub fn on_failure(&mut self, now: MicroTime) -> Duration {
        let doubled = FIRST_RETRY.saturating_mul(1 << self.failures.min(16));
        let wait = doubled.min(LAST_RETRY);
        self.failures = self.failures.saturating_add(1);
        self.told_again_at = now.plus(wait);
        self.awaited_since = Some(now);
        wait
    }
}
