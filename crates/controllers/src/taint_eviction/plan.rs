//! Whether and when a pod has to leave its node. Pure.

use std::fmt;
use std::time::Duration;

use api::MicroTime;
use api::decision::{Line, reasons};
use api::kinds::{Node, Pod};
use api::taints::{Taint, TaintEffect, Toleration, find_untolerated, matching_tolerations};

/// A pod's way out, as it was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// When it was decided.
    pub since: MicroTime,
    pub at: MicroTime,
}

/// What becomes of a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// It stays, and whatever was decided before is off.
    Stay(Reason),
    /// It leaves then, unless something changes.
    Leave(Scheduled, Reason),
    /// It leaves now.
    LeaveNow(Reason),
}

/// Why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    NoTaints,
    ToleratedForEver,
    ToleratedFor(Duration),
    /// The taint that it does not tolerate.
    NotTolerated(String),
    TimeIsUp,
    /// Its node is gone; what was decided stays decided.
    NodeGone,
}

/// What becomes of a pod on a node with these taints; `held` is what was decided before. Without a node, what was
/// decided is carried out.
pub fn plan(
    pod: &Pod,
    node: Option<&Node>,
    held: Option<Scheduled>,
    now: MicroTime,
    comparison_operators: bool,
) -> Plan {
    let Some(node) = node else {
        return match held {
            None => Plan::Stay(Reason::NodeGone),
            Some(held) => carry_out(held, Reason::NodeGone, now),
        };
    };
    let taints = no_execute(node);
    if taints.is_empty() {
        return Plan::Stay(Reason::NoTaints);
    }
    let tolerations = &pod.body.tolerations;
    let Some(used) = matching_tolerations(tolerations, &taints, comparison_operators) else {
        let taint = find_untolerated(tolerations, &taints, |_| true, comparison_operators);
        let taint = taint.map_or_else(String::new, Taint::to_string);
        return Plan::LeaveNow(Reason::NotTolerated(taint));
    };
    let Some(time) = shortest(&used) else {
        return Plan::Stay(Reason::ToleratedForEver);
    };
    // UPSTREAM: what was decided stays, whatever other time a new taint or toleration would give.
    let held = held.unwrap_or(Scheduled {
        since: now,
        at: now.plus(time),
    });
    carry_out(held, Reason::ToleratedFor(time), now)
}

fn carry_out(held: Scheduled, reason: Reason, now: MicroTime) -> Plan {
    if now < held.at {
        Plan::Leave(held, reason)
    } else {
        Plan::LeaveNow(Reason::TimeIsUp)
    }
}

/// The taints that drive pods away.
pub fn no_execute(node: &Node) -> Vec<Taint> {
    let drives = |taint: &&Taint| taint.effect == TaintEffect::NoExecute;
    node.spec.taints.iter().filter(drives).cloned().collect()
}

/// The shortest time that these tolerations give; none if it has no end.
pub fn shortest(used: &[&Toleration]) -> Option<Duration> {
    let seconds = used
        .iter()
        .filter_map(|toleration| toleration.toleration_seconds)
        .min()?;
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

impl From<&Plan> for Line {
    fn from(plan: &Plan) -> Line {
        match plan {
            Plan::Stay(reason) => Line::states("Stays", "stays").because(reason.to_string()),
            Plan::Leave(scheduled, reason) => Line::waits(reasons::EVICTED_LATER, "is evicted")
                .because(reason.to_string())
                .until(scheduled.at.time()),
            Plan::LeaveNow(reason) => {
                Line::acts(reasons::EVICTED, "evicts it").because(reason.to_string())
            }
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NoTaints => write!(f, "its node has no taint that drives pods away"),
            Reason::ToleratedForEver => write!(f, "it tolerates the taints of its node"),
            Reason::ToleratedFor(time) => {
                write!(
                    f,
                    "it tolerates the taints of its node for {} s",
                    time.as_secs()
                )
            }
            Reason::NotTolerated(taint) => {
                write!(f, "it does not tolerate the taint {taint} of its node")
            }
            Reason::TimeIsUp => write!(f, "it tolerated the taints of its node long enough"),
            Reason::NodeGone => write!(f, "its node is gone"),
        }
    }
}
