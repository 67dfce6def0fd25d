//! What users do to tokens and to what they sign.

use std::time::Duration;

use api::kinds::{
    BOOTSTRAP_TOKEN, CLUSTER_INFO_CONFIG_MAP, CLUSTER_INFO_NAMESPACE, ConfigMap, Secret,
};
use serde_json::{Value, json};

use crate::bootstrap_token::NAMESPACE;
use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions {
    draw: bootstrap,
    // The names are taken once, and the last token expires within an hour.
    takes: Duration::from_secs(2 * 60 * 60),
}];

/// Tokens that stay, expire, have expired, and are none.
fn bootstrap(_draw: &Draw<'_>) -> Vec<UserAction> {
    let content = json!({"data": {"kubeconfig": "one", "jws-kubeconfig-forged": "x"}});
    let other = json!({"data": {"kubeconfig": "two"}});
    let (namespace, name) = (CLUSTER_INFO_NAMESPACE, CLUSTER_INFO_CONFIG_MAP);
    vec![
        token("stays0", json!({})),
        UserAction::create::<ConfigMap>(namespace, name, content),
        // Runs begin on New Year 2024.
        token("ends00", json!({"expiration": "2024-01-01T01:00:00Z"})),
        token("ended0", json!({"expiration": "2023-01-01T00:00:00Z"})),
        token("broken", json!({"token-id": "other0"})),
        UserAction::change::<ConfigMap>(namespace, name, other, "changes"),
    ]
}

fn token(id: &str, fields: Value) -> UserAction {
    let mut data = json!({
        "token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true",
    });
    for (key, value) in fields.as_object().into_iter().flatten() {
        data[key] = value.clone();
    }
    let secret = json!({"type": BOOTSTRAP_TOKEN, "stringData": data});
    UserAction::create::<Secret>(NAMESPACE, &format!("bootstrap-token-{id}"), secret)
}
