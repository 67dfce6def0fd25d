//! What users do to claims that are bound.

use api::kinds::PersistentVolumeClaim;
use serde_json::json;

use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions::of(grow)];

/// Asks for more, before the claim is bound or after.
fn grow(draw: &Draw<'_>) -> Vec<UserAction> {
    let name = format!("grows-{}", draw.number);
    let spec = json!({"spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "immediate",
        "resources": {"requests": {"storage": "1Gi"}},
    }});
    let more = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    vec![
        UserAction::create::<PersistentVolumeClaim>(draw.namespace, &name, spec),
        UserAction::change::<PersistentVolumeClaim>(draw.namespace, &name, more, "asks for more"),
    ]
}
