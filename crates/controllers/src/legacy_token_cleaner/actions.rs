//! What users do to tokens that nobody uses.

use std::time::Duration;

use api::kinds::{ConfigMap, SERVICE_ACCOUNT_TOKEN, Secret, ServiceAccount};
use serde_json::json;

use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions {
    draw: leave_token,
    // A token is too young on the first day, marked on the second, spared on the third and gone on the fourth.
    takes: Duration::from_secs(5 * 24 * 60 * 60),
}];

/// A token as every account had one once.
fn leave_token(_draw: &Draw<'_>) -> Vec<UserAction> {
    let since = json!({"data": {"since": "2020-01-01"}});
    let tracking = "kube-apiserver-legacy-service-account-token-tracking";
    let secrets = json!({"secrets": [{"name": "old-token"}]});
    let token = json!({
        "type": SERVICE_ACCOUNT_TOKEN,
        "metadata": {"annotations": {"kubernetes.io/service-account.name": "old"}},
    });
    vec![
        UserAction::change::<ConfigMap>("kube-system", tracking, since, "dates back"),
        UserAction::create::<ServiceAccount>("default", "old", secrets),
        UserAction::create::<Secret>("default", "old-token", token),
    ]
}
