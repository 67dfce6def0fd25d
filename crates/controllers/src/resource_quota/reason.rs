//! Why a quota says what it says.

use api::amounts::{self, Amounts};
use api::decision::{Line, reasons};
use api::{Istr, Quantity};

#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// What is used has changed, or was never told.
    Counts { before: Amounts, after: Amounts },
    /// Nothing more of this fits in.
    Exhausted {
        resource: Istr,
        used: Quantity,
        hard: Quantity,
    },
    /// Nobody serves what this would count.
    Uncountable { resource: Istr },
    /// A cache is not complete.
    NotListed { kind: String },
    /// A cache has not seen what the API server has charged for.
    Stale { kind: String },
}

impl Reason {
    /// What changes from one to the other.
    pub(super) fn counts(before: &Amounts, after: &Amounts) -> Reason {
        let changed = |one: &Amounts, two: &Amounts| {
            let mut changed = one.clone();
            changed.retain(|name, amount| two.get(name) != Some(amount));
            changed
        };
        Reason::Counts {
            before: changed(before, after),
            after: changed(after, before),
        }
    }

    pub(super) fn failure(&self) -> Option<String> {
        match self {
            Reason::NotListed { kind } => {
                Some(format!("failed to list content: {kind} not yet synced"))
            }
            _ => None,
        }
    }

    pub(super) fn line(&self) -> Line {
        match self {
            Reason::Counts { before, after } if before.is_empty() && after.is_empty() => {
                Line::acts("Counts", "takes over the limits of its spec")
            }
            Reason::Counts { before, after } if after.is_empty() => {
                Line::acts("Counts", format!("forgets {}", amounts::show(before)))
            }
            Reason::Counts { before, after } => {
                let line = Line::acts("Counts", format!("counts {}", amounts::show(after)));
                match before.is_empty() {
                    true => line,
                    false => line.because(format!("it said {}", amounts::show(before))),
                }
            }
            Reason::Exhausted {
                resource,
                used,
                hard,
            } => Line::states(
                reasons::EXHAUSTED,
                format!("{resource}: {used} of {hard} used"),
            )
            .because("what would use more is refused")
            .hint("delete something, or raise spec.hard"),
            Reason::Uncountable { resource } => {
                Line::states("Uncountable", format!("{resource} is not counted"))
                    .because("no kind that is served uses it up, so it limits nothing")
            }
            Reason::NotListed { kind } => Line::waits(
                "NotListed",
                format!("waits for the first listing of {kind}"),
            ),
            Reason::Stale { kind } => {
                Line::waits("Stale", format!("waits for the cache of {kind}"))
                    .because("the quota was charged for something that it has not seen")
            }
        }
    }
}
