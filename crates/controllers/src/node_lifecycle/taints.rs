//! Which taints and labels a node should have for what its conditions say. Pure.

use std::fmt;
use std::sync::LazyLock;

use api::conditions::ConditionStatus;
use api::decision::Line;
use api::kinds::Node;
use api::taints::{Taint, TaintEffect};
use api::{LabelSet, Time};

pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Which condition in which state keeps new pods away, and by which taint.
const BY_CONDITION: [(&str, ConditionStatus, &str); 6] = [
    ("Ready", ConditionStatus::False, NOT_READY),
    ("Ready", ConditionStatus::Unknown, UNREACHABLE),
    (
        "MemoryPressure",
        ConditionStatus::True,
        "node.kubernetes.io/memory-pressure",
    ),
    (
        "DiskPressure",
        ConditionStatus::True,
        "node.kubernetes.io/disk-pressure",
    ),
    (
        "NetworkUnavailable",
        ConditionStatus::True,
        "node.kubernetes.io/network-unavailable",
    ),
    (
        "PIDPressure",
        ConditionStatus::True,
        "node.kubernetes.io/pid-pressure",
    ),
];

/// Labels of which there is an old and a new name: the first says what the second should.
const TWINS: [(&str, &str); 2] = [
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
];

/// Taints that come and taints that go. What is there already, or gone already, is left alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    pub add: Vec<Taint>,
    pub remove: Vec<Taint>,
}

impl Change {
    pub fn is_empty(&self) -> bool {
        self.add.is_empty() && self.remove.is_empty()
    }

    /// May the node get these taints, for what its Ready condition says at this moment? Taking some away harms nobody.
    pub fn suits(&self, node: &Node) -> bool {
        let wanted = node.ready().and_then(|ready| eviction(&ready.status));
        self.add.is_empty() || wanted.as_ref() == Some(self)
    }

    /// The taints after the change; none if they are as they should be.
    pub fn applied(&self, taints: &[Taint], now: Time) -> Option<Vec<Taint>> {
        if taints.is_empty() && self.add.is_empty() {
            return None;
        }
        let mut after = taints.to_vec();
        after.retain(|held| !has(&self.remove, held));
        let new = self.add.iter().filter(|taint| !has(taints, taint));
        after.extend(new.map(|taint| Taint {
            time_added: Some(now),
            ..taint.clone()
        }));
        (after != taints).then_some(after)
    }
}

/// What keeps new pods away from the node, as far as it is not yet so.
pub fn scheduling(node: &Node) -> Change {
    let keys = node.status.conditions.iter().filter_map(|condition| {
        let found = BY_CONDITION
            .iter()
            .find(|(type_, status, _)| condition.type_ == *type_ && condition.status == *status);
        found.map(|(_, _, key)| *key)
    });
    let cordoned = node.spec.unschedulable.then_some(UNSCHEDULABLE);
    let wanted: Vec<Taint> = keys
        .chain(cordoned)
        .map(|key| Taint::new(key, "", TaintEffect::NoSchedule))
        .collect();
    let is_ours = |taint: &&Taint| {
        taint.effect == TaintEffect::NoSchedule
            && (taint.key == UNSCHEDULABLE
                || BY_CONDITION.iter().any(|(_, _, key)| taint.key == *key))
    };
    let held: Vec<Taint> = node.spec.taints.iter().filter(is_ours).cloned().collect();
    let lacking = |of: &[Taint], from: &[Taint]| {
        let missing = from.iter().filter(|taint| !has(of, taint));
        missing.cloned().collect()
    };
    Change {
        add: lacking(&held, &wanted),
        remove: lacking(&wanted, &held),
    }
}

/// What drives pods away from a node that is down: one of two taints, never both.
pub fn eviction(ready: &ConditionStatus) -> Option<Change> {
    let (add, remove) = match ready {
        ConditionStatus::False => (NOT_READY, UNREACHABLE),
        ConditionStatus::Unknown => (UNREACHABLE, NOT_READY),
        _ => return None,
    };
    Some(Change {
        add: vec![no_execute(add)],
        remove: vec![no_execute(remove)],
    })
}

/// Lets pods stay on a node that is ready.
pub static REACHABLE: LazyLock<Change> = LazyLock::new(|| Change {
    add: Vec::new(),
    remove: vec![no_execute(UNREACHABLE), no_execute(NOT_READY)],
});

pub fn has(taints: &[Taint], wanted: &Taint) -> bool {
    taints.iter().any(|held| held.is_same(wanted))
}

fn no_execute(key: &str) -> Taint {
    Taint::new(key, "", TaintEffect::NoExecute)
}

/// Old names of labels that do not say what the new ones say.
pub fn labels(labels: &LabelSet) -> Vec<(&'static str, String)> {
    let differs = |(new, old): &(&'static str, &'static str)| {
        let value = labels.get(new)?;
        (labels.get(old) != Some(value)).then(|| (*old, value.to_owned()))
    };
    TWINS.iter().filter_map(differs).collect()
}

/// The zone that a node counts for; empty where no label says so.
pub fn zone(node: &Node) -> String {
    let labels = &node.metadata.labels;
    let either = |old, new| labels.get(old).or_else(|| labels.get(new)).unwrap_or("");
    let zone = either(
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
    );
    let region = either(
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/region",
    );
    if zone.is_empty() && region.is_empty() {
        return String::new();
    }
    // UPSTREAM: metrics carry the zone in this very form.
    format!("{region}:\0:{zone}")
}

impl Change {
    pub fn line(&self, why: &'static str) -> Line {
        Line::acts("Taints", self.to_string()).because(why)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |taints: &[Taint]| {
            let all: Vec<String> = taints.iter().map(Taint::to_string).collect();
            all.join(", ")
        };
        match (self.add.is_empty(), self.remove.is_empty()) {
            (true, true) => write!(f, "keeps its taints"),
            (false, true) => write!(f, "taints it with {}", list(&self.add)),
            (true, false) => write!(f, "takes the taint {} away", list(&self.remove)),
            (false, false) => {
                let (add, remove) = (list(&self.add), list(&self.remove));
                write!(f, "taints it with {add} instead of {remove}")
            }
        }
    }
}
