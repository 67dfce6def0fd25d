//! What users do to the annotation of nodes.

use api::kinds::Node;
use serde_json::json;

use super::ANNOTATION;
use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions::of(annotate)];

fn annotate(draw: &Draw<'_>) -> Vec<UserAction> {
    let node = format!("node-{}", draw.rng.below(draw.nodes));
    let patch = json!({"metadata": {"annotations": {ANNOTATION: "7"}}});
    vec![UserAction::change::<Node>("", &node, patch, "annotates")]
}
