//! What oracles remember: a controller may act on what it saw a moment ago.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::kinds::Pod;
use api::{MicroTime, Resource, Uid};

use super::change::{Actor, Change};
use super::{Sight, World};

/// How long a decision may take from the look at the world to the write where requests are slow: a claim,
/// a live look and the write itself, each up to two seconds.
pub const SLOW_REACTION: Duration = Duration::from_secs(10);

/// Where they are not: hardly any time passes.
pub const REACTION: Duration = Duration::from_millis(100);

/// How far a view may lag behind: longer than the longest fault of watches.
pub const LAG: Duration = Duration::from_secs(60);

/// After changes were lost: every watch has ended, and every listing is done anew well before this. Expectations of
/// what was lost run out later, but they only hold back.
pub(super) const RELISTING: Duration = Duration::from_secs(90);

/// The bounds that each generation of an owner has set for its pods.
#[derive(Default)]
pub(crate) struct Generations(BTreeMap<Uid, Vec<Bounds>>);

struct Bounds {
    generation: i64,
    least: i32,
    most: i32,
}

impl Generations {
    pub(crate) fn note(&mut self, owner: &api::Meta, least: i32, most: i32) {
        let held = self.0.entry(owner.uid.clone()).or_default();
        let generation = owner.generation;
        let bounds = Bounds {
            generation,
            least,
            most,
        };
        match held.last_mut() {
            Some(last) if last.generation == generation => *last = bounds,
            _ => held.push(bounds),
        }
    }

    /// The widest bounds, least and most, that a controller may act on which has seen `observed` and possibly no more.
    pub(crate) fn since(&self, owner: &Uid, observed: i64) -> Option<(i32, i32)> {
        let held = self.0.get(owner)?;
        let seen = held
            .iter()
            .rposition(|bounds| bounds.generation <= observed)
            .unwrap_or(0);
        let most = held[seen..].iter().map(|bounds| bounds.most).max()?;
        let least = held[seen..].iter().map(|bounds| bounds.least).min()?;
        Some((least, most))
    }

    /// The most that an owner may want, as far as its controller may know.
    pub(crate) fn most_since(&self, owner: &Uid, observed: i64) -> i32 {
        let bounds = self.since(owner, observed);
        bounds.map_or(i32::MAX / 2, |(_, most)| most)
    }
}

/// Owners of one kind whose pods somebody else did something to, and who have not made up for it yet.
pub(crate) struct Disturbances<K> {
    disturbed: BTreeSet<Uid>,
    /// Has the owner all the pods that it wants, as it wants them?
    is_whole: fn(&K, &[Arc<Pod>]) -> bool,
}

impl<K: Resource> Disturbances<K> {
    pub(crate) fn until(is_whole: fn(&K, &[Arc<Pod>]) -> bool) -> Disturbances<K> {
        Disturbances {
            disturbed: BTreeSet::new(),
            is_whole,
        }
    }

    pub(crate) fn observe(&mut self, world: &World, change: &Change) {
        let (before, after) = (change.before::<Pod>(), change.after::<Pod>());
        let Some(pod) = after.as_ref().or(before.as_ref()) else {
            return;
        };
        let owner = pod.metadata.controller();
        let Some(owner) = owner.filter(|owner| *owner.kind == *K::TYPE.kind) else {
            return;
        };
        let is_expected = match change.by {
            Some(Actor::Manager(_, name)) => is_controller::<K>(name),
            Some(Actor::Nodes) => before
                .as_ref()
                .is_none_or(|before| !is_worse(before, after.as_deref())),
            Some(Actor::User) | None => before.is_none(),
        };
        if !is_expected {
            self.note(&owner.uid);
        } else if self.disturbed.contains(&owner.uid) {
            let owner = world
                .store::<K>()
                .find(&pod.metadata.namespace, &owner.name);
            self.look_again(world, owner.as_deref());
        }
    }

    fn look_again(&mut self, world: &World, owner: Option<&K>) {
        let Some(owner) = owner else {
            return;
        };
        let uid = &owner.meta().uid;
        if (self.is_whole)(owner, &world.owned_by(uid)) {
            self.disturbed.remove(uid);
        }
    }

    pub(crate) fn note(&mut self, owner: &Uid) {
        self.disturbed.insert(owner.clone());
    }

    /// Has the owner still to make up for what somebody else did to its pods?
    pub(crate) fn is_disturbed(&self, owner: &Uid) -> bool {
        self.disturbed.contains(owner)
    }
}

/// When owners last lost a pod that was ready.
#[derive(Default)]
pub(crate) struct Losses(BTreeMap<Uid, MicroTime>);

/// A status that only counts otherwise is written a tenth of a second late; ten times that is late enough.
const STATUS_LATE: Duration = Duration::from_secs(1);

impl Losses {
    pub(crate) fn observe(&mut self, world: &World, change: &Change) {
        let Some(before) = change.before::<Pod>().filter(|pod| pod.is_ready()) else {
            return;
        };
        let after = change.after::<Pod>();
        let owner = before.metadata.controller().map(|owner| &owner.uid);
        let is_kept = after.is_some_and(|after| {
            after.is_ready() && after.metadata.controller().map(|owner| &owner.uid) == owner
        });
        if let Some(owner) = owner.filter(|_| !is_kept) {
            self.0.insert(owner.clone(), world.now());
        }
    }

    /// The pods of an owner, and whether its controller may know them as they are: for what its status counts.
    pub(crate) fn counted<K: Resource>(
        &self,
        world: &World,
        owner: &Arc<K>,
    ) -> (Vec<Arc<Pod>>, Sight) {
        let uid = &owner.meta().uid;
        let pods = world.owned_by::<Pod>(uid);
        let sight = world.sight(&pods);
        let sight = sight.max(world.sight(std::slice::from_ref(owner)));
        let sight = sight.max(self.sight(world, uid));
        (pods, sight)
    }

    /// Has the owner's status had time to say so?
    fn sight(&self, world: &World, owner: &Uid) -> Sight {
        let window = world.reaction() + STATUS_LATE;
        let lost_at = self.0.get(owner);
        Sight::unless(lost_at.is_some_and(|at| world.now().since(*at) <= window))
    }
}

/// Does this controller look after the owners?
fn is_controller<K: Resource>(name: &str) -> bool {
    crate::find(name).is_some_and(|found| found.decides_about.contains(&K::TYPE))
}

/// Did the nodes do something to the pod that its owner has to make up for?
fn is_worse(before: &Pod, after: Option<&Pod>) -> bool {
    match after {
        Some(after) => {
            before.is_ready() && !after.is_ready() || !before.is_finished() && after.is_finished()
        }
        None => !before.metadata.is_terminating(),
    }
}
