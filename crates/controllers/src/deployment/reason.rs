//! Why a Deployment does what it does, in words that an operator would use.

use std::fmt;
use std::sync::Arc;

use api::Time;
use api::decision::Line;

type Name = Arc<str>;

#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    BeingDeleted,
    Paused,
    SelectsEverything,
    Complete {
        replicas: i32,
    },
    /// No set has the template yet.
    Creates {
        set: Name,
        replicas: i32,
        wanted: i32,
        most: i32,
    },
    /// The set of the template has to show what the Deployment says.
    Annotates {
        set: Name,
    },
    Scales {
        set: Name,
        from: i32,
        to: i32,
        why: Why,
    },
    /// The new set wants to grow and may not.
    NoRoom {
        set: Name,
        have: i32,
        wanted: i32,
        most: i32,
    },
    /// Old pods have to stay for now.
    OldKept {
        old: i32,
        must_stay: i32,
        available: i32,
        new_unavailable: i32,
    },
    /// An old set has more available pods than it should have: it is still shrinking.
    StillShrinking {
        set: Name,
    },
    /// `Recreate` does not start new pods beside old ones.
    OldPodsRun {
        set: Name,
        pods: i64,
    },
    /// All is scaled; pods are not there yet, or not available.
    PodsPending {
        updated: i32,
        available: i32,
        wanted: i32,
    },
    /// More sets than the history may hold.
    Forgets {
        set: Name,
        revision: i64,
        limit: i32,
    },
    /// One too many for the history, but not empty.
    KeptNonEmpty {
        set: Name,
    },
    /// Old sets that are there to go back to.
    KeptForHistory {
        sets: usize,
        limit: i32,
    },
    RollsBack {
        set: Name,
        revision: i64,
    },
    CannotRollBack {
        message: String,
    },
    TimedOut,
    TimesOutAt(Time),
}

/// Why a set is scaled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// The new set has room to grow, or has too many.
    RollsOut,
    /// Pods of an old set that are not available are no loss.
    Unhealthy,
    /// Enough pods are available without these.
    Replaced,
    /// `Recreate`: everything old goes first.
    Recreates,
    /// `spec.replicas` has changed.
    Resized,
    /// The new set is complete.
    Saturated,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::BeingDeleted => write!(f, "is being deleted: only its status is kept up"),
            Reason::Paused => write!(f, "is paused: no rollout, only scaling"),
            Reason::SelectsEverything => {
                write!(
                    f,
                    "has an empty selector, which would select all pods: does nothing"
                )
            }
            Reason::Complete { replicas } => {
                write!(
                    f,
                    "is complete: {replicas} pods of the current template are available"
                )
            }
            Reason::Creates {
                set,
                replicas,
                wanted,
                most,
            } => write!(
                f,
                "creates {set} with {replicas} of {wanted} pods: no ReplicaSet has this template, and there may be {most} pods in all"
            ),
            Reason::Annotates { set } => {
                write!(
                    f,
                    "brings annotations or minReadySeconds of {set} up to date"
                )
            }
            Reason::Scales { set, from, to, why } => {
                write!(f, "scales {set} from {from} to {to}: {why}")
            }
            Reason::NoRoom {
                set,
                have,
                wanted,
                most,
            } => write!(
                f,
                "keeps {set} at {have} of {wanted} pods: there are {most} pods in all, and there may be no more"
            ),
            Reason::OldKept {
                old,
                must_stay,
                available,
                new_unavailable,
            } => write!(
                f,
                "old replicas kept: {old} are left, {must_stay} pods must stay available, {available} are, and {new_unavailable} new pods are not available yet"
            ),
            Reason::StillShrinking { set } => {
                write!(f, "old replicas kept: {set} is still shrinking")
            }
            Reason::OldPodsRun { set, pods } => write!(
                f,
                "waits for {pods} old pods of {set} to end: Recreate starts no new pod beside them"
            ),
            Reason::PodsPending {
                updated,
                available,
                wanted,
            } => write!(
                f,
                "waits for pods: {updated} of {wanted} are of the current template, {available} are available"
            ),
            Reason::Forgets {
                set,
                revision,
                limit,
            } => write!(
                f,
                "deletes {set} (revision {revision}): the history holds {limit} old ReplicaSets"
            ),
            Reason::KeptNonEmpty { set } => {
                write!(
                    f,
                    "keeps {set}, although the history is full: it still has pods"
                )
            }
            Reason::KeptForHistory { sets, limit } => write!(
                f,
                "has {sets} old ReplicaSets to roll back to: revisionHistoryLimit is {limit}"
            ),
            Reason::RollsBack { set, revision } => {
                write!(f, "rolls back to revision {revision} ({set})")
            }
            Reason::CannotRollBack { message } => write!(f, "does not roll back: {message}"),
            Reason::TimedOut => write!(f, "has made no progress within its deadline"),
            Reason::TimesOutAt(at) => {
                write!(f, "counts as stuck at {at} unless there is progress before")
            }
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::RollsOut => "it has the current template",
            Why::Unhealthy => "these pods are old and not available anyway",
            Why::Replaced => "enough pods are available without them",
            Why::Recreates => "Recreate removes all old pods first",
            Why::Resized => "spec.replicas has changed",
            Why::Saturated => "all pods of the current template are available",
        })
    }
}

impl From<&Reason> for Line {
    fn from(reason: &Reason) -> Line {
        Line::states("Reason", reason.to_string())
    }
}
