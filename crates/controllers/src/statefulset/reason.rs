//! Why a StatefulSet does what it does, in words that an operator would use.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api::decision::Line;
use api::kinds::Phase;

#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    BeingDeleted,
    Settled {
        replicas: i32,
        revision: Arc<str>,
    },
    Unavailable {
        unavailable: usize,
    },
    Creates {
        pod: Arc<str>,
        revision: Arc<str>,
    },
    AwaitsStaleClaim {
        pod: Arc<str>,
        claim: Arc<str>,
    },
    ReplacesFinished {
        pod: Arc<str>,
        phase: Phase,
    },
    SetsClaims {
        pod: Arc<str>,
    },
    Repairs {
        pod: Arc<str>,
        identity: bool,
        storage: bool,
        claims: bool,
    },
    AwaitsTermination {
        pod: Arc<str>,
    },
    AwaitsReady {
        pod: Arc<str>,
    },
    AwaitsAvailable {
        pod: Arc<str>,
        wait: Duration,
    },
    /// The pod that all others wait for is of a revision that will not be used any more.
    AwaitsSuperseded {
        pod: Arc<str>,
        revision: Arc<str>,
        wanted: Arc<str>,
    },
    ReplacesStuck {
        pod: Arc<str>,
        revision: Arc<str>,
        wanted: Arc<str>,
    },
    ScalesDown {
        pod: Arc<str>,
        replicas: i32,
    },
    ScaleDownAwaits {
        pod: Arc<str>,
        unhealthy: Arc<str>,
    },
    OnDelete {
        outdated: usize,
    },
    Updates {
        pod: Arc<str>,
        from: Arc<str>,
        to: Arc<str>,
    },
    UpdateAwaits {
        pod: Arc<str>,
    },
    UpdateAwaitsBudget {
        unavailable: usize,
        most: usize,
    },
    Partition {
        kept: usize,
        first: i32,
    },
    /// The template is that of an older revision again.
    OldTemplate {
        revision: Arc<str>,
        number: i64,
    },
    NewTemplate {
        number: i64,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::BeingDeleted => write!(
                f,
                "is being deleted: its pods are left to the garbage collector"
            ),
            Reason::Settled { replicas, revision } => {
                write!(f, "has the {replicas} pods it wants, at {revision}")
            }
            Reason::Unavailable { unavailable } => {
                write!(f, "waits for {unavailable} of its pods to be available")
            }
            Reason::Creates { pod, revision } => write!(f, "creates {pod} at {revision}"),
            Reason::AwaitsStaleClaim { pod, claim } => write!(
                f,
                "creates no {pod} yet: its claim {claim} still belongs to the pod before it and goes with that"
            ),
            Reason::ReplacesFinished { pod, phase } => {
                write!(
                    f,
                    "deletes {pod}, which has {}, to replace it",
                    past(*phase)
                )
            }
            Reason::SetsClaims { pod } => {
                write!(f, "sees to the volume claims of {pod}")
            }
            Reason::Repairs {
                pod,
                identity,
                storage,
                claims,
            } => {
                let what: Vec<&str> = [
                    (identity, "labels"),
                    (storage, "volumes"),
                    (claims, "owners of its claims"),
                ]
                .into_iter()
                .filter_map(|(wrong, what)| wrong.then_some(what))
                .collect();
                write!(f, "repairs {pod}: {}", what.join(", "))
            }
            Reason::AwaitsTermination { pod } => write!(f, "waits until {pod} is gone"),
            Reason::AwaitsReady { pod } => {
                write!(f, "waits until {pod} runs and is ready")
            }
            Reason::AwaitsAvailable { pod, wait } => {
                write!(
                    f,
                    "waits until {pod} has been ready long enough: {wait:?} more"
                )
            }
            Reason::AwaitsSuperseded {
                pod,
                revision,
                wanted,
            } => write!(
                f,
                "waits until {pod} runs and is ready, though it is of revision {revision} and {wanted} is wanted: delete {pod} if it never gets ready"
            ),
            Reason::ReplacesStuck {
                pod,
                revision,
                wanted,
            } => write!(
                f,
                "deletes {pod}: it is not ready, holds up the others, and its revision {revision} has been superseded by {wanted}"
            ),
            Reason::ScalesDown { pod, replicas } => {
                write!(f, "deletes {pod}: only {replicas} pods are wanted")
            }
            Reason::ScaleDownAwaits { pod, unhealthy } => {
                write!(f, "deletes {pod} only when {unhealthy} is healthy or gone")
            }
            Reason::OnDelete { outdated } => write!(
                f,
                "leaves {outdated} pods of old revisions until somebody deletes them (OnDelete)"
            ),
            Reason::Updates { pod, from, to } => {
                write!(f, "deletes {pod} to update it from {} to {to}", named(from))
            }
            Reason::UpdateAwaits { pod } => {
                write!(f, "goes on with the update when {pod} is available")
            }
            Reason::UpdateAwaitsBudget { unavailable, most } => write!(
                f,
                "goes on with the update when fewer than {most} pods are unavailable: {unavailable} are now"
            ),
            Reason::Partition { kept, first } => write!(
                f,
                "keeps {kept} pods below ordinal {first} at their revision (partition)"
            ),
            Reason::OldTemplate { revision, number } => write!(
                f,
                "the template is that of {revision} again: it becomes revision {number}"
            ),
            Reason::NewTemplate { number } => {
                write!(f, "the template is new: it becomes revision {number}")
            }
        }
    }
}

fn past(phase: Phase) -> &'static str {
    match phase {
        Phase::Failed => "failed",
        _ => "succeeded",
    }
}

fn named(revision: &str) -> &str {
    if revision.is_empty() {
        "no revision"
    } else {
        revision
    }
}

impl From<&Reason> for Line {
    fn from(reason: &Reason) -> Line {
        Line::states("Reason", reason.to_string())
    }
}
