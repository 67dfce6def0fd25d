//! What the laws between controllers remember.

use std::collections::BTreeMap;

use api::{MicroTime, Uid};
use apiserver::Changed;
use controllers::oracle::{Change, World};
use serde::Deserialize;

#[derive(Default)]
pub(super) struct History {
    /// When an object began to go away.
    ended_at: BTreeMap<Uid, MicroTime>,
    /// `status.observedGeneration` of each object that has one, before its last change and after it.
    observed: BTreeMap<Uid, (i64, i64)>,
}

/// An object, as far as what its controller has observed of it goes.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Observed {
    metadata: Identity,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Identity {
    uid: Uid,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    observed_generation: Option<i64>,
}

impl History {
    pub(super) fn observe(&mut self, world: &World, change: &Change) {
        if let Some(meta) = change.meta_before().filter(|_| change.is_ending()) {
            let ended_at = self.ended_at.entry(meta.uid.clone());
            ended_at.or_insert_with(|| world.now());
        }
    }

    pub(super) fn note_observed(&mut self, changed: &Changed) {
        // Not every kind has a status like that.
        let Ok(object) = serde_json::from_slice::<Observed>(&changed.body) else {
            return;
        };
        if let Some(observed) = object.status.observed_generation {
            let held = self.observed.entry(object.metadata.uid);
            let (before, after) = held.or_insert((observed, observed));
            (*before, *after) = (*after, observed);
        }
    }

    /// Where `status.observedGeneration` went back in the last change of the object: from, and to.
    pub(super) fn unobserved(&self, object: &Uid) -> Option<(i64, i64)> {
        let held = self.observed.get(object).copied();
        held.filter(|(before, after)| after < before)
    }

    /// Was it gone for so long that whoever acts for it must know?
    pub(super) fn is_long_gone(&self, world: &World, uid: &Uid) -> bool {
        let ended_at = self.ended_at.get(uid);
        ended_at.is_some_and(|at| world.now().since(*at) > world.reaction())
    }

    /// The server has lost changes: who was dead may live again, and what was observed is read again.
    pub(super) fn forget_lost(&mut self) {
        self.ended_at.clear();
        self.observed.clear();
    }
}
