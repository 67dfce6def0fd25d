//! Why a pod is not available, or not gone.

use api::Resource;
use api::Time;
use api::kinds::Pod;
use serde_json::Value;

use crate::devices::Unclaimed;
use crate::facts::{Facts, controller_uid};
use crate::json::{condition, list, number, text, time, truth};
use crate::kinds::{Kind, Need};
use crate::pod_state::{self, container_problem};
use crate::time::{due_at, human, reason, when};
use crate::words::Reason;
use crate::{
    Draft, Obstacle, State, devices, disruption, finalizers, help, node, scheduling, storage,
};

/// What is wrong with a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    pub cause: Cause,
    pub why: Reason,
    pub since: Option<Time>,
    /// It resolves by itself.
    pub passing: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    Terminating,
    Held,
    NodeUnreachable,
    Gated,
    Unschedulable,
    /// A claim that is not bound.
    Claim(String),
    /// A claim for devices that does not exist.
    NoDeviceClaim,
    /// A claim for devices that has none.
    NoDevices,
    /// A claim that does not exist.
    NoClaim(String),
    Unscheduled,
    /// A scheduler that is not the cluster's own has not tried it.
    OtherScheduler,
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
    /// A container of a pod that has failed ended with an error.
    Exited {
        container: String,
    },
    /// Refused by its node, evicted, or past its deadline.
    Failed,
    Succeeded,
    Young,
}

/// A kubelet that has not confirmed a deletion for this long after its deadline will not soon.
const CONFIRMS_WITHIN_SECONDS: i64 = 30;

/// Who schedules pods that name no other.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// Why the pod is not available; `None` if it is. `min_ready_seconds` is what its owner asks for.
pub fn problem(facts: &Facts, pod: &Value, min_ready_seconds: i64) -> Option<Problem> {
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
    node_problem(facts, pod)
        .or_else(|| volume_problem(facts, pod))
        .or_else(|| container_problem(facts, pod))
        .or_else(|| readiness_gate(pod))
        .or_else(|| Some(starting(facts, pod)))
}

fn truth_of_deletion(pod: &Value) -> bool {
    !text(pod, "/metadata/deletionTimestamp").is_empty()
}

/// The deletionTimestamp of a pod is when its grace period ends.
fn terminating(facts: &Facts, pod: &Value) -> Problem {
    let due = time(pod, "/metadata/deletionTimestamp").unwrap_or(facts.now);
    let held: Vec<String> = finalizers::names(pod).map(finalizers::describe).collect();
    let grace = number(pod, "/metadata/deletionGracePeriodSeconds");
    let since = Some(Time::from_unix(due.unix() - grace));
    let node = text(pod, "/spec/nodeName");
    let late = facts.now.unix() - due.unix();
    if !held.is_empty() && late >= 0 {
        return Problem {
            cause: Cause::Held,
            why: format!("is being deleted and held by {}", held.join(" and ")).into(),
            since,
            passing: false,
        };
    }
    if late > CONFIRMS_WITHIN_SECONDS {
        return Problem {
            cause: Cause::NodeUnreachable,
            why: format!("is being deleted, but node {node} does not confirm that it has stopped")
                .into(),
            since,
            passing: false,
        };
    }
    let why = match disrupted_by(facts, pod) {
        None => due_at("is stopping; its grace period ends", due, facts.now),
        Some(by) => {
            let ends = when(due, facts.now);
            Reason::from("is stopping")
                .with_detail(&format!(" ({by}); its grace period ends {ends}"))
        }
    };
    Problem {
        cause: Cause::Terminating,
        why,
        // When it ends says more than how long it has been so.
        since: None,
        passing: true,
    }
}

/// What disrupted the pod, by its condition: a taint, an eviction; and the pod that preempted it.
fn disrupted_by(facts: &Facts, pod: &Value) -> Option<String> {
    let held = condition(pod, "DisruptionTarget").filter(|held| text(held, "/status") == "True")?;
    let node = text(pod, "/spec/nodeName");
    let is_its_heir = |other: &&Value| {
        let is_there = text(other, "/status/nominatedNodeName") == node
            || text(other, "/spec/nodeName") == node;
        is_there && number(other, "/spec/priority") > number(pod, "/spec/priority")
    };
    let heirs = facts.of_kind("Pod").filter(is_its_heir);
    let newest = heirs.max_by_key(|other| text(other, "/metadata/creationTimestamp"));
    Some(match (text(held, "/reason"), newest) {
        ("PreemptionByScheduler", Some(heir)) => format!("preempted for {}", facts.name_of(heir)),
        _ => text(held, "/message").to_owned(),
    })
}

/// A pod that waits until those that it preempts have stopped.
fn preempting(facts: &Facts, pod: &Value) -> Option<String> {
    let node = text(pod, "/status/nominatedNodeName");
    if node.is_empty() {
        return None;
    }
    let is_victim = |other: &&Value| {
        let target = condition(other, "DisruptionTarget");
        text(other, "/spec/nodeName") == node
            && target.is_some_and(|held| text(held, "/reason") == "PreemptionByScheduler")
    };
    let victims = facts.of_kind("Pod").filter(is_victim);
    let victims: Vec<String> = victims.map(|victim| facts.name_of(victim)).collect();
    let named = match victims.is_empty() {
        true => String::new(),
        false => format!(": {}", victims.join(", ")),
    };
    Some(format!(
        "is to run on {node} once those that it preempts there have stopped{named}"
    ))
}

fn finished(pod: &Value) -> Problem {
    let phase = text(pod, "/status/phase");
    let (reason, message) = (text(pod, "/status/reason"), text(pod, "/status/message"));
    let mut why = Reason::from(format!("has {}", phase.to_lowercase()));
    for part in [reason, message] {
        if !part.is_empty() {
            why = why.and(": ", part);
        }
    }
    let exited = pod_state::exited(pod).filter(|_| phase == "Failed" && reason.is_empty());
    let cause = match (phase, exited) {
        ("Succeeded", _) => Cause::Succeeded,
        (_, Some((container, said))) => {
            why = why.and(": ", &said);
            Cause::Exited { container }
        }
        (_, None) => Cause::Failed,
    };
    Problem {
        passing: cause == Cause::Succeeded,
        cause,
        why,
        since: None,
    }
}

fn unscheduled(facts: &Facts, pod: &Value) -> Problem {
    let scheduled = condition(pod, "PodScheduled");
    let since = scheduled
        .and_then(|held| time(held, "/lastTransitionTime"))
        .or_else(|| time(pod, "/metadata/creationTimestamp"));
    let message = scheduled.map_or("", |held| text(held, "/message"));
    let of = |cause, why: Reason, passing| Problem {
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
        return of(Cause::Gated, why.into(), false);
    }
    if let Some(cause) = missing_claim(facts, pod) {
        let why = match &cause {
            Cause::NoClaim(claim) => format!("its claim {claim} does not exist").into(),
            Cause::Claim(claim) => match waits_of_claim(facts, claim) {
                Some(wait) => wait.after(&format!("its claim {claim} is not bound: it ")),
                None => format!("its claim {claim} is not bound").into(),
            },
            _ => Reason::from(""),
        };
        return of(cause, why.after("cannot be scheduled: "), false);
    }
    if let Some(why) = preempting(facts, pod) {
        return of(Cause::Unscheduled, why.into(), true);
    }
    let events = facts.messages(pod, "FailedScheduling");
    let message = match message {
        "" => events.first().copied().unwrap_or_default(),
        message => message,
    };
    if let Some(unclaimed) = devices::unclaimed(facts, pod) {
        let (cause, mut why) = match unclaimed {
            Unclaimed::NoClaim(why) => (Cause::NoDeviceClaim, why),
            Unclaimed::NoDevices(why) => (Cause::NoDevices, why),
        };
        if !message.is_empty() {
            why = why.and("; the scheduler says: ", message);
        }
        return of(cause, why.after("cannot be scheduled: "), false);
    }
    let scheduler = text(pod, "/spec/schedulerName");
    if message.is_empty() && !matches!(scheduler, "" | DEFAULT_SCHEDULER) {
        let why = format!("waits for the scheduler {scheduler}, which has not tried it yet");
        return of(Cause::OtherScheduler, why.into(), false);
    }
    if message.is_empty() {
        let why = "waits for the scheduler, which has not tried it yet";
        return of(Cause::Unscheduled, why.into(), true);
    }
    let why = Reason::quoting("cannot be scheduled: ", message);
    of(
        Cause::Unschedulable,
        why.with_detail(&keeps_away(facts, pod)),
        false,
    )
}

/// Whom a pod keeps away from, where that is why it has no node.
fn keeps_away(facts: &Facts, pod: &Value) -> String {
    if scheduling::obstacle(facts, pod) != Some(scheduling::Obstacle::AntiAffinity) {
        return String::new();
    }
    let terms = list(pod, scheduling::ANTI_AFFINITY);
    let terms: Vec<String> = terms
        .iter()
        .map(|term| {
            let selector = term.get("labelSelector");
            let selector = selector
                .and_then(crate::json::compiled)
                .map_or_else(|| "any labels".to_owned(), |selector| selector.to_string());
            let topology = text(term, "/topologyKey");
            format!("keeps away from pods with {selector} on the same {topology}")
        })
        .collect();
    match terms.is_empty() {
        true => String::new(),
        false => format!(" (it {})", terms.join(" and ")),
    }
}

fn waits_of_claim(facts: &Facts, name: &str) -> Option<Reason> {
    let mut claims = facts.of_kind("PersistentVolumeClaim");
    let claim = claims.find(|claim| text(claim, "/metadata/name") == name)?;
    storage::waits(facts, claim).map(|wait| reason(&wait, facts.now))
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
            // It is bound once the pod has a node, so that it is not why the pod has none.
            Some(claim) if storage::waits_for_consumer(facts, claim) => None,
            Some(claim) if text(claim, "/status/phase") != "Bound" => {
                Some(Cause::Claim(name.to_owned()))
            }
            Some(_) => None,
        }
    });
    lacking.next()
}

/// A node that is down makes its pods unready, whatever their containers reported last.
fn node_problem(facts: &Facts, pod: &Value) -> Option<Problem> {
    let node = node::of_pod(facts, pod)?;
    let ready = condition(node, "Ready")?;
    Some(Problem {
        cause: Cause::NodeUnreachable,
        why: node::problem(facts, node)?.after("is not ready: "),
        since: time(ready, "/lastTransitionTime"),
        passing: false,
    })
}

fn too_young(facts: &Facts, ready: &Value, min_ready_seconds: i64) -> Option<Problem> {
    let since = time(ready, "/lastTransitionTime")?;
    let due = Time::from_unix(since.unix() + min_ready_seconds);
    (due > facts.now).then(|| Problem {
        cause: Cause::Young,
        why: due_at("is ready, and available", due, facts.now)
            .with_detail(&format!(": minReadySeconds is {min_ready_seconds}")),
        since: None,
        passing: true,
    })
}

fn readiness_gate(pod: &Value) -> Option<Problem> {
    let gates = list(pod, "/spec/readinessGates").iter();
    let open =
        |type_: &str| condition(pod, type_).is_some_and(|held| text(held, "/status") == "True");
    let mut closed = gates
        .map(|gate| text(gate, "/conditionType"))
        .filter(|type_| !open(type_));
    closed.next().map(|type_| Problem {
        cause: Cause::Gate,
        why: format!("is not ready: its readiness gate {type_} is not true, which an external controller has to set").into(),
        since: condition(pod, "Ready").and_then(|held| time(held, "/lastTransitionTime")),
        passing: false,
    })
}

/// A volume that is not attached yet keeps every container of the pod from starting.
fn volume_problem(facts: &Facts, pod: &Value) -> Option<Problem> {
    let statuses = list(pod, "/status/containerStatuses").iter();
    let mut begun = statuses.filter(|status| status.pointer("/state/waiting").is_none());
    if begun.next().is_some() {
        return None;
    }
    let storage::Unattached {
        why,
        passing,
        is_timed,
    } = storage::unattached(facts, pod)?;
    Some(Problem {
        cause: Cause::Mount,
        why: why.after("cannot start: "),
        since: time(pod, "/metadata/creationTimestamp").filter(|_| !is_timed),
        passing,
    })
}

fn starting(facts: &Facts, pod: &Value) -> Problem {
    let since = time(pod, "/metadata/creationTimestamp");
    let ready = condition(pod, "Ready");
    let node = text(pod, "/spec/nodeName");
    if let Some(message) = facts.messages(pod, "FailedMount").first() {
        return Problem {
            cause: Cause::Mount,
            why: Reason::quoting("cannot mount its volumes: ", message),
            since,
            passing: false,
        };
    }
    let runs = text(pod, "/status/phase") == "Running";
    let why = match runs {
        true => {
            let message = ready.map_or("", |held| text(held, "/message"));
            match message {
                "" => Reason::from("runs and is not ready"),
                message => Reason::quoting("runs and is not ready: ", message),
            }
        }
        false => format!("is starting on {node}").into(),
    };
    Problem {
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

impl Problem {
    pub(crate) fn obstacle(self, pod: &Value) -> Obstacle {
        Obstacle::of(pod, self.why)
            .since(self.since)
            .passing(self.passing)
    }
}

pub(crate) const KIND: Kind = Kind {
    resource: Pod::TYPE,
    inputs: &[],
    needs: &[Need::Owner, Need::AroundPod, Need::Budgets],
    tells_deletion: true,
    explain,
};

pub(crate) fn explain(facts: &Facts, draft: &mut Draft<'_>) {
    let pod = &facts.object;
    let images: Vec<&str> = list(pod, "/spec/containers")
        .iter()
        .map(|container| text(container, "/image"))
        .collect();
    draft.wants(format!("to run {}", images.join(", ")));
    let owner = list(pod, "/metadata/ownerReferences")
        .iter()
        .find(|owner| truth(owner, "/controller"));
    if let Some(owner) = owner {
        draft.wants(format!(
            "to be one of {}/{}",
            text(owner, "/kind").to_lowercase(),
            text(owner, "/name")
        ));
    }
    let (phase, node) = (text(pod, "/status/phase"), text(pod, "/spec/nodeName"));
    draft.sees(match node {
        "" => format!("phase {phase}, on no node yet"),
        node => format!("phase {phase}, on {node}"),
    });
    if owner.is_none() {
        draft.sees("not managed by a controller; nothing will recreate it");
    }
    disruption::explain(facts, pod, draft);
    let owner = facts
        .related
        .iter()
        .find(|object| controller_uid(pod) == Some(text(object, "/metadata/uid")));
    if let Some(owner) = owner {
        draft.add_decisions(owner);
    }
    let min_ready_seconds = owner.map_or(0, |owner| number(owner, "/spec/minReadySeconds"));
    match problem(facts, pod, min_ready_seconds) {
        None => match devices::tainted(facts, pod) {
            None => draft.conclude(State::Settled, "runs and is ready"),
            Some(told) => {
                draft.in_the_way(Obstacle::of(pod, told.clone()));
                draft.conclude(State::Progressing, format!("runs and is ready, but {told}"));
            }
        },
        Some(problem) => {
            let state = match (&problem.cause, problem.passing) {
                (Cause::Succeeded, _) => State::Settled,
                (_, true) => State::Progressing,
                (_, false) => State::Stuck,
            };
            let since = problem.since.map(|since| facts.now.unix() - since.unix());
            let age = since.map_or(String::new(), |since| format!(" (for {})", human(since)));
            draft.conclude(state, format!("{}{age}", problem.why));
            draft.offer(help::for_pod(facts, pod, &problem.cause));
            draft.in_the_way(problem.obstacle(pod).in_verdict());
        }
    }
}
