//! What users do to claims and volumes.

use api::kinds::{PersistentVolume, PersistentVolumeClaim};
use serde_json::{Value, json};

use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 3] = [
    Actions::of(bind_by_hand),
    Actions::of(two_for_one),
    Actions::of(delete_volume),
];

const SIZES: [&str; 4] = ["0", "1Gi", "5Gi", "8Ei"];

fn volume(draw: &Draw<'_>, class: &str, policy: &str, claim: Value) -> Value {
    let size = SIZES[1 + draw.rng.below(3)];
    json!({"spec": {
        "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "persistentVolumeReclaimPolicy": policy, "hostPath": {"path": "/tmp/data"}, "claimRef": claim,
    }})
}

fn claim(size: &str, class: &str, volume: Option<&str>) -> Value {
    json!({"spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": class, "volumeName": volume,
        "resources": {"requests": {"storage": size}},
    }})
}

fn policy(draw: &Draw<'_>) -> &'static str {
    ["Retain", "Delete"][draw.rng.below(2)]
}

/// A volume and a claim that may name each other, or somebody else; then one of them goes.
fn bind_by_hand(draw: &Draw<'_>) -> Vec<UserAction> {
    let (name, class) = (
        format!("hand-{}", draw.number),
        format!("hand-{}", draw.number),
    );
    let reference = match draw.rng.below(3) {
        0 => json!(null),
        1 => json!({"namespace": draw.namespace, "name": name}),
        _ => json!({"namespace": "elsewhere", "name": name}),
    };
    let named = [None, Some(name.as_str()), Some("nosuch")][draw.rng.below(3)];
    let size = SIZES[1 + draw.rng.below(2)];
    let mut actions = vec![
        UserAction::create::<PersistentVolume>(
            "",
            &name,
            volume(draw, &class, policy(draw), reference),
        ),
        UserAction::create::<PersistentVolumeClaim>(
            draw.namespace,
            &name,
            claim(size, &class, named),
        ),
    ];
    if draw.rng.chance(2) {
        actions.reverse();
    }
    if draw.rng.chance(2) {
        actions.push(UserAction::delete::<PersistentVolumeClaim>(
            draw.namespace,
            &name,
        ));
    }
    actions
}

/// Two claims for one volume.
fn two_for_one(draw: &Draw<'_>) -> Vec<UserAction> {
    let class = format!("two-{}", draw.number);
    let names = [format!("{class}-a"), format!("{class}-b")];
    let named = [None, Some(class.as_str())][draw.rng.below(2)];
    let create = |name: &String| {
        UserAction::create::<PersistentVolumeClaim>(
            draw.namespace,
            name,
            claim("1Gi", &class, named),
        )
    };
    let mut actions: Vec<UserAction> = names.iter().map(create).collect();
    let body = volume(draw, &class, policy(draw), json!(null));
    actions.push(UserAction::create::<PersistentVolume>("", &class, body));
    actions.push(UserAction::delete::<PersistentVolumeClaim>(
        draw.namespace,
        &names[draw.rng.below(2)],
    ));
    actions
}

/// A volume that is deleted while a claim is bound to it, and the claim after it.
fn delete_volume(draw: &Draw<'_>) -> Vec<UserAction> {
    let name = format!("gone-{}", draw.number);
    let body = volume(draw, &name, policy(draw), json!(null));
    let mut actions = vec![
        UserAction::create::<PersistentVolume>("", &name, body),
        UserAction::create::<PersistentVolumeClaim>(
            draw.namespace,
            &name,
            claim("1Gi", &name, None),
        ),
        UserAction::delete::<PersistentVolume>("", &name),
    ];
    if draw.rng.chance(2) {
        actions.push(UserAction::delete::<PersistentVolumeClaim>(
            draw.namespace,
            &name,
        ));
    }
    actions
}
