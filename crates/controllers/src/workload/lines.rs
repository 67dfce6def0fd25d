//! Lines of a decision that several workloads have in common.

use std::fmt::Display;

use api::Time;
use api::decision::{Line, agree, counted, reasons};

pub(crate) fn being_deleted() -> Line {
    Line::states(reasons::BEING_DELETED, "is being deleted")
        .because("its pods are left to the garbage collector")
}

pub(crate) fn awaiting_consistency() -> Line {
    Line::waits("AwaitingConsistency", "waits for the cache")
        .because("it does not show yet which pods were just created or deleted")
}

pub(crate) fn too_few(have: usize, want: impl Display, creating: usize) -> Line {
    let what = format!("creates {}", counted(creating, "pod"));
    Line::acts(reasons::TOO_FEW, what).because(format!("it has {have} of {want}"))
}

/// All pods are there.
pub(crate) fn has_wanted<N>(reason: &'static str, count: N) -> Line
where
    N: Copy + PartialEq + From<u8> + Display,
{
    if count == N::from(0) {
        return Line::states(reason, "wants no pods");
    }
    Line::states(
        reason,
        format!("has the {} it wants", counted(count, "pod")),
    )
}

/// Pods are not available; `next_at` is when the next one will be, if only time has to pass.
pub(crate) fn unavailable(unavailable: usize, next_at: Option<Time>) -> Line {
    let pods = counted(unavailable, "pod");
    if next_at.is_none() {
        let what = format!("waits for {pods} to be available");
        return Line::waits("Unavailable", what);
    }
    let are = agree(unavailable, "is", "are");
    Line::waits("Unavailable", "counts another pod as available")
        .until(next_at)
        .because(format!(
            "minReadySeconds has not passed, and {pods} {are} unavailable"
        ))
}

/// Outdated pods that the update strategy `OnDelete` leaves alone.
pub(crate) fn on_delete(outdated: usize) -> Line {
    let pods = counted(outdated, "outdated pod");
    let they = agree(outdated, "it is", "they are");
    let what = format!("leaves {pods} alone until {they} deleted");
    Line::waits(reasons::ON_DELETE, what)
        .because("the update strategy is OnDelete")
        .hint("delete outdated pods; kubectl get pods -L controller-revision-hash shows which they are")
}

/// `waits: is suspended [hint: resume it]`, for snapshots of plans.
#[cfg(test)]
pub(crate) fn with_class(line: impl Into<Line>) -> String {
    let line = line.into();
    let class = format!("{:?}", line.class).to_lowercase();
    match &*line.hint {
        "" => format!("{class}: {line}"),
        hint => format!("{class}: {line} [hint: {hint}]"),
    }
}
