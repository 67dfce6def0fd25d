//! Why a Deployment does what it does, in words that an operator would use.

use api::decision::{Line, agree, counted, reasons};
use api::{ObjectId, Time};

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
        set: ObjectId,
        replicas: i32,
        wanted: i32,
        most: i32,
    },
    /// The set of the template has to show what the Deployment says.
    Annotates {
        set: ObjectId,
    },
    Scales {
        set: ObjectId,
        from: i32,
        to: i32,
        why: Why,
    },
    /// The new set wants to grow and may not.
    NoRoom {
        set: ObjectId,
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
        set: ObjectId,
    },
    /// `Recreate` does not start new pods beside old ones.
    OldPodsRun {
        set: ObjectId,
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
        set: ObjectId,
        revision: i64,
        limit: i32,
    },
    /// One too many for the history, but not empty.
    KeptNonEmpty {
        set: ObjectId,
    },
    /// Old sets that are there to go back to.
    KeptForHistory {
        sets: usize,
        limit: i32,
    },
    RollsBack {
        set: ObjectId,
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

impl From<&Reason> for Line {
    fn from(reason: &Reason) -> Line {
        let line = match reason {
            Reason::BeingDeleted => Line::states(reasons::BEING_DELETED, "is being deleted")
                .because("only its status is kept up to date"),
            Reason::Paused => Line::waits("Paused", "is paused")
                .because("it scales, but rolls nothing out")
                .hint("kubectl rollout resume resumes the rollout"),
            Reason::SelectsEverything => Line::states("SelectsEverything", "does nothing")
                .because("its selector is empty and would select all pods")
                .hint("recreate it with a selector that is not empty"),
            Reason::Complete { replicas: 0 } => {
                Line::states("Complete", "is complete").because("it wants no pods")
            }
            Reason::Complete { replicas } => {
                let (pods, are) = (counted(*replicas, "pod"), agree(*replicas, "is", "are"));
                let why = format!("{pods} of the current template {are} available");
                Line::states("Complete", "is complete").because(why)
            }
            Reason::Creates {
                set,
                replicas,
                wanted,
                most,
            } => {
                let (wanted, most) = (counted(*wanted, "pod"), counted(*most, "pod"));
                let what = format!("creates {} with {replicas} of {wanted}", set.name);
                let why =
                    format!("no ReplicaSet has this template, and there may be {most} in all");
                Line::acts(reasons::CREATES, what).because(why)
            }
            Reason::Annotates { set } => {
                Line::acts(reasons::ANNOTATES, format!("updates {}", set.name))
                    .because("its annotations or minReadySeconds differ from the Deployment's")
            }
            Reason::Scales { set, from, to, why } => {
                let what = format!("scales {} from {from} to {to}", set.name);
                Line::acts(reasons::SCALES, what).because(why.words())
            }
            Reason::NoRoom {
                set,
                have,
                wanted,
                most,
            } => {
                let what = format!(
                    "keeps {} at {have} of {}",
                    set.name,
                    counted(*wanted, "pod")
                );
                let why = format!("maxSurge allows {} in all", counted(*most, "pod"));
                Line::waits("NoRoom", what).because(why)
            }
            Reason::OldKept {
                old,
                must_stay,
                available,
                new_unavailable,
            } => old_kept(*old, *must_stay, *available, *new_unavailable),
            Reason::StillShrinking { set } => Line::waits("StillShrinking", "keeps its old pods")
                .because(format!("{} is still scaling down", set.name)),
            Reason::OldPodsRun { set, pods } => {
                let pods = counted(*pods, "old pod");
                let what = format!("waits for {pods} of {} to end", set.name);
                Line::waits("OldPodsRun", what).because("Recreate starts no new pods before")
            }
            Reason::PodsPending {
                updated,
                available,
                wanted,
            } => {
                let why = format!("{updated} of {wanted} updated, {available} available");
                Line::waits("PodsPending", "waits for its pods").because(why)
            }
            Reason::Forgets {
                set,
                revision,
                limit,
            } => {
                let what = format!("deletes {} (revision {revision})", set.name);
                Line::acts("Forgets", what).because(format!("revisionHistoryLimit is {limit}"))
            }
            Reason::KeptNonEmpty { set } => {
                Line::waits("KeptNonEmpty", format!("keeps {}", set.name))
                    .because("it still has pods, although revisionHistoryLimit is exceeded")
            }
            Reason::KeptForHistory { sets, limit } => {
                let what = format!("has {} to roll back to", counted(*sets, "old ReplicaSet"));
                Line::states("KeptForHistory", what)
                    .because(format!("revisionHistoryLimit is {limit}"))
            }
            Reason::RollsBack { set, revision } => {
                let what = format!("rolls back to revision {revision} ({})", set.name);
                Line::acts("RollsBack", what).because("its rollback annotation requests it")
            }
            Reason::CannotRollBack { message } => {
                Line::states("CannotRollBack", "does not roll back")
                    .because(message.clone())
                    .hint("kubectl rollout history shows which revisions there are")
            }
            Reason::TimedOut => Line::states("TimedOut", "has exceeded its progress deadline")
                .because("there was no progress within progressDeadlineSeconds"),
            Reason::TimesOutAt(at) => Line::waits("TimesOutAt", "progress deadline").until(*at),
        };
        match reason.set() {
            Some(set) => line.about(set.clone()),
            None => line,
        }
    }
}

fn old_kept(old: i32, must_stay: i32, available: i32, new_unavailable: i32) -> Line {
    let what = format!("keeps {}", counted(old, "old pod"));
    let (pods, are) = (counted(must_stay, "pod"), agree(available, "is", "are"));
    let why = format!("{pods} must stay available (maxUnavailable), {available} {are}");
    let line = Line::waits("OldKept", what);
    if new_unavailable <= 0 {
        return line.because(why);
    }
    let are = agree(new_unavailable, "is", "are");
    let new = counted(new_unavailable, "new pod");
    line.because(format!("{why}, and {new} {are} not available yet"))
}

impl Reason {
    /// The set that it is about.
    fn set(&self) -> Option<&ObjectId> {
        match self {
            Reason::Creates { set, .. }
            | Reason::Annotates { set }
            | Reason::Scales { set, .. }
            | Reason::NoRoom { set, .. }
            | Reason::StillShrinking { set }
            | Reason::OldPodsRun { set, .. }
            | Reason::Forgets { set, .. }
            | Reason::KeptNonEmpty { set }
            | Reason::RollsBack { set, .. } => Some(set),
            _ => None,
        }
    }
}

impl Why {
    fn words(self) -> &'static str {
        match self {
            Why::RollsOut => "it has the current template",
            Why::Unhealthy => "these pods are old and not available anyway",
            Why::Replaced => "enough pods are available without them",
            Why::Recreates => "Recreate removes all old pods first",
            Why::Resized => "spec.replicas has changed",
            Why::Saturated => "all pods of the current template are available",
        }
    }
}
