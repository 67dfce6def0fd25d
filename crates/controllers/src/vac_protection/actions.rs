//! What users do to attributes classes.

use api::kinds::{PersistentVolumeClaim, VolumeAttributesClass};
use serde_json::json;

use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions::of(delete_named)];

/// Deletes a class that a claim names, and perhaps the claim.
fn delete_named(draw: &Draw<'_>) -> Vec<UserAction> {
    let class = format!("fast-{}", draw.number);
    let claim = format!("fast-{}", draw.number);
    let fields = json!({"driverName": "disk.example.com", "parameters": {"iops": "9"}});
    let spec = json!({"spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "nosuch", "volumeAttributesClassName": class,
        "resources": {"requests": {"storage": "1Gi"}},
    }});
    let mut actions = vec![
        UserAction::create::<VolumeAttributesClass>("", &class, fields),
        UserAction::create::<PersistentVolumeClaim>(draw.namespace, &claim, spec),
        UserAction::delete::<VolumeAttributesClass>("", &class),
    ];
    if draw.rng.chance(2) {
        actions.push(UserAction::delete::<PersistentVolumeClaim>(
            draw.namespace,
            &claim,
        ));
    }
    actions
}
