//! What API servers say about storage, and those that are gone for good.

use api::kinds::{Lease, StorageVersion};
use serde_json::json;

use super::NAMESPACE;
use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions::of(come_and_go)];

/// Two servers store a resource; one of them has never been there, or both may go later.
fn come_and_go(draw: &Draw<'_>) -> Vec<UserAction> {
    let server = |at: usize| format!("apiserver-{}-{at}", draw.number);
    let lease = |at: usize| {
        let labels =
            json!({"metadata": {"labels": {"apiserver.kubernetes.io/identity": "kube-apiserver"}}});
        UserAction::create::<Lease>(NAMESPACE, &server(at), labels)
    };
    let says = |at: usize| {
        let version = "apps/v1";
        json!({
            "apiServerID": server(at), "encodingVersion": version,
            "decodableVersions": [version], "servedVersions": [version],
        })
    };
    let name = format!("apps.things-{}", draw.number);
    let said = json!({"status": {"storageVersions": [says(0), says(1)]}});
    let mut actions = vec![
        lease(0),
        UserAction::create::<StorageVersion>("", &name, json!({"spec": {}})),
    ];
    if draw.rng.chance(2) {
        actions.push(lease(1));
    }
    actions.push(UserAction::change_part::<StorageVersion>(
        "",
        &name,
        "status",
        said,
        "says what is stored",
    ));
    for at in 0..draw.rng.below(3) {
        actions.push(UserAction::delete::<Lease>(NAMESPACE, &server(at)));
    }
    actions
}
