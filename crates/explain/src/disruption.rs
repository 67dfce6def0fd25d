//! Budgets for disruptions: what a drain may take away.

use api::IntOrString;
use serde::Deserialize;
use serde_json::Value;

use crate::Telling;
use crate::facts::Facts;
use crate::json::{labels, number, selector_of, text};

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

/// A budget that lets nobody go even when all is well: drains wait for ever.
pub fn allows_no_disruption(budget: &Value, expected: i32) -> bool {
    Budget::of(budget, expected)
        .is_some_and(|budget| budget.expected > 0 && budget.must_stay >= budget.expected)
}

/// Says which budgets cover a pod, or the pods of a template.
pub(crate) fn tell(facts: &Facts, of: &Value, told: &mut Telling<'_>) {
    let pods = match text(of, "/kind") {
        "Pod" => labels(of, "/metadata/labels"),
        _ => labels(of, "/spec/template/metadata/labels"),
    };
    for budget in facts.of_kind("PodDisruptionBudget") {
        if !selector_of(budget).is_some_and(|selector| selector.matches(&pods)) {
            continue;
        }
        let name = facts.name_of(budget);
        let known = budget.pointer("/status/disruptionsAllowed").is_some()
            && number(budget, "/status/expectedPods") > 0;
        if !known {
            continue;
        }
        let (healthy, least) = (
            number(budget, "/status/currentHealthy"),
            number(budget, "/status/desiredHealthy"),
        );
        told.sees(match number(budget, "/status/disruptionsAllowed") {
            0 => format!(
                "{name} lets nobody be evicted now: {healthy} pods are healthy and {least} must be; a drain waits"
            ),
            allowed => format!("{name} lets {allowed} be evicted now: {healthy} pods are healthy, {least} must be"),
        });
    }
}
