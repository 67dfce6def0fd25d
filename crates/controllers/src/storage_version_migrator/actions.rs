//! What users have migrated.

use api::kinds::StorageVersionMigration;
use serde_json::json;

use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions::of(migrate)];

/// Nobody serves the last one.
const RESOURCES: [(&str, &str); 4] = [
    ("", "configmaps"),
    ("", "pods"),
    ("apps", "deployments"),
    ("example.com", "gadgets"),
];

/// Up to three migrations of one resource, which have to take turns; somebody may take the first one back.
fn migrate(draw: &Draw<'_>) -> Vec<UserAction> {
    let (group, resource) = RESOURCES[draw.rng.below(RESOURCES.len())];
    let name = |at: usize| format!("migration-{}-{at}", draw.number);
    let spec = json!({"spec": {"resource": {"group": group, "resource": resource}}});
    let mut actions: Vec<UserAction> = (0..=draw.rng.below(3))
        .map(|at| UserAction::create::<StorageVersionMigration>("", &name(at), spec.clone()))
        .collect();
    if draw.rng.chance(4) {
        actions.push(UserAction::delete::<StorageVersionMigration>("", &name(0)));
    }
    actions
}
