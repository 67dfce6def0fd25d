//! Deployments: down the tree to the pod that blocks.

use api::Resource;
use api::decision::counted;
use api::kinds::{Deployment, PersistentVolumeClaim, Pod, ReplicaSet};
use serde_json::Value;

use crate::facts::Facts;
use crate::json::{condition, number, text, truth};
use crate::kinds::{Kind, Need};
use crate::replicas::{note_old_pods, note_pods, note_refusal, note_unobserved, wanted};
use crate::{Draft, State, disruption, help};

const REVISION: &str = "/metadata/annotations/deployment.kubernetes.io~1revision";

pub(crate) const KIND: Kind = Kind {
    resource: Deployment::TYPE,
    inputs: &[ReplicaSet::TYPE, Pod::TYPE],
    needs: &[
        Need::Selected(ReplicaSet::TYPE),
        Need::Pods,
        Need::All(PersistentVolumeClaim::TYPE),
        Need::Budgets,
        Need::Owner,
    ],
    explain,
    tells_deletion: false,
};

pub(crate) fn explain(facts: &Facts, draft: &mut Draft<'_>) {
    let deployment = &facts.object;
    let wanted = wanted(deployment);
    draft.wants(format!(
        "{} of {}",
        counted(wanted, "pod"),
        help::images(deployment)
    ));
    draft.wants(strategy(deployment));
    draft.sees(counts(deployment, wanted));
    note_unobserved(facts, deployment, draft);
    let (new, old) = sets(facts);
    if let Some(new) = new {
        draft.sees(describe(facts, new, "has the current template"));
    }
    for set in old
        .iter()
        .filter(|set| number(set, "/spec/replicas") > 0 || number(set, "/status/replicas") > 0)
    {
        let revision = format!("is revision {}", text(set, REVISION));
        draft.sees(describe(facts, set, &revision));
    }
    disruption::explain(facts, deployment, draft);
    let mut problem = Found::default();
    for set in new.into_iter().chain(old.iter().copied()) {
        let is_new = new.is_some_and(|new| std::ptr::eq(new, set));
        if is_new {
            draft.add_decisions(set);
            let can_go_back = old
                .iter()
                .any(|set| number(set, "/status/availableReplicas") > 0);
            problem.refused = note_refusal(facts, set, draft);
            problem.can_go_back = can_go_back;
            problem.pods |= pods_of_new(facts, set, can_go_back, draft);
        } else {
            let held = note_old_pods(facts, set, draft);
            // Only Recreate waits until they are gone.
            problem.pods |= held && is_recreate(deployment);
        }
    }
    conclude(facts, draft, wanted, &problem);
}

#[derive(Default)]
struct Found {
    refused: bool,
    pods: bool,
    can_go_back: bool,
}

/// A rollout that is blocked while the old pods still serve is best taken back; else the cause is to be fixed.
fn pods_of_new(facts: &Facts, set: &Value, can_go_back: bool, draft: &mut Draft<'_>) -> bool {
    let held = draft.explanation.help.take();
    let stuck = note_pods(facts, set, draft);
    let fix = draft.explanation.help.take();
    draft.explanation.help = held;
    if stuck && can_go_back {
        draft.offer(help::undo(facts));
    }
    draft.offer(fix);
    stuck
}

fn conclude(facts: &Facts, draft: &mut Draft<'_>, wanted: i64, problem: &Found) {
    let deployment = &facts.object;
    let of = |field: &str| number(deployment, &format!("/status/{field}"));
    let (updated, available) = (of("updatedReplicas"), of("availableReplicas"));
    let all = of("replicas");
    let seen = of("observedGeneration") >= number(deployment, "/metadata/generation");
    let timed_out = condition(deployment, "Progressing")
        .is_some_and(|held| text(held, "/reason") == "ProgressDeadlineExceeded");
    let first = draft
        .explanation
        .in_the_way
        .first()
        .map_or(String::new(), |first| {
            format!("; {} {}", first.object, first.why.headline())
        });
    let old = all - updated;
    let count = format!(
        "{updated} of {} updated, {available} available",
        counted(wanted, "pod")
    );
    if truth(deployment, "/spec/paused") && (updated < wanted || old > 0) {
        let name = facts.name_of(deployment);
        draft.offer(help::on(
            facts,
            &format!("rollout resume {name}"),
            "resumes the rollout",
        ));
        draft.conclude(State::Stuck, format!("is paused: {count}"));
    } else if seen && (updated, available, all) == (wanted, wanted, wanted) {
        draft.explanation.in_the_way.retain(|held| !held.passing);
        draft.conclude(
            State::Settled,
            match wanted {
                1 => "is complete: its pod is updated and available".to_owned(),
                _ => format!("is complete: all {wanted} pods are updated and available"),
            },
        );
    } else if problem.refused || problem.pods || timed_out {
        if timed_out && problem.can_go_back {
            draft.offer(help::undo(facts));
        }
        let stuck = match timed_out {
            true => "has exceeded its progress deadline",
            false => "is stuck",
        };
        draft.conclude(State::Stuck, format!("{stuck}: {count}{first}"));
    } else {
        draft.conclude_progressing(&count, format!("is progressing: {count}{first}"));
    }
}

fn strategy(deployment: &Value) -> String {
    if is_recreate(deployment) {
        return "all old pods gone before the first new one starts (Recreate)".to_owned();
    }
    let of = |field: &str| {
        let value = deployment.pointer(&format!("/spec/strategy/rollingUpdate/{field}"));
        match value {
            Some(Value::String(text)) => text.clone(),
            Some(number) => number.to_string(),
            None => "25%".to_owned(),
        }
    };
    format!(
        "at most {} unavailable and {} extra while it rolls out",
        of("maxUnavailable"),
        of("maxSurge")
    )
}

fn is_recreate(deployment: &Value) -> bool {
    text(deployment, "/spec/strategy/type") == "Recreate"
}

fn counts(deployment: &Value, wanted: i64) -> String {
    let of = |field: &str| number(deployment, &format!("/status/{field}"));
    format!(
        "{}, {} of {wanted} updated, {} ready, {} available",
        counted(of("replicas"), "pod"),
        of("updatedReplicas"),
        of("readyReplicas"),
        of("availableReplicas")
    )
}

fn describe(facts: &Facts, set: &Value, what: &str) -> String {
    format!(
        "{} {what}: wants {}, has {}, {} available",
        facts.name_of(set),
        number(set, "/spec/replicas"),
        number(set, "/status/replicas"),
        number(set, "/status/availableReplicas"),
    )
}

/// The set of the current template, which is the one of the highest revision, and the others.
fn sets(facts: &Facts) -> (Option<&Value>, Vec<&Value>) {
    let mut sets = facts.controlled("ReplicaSet", &facts.object);
    let revision = |set: &&Value| text(set, REVISION).parse::<i64>().unwrap_or(0);
    sets.sort_by_key(|set| std::cmp::Reverse(revision(set)));
    let current = text(&facts.object, REVISION);
    let has_current = sets
        .first()
        .is_some_and(|set| text(set, REVISION) == current);
    // Before its controller has synced it, the current template has no set yet.
    let seen = number(&facts.object, "/status/observedGeneration")
        >= number(&facts.object, "/metadata/generation");
    if !has_current || !seen {
        return (None, sets);
    }
    let old = sets.split_off(1);
    (sets.first().copied(), old)
}
