//! What users ask about pools.

use api::kinds::{ResourcePoolStatusRequest, ResourceSlice};
use serde_json::json;

use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions::of(ask)];

/// A pool of two slices, of which the second may come after the question, or not at all.
fn ask(draw: &Draw<'_>) -> Vec<UserAction> {
    let driver = format!("driver-{}.example.com", draw.number);
    let slice = |at: usize| {
        let name = format!("asked-{}-{at}", draw.number);
        let spec = json!({
            "driver": driver, "allNodes": true,
            "pool": {"name": "pool", "generation": 1, "resourceSliceCount": 2},
            "devices": [{"name": format!("device-{at}")}],
        });
        UserAction::create::<ResourceSlice>("", &name, json!({"spec": spec}))
    };
    let name = format!("question-{}", draw.number);
    let question = json!({"spec": {"driver": driver}});
    let ask = UserAction::create::<ResourcePoolStatusRequest>("", &name, question);
    let mut actions = match draw.rng.chance(2) {
        true => vec![slice(0), ask],
        false => vec![ask, slice(0)],
    };
    if !draw.rng.chance(4) {
        actions.push(slice(1));
    }
    actions
}
