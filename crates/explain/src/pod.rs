//! Why a pod is not available, or not gone.

use api::Time;
use serde_json::Value;

use crate::facts::{Facts, controller_uid};
use crate::json::{condition, list, number, text, time, truth};
use crate::pod_state::container_trouble;
use crate::time::{human, relative};
use crate::{Obstacle, State, Telling, disruption, finalizers, help, node};

/// What is wrong with a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Trouble {
    pub cause: Cause,
    pub why: String,
    pub since: Option<Time>,
    /// It goes away by itself.
    pub passing: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    Terminating,
    Held,
    NodeSilent,
    Gated,
    Unschedulable,
    /// A claim that is not bound.
    Claim(String),
    /// A claim that does not exist.
    NoClaim(String),
    Unscheduled,
    Image {
        container: String,
    },
    Configuration,
    Crash {
        container: String,
    },
    Probe {
        container: String,
    },
    Gate,
    Mount,
    Starting,
    /// It runs, and nothing says why it is not ready.
    Unready,
    Failed,
    Young,
}

/// A kubelet that has not confirmed a deletion for this long after its deadline is not going to soon.
const CONFIRMS_WITHIN_SECONDS: i64 = 30;

/// Why the pod is not available; `None` if it is. `min_ready_seconds` is what its owner asks for.
pub fn trouble(facts: &Facts, pod: &Value, min_ready_seconds: i64) -> Option<Trouble> {
    if truth_of_deletion(pod) {
        return Some(terminating(facts, pod));
    }
    if matches!(text(pod, "/status/phase"), "Failed" | "Succeeded") {
        return Some(finished(pod));
    }
    if text(pod, "/spec/nodeName").is_empty() {
        return Some(unscheduled(facts, pod));
    }
    if let Some(ready) = condition(pod, "Ready").filter(|ready| text(ready, "/status") == "True") {
        return too_young(facts, ready, min_ready_seconds);
    }
    node_trouble(facts, pod)
        .or_else(|| container_trouble(facts, pod))
        .or_else(|| readiness_gate(pod))
        .or_else(|| Some(starting(facts, pod)))
}

fn truth_of_deletion(pod: &Value) -> bool {
    !text(pod, "/metadata/deletionTimestamp").is_empty()
}

/// The deletionTimestamp of a pod is when its grace period ends.
fn terminating(facts: &Facts, pod: &Value) -> Trouble {
    let due = time(pod, "/metadata/deletionTimestamp").unwrap_or(facts.now);
    let held: Vec<String> = finalizers::names(pod).map(finalizers::describe).collect();
    let grace = number(pod, "/metadata/deletionGracePeriodSeconds");
    let since = Some(Time::from_unix(due.unix() - grace));
    let node = text(pod, "/spec/nodeName");
    let late = facts.now.unix() - due.unix();
    if !held.is_empty() && late >= 0 {
        return Trouble {
            cause: Cause::Held,
            why: format!("is being deleted and held by {}", held.join(" and ")),
            since,
            passing: false,
        };
    }
    if late > CONFIRMS_WITHIN_SECONDS {
        return Trouble {
            cause: Cause::NodeSilent,
            why: format!("is being deleted, but node {node} does not confirm that it has stopped"),
            since,
            passing: false,
        };
    }
    // Who drove it away says so, if it was driven: a taint, an eviction, a preemption.
    let driven = condition(pod, "DisruptionTarget").filter(|held| text(held, "/status") == "True");
    let driven = driven.map_or(String::new(), |held| {
        format!(" ({})", text(held, "/message"))
    });
    Trouble {
        cause: Cause::Terminating,
        why: format!(
            "is stopping{driven}; it has until {due} ({})",
            relative(due, facts.now)
        ),
        since,
        passing: true,
    }
}

fn finished(pod: &Value) -> Trouble {
    let phase = text(pod, "/status/phase");
    let (reason, message) = (text(pod, "/status/reason"), text(pod, "/status/message"));
    let mut why = format!("has {}", phase.to_lowercase());
    for part in [reason, message] {
        if !part.is_empty() {
            why = format!("{why}: {part}");
        }
    }
    Trouble {
        cause: Cause::Failed,
        why,
        since: None,
        passing: phase == "Succeeded",
    }
}

fn unscheduled(facts: &Facts, pod: &Value) -> Trouble {
    let scheduled = condition(pod, "PodScheduled");
    let since = scheduled
        .and_then(|held| time(held, "/lastTransitionTime"))
        .or_else(|| time(pod, "/metadata/creationTimestamp"));
    let message = scheduled.map_or("", |held| text(held, "/message"));
    let of = |cause, why: String, passing| Trouble {
        cause,
        why,
        since,
        passing,
    };
    if scheduled.is_some_and(|held| text(held, "/reason") == "SchedulingGated") {
        let gates: Vec<&str> = list(pod, "/spec/schedulingGates")
            .iter()
            .map(|gate| text(gate, "/name"))
            .collect();
        let why = format!(
            "may not be scheduled yet: scheduling gate {}",
            gates.join(", ")
        );
        return of(Cause::Gated, why, false);
    }
    if let Some(cause) = missing_claim(facts, pod) {
        let why = match &cause {
            Cause::NoClaim(claim) => format!("its claim {claim} does not exist"),
            Cause::Claim(claim) => format!("its claim {claim} is not bound"),
            _ => String::new(),
        };
        return of(cause, format!("cannot be scheduled: {why}"), false);
    }
    let told = facts.messages(pod, "FailedScheduling");
    let message = match message {
        "" => told.first().copied().unwrap_or_default(),
        message => message,
    };
    if message.is_empty() {
        let why = "waits for the scheduler, which has not looked at it yet".to_owned();
        return of(Cause::Unscheduled, why, true);
    }
    of(
        Cause::Unschedulable,
        format!("cannot be scheduled: {message}"),
        false,
    )
}

/// The first claim of the pod that is not bound, or not there at all, as far as claims could be read.
fn missing_claim(facts: &Facts, pod: &Value) -> Option<Cause> {
    const KIND: &str = "PersistentVolumeClaim";
    if facts.unread.contains(KIND) {
        return None;
    }
    let names = list(pod, "/spec/volumes")
        .iter()
        .map(|volume| text(volume, "/persistentVolumeClaim/claimName"))
        .filter(|name| !name.is_empty());
    let mut lacking = names.filter_map(|name| {
        let mut claims = facts.of_kind(KIND);
        match claims.find(|claim| text(claim, "/metadata/name") == name) {
            None => Some(Cause::NoClaim(name.to_owned())),
            Some(claim) if text(claim, "/status/phase") != "Bound" => {
                Some(Cause::Claim(name.to_owned()))
            }
            Some(_) => None,
        }
    });
    lacking.next()
}

/// A node that is down takes its pods with it, whatever their containers said last.
fn node_trouble(facts: &Facts, pod: &Value) -> Option<Trouble> {
    let node = node::of_pod(facts, pod)?;
    let ready = condition(node, "Ready")?;
    let what = node::trouble(facts, node)?;
    Some(Trouble {
        cause: Cause::NodeSilent,
        why: format!(
            "is not ready: its {} {what}",
            facts.name_of(node).replace('/', " ")
        ),
        since: time(ready, "/lastTransitionTime"),
        passing: false,
    })
}

fn too_young(facts: &Facts, ready: &Value, min_ready_seconds: i64) -> Option<Trouble> {
    let since = time(ready, "/lastTransitionTime")?;
    let due = Time::from_unix(since.unix() + min_ready_seconds);
    (due > facts.now).then(|| Trouble {
        cause: Cause::Young,
        why: format!(
            "is ready, and counts as available at {due} ({}): minReadySeconds is {min_ready_seconds}",
            relative(due, facts.now)
        ),
        since: Some(since),
        passing: true,
    })
}

fn readiness_gate(pod: &Value) -> Option<Trouble> {
    let gates = list(pod, "/spec/readinessGates").iter();
    let open =
        |type_: &str| condition(pod, type_).is_some_and(|held| text(held, "/status") == "True");
    let mut closed = gates
        .map(|gate| text(gate, "/conditionType"))
        .filter(|type_| !open(type_));
    closed.next().map(|type_| Trouble {
        cause: Cause::Gate,
        why: format!("is not ready: its readiness gate {type_} is not true, which somebody outside has to set"),
        since: condition(pod, "Ready").and_then(|held| time(held, "/lastTransitionTime")),
        passing: false,
    })
}

fn starting(facts: &Facts, pod: &Value) -> Trouble {
    let since = time(pod, "/metadata/creationTimestamp");
    let ready = condition(pod, "Ready");
    let node = text(pod, "/spec/nodeName");
    if let Some(message) = facts.messages(pod, "FailedMount").first() {
        return Trouble {
            cause: Cause::Mount,
            why: format!("cannot mount its volumes: {message}"),
            since,
            passing: false,
        };
    }
    let runs = text(pod, "/status/phase") == "Running";
    let why = match runs {
        true => {
            let told = ready.map_or("", |held| text(held, "/message"));
            match told {
                "" => "runs and is not ready".to_owned(),
                told => format!("runs and is not ready: {told}"),
            }
        }
        false => format!("is starting on {node}"),
    };
    Trouble {
        cause: if runs {
            Cause::Unready
        } else {
            Cause::Starting
        },
        why,
        since: ready
            .and_then(|held| time(held, "/lastTransitionTime"))
            .or(since),
        passing: true,
    }
}

impl Trouble {
    pub(crate) fn obstacle(self, facts: &Facts, pod: &Value) -> Obstacle {
        Obstacle {
            object: facts.name_of(pod),
            more: 0,
            why: self.why,
            since: self.since,
            passing: self.passing,
        }
    }
}

pub(crate) fn tell(facts: &Facts, told: &mut Telling<'_>) {
    let pod = &facts.object;
    let images: Vec<&str> = list(pod, "/spec/containers")
        .iter()
        .map(|container| text(container, "/image"))
        .collect();
    told.wants(format!("to run {}", images.join(", ")));
    let owner = list(pod, "/metadata/ownerReferences")
        .iter()
        .find(|owner| truth(owner, "/controller"));
    told.wants(match owner {
        Some(owner) => format!(
            "to be one of {}/{}",
            text(owner, "/kind").to_lowercase(),
            text(owner, "/name")
        ),
        None => "nothing else: no controller looks after it, and nobody replaces it".to_owned(),
    });
    let (phase, node) = (text(pod, "/status/phase"), text(pod, "/spec/nodeName"));
    told.sees(match node {
        "" => format!("phase {phase}, on no node yet"),
        node => format!("phase {phase}, on {node}"),
    });
    disruption::tell(facts, pod, told);
    let owner = facts
        .related
        .iter()
        .find(|object| controller_uid(pod) == Some(text(object, "/metadata/uid")));
    if let Some(owner) = owner {
        told.hear(owner);
    }
    let min_ready_seconds = owner.map_or(0, |owner| number(owner, "/spec/minReadySeconds"));
    match trouble(facts, pod, min_ready_seconds) {
        None => told.conclude(State::Settled, "runs and is ready"),
        Some(trouble) => {
            let state = match trouble.passing {
                true => State::Progressing,
                false => State::Stuck,
            };
            let since = trouble.since.map(|since| facts.now.unix() - since.unix());
            let age = since.map_or(String::new(), |since| format!(" (for {})", human(since)));
            told.conclude(state, format!("{}{age}", trouble.why));
            told.offer(help::for_pod(facts, pod, &trouble.cause));
            told.in_the_way(trouble.obstacle(facts, pod));
        }
    }
}
