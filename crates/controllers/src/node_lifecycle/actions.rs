//! What users do to nodes.

use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 2] = [Actions::of(drain), Actions::of(delete)];

fn drain(draw: &Draw<'_>) -> Vec<UserAction> {
    vec![UserAction::DrainNode(draw.rng.below(draw.nodes))]
}

fn delete(draw: &Draw<'_>) -> Vec<UserAction> {
    vec![UserAction::DeleteNode(draw.rng.below(draw.nodes))]
}
