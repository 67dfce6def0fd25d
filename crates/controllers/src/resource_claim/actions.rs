//! What users do with claims for devices.

use api::kinds::{CLAIM_DELETE_PROTECTION, Pod, ResourceClaim, ResourceClaimTemplate};
use serde_json::{Value, json};

use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 2] = [Actions::of(from_template), Actions::of(abandoned)];

fn spec() -> Value {
    json!({"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}})
}

/// A pod that takes two claims from a template, which may come later; then one of them goes.
fn from_template(draw: &Draw<'_>) -> Vec<UserAction> {
    let (pod, template) = (
        format!("trainer-{}", draw.number),
        format!("gpus-{}", draw.number),
    );
    let claim = |name: &str| json!({"name": name, "resourceClaimTemplateName": template});
    let create_template = UserAction::create::<ResourceClaimTemplate>(
        draw.namespace,
        &template,
        json!({"spec": {"metadata": {"labels": {"of": pod}}, "spec": spec()}}),
    );
    let create_pod = UserAction::create::<Pod>(
        draw.namespace,
        &pod,
        json!({"spec": {
            "terminationGracePeriodSeconds": draw.rng.below(3), "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "app:0"}], "resourceClaims": [claim("a"), claim("b")],
        }}),
    );
    let mut actions = match draw.rng.chance(3) {
        true => vec![create_pod, create_template],
        false => vec![create_template, create_pod],
    };
    if draw.rng.chance(2) {
        actions.push(UserAction::delete::<Pod>(draw.namespace, &pod));
    }
    actions
}

/// A claim with devices for a pod that is gone.
fn abandoned(draw: &Draw<'_>) -> Vec<UserAction> {
    let name = format!("shared-{}", draw.number);
    let fields = json!({"metadata": {"finalizers": [CLAIM_DELETE_PROTECTION]}, "spec": spec()});
    let result = json!({"request": "gpu", "driver": "gpu.example.com", "pool": "p", "device": "d"});
    let status = json!({"status": {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "gone", "uid": format!("gone-{}", draw.number)}],
    }});
    let (namespace, what) = (draw.namespace, "allocates for a pod that is gone");
    let mut actions = vec![
        UserAction::create::<ResourceClaim>(namespace, &name, fields),
        UserAction::change_part::<ResourceClaim>(namespace, &name, "status", status, what),
    ];
    if draw.rng.chance(2) {
        actions.push(UserAction::delete::<ResourceClaim>(namespace, &name));
    }
    actions
}
