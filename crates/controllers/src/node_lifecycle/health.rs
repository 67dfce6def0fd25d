//! Is a node alive? Pure: what was seen when, what is seen now, and what follows.
//!
//! A sign of life is a new heartbeat in the node's status or a renewed lease. When it came is judged by our
//! own clock alone: whatever time the node itself wrote says only that it is another one than before.

use std::time::Duration;

use api::conditions::{self, ConditionStatus};
use api::decision::Line;
use api::kinds::{Lease, Node};
use api::{MicroTime, Time, Uid};
use serde_json::{Value, json};

/// How long a node may be silent.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// `--node-monitor-grace-period`
    pub monitor: Duration,
    /// `--node-startup-grace-period`, for a node that has never reported.
    pub startup: Duration,
}

/// What is remembered of a node from look to look.
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

/// What a look at a node comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    pub seen: Seen,
    /// What its Ready condition said; Unknown when it had none.
    pub said: ConditionStatus,
    /// What its Ready condition says once [`Look::silenced`] is written. None while a node that has never
    /// reported still has time to.
    pub says: Option<ConditionStatus>,
    /// What has to be written because the node is silent.
    pub silenced: Vec<Silenced>,
}

/// A condition that nobody vouches for any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silenced {
    pub condition: &'static str,
    pub never_reported: bool,
}

/// Conditions that a kubelet reports. `NetworkUnavailable` is not among them: others look after it.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Looks at a node. `now` and the times in `seen` are by the same clock.
pub fn look(
    node: &Node,
    lease: Option<&Lease>,
    seen: Option<&Seen>,
    now: MicroTime,
    patience: Patience,
) -> Look {
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
    let silenced = if now > alive_at.plus(grace) {
        silenced(node)
    } else {
        Vec::new()
    };
    let says = match silenced.is_empty() {
        true => ready.clone(),
        false => Some(ConditionStatus::Unknown),
    };
    Look {
        seen: Seen {
            uid: node.metadata.uid.clone(),
            alive_at,
            ready: says.clone(),
            heartbeat: node.status.heartbeat.0,
            renewed_at: lease.or(seen.and_then(|seen| seen.renewed_at)),
        },
        said: ready.unwrap_or(ConditionStatus::Unknown),
        says,
        silenced,
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

/// What has to be written for a node that is silent; nothing if its Ready condition says so already.
fn silenced(node: &Node) -> Vec<Silenced> {
    // UPSTREAM: the Ready condition decides whether the others are written.
    if node
        .ready()
        .is_some_and(|ready| ready.status == ConditionStatus::Unknown)
    {
        return Vec::new();
    }
    let judge = |condition| {
        let held = conditions::find(&node.status.conditions, condition);
        let is_unknown = held.is_some_and(|held| held.status == ConditionStatus::Unknown);
        (!is_unknown).then_some(Silenced {
            condition,
            never_reported: held.is_none(),
        })
    };
    REPORTED.into_iter().filter_map(judge).collect()
}

impl Look {
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

impl Silenced {
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
impl From<&Look> for Line {
    fn from(look: &Look) -> Line {
        let why = match look.silenced.iter().any(|one| !one.never_reported) {
            true => "its kubelet stopped posting status",
            false => "its kubelet never posted status",
        };
        let all: Vec<&str> = look.silenced.iter().map(|one| one.condition).collect();
        let what = format!("marks {} as Unknown", all.join(", "));
        Line::acts("KubeletStoppedPosting", what).because(why)
    }
}
