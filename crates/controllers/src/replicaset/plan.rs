//! How many pods to create, or which to delete. Pure.

use std::sync::Arc;

use api::decision::{Explain, Line, counted};
use api::kinds::Pod;
use api::{MicroTime, ObjectId, Time};

use super::owner::ReplicaOwner;
use super::ranking::{Chosen, rank_for_deletion};
use super::snapshot::Snapshot;
use crate::workload::availability::next_availability;
use crate::workload::lines;

#[derive(Debug)]
pub enum Plan {
    Nothing(Reason),
    Create {
        count: usize,
        reason: Reason,
    },
    Delete {
        pods: Vec<Arc<Pod>>,
        reasons: Vec<Reason>,
    },
}

/// Why, in words that an operator would use.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    Enough {
        want: i32,
    },
    /// All pods are there, and some are not available.
    Unavailable {
        unavailable: usize,
        /// When the next one will be, if only time has to pass.
        next_at: Option<Time>,
    },
    BeingDeleted,
    AwaitingConsistency,
    TooFew {
        have: usize,
        want: i32,
        creating: usize,
    },
    TooMany {
        have: usize,
        want: i32,
        deleting: usize,
    },
    Deletes(Chosen),
}

/// What brings the set to its number. `related` is asked for only when pods have to be ranked.
pub fn plan<K: ReplicaOwner>(
    snapshot: &Snapshot<K>,
    burst: usize,
    now: MicroTime,
    related: impl FnOnce() -> Vec<Arc<Pod>>,
) -> Plan {
    if !snapshot.may_act {
        return Plan::Nothing(Reason::AwaitingConsistency);
    }
    if snapshot.owner.meta().is_terminating() {
        return Plan::Nothing(Reason::BeingDeleted);
    }
    let want = snapshot.owner.replicas();
    let have = snapshot.active.len();
    let wanted = usize::try_from(want).unwrap_or(0);
    if have < wanted {
        let creating = (wanted - have).min(burst);
        return Plan::Create {
            count: creating,
            reason: Reason::TooFew {
                have,
                want,
                creating,
            },
        };
    }
    if have > wanted {
        let deleting = (have - wanted).min(burst);
        return delete(snapshot, deleting, now, related);
    }
    Plan::Nothing(at_its_number(snapshot, now))
}

/// There is nothing to create or delete; pods that are not available are why others still wait.
fn at_its_number<K: ReplicaOwner>(snapshot: &Snapshot<K>, now: MicroTime) -> Reason {
    let (want, seconds) = (
        snapshot.owner.replicas(),
        snapshot.owner.min_ready_seconds(),
    );
    let pods = || snapshot.active.iter().map(|pod| &**pod);
    match pods().filter(|pod| !pod.is_available(seconds, now)).count() {
        0 => Reason::Enough { want },
        unavailable => Reason::Unavailable {
            unavailable,
            next_at: next_availability(pods(), seconds, now).map(|wait| now.plus(wait).time()),
        },
    }
}

fn delete<K: ReplicaOwner>(
    snapshot: &Snapshot<K>,
    deleting: usize,
    now: MicroTime,
    related: impl FnOnce() -> Vec<Arc<Pod>>,
) -> Plan {
    let (have, want) = (snapshot.active.len(), snapshot.owner.replicas());
    let mut reasons = vec![Reason::TooMany {
        have,
        want,
        deleting,
    }];
    let pods = if deleting < have {
        let ranked = rank_for_deletion(&snapshot.active, &related(), now, snapshot.gates);
        // The whole list would be long and is the same text over and over: the first few explain it.
        reasons.extend(
            ranked
                .iter()
                .take(deleting.min(REASONS_MAX))
                .map(|(pod, because)| {
                    Reason::Deletes(Chosen {
                        pod: ObjectId::of(&**pod),
                        because: because.clone(),
                    })
                }),
        );
        ranked
            .into_iter()
            .take(deleting)
            .map(|(pod, _)| pod)
            .collect()
    } else {
        snapshot.active.clone()
    };
    Plan::Delete { pods, reasons }
}

/// How many of the chosen pods a plan explains one by one.
const REASONS_MAX: usize = 10;

impl Explain for Plan {
    fn explain(&self) -> Vec<Line> {
        let reasons = match self {
            Plan::Nothing(reason) | Plan::Create { reason, .. } => std::slice::from_ref(reason),
            Plan::Delete { reasons, .. } => reasons,
        };
        reasons.iter().map(Line::from).collect()
    }
}

impl From<&Reason> for Line {
    fn from(reason: &Reason) -> Line {
        match reason {
            Reason::Enough { want } => lines::has_wanted("Enough", *want),
            Reason::Unavailable {
                unavailable,
                next_at,
            } => lines::unavailable(*unavailable, *next_at),
            Reason::BeingDeleted => lines::being_deleted(),
            Reason::AwaitingConsistency => lines::awaiting_consistency(),
            Reason::TooFew {
                have,
                want,
                creating,
            } => lines::too_few(*have, want, *creating),
            Reason::TooMany {
                have,
                want,
                deleting,
            } => Line::acts("TooMany", format!("deletes {}", counted(*deleting, "pod")))
                .because(format!("it has {have} and wants {want}")),
            Reason::Deletes(chosen) => chosen.into(),
        }
    }
}
