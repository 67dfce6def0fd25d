//! What users do with ranges.

use api::kinds::ServiceCidr;
use serde_json::json;

use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions::of(widen)];

/// One more range for a while; it stays if a Service has got an address of it.
fn widen(draw: &Draw<'_>) -> Vec<UserAction> {
    let name = format!("more-{}", draw.number);
    let range = format!("10.200.{}.0/24", draw.number % 256);
    let spec = json!({"spec": {"cidrs": [range]}});
    let mut actions = vec![UserAction::create::<ServiceCidr>("", &name, spec)];
    if draw.rng.below(3) > 0 {
        actions.push(UserAction::delete::<ServiceCidr>("", &name));
    }
    actions
}
