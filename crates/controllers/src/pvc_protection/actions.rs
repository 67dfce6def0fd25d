//! What users do to the protection of claims.

use api::kinds::{PVC_PROTECTION, PersistentVolumeClaim, Pod};
use serde_json::{Value, json};

use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 3] = [
    Actions::of(unprotect),
    Actions::of(delete_in_use),
    Actions::of(delete_unscheduled),
];

fn claim() -> Value {
    json!({"spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "nosuch",
        "resources": {"requests": {"storage": "1Gi"}},
    }})
}

/// Takes the finalizer off by hand.
fn unprotect(draw: &Draw<'_>) -> Vec<UserAction> {
    let name = format!("data-{}", draw.number);
    let key = "$deleteFromPrimitiveList/finalizers";
    let patch = json!({"metadata": {key: [PVC_PROTECTION]}});
    vec![
        UserAction::create::<PersistentVolumeClaim>(draw.namespace, &name, claim()),
        UserAction::change::<PersistentVolumeClaim>(
            draw.namespace,
            &name,
            patch,
            "takes the protection off",
        ),
    ]
}

/// Deletes a claim that a pod names which no node has, and never will.
fn delete_unscheduled(draw: &Draw<'_>) -> Vec<UserAction> {
    let name = format!("data-{}", draw.number);
    let pod = format!("user-{}", draw.number);
    let spec = json!({"spec": {
        "containers": [{"name": "c", "image": "app:0"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}],
    }});
    vec![
        UserAction::create::<PersistentVolumeClaim>(draw.namespace, &name, claim()),
        UserAction::create::<Pod>(draw.namespace, &pod, spec),
        UserAction::delete::<PersistentVolumeClaim>(draw.namespace, &name),
    ]
}

/// Deletes a claim while a pod on a node uses it, and then the pod.
fn delete_in_use(draw: &Draw<'_>) -> Vec<UserAction> {
    let name = format!("data-{}", draw.number);
    let pod = format!("user-{}", draw.number);
    let node = format!("node-{}", draw.rng.below(draw.nodes));
    let spec = json!({"spec": {
        "nodeName": node, "terminationGracePeriodSeconds": draw.rng.below(3),
        "containers": [{"name": "c", "image": "app:0"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}],
    }});
    vec![
        UserAction::create::<PersistentVolumeClaim>(draw.namespace, &name, claim()),
        UserAction::create::<Pod>(draw.namespace, &pod, spec),
        UserAction::delete::<PersistentVolumeClaim>(draw.namespace, &name),
        UserAction::delete::<Pod>(draw.namespace, &pod),
    ]
}
