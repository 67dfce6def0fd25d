//! Moments that a chart points at: when a rollout began to fail, and when it was given up. Pure.

use api::{Time, Uid};
use serde::Serialize;

use crate::facts::{Gathered, text};
use crate::log::Noted;
use crate::report::{Workload, seconds, top_owner};
use crate::run::Run;
use crate::timeline::REPORTED;

/// A moment and what happens in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// Seconds from the moment of applying.
    pub at: f64,
    pub text: String,
}

/// The cause of a rollout that does not complete, and its deadline.
pub(crate) fn marks(
    run: &Run,
    gathered: &Gathered,
    noted: &Noted,
    workload: &Workload,
) -> Vec<Mark> {
    let mut found = Vec::new();
    if !workload.completes {
        found.extend(cause(run, gathered, noted, workload));
    }
    let deadline = noted.timed_out.get(&workload.id.uid);
    if let Some(at) = deadline.filter(|at| **at >= run.start) {
        found.push(Mark {
            at: seconds(run.start, *at),
            text: "progress deadline exceeded".to_owned(),
        });
    }
    if let Some(failure) = &workload.failure {
        found.push(Mark {
            at: failure.at,
            text: format!("fails: {}", failure.reason),
        });
    }
    found
}

/// The first warning about a pod of the workload.
fn cause(run: &Run, gathered: &Gathered, noted: &Noted, workload: &Workload) -> Option<Mark> {
    let is_own = |uid: &str| {
        let life = noted.pods.get(&Uid::parse(uid));
        let owner = life.and_then(|life| life.owner.as_ref());
        let owner = owner.and_then(|owner| top_owner(noted, owner));
        owner.cloned().unwrap_or_else(|| Uid::parse(uid)) == workload.id.uid
    };
    let events = gathered.events.iter().filter(|event| {
        text(event, "/type") == "Warning"
            && REPORTED.contains(&text(event, "/reason"))
            && is_own(text(event, "/involvedObject/uid"))
    });
    let timed = events.filter_map(|event| {
        let at = Time::parse(text(event, "/firstTimestamp"))?.micro();
        (at >= run.start.time().micro()).then_some((at.max(run.start), event))
    });
    let (at, event) = timed.min_by_key(|(at, _)| *at)?;
    Some(Mark {
        at: seconds(run.start, at),
        text: shortened(text(event, "/message")),
    })
}

/// As much of a message as fits beside a chart: whole items of a list, else what comes before the details.
fn shortened(message: &str) -> String {
    const LENGTH_MAX: usize = 60;
    let first = explain::first_sentence(message);
    let Some((end, _)) = first.char_indices().nth(LENGTH_MAX) else {
        return first;
    };
    let fits = &first[..end];
    match fits.rfind(", ").or_else(|| fits.find(": ")) {
        Some(end) => fits[..end].to_owned(),
        None => format!("{}...", fits.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_says_the_first_sentence() {
        assert_eq!(
            shortened(
                "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available."
            ),
            "0/3 nodes are available: 3 Insufficient cpu"
        );
        assert_eq!(
            shortened(
                "Failed to pull image \"example.com/shop/web:2\": rpc error: code = NotFound"
            ),
            "Failed to pull image \"example.com/shop/web:2\""
        );
        assert_eq!(
            shortened(
                "0/9 nodes are available: 3 Insufficient cpu, 6 node(s) had untolerated taint(s)"
            ),
            "0/9 nodes are available: 3 Insufficient cpu"
        );
        let long = "word ".repeat(20);
        assert_eq!(
            shortened(&long),
            "word word word word word word word word word word word word..."
        );
    }
}
