//! ReplicaSets and ReplicationControllers, and what all owners of pods have in common.

use serde_json::Value;

use crate::facts::Facts;
use crate::json::{condition, labels, number, selector_of, text, time};
use crate::pod::{Cause, trouble};
use crate::words::{pods, short};
use crate::{Obstacle, State, Telling, disruption, help};

/// Two workloads of one namespace that select each other's pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// `deployment/web`
    pub selects: String,
    pub pods_of: String,
    pub namespace: String,
}

/// Who selects pods of whom. Objects that one of the others owns are left out: a Deployment and its
/// ReplicaSets are meant to select the same.
pub fn overlaps<'a>(workloads: impl Iterator<Item = &'a Value> + Clone) -> Vec<Overlap> {
    let owned = |object: &Value| crate::facts::controller_uid(object).is_some();
    let name = |object: &Value| {
        let kind = text(object, "/kind").to_lowercase();
        format!("{kind}/{}", text(object, "/metadata/name"))
    };
    let own: Vec<&Value> = workloads.filter(|object| !owned(object)).collect();
    let mut found = Vec::new();
    for one in &own {
        let Some(selector) = selector_of(one) else {
            continue;
        };
        let namespace = text(one, "/metadata/namespace");
        let others = own.iter().filter(|other| {
            !std::ptr::eq(**other, *one) && text(other, "/metadata/namespace") == namespace
        });
        for other in others {
            if selector.matches(&labels(other, "/spec/template/metadata/labels")) {
                found.push(Overlap {
                    selects: name(one),
                    pods_of: name(other),
                    namespace: namespace.to_owned(),
                });
            }
        }
    }
    found
}

pub(crate) fn tell(facts: &Facts, told: &mut Telling<'_>) {
    let set = &facts.object;
    let wanted = wanted(set);
    told.wants(format!("{} of {}", pods(wanted), help::images(set)));
    told.sees(counts(set));
    note_owner(facts, told);
    note_paused_writes(facts, set, told);
    disruption::tell(facts, set, told);
    let refused = note_refusal(facts, set, told);
    let stuck = note_pods(facts, set, told);
    let available = number(set, "/status/availableReplicas");
    if refused {
        told.conclude(State::Stuck, "the API server refuses to create its pods");
    } else if available >= wanted && number(set, "/status/replicas") == wanted {
        told.conclude(
            State::Settled,
            format!("has the {} it wants, all available", pods(wanted)),
        );
    } else {
        conclude_by_pods(told, stuck, available, wanted);
    }
}

/// What is said when pods are all that is missing.
pub(crate) fn conclude_by_pods(told: &mut Telling<'_>, stuck: bool, available: i64, wanted: i64) {
    let first = told.explanation.in_the_way.first().cloned();
    let count = format!("{available} of {wanted} pods are available");
    match (stuck, first) {
        (true, Some(first)) => {
            told.conclude(
                State::Stuck,
                format!("{count}; {} {}", first.object, short(&first.why)),
            );
        }
        (false, Some(first)) => told.conclude_on_its_way(
            &count,
            format!("{count}; {} {}", first.object, short(&first.why)),
        ),
        (_, None) => told.conclude_on_its_way(&count, count.clone()),
    }
}

pub(crate) fn wanted(set: &Value) -> i64 {
    match set.pointer("/spec/replicas") {
        Some(_) => number(set, "/spec/replicas"),
        None => 1,
    }
}

fn counts(set: &Value) -> String {
    let of = |field: &str| number(set, &format!("/status/{field}"));
    format!(
        "{}, {} ready, {} available",
        pods(of("replicas")),
        of("readyReplicas"),
        of("availableReplicas")
    )
}

fn note_owner(facts: &Facts, told: &mut Telling<'_>) {
    let uid = crate::facts::controller_uid(&facts.object);
    let owner = facts
        .related
        .iter()
        .find(|object| uid == Some(text(object, "/metadata/uid")));
    if let Some(owner) = owner {
        told.wants(format!("what {} tells it to want", facts.name_of(owner)));
    }
}

/// A controller that has not seen the latest change yet.
pub(crate) fn note_paused_writes(facts: &Facts, object: &Value, told: &mut Telling<'_>) {
    let (observed, generation) = (
        number(object, "/status/observedGeneration"),
        number(object, "/metadata/generation"),
    );
    if observed < generation {
        let name = facts.name_of(object);
        told.sees(format!(
            "the last change of {name} has not been looked at by its controller yet (generation {generation}, seen {observed})"
        ));
    }
}

/// The API server's refusal to create pods, by the condition, the last failure or the events.
pub(crate) fn note_refusal(facts: &Facts, set: &Value, told: &mut Telling<'_>) -> bool {
    let missing = match text(set, "/kind") {
        "DaemonSet" => {
            number(set, "/status/desiredNumberScheduled")
                - number(set, "/status/currentNumberScheduled")
        }
        _ => wanted(set) - number(set, "/status/replicas"),
    };
    note_refusal_of(facts, set, missing > 0, told)
}

/// The same for an owner that has pods `missing`.
pub(crate) fn note_refusal_of(
    facts: &Facts,
    set: &Value,
    missing: bool,
    told: &mut Telling<'_>,
) -> bool {
    let failure = condition(set, "ReplicaFailure").filter(|held| text(held, "/status") == "True");
    let decided = facts
        .decisions_about(set)
        .into_iter()
        .filter_map(|heard| Some(heard.decisions.last()?.failure.as_deref()?.to_owned()))
        .next();
    let events = facts.messages(set, "FailedCreate");
    let told_by_event = missing.then(|| events.first().copied()).flatten();
    let message = failure
        .map(|held| text(held, "/message").to_owned())
        .or(decided)
        .or(told_by_event.map(str::to_owned));
    let Some(message) = message else {
        return false;
    };
    told.offer(help::refused(facts, &message));
    told.in_the_way(Obstacle {
        object: facts.name_of(set),
        more: 0,
        why: format!("cannot create pods: {}", without_prefix(&message)),
        since: failure.and_then(|held| time(held, "/lastTransitionTime")),
        passing: false,
    });
    true
}

/// The reason alone, without what everybody knows already.
fn without_prefix(message: &str) -> &str {
    let message = message.strip_prefix("Error creating: ").unwrap_or(message);
    message
        .split_once(" is forbidden: ")
        .map_or(message, |(_, reason)| reason)
}

/// Puts the set's pods that are not available in the way; says whether one of them needs help.
pub(crate) fn note_pods(facts: &Facts, set: &Value, told: &mut Telling<'_>) -> bool {
    let min_ready_seconds = number(set, "/spec/minReadySeconds");
    let mut troubles: Vec<(&Value, crate::Trouble)> = facts
        .controlled("Pod", set)
        .into_iter()
        .filter_map(|pod| Some((pod, trouble(facts, pod, min_ready_seconds)?)))
        .collect();
    // What needs help first, and what is merely leaving last.
    troubles.sort_by_key(|(_, trouble)| (trouble.passing, trouble.cause == Cause::Terminating));
    let stuck = troubles.iter().any(|(_, trouble)| !trouble.passing);
    for (pod, trouble) in troubles {
        // Nobody knows what a container lacks that has no probe, and so whether it comes.
        if !trouble.passing || trouble.cause == Cause::Unready {
            told.offer(help::for_pod(facts, pod, &trouble.cause));
        }
        told.in_the_way(trouble.obstacle(facts, pod));
    }
    stuck
}

/// The same for a set whose template nobody wants any more: what ails its pods goes with them, unless it is what
/// keeps them from going. Says whether one of them that still runs is kept so.
pub(crate) fn note_old_pods(facts: &Facts, set: &Value, told: &mut Telling<'_>) -> bool {
    let mut held = false;
    let min_ready_seconds = number(set, "/spec/minReadySeconds");
    for pod in facts.controlled("Pod", set) {
        let Some(mut trouble) = trouble(facts, pod, min_ready_seconds) else {
            continue;
        };
        match trouble.cause {
            Cause::Failed => continue,
            Cause::Held | Cause::NodeSilent => {
                held |= !matches!(text(pod, "/status/phase"), "Failed" | "Succeeded");
                told.offer(help::for_pod(facts, pod, &trouble.cause));
            }
            _ => trouble.passing = true,
        }
        told.in_the_way(trouble.obstacle(facts, pod));
    }
    held
}
