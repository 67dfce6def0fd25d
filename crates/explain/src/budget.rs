//! A PodDisruptionBudget itself: which pods it counts, how many may go, and what keeps more from going.

use api::Resource;
use api::decision::{agree, counted};
use api::kinds::{Pod, PodDisruptionBudget};
use serde_json::Value;

use crate::disruption::{allows_no_disruption, covers, is_healthy, is_written, may_go_in_any_case};
use crate::facts::Facts;
use crate::help;
use crate::json::{condition, number, text};
use crate::kinds::{Kind, Need};
use crate::pod::problem;
use crate::{Draft, Obstacle, State};

pub(crate) const KIND: Kind = Kind {
    resource: PodDisruptionBudget::TYPE,
    inputs: &[Pod::TYPE],
    // Other budgets may be over the same pods.
    needs: &[Need::UnderBudget, Need::All(PodDisruptionBudget::TYPE)],
    explain,
    tells_deletion: false,
};

pub(crate) fn explain(facts: &Facts, draft: &mut Draft<'_>) {
    let budget = &facts.object;
    draft.wants(wanted(budget));
    if text(budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow" {
        draft.wants("pods that are not ready to go whenever they are evicted (AlwaysAllow)");
    }
    let pods: Vec<&Value> = facts
        .of_kind("Pod")
        .filter(|pod| covers(budget, pod))
        .collect();
    note_pods(facts, &pods, draft);
    note_evictions(budget, draft);
    crate::replicas::note_unobserved(facts, budget, draft);
    conclude(facts, &pods, draft);
}

/// `at most 30% of its pods unavailable`
fn wanted(budget: &Value) -> String {
    let value = |pointer: &str| match budget.pointer(pointer) {
        Some(Value::String(text)) => Some(format!("{text} of its pods")),
        Some(number @ Value::Number(_)) => {
            let number = number.as_i64().unwrap_or(0);
            Some(counted(number, "pod").to_string())
        }
        _ => None,
    };
    match (value("/spec/maxUnavailable"), value("/spec/minAvailable")) {
        (Some(most), _) => format!("at most {most} unavailable"),
        (None, Some(least)) => format!("at least {least} healthy"),
        (None, None) => "nothing: it has neither minAvailable nor maxUnavailable".to_owned(),
    }
}

/// Which number would let a pod go, of the two that a budget can have.
fn remedy(budget: &Value, expected: i64) -> String {
    match budget.pointer("/spec/minAvailable") {
        Some(Value::String(_)) => "lets you lower minAvailable".to_owned(),
        Some(_) => format!("lets you set minAvailable to {} or less", expected - 1),
        None => "lets you set maxUnavailable to 1 or more".to_owned(),
    }
}

fn note_pods(facts: &Facts, pods: &[&Value], draft: &mut Draft<'_>) {
    if facts.unread.contains("Pod") {
        return;
    }
    let healthy = pods.iter().filter(|pod| is_healthy(pod)).count();
    let all = pods.len();
    draft.sees(format!(
        "{} {} under it, {healthy} healthy",
        counted(all, "pod"),
        agree(all, "is", "are"),
    ));
    for pod in pods.iter().filter(|pod| !is_healthy(pod)) {
        if let Some(found) = problem(facts, pod, 0) {
            draft.in_the_way(found.obstacle(pod));
        }
    }
    note_shared(facts, pods, draft);
}

/// A pod under two budgets cannot be evicted at all.
fn note_shared(facts: &Facts, pods: &[&Value], draft: &mut Draft<'_>) {
    for other in facts.of_kind("PodDisruptionBudget") {
        let shared = pods.iter().filter(|pod| covers(other, pod)).count();
        if shared > 0 {
            let why = format!(
                "also selects {}: the API server evicts no pod that is under two budgets",
                counted(shared, "pod")
            );
            draft.in_the_way(Obstacle::of(other, why));
        }
    }
}

/// Pods whose eviction was allowed and that nobody has deleted.
fn note_evictions(budget: &Value, draft: &mut Draft<'_>) {
    let disrupted = budget.pointer("/status/disruptedPods");
    let disrupted = disrupted.and_then(Value::as_object);
    for pod in disrupted.into_iter().flat_map(|pods| pods.keys()) {
        draft.sees(format!(
            "the eviction of pod/{pod} was allowed and is under way; it counts as gone for two minutes"
        ));
    }
}

fn conclude(facts: &Facts, pods: &[&Value], draft: &mut Draft<'_>) {
    let budget = &facts.object;
    let number = |field: &str| number(budget, &format!("/status/{field}"));
    let failed = condition(budget, "DisruptionAllowed")
        .filter(|held| text(held, "/reason") == "SyncFailed")
        .map(|held| text(held, "/message"));
    let (allowed, expected) = (number("disruptionsAllowed"), number("expectedPods"));
    let (healthy, desired) = (number("currentHealthy"), number("desiredHealthy"));
    let pods_expected = i32::try_from(expected).unwrap_or(i32::MAX);
    if let Some(why) = failed {
        return draft.conclude(
            State::Stuck,
            format!("allows no evictions: its pods cannot be counted ({why})"),
        );
    }
    if !is_written(budget) {
        let verdict = "allows no evictions: its status has not been written";
        return draft.conclude(State::Progressing, verdict);
    }
    if expected <= 0 {
        let verdict = match pods.is_empty() {
            true => "no pod is under it: nothing is protected",
            false => "allows no evictions: none of its pods is expected by a controller",
        };
        return draft.conclude(State::Settled, verdict);
    }
    let shared = draft.explanation.in_the_way.iter();
    let shared: Vec<&str> = shared
        .filter(|one| one.kind == PodDisruptionBudget::TYPE.kind)
        .map(|one| one.object.as_str())
        .collect();
    if !shared.is_empty() {
        let verdict = format!(
            "evictions are refused where {} selects the pod, too: none is evicted that is under two budgets",
            shared.join(" or ")
        );
        return draft.conclude(State::Stuck, verdict);
    }
    if allowed > 0 {
        let verdict = format!("allows {} now", counted(allowed, "eviction"));
        return draft.conclude(
            State::Settled,
            format!(
                "{verdict}: {healthy} of {} healthy, {desired} must be",
                counted(expected, "pod")
            ),
        );
    }
    let counts = format!(
        "{healthy} of {} healthy, {desired} must be",
        counted(expected, "pod")
    );
    if allows_no_disruption(budget, pods_expected) {
        draft.conclude(
            State::Stuck,
            format!("never allows an eviction, even when all pods are healthy: {counts}; a drain waits for ever"),
        );
        let command = format!("edit {}", draft.explanation.object);
        return draft.offer(help::on(facts, &command, &remedy(budget, expected)));
    }
    let stuck = draft.explanation.in_the_way.iter().any(|one| !one.passing);
    let state = match stuck {
        true => State::Stuck,
        false => State::Progressing,
    };
    let may_go = pods.iter().filter(|pod| may_go_in_any_case(budget, pod));
    let verdict = match may_go.count() {
        0 => format!("allows no evictions: {counts}; a drain waits"),
        all if all == pods.len() => {
            format!("keeps no pod from being evicted, because none is ready: {counts}")
        }
        some => format!(
            "allows no evictions of pods that are ready: {counts}; a drain waits, but not for {} that {} not",
            counted(some, "pod"),
            agree(some, "is", "are"),
        ),
    };
    draft.conclude(state, verdict);
}
