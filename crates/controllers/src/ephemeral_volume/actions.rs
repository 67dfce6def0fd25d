//! What users do with ephemeral volumes.

use api::kinds::{PersistentVolumeClaim, Pod};
use serde_json::{Value, json};

use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions::of(create)];

fn claim_spec() -> Value {
    json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}})
}

/// A pod with an ephemeral volume, for which a claim of that name may be there already; then one of them goes.
fn create(draw: &Draw<'_>) -> Vec<UserAction> {
    let pod = format!("scratch-{}", draw.number);
    let claim = format!("{pod}-data");
    let volume = json!({"name": "data", "ephemeral": {"volumeClaimTemplate": {
        "metadata": {"labels": {"of": pod}}, "spec": claim_spec(),
    }}});
    let spec = json!({"spec": {
        "terminationGracePeriodSeconds": draw.rng.below(3),
        "containers": [{"name": "c", "image": "app:0"}], "volumes": [volume],
    }});
    let mut actions = Vec::new();
    let is_taken = draw.rng.chance(3);
    if is_taken {
        let spec = json!({"spec": claim_spec()});
        actions.push(UserAction::create::<PersistentVolumeClaim>(
            draw.namespace,
            &claim,
            spec,
        ));
    }
    actions.push(UserAction::create::<Pod>(draw.namespace, &pod, spec));
    actions.push(match is_taken || draw.rng.chance(2) {
        true => UserAction::delete::<PersistentVolumeClaim>(draw.namespace, &claim),
        false => UserAction::delete::<Pod>(draw.namespace, &pod),
    });
    actions
}
