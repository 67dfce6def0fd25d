//! What users do to tokens that expire.

use api::kinds::{BOOTSTRAP_TOKEN, Secret};
use serde_json::json;

use crate::bootstrap_token::NAMESPACE;
use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions::of(create)];

/// A token that has expired, never does, or says nonsense; runs begin on New Year 2024.
fn create(draw: &Draw<'_>) -> Vec<UserAction> {
    let expiration = ["2023-12-31T00:00:00Z", "", "soon"][draw.rng.below(3)];
    let id = format!("t{:05}", draw.number % 100_000);
    let data =
        json!({"token-id": id, "token-secret": "0123456789abcdef", "expiration": expiration});
    let secret = json!({"type": BOOTSTRAP_TOKEN, "stringData": data});
    vec![UserAction::create::<Secret>(
        NAMESPACE,
        &format!("bootstrap-token-{id}"),
        secret,
    )]
}
