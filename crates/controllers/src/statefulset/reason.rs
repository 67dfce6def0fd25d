//! Why a StatefulSet does what it does, in words that an operator would use.

use std::sync::Arc;

use api::decision::{Line, agree, counted, reasons};
use api::kinds::Phase;
use api::{ObjectId, Time};

use crate::workload::lines;

#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    BeingDeleted,
    Complete {
        replicas: i32,
        revision: Arc<str>,
    },
    Unavailable {
        unavailable: usize,
    },
    Creates {
        pod: ObjectId,
        revision: Arc<str>,
    },
    AwaitsStaleClaim {
        pod: ObjectId,
        claim: Arc<str>,
    },
    ReplacesFinished {
        pod: ObjectId,
        phase: Phase,
    },
    SetsClaims {
        pod: ObjectId,
    },
    Repairs {
        pod: ObjectId,
        identity: bool,
        storage: bool,
        claims: bool,
    },
    AwaitsTermination {
        pod: ObjectId,
    },
    AwaitsReady {
        pod: ObjectId,
    },
    AwaitsAvailable {
        pod: ObjectId,
        at: Time,
    },
    /// The pod that all others wait for is of a revision that will not be used any more.
    AwaitsSuperseded {
        pod: ObjectId,
        revision: Arc<str>,
        wanted: Arc<str>,
    },
    ReplacesStuck {
        pod: ObjectId,
        revision: Arc<str>,
        wanted: Arc<str>,
    },
    ScalesDown {
        pod: ObjectId,
        replicas: i32,
    },
    ScaleDownAwaits {
        pod: ObjectId,
        unhealthy: Arc<str>,
    },
    OnDelete {
        outdated: usize,
    },
    Updates {
        pod: ObjectId,
        from: Arc<str>,
        to: Arc<str>,
    },
    UpdateAwaits {
        pod: ObjectId,
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

impl From<&Reason> for Line {
    fn from(reason: &Reason) -> Line {
        let deletes = |code, pod: &ObjectId| Line::acts(code, format!("deletes {}", pod.name));
        let line = match reason {
            Reason::BeingDeleted => lines::being_deleted(),
            Reason::Complete { replicas, revision } => complete(*replicas, revision),
            Reason::Unavailable { unavailable } => lines::unavailable(*unavailable, None),
            Reason::Creates { pod, revision } => {
                let what = format!("creates {} of revision {revision}", pod.name);
                Line::acts(reasons::CREATES, what).because("it is missing")
            }
            Reason::AwaitsStaleClaim { pod, claim } => {
                let why = format!("its claim {claim} is deleted with the previous pod");
                let what = format!("waits to create {}", pod.name);
                Line::waits("AwaitsStaleClaim", what).because(why)
            }
            Reason::ReplacesFinished { pod, phase } => {
                deletes("ReplacesFinished", pod).because(match phase {
                    Phase::Failed => "it has failed, and is replaced",
                    _ => "it has succeeded, and is replaced",
                })
            }
            Reason::SetsClaims { pod } => {
                let what = format!("updates the volume claims of {}", pod.name);
                Line::acts("SetsClaims", what)
                    .because("some are missing, or have outdated owner references")
            }
            Reason::Repairs {
                pod,
                identity,
                storage,
                claims,
            } => repairs(pod, [*identity, *storage, *claims]),
            Reason::AwaitsTermination { pod } => {
                let what = format!("waits until {} is gone", pod.name);
                Line::waits("AwaitsTermination", what).because("it is being deleted")
            }
            Reason::AwaitsReady { pod } => awaits_ready("AwaitsReady", pod).because(ONE_BY_ONE),
            Reason::AwaitsAvailable { pod, at } => {
                let what = format!("counts {} as available", pod.name);
                let line = Line::waits("AwaitsAvailable", what).until(*at);
                line.because("minReadySeconds has not passed")
            }
            Reason::AwaitsSuperseded {
                pod,
                revision,
                wanted,
            } => awaits_ready(reasons::AWAITS_SUPERSEDED, pod)
                .because(format!(
                    "{ONE_BY_ONE}, although {}",
                    superseded(revision, wanted)
                ))
                .hint(format!("delete pod {} if it never becomes ready", pod.name)),
            Reason::ReplacesStuck {
                pod,
                revision,
                wanted,
            } => {
                let superseded = superseded(revision, wanted);
                let why = format!("it is not ready, blocks the others, and {superseded}");
                deletes("ReplacesStuck", pod).because(why)
            }
            Reason::ScalesDown { pod, replicas } => {
                deletes("ScalesDown", pod).because(format!("spec.replicas is {replicas}"))
            }
            Reason::ScaleDownAwaits { pod, unhealthy } => {
                let what = format!("waits to delete {}", pod.name);
                Line::waits("ScaleDownAwaits", what)
                    .because(format!("{unhealthy} has to be healthy or gone first"))
            }
            Reason::OnDelete { outdated } => lines::on_delete(*outdated),
            Reason::Updates { pod, from, to } => {
                let why = format!("its revision is {}, and {to} is wanted", named(from));
                deletes("Updates", pod).because(why)
            }
            Reason::UpdateAwaits { pod } => {
                let what = format!("waits until {} is available", pod.name);
                Line::waits("UpdateAwaits", what).because("the update continues after it")
            }
            Reason::UpdateAwaitsBudget { unavailable, most } => {
                let are = agree(*unavailable, "is", "are");
                let pods = counted(*unavailable, "pod");
                let why = format!("{pods} {are} unavailable, and maxUnavailable is {most}");
                Line::waits("UpdateAwaitsBudget", "waits to update more pods").because(why)
            }
            Reason::Partition { kept, first } => {
                let what = format!("keeps {}", counted(*kept, "outdated pod"));
                let why = format!("the partition lets ordinals from {first} on be updated");
                Line::states("Partition", what).because(why)
            }
            Reason::OldTemplate { revision, number } => {
                Line::acts("OldTemplate", format!("makes {revision} revision {number}"))
                    .because("the template is that of an old revision again")
            }
            Reason::NewTemplate { number } => {
                Line::acts("NewTemplate", format!("creates revision {number}"))
                    .because("the template is new")
            }
        };
        match reason.pod() {
            Some(pod) => line.about(pod.clone()),
            None => line,
        }
    }
}

/// Why an ordered set waits for a pod.
const ONE_BY_ONE: &str = "OrderedReady handles one pod after the other";

fn awaits_ready(code: &'static str, pod: &ObjectId) -> Line {
    Line::waits(
        code,
        format!("waits until {} is running and ready", pod.name),
    )
}

fn superseded(revision: &str, wanted: &str) -> String {
    format!("its revision {} is superseded by {wanted}", named(revision))
}

fn complete(replicas: i32, revision: &str) -> Line {
    let line = lines::has_wanted("Complete", replicas);
    match replicas {
        0 => line,
        _ => line.because(format!("the current revision is {revision}")),
    }
}

fn repairs(pod: &ObjectId, wrong: [bool; 3]) -> Line {
    let parts = ["labels", "volumes", "claim owner references"];
    let wrong: Vec<&str> = std::iter::zip(wrong, parts)
        .filter_map(|(wrong, part)| wrong.then_some(part))
        .collect();
    let why = format!("its {} do not match the set", wrong.join(" and "));
    Line::acts("Repairs", format!("updates {}", pod.name)).because(why)
}

fn named(revision: &str) -> &str {
    match revision {
        "" => "(none)",
        revision => revision,
    }
}

impl Reason {
    /// The pod that it is about.
    fn pod(&self) -> Option<&ObjectId> {
        match self {
            Reason::Creates { pod, .. }
            | Reason::AwaitsStaleClaim { pod, .. }
            | Reason::ReplacesFinished { pod, .. }
            | Reason::SetsClaims { pod }
            | Reason::Repairs { pod, .. }
            | Reason::AwaitsTermination { pod }
            | Reason::AwaitsReady { pod }
            | Reason::AwaitsAvailable { pod, .. }
            | Reason::AwaitsSuperseded { pod, .. }
            | Reason::ReplacesStuck { pod, .. }
            | Reason::ScalesDown { pod, .. }
            | Reason::ScaleDownAwaits { pod, .. }
            | Reason::Updates { pod, .. }
            | Reason::UpdateAwaits { pod } => Some(pod),
            Reason::BeingDeleted
            | Reason::Complete { .. }
            | Reason::Unavailable { .. }
            | Reason::OnDelete { .. }
            | Reason::UpdateAwaitsBudget { .. }
            | Reason::Partition { .. }
            | Reason::OldTemplate { .. }
            | Reason::NewTemplate { .. } => None,
        }
    }
}
