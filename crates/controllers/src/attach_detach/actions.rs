//! What users do to volumes that are attached.

use api::kinds::{PersistentVolume, PersistentVolumeClaim, Pod};
use serde_json::{Value, json};

use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 2] = [Actions::of(share), Actions::of(move_on)];

/// A volume by hand, and a claim that is bound to it.
fn bound(draw: &Draw<'_>, name: &str, mode: &str) -> Vec<UserAction> {
    let volume = json!({"spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": [mode], "storageClassName": name,
        "persistentVolumeReclaimPolicy": "Retain", "csi": {"driver": "disk.example.com", "volumeHandle": name},
    }});
    let claim = json!({"spec": {
        "accessModes": [mode], "storageClassName": name, "volumeName": name,
        "resources": {"requests": {"storage": "1Gi"}},
    }});
    vec![
        UserAction::create::<PersistentVolume>("", name, volume),
        UserAction::create::<PersistentVolumeClaim>(draw.namespace, name, claim),
    ]
}

fn pod(draw: &Draw<'_>, name: &str, claim: &str, node: usize) -> UserAction {
    let spec: Value = json!({"spec": {
        "nodeName": format!("node-{node}"), "containers": [{"name": "main", "image": "example.com/a"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
    }});
    UserAction::create::<Pod>(draw.namespace, name, spec)
}

/// Two pods on two nodes with one volume, which may be for one node only.
fn share(draw: &Draw<'_>) -> Vec<UserAction> {
    let name = format!("shared-{}", draw.number);
    let mode = ["ReadWriteOnce", "ReadWriteMany"][draw.rng.below(2)];
    let mut actions = bound(draw, &name, mode);
    let pods = [format!("{name}-a"), format!("{name}-b")];
    for pod_name in &pods {
        actions.push(pod(draw, pod_name, &name, draw.rng.below(draw.nodes)));
    }
    let first = draw.rng.below(2);
    actions.push(UserAction::delete::<Pod>(draw.namespace, &pods[first]));
    if draw.rng.chance(2) {
        actions.push(UserAction::delete::<Pod>(draw.namespace, &pods[1 - first]));
    }
    actions
}

/// A pod that goes, and one of the same claim on another node.
fn move_on(draw: &Draw<'_>) -> Vec<UserAction> {
    let name = format!("moves-{}", draw.number);
    let pods = [format!("{name}-a"), format!("{name}-b")];
    let mut actions = bound(draw, &name, "ReadWriteOnce");
    actions.push(pod(draw, &pods[0], &name, draw.rng.below(draw.nodes)));
    actions.push(UserAction::delete::<Pod>(draw.namespace, &pods[0]));
    actions.push(pod(draw, &pods[1], &name, draw.rng.below(draw.nodes)));
    actions
}
