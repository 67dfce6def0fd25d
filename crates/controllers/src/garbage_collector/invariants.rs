//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use api::Meta;
use api::collections::HashSet;

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
