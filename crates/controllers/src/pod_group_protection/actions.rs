//! What users do with pod groups.

use api::kinds::{Pod, PodGroup};
use serde_json::json;

use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions::of(delete_group)];

/// A group with two pods is deleted while they run; then one goes, and perhaps the other.
fn delete_group(draw: &Draw<'_>) -> Vec<UserAction> {
    let group = format!("gang-{}", draw.number);
    let namespace = draw.namespace;
    let pod = |at: usize| {
        let spec = json!({
            "containers": [{"name": "c", "image": "app:0"}], "terminationGracePeriodSeconds": draw.rng.below(3),
            "schedulingGroup": {"podGroupName": group},
        });
        UserAction::create::<Pod>(namespace, &format!("{group}-{at}"), json!({"spec": spec}))
    };
    let spec = json!({"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}});
    let mut actions = vec![
        UserAction::create::<PodGroup>(namespace, &group, spec),
        pod(0),
        pod(1),
        UserAction::delete::<PodGroup>(namespace, &group),
        UserAction::delete::<Pod>(namespace, &format!("{group}-0")),
    ];
    if draw.rng.chance(2) {
        actions.push(UserAction::delete::<Pod>(namespace, &format!("{group}-1")));
    }
    actions
}
