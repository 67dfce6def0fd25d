//! Why an autoscaler does what it does: typed, and what becomes of it in decisions and events.

use api::Time;
use api::decision::{Line, counted, reasons};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The target was scaled to zero by somebody else.
    Disabled,
    OutOfBounds {
        current: i32,
        to: i32,
    },
    Proposes {
        metric: String,
        replicas: i32,
    },
    /// The window does not let the proposal through yet.
    Stabilized {
        proposed: i32,
        kept: i32,
        opens_at: Option<Time>,
    },
    /// Bounds or policies do not let it through.
    Limited {
        wanted: i32,
        allowed: i32,
        reason: &'static str,
        has_policies: bool,
        /// When its policies let it go on.
        next_at: Option<Time>,
    },
    /// Its behavior turns this direction off.
    TurnedOff {
        proposed: i32,
        grows: bool,
    },
    Scales {
        from: i32,
        to: i32,
    },
    Stays {
        replicas: i32,
    },
    /// One of its metrics could not be read; the others may do. With the reason of the event that tells of it.
    Unmeasured {
        reason: &'static str,
        why: String,
    },
    /// With the reason of the event that tells of it.
    Failed {
        reason: &'static str,
        why: String,
    },
}

impl From<&Reason> for Line {
    fn from(reason: &Reason) -> Line {
        match reason {
            Reason::Disabled => Line::waits("ScalingDisabled", "leaves its target alone")
                .because("it is scaled to zero")
                .hint("scale the target to one replica or more to turn autoscaling on again"),
            Reason::OutOfBounds { current, to } => Line::acts(
                "OutOfBounds",
                format!("scales its target from {current} to {to}"),
            )
            .because("it is outside minReplicas and maxReplicas"),
            Reason::Proposes { metric, replicas } => Line::states(
                reasons::PROPOSES,
                format!("{metric} asks for {}", counted(*replicas, "replica")),
            ),
            Reason::Stabilized {
                proposed,
                kept,
                opens_at,
            } => Line::waits(reasons::STABILIZED, format!("follows to {proposed}"))
                .because(format!(
                    "recent proposals hold it at {kept} until the stabilization window has passed"
                ))
                .until(*opens_at),
            Reason::Limited {
                wanted,
                allowed,
                reason,
                has_policies,
                next_at,
            } => {
                let why = match *reason {
                    "TooFewReplicas" => format!("minReplicas does not allow {wanted}"),
                    "TooManyReplicas" => format!("maxReplicas does not allow {wanted}"),
                    _ if *has_policies => {
                        format!("the policies of its behavior do not allow {wanted} yet")
                    }
                    _ => format!("it may not grow to {wanted} in one step"),
                };
                match next_at {
                    Some(_) => Line::waits(reason, format!("goes further than {allowed}")),
                    None => Line::waits(reason, format!("goes no further than {allowed}")),
                }
                .because(why)
                .until(*next_at)
            }
            Reason::TurnedOff { proposed, grows } => {
                let (direction, field) = match grows {
                    true => ("up", "scaleUp"),
                    false => ("down", "scaleDown"),
                };
                Line::states("TurnedOff", format!("does not follow to {proposed}"))
                    .because(format!("scaling {direction} is disabled"))
                    .hint(format!("set .spec.behavior.{field}.selectPolicy"))
            }
            Reason::Scales { from, to } => Line::acts(
                reasons::SCALES,
                format!("scales its target from {from} to {to}"),
            ),
            Reason::Stays { replicas } => Line::states(
                "Stays",
                format!("keeps its target at {}", counted(*replicas, "replica")),
            ),
            Reason::Unmeasured { reason, why } => {
                Line::states(reason, "cannot read one of its metrics").because(why.clone())
            }
            Reason::Failed { reason, why } => {
                Line::waits(reason, "changes nothing").because(why.clone())
            }
        }
    }
}
