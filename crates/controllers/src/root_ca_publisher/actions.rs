//! What users do to the published root certificates.

use api::kinds::{ConfigMap, ROOT_CA_CONFIG_MAP};
use serde_json::json;

use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions::of(delete_or_forge)];

fn delete_or_forge(draw: &Draw<'_>) -> Vec<UserAction> {
    let (namespace, name) = (draw.namespace, ROOT_CA_CONFIG_MAP);
    let forged = json!({"data": {"ca.crt": "mine"}});
    vec![match draw.rng.chance(2) {
        true => UserAction::delete::<ConfigMap>(namespace, name),
        false => UserAction::change::<ConfigMap>(namespace, name, forged, "forges"),
    }]
}
