//! What users do to tokens of service accounts.

use api::kinds::{SERVICE_ACCOUNT_TOKEN, Secret, ServiceAccount};
use serde_json::json;

use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 2] = [Actions::of(create_account), Actions::of(empty_token)];

/// An account with a token; half the time it is deleted.
fn create_account(draw: &Draw<'_>) -> Vec<UserAction> {
    let (namespace, name) = (draw.namespace, format!("robot-{}", draw.number));
    let mut actions = vec![
        UserAction::create::<ServiceAccount>(namespace, &name, json!({})),
        create_token(namespace, &format!("{name}-token"), &name),
    ];
    if draw.rng.chance(2) {
        actions.push(UserAction::delete::<ServiceAccount>(namespace, &name));
    }
    actions
}

fn empty_token(draw: &Draw<'_>) -> Vec<UserAction> {
    let (namespace, name) = (draw.namespace, format!("token-{}", draw.number));
    let empty = json!({"data": {"token": null}});
    vec![
        create_token(namespace, &name, "default"),
        UserAction::change::<Secret>(namespace, &name, empty, "empties"),
    ]
}

fn create_token(namespace: &'static str, name: &str, account: &str) -> UserAction {
    let fields = json!({
        "type": SERVICE_ACCOUNT_TOKEN,
        "metadata": {"annotations": {"kubernetes.io/service-account.name": account}},
    });
    UserAction::create::<Secret>(namespace, name, fields)
}
