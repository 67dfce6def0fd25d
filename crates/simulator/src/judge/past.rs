//! What the judge remembers: a controller may act on what it saw a moment ago.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{MicroTime, Uid};

/// How long a decision may take from the look at the world to the write where requests are slow: a claim,
/// a live look and the write itself, each up to two seconds.
const SLOW_REACTION: Duration = Duration::from_secs(10);

/// Where they are not: hardly any time passes.
const REACTION: Duration = Duration::from_millis(100);

/// How far a view may lag behind: longer than the longest trouble with watches.
const LAG: Duration = Duration::from_secs(60);

/// After changes were lost: every watch has ended, and every listing is done anew well before this. Expectations of
/// what was lost run out later, but they only hold back.
const RELISTING: Duration = Duration::from_secs(90);

/// A manager whose lease was lost with the tail goes on until it has failed to renew it for ten seconds, and may be told
/// so late (two tries, each up to two seconds slow).
const RENEWAL: Duration = Duration::from_secs(16);

/// A name that is taken is tried again with a back-off that grows to a quarter of an hour.
const DISTURBANCE: Duration = Duration::from_secs(40 * 60);

#[derive(Default)]
pub(super) struct Past {
    /// Of each owner: generation and the bounds that it set.
    bounds: BTreeMap<Uid, Vec<Bounds>>,
    /// Of each ReplicaSet: how many pods its status promised beyond what it asks for, and until when.
    surplus: BTreeMap<Uid, (MicroTime, i32)>,
    /// When an object began to go away.
    ended: BTreeMap<Uid, MicroTime>,
    /// When somebody other than its controller did something to the pods of an owner.
    disturbed: BTreeMap<Uid, MicroTime>,
    /// Of each job: its pods that were seen to succeed, and when.
    successes: BTreeMap<Uid, BTreeMap<Uid, MicroTime>>,
    /// How often a job adopted a pod that had succeeded before.
    successes_again: BTreeMap<Uid, usize>,
    /// When an object was told to leave its dependents behind.
    orphaned: BTreeMap<Uid, MicroTime>,
    /// Since when a job is suspended.
    suspended: BTreeMap<Uid, MicroTime>,
    forgiven_at: Option<MicroTime>,
    /// Requests may take long.
    pub(super) is_slow: bool,
}

/// What one generation of an owner asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) generation: i64,
    pub(super) most: i32,
    pub(super) least: i32,
}

impl Past {
    pub(super) fn note_bounds(&mut self, owner: &Uid, bounds: Bounds) {
        let held = self.bounds.entry(owner.clone()).or_default();
        match held.last_mut() {
            Some(last) if last.generation == bounds.generation => *last = bounds,
            _ => held.push(bounds),
        }
    }

    /// The widest bounds that a controller may act on which has seen `observed` and possibly no more.
    pub(super) fn bounds_since(&self, owner: &Uid, observed: i64) -> Option<(i32, i32)> {
        let held = self.bounds.get(owner)?;
        let seen = held
            .iter()
            .rposition(|bounds| bounds.generation <= observed)
            .unwrap_or(0);
        let most = held[seen..].iter().map(|bounds| bounds.most).max()?;
        let least = held[seen..].iter().map(|bounds| bounds.least).min()?;
        Some((least, most))
    }

    pub(super) fn note_surplus(&mut self, set: &Uid, surplus: i32, at: MicroTime) {
        if surplus > 0 {
            let held = self.surplus(set, at, true);
            self.surplus.insert(set.clone(), (at, surplus.max(held)));
        }
    }

    /// The surplus that a controller may still see, whose view may lag.
    pub(super) fn surplus(&self, set: &Uid, now: MicroTime, lag: bool) -> i32 {
        let window = if lag { LAG } else { REACTION };
        let held = self.surplus.get(set);
        held.filter(|(at, _)| now.since(*at) <= window)
            .map_or(0, |(_, surplus)| *surplus)
    }

    pub(super) fn note_end(&mut self, uid: &Uid, at: MicroTime) {
        self.ended.entry(uid.clone()).or_insert(at);
    }

    /// Was it gone for so long that whoever acts for it must know?
    pub(super) fn is_long_gone(&self, uid: &Uid, now: MicroTime) -> bool {
        let reaction = if self.is_slow {
            SLOW_REACTION
        } else {
            REACTION
        };
        let ended = self.ended.get(uid);
        ended.is_some_and(|at| now.since(*at) > reaction)
    }

    pub(super) fn note_success(&mut self, job: &Uid, pod: &Uid, at: MicroTime) {
        let held = self.successes.entry(job.clone()).or_default();
        held.entry(pod.clone()).or_insert(at);
    }

    pub(super) fn note_success_again(&mut self, job: &Uid) {
        *self.successes_again.entry(job.clone()).or_default() += 1;
    }

    /// How often a pod of a job has succeeded and come to it.
    pub(super) fn successes(&self, job: &Uid) -> usize {
        let again = self.successes_again.get(job).copied().unwrap_or(0);
        self.successes.get(job).map_or(0, BTreeMap::len) + again
    }

    /// Has the pod succeeded so long ago that its job's controller knows?
    pub(super) fn is_old_success(&self, job: &Uid, pod: &Uid, now: MicroTime) -> bool {
        let at = self.successes.get(job).and_then(|held| held.get(pod));
        at.is_some_and(|at| now.since(*at) > REACTION)
    }

    pub(super) fn note_orphaning(&mut self, owner: &Uid, at: MicroTime) {
        self.orphaned.entry(owner.clone()).or_insert(at);
    }

    pub(super) fn forget_orphaning(&mut self, owner: &Uid) {
        self.orphaned.remove(owner);
    }

    pub(super) fn orphaned_at(&self, owner: &Uid) -> Option<MicroTime> {
        self.orphaned.get(owner).copied()
    }

    pub(super) fn note_suspension(&mut self, job: &Uid, suspended: bool, at: MicroTime) {
        match suspended {
            true => {
                self.suspended.entry(job.clone()).or_insert(at);
            }
            false => {
                self.suspended.remove(job);
            }
        }
    }

    /// Has the job been suspended for so long that its controller knows?
    pub(super) fn is_suspended(&self, job: &Uid, now: MicroTime) -> bool {
        let since = self.suspended.get(job);
        since.is_some_and(|at| now.since(*at) > REACTION)
    }

    pub(super) fn disturb(&mut self, owner: &Uid, at: MicroTime) {
        self.disturbed.insert(owner.clone(), at);
    }

    /// Has nobody else touched the owner's pods for a while?
    pub(super) fn is_undisturbed(&self, owner: &Uid, now: MicroTime) -> bool {
        let at = self.disturbed.get(owner);
        at.is_none_or(|at| now.since(*at) > DISTURBANCE)
    }

    /// The server lost changes: for a while nobody can be held to what they have seen, and who was dead may
    /// live again.
    pub(super) fn forgive(&mut self, at: MicroTime) {
        self.ended.clear();
        self.orphaned.clear();
        self.forgiven_at = Some(at);
    }

    /// May a manager still believe in a lease that was lost?
    pub(super) fn is_lease_lost(&self, now: MicroTime) -> bool {
        self.forgiven_at.is_some_and(|at| now.since(at) < RENEWAL)
    }

    /// May somebody still act on what was lost?
    pub(super) fn is_forgiven(&self, now: MicroTime) -> bool {
        self.forgiven_at.is_some_and(|at| now.since(at) < RELISTING)
    }
}
