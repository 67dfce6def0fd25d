//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use std::collections::BTreeMap;

use api::collections::HashSet;
use api::{Meta, MicroTime, Uid};

use super::DESCRIPTOR;
use crate::oracle::{Change, Oracle, Verdict, World};

/// Remembers when an object was told to leave its dependents behind.
#[derive(Default)]
pub struct GarbageCollectorOracle {
    orphaned_at: BTreeMap<Uid, MicroTime>,
}

impl Oracle for GarbageCollectorOracle {
    fn observe(&mut self, world: &World, change: &Change) {
        let orphans =
            |meta: &&Meta| meta.is_terminating() && meta.has_finalizer(super::graph::ORPHAN);
        if let Some(meta) = change.meta_after().filter(orphans) {
            let at = self.orphaned_at.entry(meta.uid.clone());
            at.or_insert_with(|| world.now());
        } else if let Some(meta) = change.meta_before().filter(orphans)
            && !change.is_by(DESCRIPTOR.name)
        {
            // UPSTREAM: a second deletion with another policy takes the finalizer away: the last one counts.
            self.orphaned_at.remove(&meta.uid);
        }
    }

    fn forget_lost(&mut self) {
        self.orphaned_at.clear();
    }

    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        let Some(meta) = change.meta_before().filter(|_| change.is_ending()) else {
            return Ok(());
        };
        self.check_spared(world, meta)?;
        safe(meta, world.all().filter(|other| other.uid != meta.uid))
    }

    fn at_rest(&self, world: &World) -> Verdict {
        converged(world.all())
    }

    fn even_if_paused(&self, world: &World) -> Verdict {
        converged(world.all())
    }
}

impl GarbageCollectorOracle {
    /// What was to be left behind is not collected afterwards.
    fn check_spared(&self, world: &World, deleted: &Meta) -> Verdict {
        let spared_by = deleted.owners.iter().find(|owner| {
            let asked_at = self.orphaned_at.get(&owner.uid);
            asked_at.is_some_and(|at| world.was_seen(deleted, at.time()))
        });
        match spared_by {
            Some(owner) => Err(format!(
                "{} was collected, although {} {} was to leave it behind",
                deleted.key(),
                owner.kind,
                owner.name
            )),
            None => Ok(()),
        }
    }
}

/// Nothing is left to collect: every object with owners has a living one and no dangling reference,
/// and nothing waits for dependents that are gone. `objects` is everything that the server has.
pub fn converged<'a>(objects: impl Iterator<Item = &'a Meta> + Clone) -> Result<(), String> {
    let alive: HashSet<_> = objects.clone().map(|meta| &meta.uid).collect();
    for meta in objects.clone() {
        let gone = meta.owners.iter().find(|owner| !alive.contains(&owner.uid));
        if let Some(owner) = gone.filter(|_| !meta.is_terminating()) {
            return Err(format!(
                "{} still refers to {} {}, which is gone",
                meta.key(),
                owner.kind,
                owner.name
            ));
        }
        if !meta.is_terminating() || !meta.has_finalizer(super::graph::FOREGROUND) {
            continue;
        }
        let blocked = objects.clone().any(|other| {
            other.uid != meta.uid
                && other
                    .owners
                    .iter()
                    .any(|owner| owner.uid == meta.uid && owner.block_owner_deletion == Some(true))
        });
        if !blocked {
            return Err(format!(
                "{} waits for dependents although nothing blocks it",
                meta.key()
            ));
        }
    }
    Ok(())
}

/// Who asked for their dependents to be spared, or to go first, is gone only after that was done. `gone`
/// is the last state of an object that is no more, `objects` are all others.
pub fn kept_its_word<'a>(
    gone: &Meta,
    mut objects: impl Iterator<Item = &'a Meta>,
) -> Result<(), String> {
    let (orphans, waits) = (
        gone.has_finalizer(super::graph::ORPHAN),
        gone.has_finalizer(super::graph::FOREGROUND),
    );
    if !orphans && !waits {
        return Ok(());
    }
    let left = objects.find(|other| {
        other.owners.iter().any(|owner| {
            owner.uid == gone.uid && (orphans || waits && owner.block_owner_deletion == Some(true))
        })
    });
    match left {
        Some(left) if orphans => Err(format!(
            "{} is gone and {} was not orphaned first",
            gone.key(),
            left.key()
        )),
        Some(left) => Err(format!(
            "{} is gone before {}, which it had to wait for",
            gone.key(),
            left.key()
        )),
        None => Ok(()),
    }
}

/// The collector never deletes what has a living owner that is not itself being deleted.
/// `deleted` is the state that the collector deleted, `objects` all others at that moment.
pub fn safe<'a>(deleted: &Meta, mut objects: impl Iterator<Item = &'a Meta>) -> Result<(), String> {
    let saved_by = objects.find(|other| {
        !other.is_terminating() && deleted.owners.iter().any(|owner| owner.uid == other.uid)
    });
    match saved_by {
        Some(owner) => Err(format!(
            "{} was deleted although its owner {} lives",
            deleted.key(),
            owner.key()
        )),
        None => Ok(()),
    }
}
