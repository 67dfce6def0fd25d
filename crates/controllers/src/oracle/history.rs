//! What oracles remember: a controller may act on what it saw a moment ago.

use std::collections::BTreeMap;
use std::time::Duration;

use api::kinds::Pod;
use api::{MicroTime, Resource, ResourceType, Uid};

use super::World;
use super::change::{Actor, Change};

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

/// A name that is taken is tried again with a back-off that grows to a quarter of an hour.
const DISTURBANCE: Duration = Duration::from_secs(40 * 60);

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

/// When somebody other than their controller did something to the pods of owners of one kind.
pub(crate) struct Disturbances {
    owners: ResourceType,
    at: BTreeMap<Uid, MicroTime>,
}

impl Disturbances {
    pub(crate) fn of<K: Resource>() -> Disturbances {
        Disturbances {
            owners: K::TYPE,
            at: BTreeMap::new(),
        }
    }

    pub(crate) fn observe(&mut self, world: &World, change: &Change) {
        let (Some(before), after) = (change.before::<Pod>(), change.after::<Pod>()) else {
            return;
        };
        let pod = after.as_deref().unwrap_or(&before);
        let owner = pod.metadata.controller();
        let Some(owner) = owner.filter(|owner| *owner.kind == *self.owners.kind) else {
            return;
        };
        let is_expected = match change.by {
            Some(Actor::Manager(_, name)) => self.is_controller(name),
            Some(Actor::Nodes) => !is_worse(&before, after.as_deref()),
            Some(Actor::User) | None => false,
        };
        if !is_expected {
            self.note(&owner.uid, world.now());
        }
    }

    /// Does this controller look after the owners?
    fn is_controller(&self, name: &str) -> bool {
        crate::find(name).is_some_and(|found| found.decides_about.contains(&self.owners))
    }

    pub(crate) fn note(&mut self, owner: &Uid, at: MicroTime) {
        self.at.insert(owner.clone(), at);
    }

    /// Has somebody else touched the owner's pods lately?
    pub(crate) fn is_recent(&self, owner: &Uid, now: MicroTime) -> bool {
        let at = self.at.get(owner);
        at.is_some_and(|at| now.since(*at) <= DISTURBANCE)
    }
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
