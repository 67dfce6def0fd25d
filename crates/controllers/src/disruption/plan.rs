//! From a budget and its pods to its status. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::conditions::{self, Condition, ConditionStatus};
use api::int_or_string::IntOrStringError;
use api::kinds::{Pod, PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use api::{IntOrString, MicroTime, Time};

use super::owners::Expected;
use super::reason::Reason;

/// How long a pod whose eviction was allowed counts as gone although nobody deletes it. Upstream's number.
pub const DELETION_TIMEOUT: Duration = Duration::from_secs(120);

/// The condition that this controller and the API server keep.
pub(super) const CONDITION: &str = "DisruptionAllowed";

/// What a budget's status should be, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub status: PodDisruptionBudgetStatus,
    pub reasons: Vec<Reason>,
    /// When an eviction that has not come to pass no longer counts.
    pub recheck: Option<MicroTime>,
}

/// Does the budget ask what the owners of its pods are scaled to? A whole number of pods stands for itself.
pub fn counts_by_scale(spec: &PodDisruptionBudgetSpec) -> bool {
    spec.max_unavailable.is_some() || matches!(spec.min_available, Some(IntOrString::Text(_)))
}

/// `expected` is what the owners are scaled to, if the budget counts by that.
pub fn plan(
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
    expected: Option<&Expected>,
    now: MicroTime,
) -> Result<Plan, IntOrStringError> {
    let mut reasons = Vec::new();
    if pods.is_empty() {
        reasons.push(Reason::NoPods);
    }
    let (expected_pods, desired_healthy) = plan_desired(&budget.spec, pods.len(), expected)?;
    if let Some(pods) = expected.map(|expected| &expected.unmanaged)
        && !pods.is_empty()
    {
        reasons.push(Reason::Unmanaged { pods: pods.clone() });
    }
    let disrupted = plan_disrupted(&budget.status.disrupted_pods, pods, now, &mut reasons);
    let is_healthy = |pod: &&Arc<Pod>| {
        let meta = &pod.metadata;
        pod.is_ready() && !meta.is_terminating() && !disrupted.contains_key(&meta.name)
    };
    let current_healthy = count(pods.iter().filter(is_healthy).count());
    let disruptions_allowed = match expected_pods {
        // A budget over nothing is safe when its first pods appear and nobody has counted them yet.
        ..=0 => 0,
        _ => current_healthy.saturating_sub(desired_healthy).max(0),
    };
    let mut status = PodDisruptionBudgetStatus {
        observed_generation: budget.metadata.generation,
        disruptions_allowed,
        current_healthy,
        desired_healthy,
        expected_pods,
        conditions: budget.status.conditions.clone(),
        disrupted_pods: disrupted,
    };
    set_condition(&mut status, now.time());
    reasons.push(Reason::counted(&status));
    let until = status.disrupted_pods.values().min();
    let recheck = until.map(|at| at.micro().plus(DELETION_TIMEOUT));
    Ok(Plan {
        status,
        reasons,
        recheck,
    })
}

/// Where pods cannot be counted none may go, and the condition says why. What was counted before stays.
pub fn plan_failure(
    budget: &PodDisruptionBudget,
    why: &str,
    now: MicroTime,
) -> PodDisruptionBudgetStatus {
    let mut status = budget.status.clone();
    status.disruptions_allowed = 0;
    let mut condition = Condition::new(
        CONDITION,
        ConditionStatus::False,
        "SyncFailed",
        why,
        now.time(),
    );
    condition.observed_generation = status.observed_generation;
    conditions::set(&mut status.conditions, condition, now.time());
    status
}

/// How many pods are expected, and how many have to be healthy.
fn plan_desired(
    spec: &PodDisruptionBudgetSpec,
    pods: usize,
    expected: Option<&Expected>,
) -> Result<(i32, i32), IntOrStringError> {
    let by_scale = expected.map_or(0, |expected| expected.pods);
    // UPSTREAM: both round up, so that a percentage of few pods protects one more or lets one more go.
    Ok(match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => {
            let most = most.scaled(by_scale, true)?;
            (by_scale, by_scale.saturating_sub(most).max(0))
        }
        (None, Some(IntOrString::Int(least))) => (count(pods), *least),
        (None, Some(least)) => (by_scale, least.scaled(by_scale, true)?),
        (None, None) => (0, 0),
    })
}

/// Of the pods whose eviction was allowed those that are still to be deleted.
fn plan_disrupted(
    held: &BTreeMap<Arc<str>, Time>,
    pods: &[Arc<Pod>],
    now: MicroTime,
    reasons: &mut Vec<Reason>,
) -> BTreeMap<Arc<str>, Time> {
    let mut disrupted = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !pod.metadata.is_terminating()) {
        let Some(at) = held.get(&pod.metadata.name) else {
            continue;
        };
        let until = at.micro().plus(DELETION_TIMEOUT);
        if until <= now {
            reasons.push(Reason::NotDeleted { pod: pod.clone() });
        } else {
            disrupted.insert(pod.metadata.name.clone(), *at);
            reasons.push(Reason::AwaitsDeletion {
                pod: pod.metadata.name.clone(),
                until: until.time(),
            });
        }
    }
    disrupted
}

fn set_condition(status: &mut PodDisruptionBudgetStatus, now: Time) {
    let (value, reason) = match status.disruptions_allowed {
        1.. => (ConditionStatus::True, "SufficientPods"),
        _ => (ConditionStatus::False, "InsufficientPods"),
    };
    let mut condition = Condition::new(CONDITION, value, reason, "", now);
    condition.observed_generation = status.observed_generation;
    conditions::set(&mut status.conditions, condition, now);
}

fn count(pods: usize) -> i32 {
    i32::try_from(pods).unwrap_or(i32::MAX)
}
