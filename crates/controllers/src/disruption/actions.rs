//! What users do to budgets, and to pods under them.

use api::kinds::{Deployment, PodDisruptionBudget};
use serde_json::{Value, json};

use crate::oracle::{Actions, Draw, Target, UserAction};

pub(super) const ACTIONS: [Actions; 2] = [Actions::of(protect), Actions::of(drain)];

/// A budget over pods of one version, of one workload or of all, which is then changed or deleted.
fn protect(draw: &Draw<'_>) -> Vec<UserAction> {
    let name = format!("budget-{}", draw.number);
    let mut actions = vec![UserAction::create::<PodDisruptionBudget>(
        draw.namespace,
        &name,
        json!({"spec": spec(draw)}),
    )];
    match draw.rng.below(4) {
        0 => actions.push(UserAction::delete::<PodDisruptionBudget>(
            draw.namespace,
            &name,
        )),
        1 => actions.push(UserAction::change::<PodDisruptionBudget>(
            draw.namespace,
            &name,
            json!({"spec": {"selector": {"matchLabels": {"version": "1"}}}}),
            "protects others",
        )),
        _ => {}
    }
    actions
}

/// A budget over the pods of a workload, and evictions of them one after the other.
fn drain(draw: &Draw<'_>) -> Vec<UserAction> {
    let workload = format!("w{}", draw.rng.below(3));
    let name = format!("budget-{}", draw.number);
    let mut fields = json!({"spec": spec(draw)});
    fields["spec"]["selector"] = json!({"matchLabels": {"app": workload}});
    let create = UserAction::create::<PodDisruptionBudget>(draw.namespace, &name, fields);
    // Pods are found by the name of their workload, of whatever kind it is.
    let target = Target::of::<Deployment>(draw.namespace, &workload);
    let evictions = 2 + draw.rng.below(4);
    let evict = |nth: usize| UserAction::EvictPod(target.clone(), nth);
    std::iter::once(create)
        .chain((0..evictions).map(evict))
        .collect()
}

fn spec(draw: &Draw<'_>) -> Value {
    let selector = match draw.rng.below(4) {
        0 => json!({}),
        1 => json!({"matchLabels": {"app": format!("w{}", draw.rng.below(3))}}),
        _ => json!({"matchLabels": {"version": "0"}}),
    };
    let mut spec = json!({"selector": selector});
    let (field, value) = match draw.rng.below(5) {
        0 => ("minAvailable", json!(draw.rng.below(4))),
        1 => ("minAvailable", json!("50%")),
        2 => ("maxUnavailable", json!("34%")),
        3 => ("maxUnavailable", json!(0)),
        _ => ("maxUnavailable", json!(1)),
    };
    spec[field] = value;
    if draw.rng.chance(3) {
        spec["unhealthyPodEvictionPolicy"] = json!("AlwaysAllow");
    }
    spec
}
