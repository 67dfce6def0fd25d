//! What users do to services.

use api::kinds::Service;
use serde_json::json;

use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions::of(publish)];

/// A service for pods of the first version, which is then given another selector or deleted.
fn publish(draw: &Draw<'_>) -> Vec<UserAction> {
    let name = format!("service-{}", draw.number);
    let selecting = |version: &str| {
        json!({"spec": {
            "selector": {"version": version},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
        }})
    };
    let mut actions = vec![UserAction::create::<Service>(
        draw.namespace,
        &name,
        selecting("0"),
    )];
    match draw.rng.below(3) {
        0 => actions.push(UserAction::delete::<Service>(draw.namespace, &name)),
        1 => actions.push(UserAction::change::<Service>(
            draw.namespace,
            &name,
            json!({"spec": {"selector": {"version": "1"}}}),
            "points elsewhere",
        )),
        _ => {}
    }
    actions
}
