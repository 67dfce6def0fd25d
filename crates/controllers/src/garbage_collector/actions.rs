//! What users do with owner references, beyond what workloads do.

use api::kinds::{ConfigMap, Secret};
use serde_json::json;

use crate::oracle::{Actions, Draw, Target, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions::of(create_owned)];

/// A secret that goes with a configuration, and names another owner that never was. What became of the one that never
/// was makes the collector look at the secret, perhaps before it has seen the configuration.
fn create_owned(draw: &Draw<'_>) -> Vec<UserAction> {
    let (namespace, name) = (draw.namespace, format!("keeper-{}", draw.number));
    let kept = Target::of::<Secret>(namespace, &format!("kept-{}", draw.number));
    let mut actions = vec![
        UserAction::create::<ConfigMap>(namespace, &name, json!({})),
        UserAction::CreateSecretOf(
            Target::of::<ConfigMap>(namespace, &name),
            kept.object(json!({})),
        ),
    ];
    if draw.rng.chance(2) {
        actions.push(UserAction::delete::<ConfigMap>(namespace, &name));
    }
    actions
}
