//! ReplicaSets and ReplicationControllers, and what all owners of pods have in common.

use api::decision::{Class, Decision, Line, agree, counted, reasons};
use api::kinds::{PersistentVolumeClaim, Pod, ReplicaSet, ReplicationController};
use api::{ObjectId, Resource};
use serde_json::Value;

use crate::facts::{Facts, id_of, kind_of};
use crate::json::{condition, labels, number, selector_of, text, time};
use crate::kinds::{Kind, Need};
use crate::pod::{Cause, problem};
use crate::refusal::{self, Refusal};
use crate::words::Reason;
use crate::{Draft, Obstacle, State, disruption, help};

/// Two workloads of one namespace that select each other's pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    pub selects: ObjectId,
    pub pods_of: ObjectId,
}

/// Who selects pods of whom. Objects that one of the others owns are left out: a Deployment and its
/// ReplicaSets are meant to select the same.
pub fn overlaps<'a>(workloads: impl Iterator<Item = &'a Value> + Clone) -> Vec<Overlap> {
    let owned = |object: &Value| crate::facts::controller_uid(object).is_some();
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
                    selects: id_of(one),
                    pods_of: id_of(other),
                });
            }
        }
    }
    found
}

pub(crate) const REPLICA_SET: Kind = Kind {
    resource: ReplicaSet::TYPE,
    inputs: &[Pod::TYPE],
    needs: NEEDS,
    explain,
    tells_deletion: false,
};

pub(crate) const REPLICATION_CONTROLLER: Kind = Kind {
    resource: ReplicationController::TYPE,
    inputs: &[Pod::TYPE],
    needs: NEEDS,
    explain,
    tells_deletion: false,
};

const NEEDS: &[Need] = &[
    Need::Pods,
    Need::All(PersistentVolumeClaim::TYPE),
    Need::Budgets,
    Need::Owner,
];

pub(crate) fn explain(facts: &Facts, draft: &mut Draft<'_>) {
    let set = &facts.object;
    let wanted = wanted(set);
    draft.wants(format!(
        "{} of {}",
        counted(wanted, "pod"),
        help::images(set)
    ));
    draft.sees(counts(set));
    note_owner(facts, draft);
    note_unobserved(facts, set, draft);
    disruption::explain(facts, set, draft);
    let refused = note_refusal(facts, set, draft);
    let stuck = note_pods(facts, set, draft);
    let available = number(set, "/status/availableReplicas");
    if refused {
        conclude_refused(draft);
    } else if available >= wanted && number(set, "/status/replicas") == wanted {
        draft.conclude(
            State::Settled,
            format!("has the {} it wants, all available", counted(wanted, "pod")),
        );
    } else {
        conclude_by_pods(draft, stuck, available, wanted);
    }
}

/// What is said when the API server refuses pods: the refusal is the first obstacle.
pub(crate) fn conclude_refused(draft: &mut Draft<'_>) {
    let own = draft.explanation.object.clone();
    let first = draft.explanation.in_the_way.first_mut();
    let why = first.map_or_else(String::new, |first| {
        first.in_verdict = first.object == own && first.why.is_short();
        first.why.headline().to_owned()
    });
    draft.conclude(State::Stuck, why);
}

/// What is said when pods are all that is missing.
pub(crate) fn conclude_by_pods(draft: &mut Draft<'_>, stuck: bool, available: i64, wanted: i64) {
    let mut obstacles = draft.explanation.in_the_way.iter();
    let stuck = stuck || obstacles.any(|obstacle| !obstacle.passing);
    let first = draft.explanation.in_the_way.first().cloned();
    let count = format!("{available} of {} available", counted(wanted, "pod"));
    match (stuck, first) {
        (true, Some(first)) => {
            draft.conclude(
                State::Stuck,
                format!("{count}; {} {}", first.object, first.why.headline()),
            );
        }
        (false, Some(first)) => draft.conclude_progressing(
            &count,
            format!("{count}; {} {}", first.object, first.why.headline()),
        ),
        (_, None) => draft.conclude_progressing(&count, count.clone()),
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
        counted(of("replicas"), "pod"),
        of("readyReplicas"),
        of("availableReplicas")
    )
}

fn note_owner(facts: &Facts, draft: &mut Draft<'_>) {
    let uid = crate::facts::controller_uid(&facts.object);
    let owner = facts
        .related
        .iter()
        .find(|object| uid == Some(text(object, "/metadata/uid")));
    if let Some(owner) = owner {
        draft.wants(format!("what {} asks for", facts.name_of(owner)));
    }
}

/// A controller that has not observed the latest change yet.
pub(crate) fn note_unobserved(facts: &Facts, object: &Value, draft: &mut Draft<'_>) {
    let (observed, generation) = (
        number(object, "/status/observedGeneration"),
        number(object, "/metadata/generation"),
    );
    if observed < generation {
        let name = facts.name_of(object);
        draft.sees(format!(
            "its controller has not observed the last change of {name} yet (generation {generation}, observed {observed})"
        ));
    }
}

/// The API server's refusal to create pods, by the condition, the last failure or the events.
pub(crate) fn note_refusal(facts: &Facts, set: &Value, draft: &mut Draft<'_>) -> bool {
    let missing = match kind_of(set) {
        "DaemonSet" => {
            number(set, "/status/desiredNumberScheduled")
                - number(set, "/status/currentNumberScheduled")
        }
        _ => wanted(set) - number(set, "/status/replicas"),
    };
    note_refusal_of(facts, set, missing > 0, draft)
}

/// The same for an owner that has pods `missing`.
pub(crate) fn note_refusal_of(
    facts: &Facts,
    set: &Value,
    missing: bool,
    draft: &mut Draft<'_>,
) -> bool {
    let failure = condition(set, "ReplicaFailure").filter(|held| text(held, "/status") == "True");
    let events = facts.messages(set, "FailedCreate");
    let event = missing.then(|| events.first().copied()).flatten();
    let failed = failed_decision(facts, set);
    let refused = failed.as_ref().filter(|failed| creates_pods(failed));
    let message = failure
        .map(|held| text(held, "/message"))
        .or(refused.and_then(|refused| refused.failure.as_deref()))
        .or(event);
    let Some(message) = message else {
        draft.explanation.in_the_way.extend(
            failed.map(|failed| {
                Obstacle::of(set, reconcile_fails(&failed)).passing(failed.count == 1)
            }),
        );
        return false;
    };
    let refusal = refusal::of(facts, set);
    draft.offer(help::refused(facts, refusal.as_ref()));
    let why = match refusal {
        Some(Refusal::Quota(refusal)) => format!("cannot create pods: {refusal}").into(),
        _ => Reason::quoting("cannot create pods: ", message),
    };
    let since = failure.and_then(|held| time(held, "/lastTransitionTime"));
    draft.in_the_way(Obstacle::of(set, why).since(since));
    true
}

/// The last decision of a controller about an object, if it could not be carried out.
fn failed_decision(facts: &Facts, object: &Value) -> Option<Decision> {
    let decided = facts.decisions_about(object).into_iter();
    let mut last = decided.filter_map(|mut decided| decided.decisions.pop());
    last.find(|last| last.failure.is_some())
}

/// The reasons of workload controllers to create pods.
const CREATES_PODS: [&str; 5] = [
    reasons::TOO_FEW,
    reasons::CREATES,
    reasons::MISSING,
    reasons::SURGE,
    reasons::REPLACES,
];

fn creates_pods(decision: &Decision) -> bool {
    let creates = |line: &Line| line.class == Class::Acts && CREATES_PODS.contains(&&*line.reason);
    decision.lines.iter().any(creates)
}

fn reconcile_fails(decision: &Decision) -> Reason {
    let fails = agree(decision.count, "fails", "keeps failing");
    let why = decision.failure.as_deref().unwrap_or_default();
    Reason::quoting(&format!("reconcile {fails}: "), why)
}

/// Puts the set's pods that are not available in the way; says whether one of them needs help.
pub(crate) fn note_pods(facts: &Facts, set: &Value, draft: &mut Draft<'_>) -> bool {
    let min_ready_seconds = number(set, "/spec/minReadySeconds");
    let mut problems: Vec<(&Value, crate::Problem)> = facts
        .controlled("Pod", set)
        .into_iter()
        .filter_map(|pod| Some((pod, problem(facts, pod, min_ready_seconds)?)))
        .collect();
    // What needs help first, and what is merely terminating last.
    problems.sort_by_key(|(_, problem)| (problem.passing, problem.cause == Cause::Terminating));
    let stuck = problems.iter().any(|(_, problem)| !problem.passing);
    for (pod, problem) in problems {
        // Without a probe nobody knows what a container lacks, and so whether it will be ready.
        if !problem.passing || problem.cause == Cause::Unready {
            draft.offer(help::for_pod(facts, pod, &problem.cause));
        }
        draft.in_the_way(problem.obstacle(pod));
    }
    stuck
}

/// The same for a set whose template nobody wants any more: problems of its pods end with them, unless they
/// block the deletion. Says whether the deletion of one that still runs is blocked.
pub(crate) fn note_old_pods(facts: &Facts, set: &Value, draft: &mut Draft<'_>) -> bool {
    let mut held = false;
    let min_ready_seconds = number(set, "/spec/minReadySeconds");
    for pod in facts.controlled("Pod", set) {
        let Some(mut problem) = problem(facts, pod, min_ready_seconds) else {
            continue;
        };
        match problem.cause {
            Cause::Failed | Cause::Exited { .. } | Cause::Succeeded => continue,
            Cause::Held | Cause::NodeUnreachable => {
                held |= !matches!(text(pod, "/status/phase"), "Failed" | "Succeeded");
                draft.offer(help::for_pod(facts, pod, &problem.cause));
            }
            _ => problem.passing = true,
        }
        draft.in_the_way(problem.obstacle(pod));
    }
    held
}
