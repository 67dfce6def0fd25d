//! What users do with quotas. Those that bind are raised or removed in the end, so that everything can come to rest.

use api::kinds::{ConfigMap, ResourceQuota};
use serde_json::json;

use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 3] = [
    Actions::of(count_workloads),
    Actions::of(limit_pods),
    Actions::of(limit_objects),
];

/// A quota that nothing reaches: it is there to be counted.
fn count_workloads(draw: &Draw<'_>) -> Vec<UserAction> {
    let name = format!("wide-{}", draw.number);
    let wide = json!({"spec": {"hard": {
        "pods": "1k", "count/pods": "1k", "count/replicasets.apps": "1k", "services": "100",
        "persistentvolumeclaims": "100", "requests.storage": "1Pi", "configmaps": "1k",
    }}});
    let mut actions = vec![UserAction::create::<ResourceQuota>(
        draw.namespace,
        &name,
        wide,
    )];
    if draw.rng.below(2) == 0 {
        let hard = json!({"spec": {"hard": {"pods": "2k", "count/secrets": "1k"}}});
        let change = UserAction::change::<ResourceQuota>(draw.namespace, &name, hard, "changes");
        actions.push(change);
    }
    actions
}

/// Too few pods for a while.
fn limit_pods(draw: &Draw<'_>) -> Vec<UserAction> {
    let name = format!("tight-{}", draw.number);
    let most = draw.rng.below(4).to_string();
    let tight = json!({"spec": {"hard": {"pods": most}}});
    let raised = json!({"spec": {"hard": {"pods": "1k"}}});
    vec![
        UserAction::create::<ResourceQuota>(draw.namespace, &name, tight),
        match draw.rng.below(2) {
            0 => UserAction::delete::<ResourceQuota>(draw.namespace, &name),
            _ => UserAction::change::<ResourceQuota>(draw.namespace, &name, raised, "raises"),
        },
    ]
}

/// Configurations of which the last does not fit in, until another is deleted.
fn limit_objects(draw: &Draw<'_>) -> Vec<UserAction> {
    let (namespace, number) = (draw.namespace, draw.number);
    let quota = format!("objects-{number}");
    let create = |nth: usize| {
        let name = format!("limited-{number}-{nth}");
        UserAction::create::<ConfigMap>(namespace, &name, json!({}))
    };
    let hard = json!({"spec": {"hard": {"count/configmaps": "3"}}});
    vec![
        create(0),
        UserAction::create::<ResourceQuota>(namespace, &quota, hard),
        create(1),
        create(2),
        UserAction::delete::<ConfigMap>(namespace, &format!("limited-{number}-0")),
        create(3),
        UserAction::delete::<ResourceQuota>(namespace, &quota),
    ]
}
