//! Budgets for disruptions: what a drain may take away.

use api::IntOrString;
use api::decision::{agree, counted};
use api::selector::Selector;
use serde::Deserialize;
use serde_json::Value;

use crate::Draft;
use crate::facts::{Facts, controller_uid, kind_of};
use crate::json::{condition, labels, number, selector_of, text};
use crate::replicas::wanted;

/// What a budget asks for when this many pods are expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// How many pods must stay healthy.
    pub must_stay: i32,
    pub expected: i32,
}

impl Budget {
    /// Reads the spec, for pods whose owners want `expected` of them.
    pub fn of(budget: &Value, expected: i32) -> Option<Budget> {
        let value = |pointer: &str| {
            let value = budget.pointer(pointer)?;
            IntOrString::deserialize(value)
                .ok()?
                .scaled(expected, true)
                .ok()
        };
        let must_stay = match (value("/spec/minAvailable"), value("/spec/maxUnavailable")) {
            (Some(least), _) => least,
            (None, Some(most)) => (expected - most).max(0),
            (None, None) => return None,
        };
        Some(Budget {
            must_stay,
            expected,
        })
    }
}

/// A budget that allows no eviction even when all pods are healthy: drains wait for ever.
pub fn allows_no_disruption(budget: &Value, expected: i32) -> bool {
    Budget::of(budget, expected)
        .is_some_and(|budget| budget.expected > 0 && budget.must_stay >= budget.expected)
}

/// Says which budgets cover a pod, or the pods of a template.
pub(crate) fn explain(facts: &Facts, of: &Value, draft: &mut Draft<'_>) {
    let over: Vec<&Value> = facts
        .of_kind("PodDisruptionBudget")
        .filter(|budget| covers(budget, of))
        .collect();
    // A workload stands for pods that are well.
    let pods = Some(of).filter(|of| kind_of(of) == "Pod");
    for budget in &over {
        let line = describe(facts, budget, pods.as_slice());
        draft.explanation.sees.extend(line);
    }
    if let [_, _, ..] = &*over {
        let count = over.len();
        draft.sees(format!(
            "{count} budgets select it: the API server evicts no pod that is under more than one; a drain waits for ever"
        ));
    }
}

/// The same for all pods of the node that is asked about.
pub(crate) fn explain_node(facts: &Facts, draft: &mut Draft<'_>) {
    let name = text(&facts.object, "/metadata/name");
    let on_it = |pod: &&Value| text(pod, "/spec/nodeName") == name;
    let pods: Vec<&Value> = facts.of_kind("Pod").filter(on_it).collect();
    for budget in facts.of_kind("PodDisruptionBudget") {
        let covered = pods.iter().filter(|pod| covers(budget, pod));
        let covered: Vec<&Value> = covered.copied().collect();
        if !covered.is_empty() {
            let namespace = text(budget, "/metadata/namespace");
            let lines = describe(facts, budget, &covered).into_iter();
            let lines = lines.map(|line| format!("in {namespace}, {line}"));
            draft.explanation.sees.extend(lines);
        }
    }
}

/// The selectors of the pods that have to be counted: those of budgets over the object whose status is not written.
pub fn budgets_to_count(facts: &Facts) -> Vec<Selector> {
    facts
        .of_kind("PodDisruptionBudget")
        .filter(|budget| covers(budget, &facts.object) && !is_written(budget))
        .filter_map(selector_of)
        .collect()
}

/// Is the pod, or are the pods of the template, under this budget?
pub(crate) fn covers(budget: &Value, of: &Value) -> bool {
    let pods = match kind_of(of) {
        "Pod" => labels(of, "/metadata/labels"),
        _ => labels(of, "/spec/template/metadata/labels"),
    };
    text(budget, "/metadata/namespace") == text(of, "/metadata/namespace")
        && selector_of(budget).is_some_and(|selector| selector.matches(&pods))
}

/// Has a disruption controller written the status of the budget?
pub(crate) fn is_written(budget: &Value) -> bool {
    number(budget, "/status/observedGeneration") > 0 || number(budget, "/status/expectedPods") > 0
}

/// May the pod be evicted whatever the budget allows, as the API server goes by it?
pub(crate) fn may_go_in_any_case(budget: &Value, pod: &Value) -> bool {
    let is_running = text(pod, "/status/phase") == "Running"
        && text(pod, "/metadata/deletionTimestamp").is_empty();
    !is_running || (!is_healthy(pod) && lets_unready_go(budget))
}

/// UPSTREAM: a pod that is not ready may go where the policy says so, or where enough others are healthy.
fn lets_unready_go(budget: &Value) -> bool {
    let (healthy, least) = (
        number(budget, "/status/currentHealthy"),
        number(budget, "/status/desiredHealthy"),
    );
    text(budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow"
        || (least > 0 && healthy >= least)
}

/// `pods` are those that are asked about, if it is about some in particular.
fn describe(facts: &Facts, budget: &Value, pods: &[&Value]) -> Option<String> {
    let name = facts.name_of(budget);
    if !pods.is_empty() && pods.iter().all(|pod| may_go_in_any_case(budget, pod)) {
        let (pods, are) = match pods.len() {
            1 => ("the pod", "it is"),
            _ => ("the pods", "they are"),
        };
        return Some(format!(
            "{name} does not keep {pods} from being evicted, because {are} not ready"
        ));
    }
    if !is_written(budget) {
        return uncounted(facts, budget, &name);
    }
    let expected = number(budget, "/status/expectedPods");
    let allowed = budget.pointer("/status/disruptionsAllowed")?.as_i64()?;
    let (healthy, least) = (
        number(budget, "/status/currentHealthy"),
        number(budget, "/status/desiredHealthy"),
    );
    (expected > 0).then(|| match allowed {
        0 => none_allowed(&name, healthy, least),
        allowed => format!(
            "{name} allows {} now: {}, {least} must be",
            counted(allowed, "eviction"),
            are_healthy(healthy)
        ),
    })
}

fn none_allowed(name: &str, healthy: i64, least: i64) -> String {
    format!(
        "{name} allows no evictions now: {} and {least} must be; a drain waits",
        are_healthy(healthy)
    )
}

/// A budget without a status allows no eviction, because the API server waits for one; by its spec a status may
/// change that.
fn uncounted(facts: &Facts, budget: &Value, name: &str) -> Option<String> {
    if facts.unread.contains("Pod") {
        return Some(format!(
            "{name} allows no evictions now: its status has not been written; a drain waits"
        ));
    }
    let alive = |pod: &&Value| !matches!(text(pod, "/status/phase"), "Failed" | "Succeeded");
    let pods: Vec<&Value> = facts
        .all_of_kind("Pod")
        .filter(|pod| covers(budget, pod))
        .filter(alive)
        .collect();
    let healthy = pods.iter().filter(|pod| is_healthy(pod)).count();
    let healthy = i64::try_from(healthy).unwrap_or(i64::MAX);
    let expected = i32::try_from(expected(facts, &pods)).unwrap_or(i32::MAX);
    let least = i64::from(Budget::of(budget, expected)?.must_stay);
    Some(match healthy - least {
        ..=0 => none_allowed(name, healthy, least),
        allowed => format!(
            "{name} allows no evictions now: {} and {least} must be, so {allowed} could be evicted, but its status has not been written; a drain waits",
            are_healthy(healthy)
        ),
    })
}

/// `1 pod is healthy`
fn are_healthy(count: i64) -> String {
    format!(
        "{} {} healthy",
        counted(count, "pod"),
        agree(count, "is", "are")
    )
}

pub(crate) fn is_healthy(pod: &Value) -> bool {
    let ready = condition(pod, "Ready").is_some_and(|ready| text(ready, "/status") == "True");
    ready && text(pod, "/metadata/deletionTimestamp").is_empty()
}

/// How many pods the owners want, as far as they are known; pods of others count themselves.
fn expected(facts: &Facts, pods: &[&Value]) -> i64 {
    let mut owners: Vec<&str> = pods.iter().map(|pod| top_owner(facts, pod)).collect();
    owners.sort_unstable();
    let mut expected = 0;
    for same in owners.chunk_by(|one, other| one == other) {
        let mut known = std::iter::once(&facts.object).chain(&facts.related);
        let known = known.find(|object| text(object, "/metadata/uid") == same[0]);
        expected += match known.filter(|object| object.pointer("/spec/replicas").is_some()) {
            Some(owner) => wanted(owner),
            None => i64::try_from(same.len()).unwrap_or(i64::MAX),
        };
    }
    expected
}

/// The uid of who wants the pod: its ReplicaSet's Deployment, if both are known.
fn top_owner<'a>(facts: &'a Facts, pod: &'a Value) -> &'a str {
    let Some(owner) = controller_uid(pod) else {
        return text(pod, "/metadata/uid");
    };
    let mut sets = facts.all_of_kind("ReplicaSet");
    let set = sets.find(|set| text(set, "/metadata/uid") == owner);
    set.and_then(controller_uid).unwrap_or(owner)
}
