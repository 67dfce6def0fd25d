//! Whether an object has to go, and how. Pure.

use std::sync::Arc;

use api::decision::{Line, agree, counted, reasons};
use api::{Meta, OwnerRef, Uid};
use client::Propagation;

use super::graph::{FOREGROUND, Item, ORPHAN};

/// What is known for sure about an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerState {
    /// It exists, and is not waiting for its dependents to go.
    Solid,
    /// It does not exist.
    Dangling,
    /// It is being deleted in the foreground.
    Waiting,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Nothing,
    /// Foreground deletion: nothing blocks it any more.
    RemoveForegroundFinalizer,
    /// Foreground deletion: these dependents come first.
    DeleteFirst(Vec<Uid>),
    /// Owners that are gone or going are taken off the list; another one stays.
    RemoveReferences(Vec<Uid>),
    /// `unblock`: its own references stop blocking first, lest a cycle waits for itself.
    Delete {
        propagation: Propagation,
        unblock: bool,
    },
}

/// Why, in words that an operator would use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    BeingDeleted,
    NoOwner,
    OwnersExist,
    SomeOwnersGone { gone: usize, left: Vec<Arc<str>> },
    OwnersGone { owners: Vec<String> },
    OwnerWaits { owners: Vec<String>, cycle: bool },
    WaitsForDependents { blocking: usize },
    DependentsGone,
}

/// For an object that is on its way out already; `None` means that its owners decide.
pub(super) fn decide_deleting(item: &Item) -> Option<(Action, Reason)> {
    if item.deleting_dependents {
        if item.blocking.is_empty() {
            return Some((Action::RemoveForegroundFinalizer, Reason::DependentsGone));
        }
        let first = item
            .blocking
            .iter()
            .filter(|(_, deleting_dependents)| !deleting_dependents)
            .map(|(uid, _)| uid.clone())
            .collect();
        let blocking = item.blocking.len();
        return Some((
            Action::DeleteFirst(first),
            Reason::WaitsForDependents { blocking },
        ));
    }
    // There is no way back: the rest follows when it is gone.
    item.being_deleted
        .then_some((Action::Nothing, Reason::BeingDeleted))
}

/// What to do with an object whose owners are in these states.
pub fn decide(item: &Item, latest: &Meta, owners: &[(OwnerRef, OwnerState)]) -> (Action, Reason) {
    let of = |state: OwnerState| owners.iter().filter(move |(_, held)| *held == state);
    let named = |state: OwnerState| of(state).map(|(owner, _)| describe(owner)).collect();
    if owners.is_empty() {
        return (Action::Nothing, Reason::NoOwner);
    }
    if of(OwnerState::Solid).next().is_some() {
        let gone: Vec<Uid> = of(OwnerState::Dangling)
            .chain(of(OwnerState::Waiting))
            .map(|(owner, _)| owner.uid.clone())
            .collect();
        if gone.is_empty() {
            return (Action::Nothing, Reason::OwnersExist);
        }
        let reason = Reason::SomeOwnersGone {
            gone: gone.len(),
            left: of(OwnerState::Solid)
                .map(|(owner, _)| owner.name.to_arc())
                .collect(),
        };
        return (Action::RemoveReferences(gone), reason);
    }
    if of(OwnerState::Waiting).next().is_some() && item.dependents > 0 {
        let cycle = item.dependent_deletes_dependents;
        let action = Action::Delete {
            propagation: Propagation::Foreground,
            unblock: cycle,
        };
        let owners = named(OwnerState::Waiting);
        return (action, Reason::OwnerWaits { owners, cycle });
    }
    let propagation = if latest.has_finalizer(ORPHAN) {
        Propagation::Orphan
    } else if latest.has_finalizer(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    let action = Action::Delete {
        propagation,
        unblock: false,
    };
    let waiting: Vec<String> = named(OwnerState::Waiting);
    let reason = if waiting.is_empty() {
        Reason::OwnersGone {
            owners: named(OwnerState::Dangling),
        }
    } else {
        Reason::OwnerWaits {
            owners: waiting,
            cycle: false,
        }
    };
    (action, reason)
}

fn describe(owner: &OwnerRef) -> String {
    format!("{} {}", owner.kind, owner.name)
}

impl From<&Reason> for Line {
    fn from(reason: &Reason) -> Line {
        match reason {
            Reason::BeingDeleted => {
                Line::states(reasons::BEING_DELETED, "is being deleted already")
            }
            Reason::NoOwner => Line::states("NoOwner", "is kept").because("it has no owner"),
            Reason::OwnersExist => {
                Line::states("OwnersExist", "is kept").because("all its owners exist")
            }
            Reason::SomeOwnersGone { gone, left } => {
                let what = format!("removes {}", counted(*gone, "owner reference"));
                let (owners, left) = (
                    agree(*gone, "its owner is", "their owners are"),
                    left.join(", "),
                );
                let why = format!("{owners} gone or being deleted, and {left} still exists");
                Line::acts("SomeOwnersGone", what).because(why)
            }
            Reason::OwnersGone { owners } => Line::acts("OwnersGone", "deletes it")
                .because(format!("its owners are gone: {}", owners.join(", "))),
            Reason::OwnerWaits { owners, cycle } => {
                let owners = owners.join(", ");
                let cycle = match cycle {
                    true => "; its own references stop blocking, as they form a cycle",
                    false => "",
                };
                let why = format!("{owners} is deleted in the foreground and waits for it{cycle}");
                Line::acts("OwnerWaits", "deletes it").because(why)
            }
            Reason::WaitsForDependents { blocking } => {
                let what = format!("waits for {}", counted(*blocking, "dependent"));
                let why = agree(
                    *blocking,
                    "it blocks the deletion",
                    "they block the deletion",
                );
                Line::waits("WaitsForDependents", what).because(why)
            }
            Reason::DependentsGone => Line::acts("DependentsGone", "removes the finalizer")
                .because("no dependent blocks its deletion any more"),
        }
    }
}
