//! Is a node alive? Pure: what was seen when, what is seen now, and what follows.
//!
//! A sign of life is a new heartbeat in the node's status or a renewed lease. When it came is measured by our
//! own clock alone: whatever time the node itself wrote says only that it is another one than before.

use std::time::Duration;

use api::conditions::{self, ConditionStatus};
use api::decision::Line;
use api::kinds::{Lease, Node};
use api::{MicroTime, Time, Uid};
use serde_json::{Value, json};

/// For how long a node may post no status.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// `--node-monitor-grace-period`
    pub monitor: Duration,
    /// `--node-startup-grace-period`, for a node that has never reported.
    pub startup: Duration,
}

/// What is remembered of a node from one check to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub uid: Uid,
    /// When it last gave a sign of life.
    pub alive_at: MicroTime,
    /// What its Ready condition said, if it had one.
    pub ready: Option<ConditionStatus>,
    pub heartbeat: Option<Time>,
    /// When its lease was renewed, by the node's own clock.
    pub renewed_at: Option<MicroTime>,
}

/// How healthy a node is, and what follows.
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    pub seen: Seen,
    /// What its Ready condition said; Unknown when it had none.
    pub said: ConditionStatus,
    /// What its Ready condition says once [`Health::unknown`] is written. None while a node that has never
    /// reported still has time to.
    pub says: Option<ConditionStatus>,
    /// What has to be written because its kubelet stopped posting status.
    pub unknown: Vec<UnknownCondition>,
}

/// A condition that nobody vouches for any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownCondition {
    pub condition: &'static str,
    pub never_reported: bool,
}

/// Conditions that a kubelet reports. `NetworkUnavailable` is not among them: others look after it.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// How healthy a node is. `now` and the times in `seen` are by the same clock.
pub fn health_of(
    node: &Node,
    lease: Option<&Lease>,
    seen: Option<&Seen>,
    now: MicroTime,
    patience: Patience,
) -> Health {
    let ready = node.ready().map(|ready| ready.status.clone());
    // Another node of the same name has a life of its own.
    let seen = seen.filter(|seen| seen.uid == node.metadata.uid);
    let lease = lease.map(|lease| lease.spec.renew_time.unwrap_or_default());
    // Another time, not a later one: a node's clock may have been set back.
    let renewed = lease.is_some() && seen.and_then(|seen| seen.renewed_at) != lease;
    let alive_at = if renewed {
        now
    } else {
        last_report(node, seen, now)
    };
    let grace = match ready {
        Some(_) => patience.monitor,
        None => patience.startup,
    };
    let unknown = if now > alive_at.plus(grace) {
        unknown_conditions(node)
    } else {
        Vec::new()
    };
    let says = match unknown.is_empty() {
        true => ready.clone(),
        false => Some(ConditionStatus::Unknown),
    };
    Health {
        seen: Seen {
            uid: node.metadata.uid.clone(),
            alive_at,
            ready: says.clone(),
            heartbeat: node.status.heartbeat.0,
            renewed_at: lease.or(seen.and_then(|seen| seen.renewed_at)),
        },
        said: ready.unwrap_or(ConditionStatus::Unknown),
        says,
        unknown,
    }
}

/// When the node's status last showed a sign of life.
fn last_report(node: &Node, seen: Option<&Seen>, now: MicroTime) -> MicroTime {
    match (seen, node.ready()) {
        // Its time to start counts from its birth, also for those who see it late.
        (None, None) => node.metadata.created_at.micro(),
        // It may have lived for long: it has all its time from now on.
        (None, Some(_)) => now,
        (Some(seen), Some(_)) if seen.ready.is_none() => now,
        (Some(seen), Some(_)) if seen.heartbeat != node.status.heartbeat.0 => now,
        (Some(seen), None) if seen.ready.is_some() => now,
        (Some(seen), _) => seen.alive_at,
    }
}

/// What has to be written for a node whose kubelet stopped posting status; nothing if its Ready condition says so already.
fn unknown_conditions(node: &Node) -> Vec<UnknownCondition> {
    // UPSTREAM: the Ready condition decides whether the others are written.
    if node
        .ready()
        .is_some_and(|ready| ready.status == ConditionStatus::Unknown)
    {
        return Vec::new();
    }
    let unknown = |condition| {
        let held = conditions::find(&node.status.conditions, condition);
        let is_unknown = held.is_some_and(|held| held.status == ConditionStatus::Unknown);
        (!is_unknown).then_some(UnknownCondition {
            condition,
            never_reported: held.is_none(),
        })
    };
    REPORTED.into_iter().filter_map(unknown).collect()
}

impl Health {
    /// The node was ready, and is no longer.
    pub fn falls(&self) -> bool {
        self.said == ConditionStatus::True && self.is_down()
    }

    pub fn is_down(&self) -> bool {
        self.says
            .as_ref()
            .is_some_and(|says| *says != ConditionStatus::True)
    }
}

impl UnknownCondition {
    /// The condition as it is written.
    pub fn patch(self, node: &Node, now: Time) -> Value {
        let type_ = self.condition;
        if self.never_reported {
            return json!({
                "type": type_, "status": "Unknown",
                "reason": "NodeStatusNeverUpdated", "message": "Kubelet never posted node status.",
                "lastHeartbeatTime": node.metadata.created_at, "lastTransitionTime": now,
            });
        }
        json!({
            "type": type_, "status": "Unknown",
            "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status.",
            "lastTransitionTime": now,
        })
    }
}

/// Says what the conditions become, and why.
impl From<&Health> for Line {
    fn from(health: &Health) -> Line {
        let why = match health.unknown.iter().any(|one| !one.never_reported) {
            true => "its kubelet stopped posting status",
            false => "its kubelet never posted status",
        };
        let all: Vec<&str> = health.unknown.iter().map(|one| one.condition).collect();
        let what = format!("marks {} as Unknown", all.join(", "));
        Line::acts("KubeletStoppedPosting", what).because(why)
    }
}
