//! What users do to pods by tainting their nodes.

use api::kinds::Pod;
use serde_json::{Value, json};

use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions::of(taint)];

/// Pods of which one tolerates the taint for ever, one for some seconds and one not at all, and then the taint. Half the
/// time it goes again.
fn taint(draw: &Draw<'_>) -> Vec<UserAction> {
    let node = draw.rng.below(draw.nodes);
    let tolerates = |seconds: Value| {
        json!([{
            "key": UserAction::TAINT, "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": seconds,
        }])
    };
    let pod = |name: &str, tolerations: Value| {
        let name = format!("{name}-{}", draw.number);
        let containers = json!([{"name": "c", "image": "app:0"}]);
        let spec = json!({
            "nodeName": format!("node-{node}"), "containers": containers,
            "tolerations": tolerations, "terminationGracePeriodSeconds": 5,
        });
        UserAction::create::<Pod>(draw.namespace, &name, json!({"spec": spec}))
    };
    let mut actions = vec![
        pod("stays", tolerates(Value::Null)),
        pod("waits", tolerates(json!(10 + draw.rng.below(50)))),
        pod("leaves", json!([])),
        UserAction::TaintNode(node, Some("NoExecute")),
    ];
    if draw.rng.chance(2) {
        actions.push(UserAction::TaintNode(node, None));
    }
    actions
}
