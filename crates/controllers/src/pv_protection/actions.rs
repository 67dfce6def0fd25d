//! What users do to the protection of volumes.

use api::kinds::{PV_PROTECTION, PersistentVolume};
use serde_json::{Value, json};

use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions::of(unprotect)];

fn volume() -> Value {
    json!({"spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
        "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/tmp/data"},
    }})
}

/// Takes the finalizer off by hand, or deletes a volume that nobody uses.
fn unprotect(draw: &Draw<'_>) -> Vec<UserAction> {
    let name = format!("volume-{}", draw.number);
    let create = UserAction::create::<PersistentVolume>("", &name, volume());
    let key = "$deleteFromPrimitiveList/finalizers";
    let patch = json!({"metadata": {key: [PV_PROTECTION]}});
    let unprotect =
        UserAction::change::<PersistentVolume>("", &name, patch, "takes the protection off");
    match draw.rng.below(2) {
        0 => vec![create, unprotect],
        _ => vec![create, UserAction::delete::<PersistentVolume>("", &name)],
    }
}
