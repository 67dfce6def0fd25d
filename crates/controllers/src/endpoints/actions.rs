//! What users do to the Endpoints of their services.

use api::kinds::{ENDPOINTS_MANAGED_BY, Endpoints, Service};
use serde_json::json;

use super::plan::OVER_CAPACITY;
use crate::oracle::{Actions, Draw, UserAction};
use crate::service_endpoints::actions::{draw_service, name_of};

pub(super) const ACTIONS: [Actions; 2] = [Actions::of(edit), Actions::of(edit)];

/// Somebody who writes to Endpoints by hand, or deletes them.
fn edit(draw: &Draw<'_>) -> Vec<UserAction> {
    let (rng, name) = (draw.rng, name_of(draw));
    let object = draw_service(draw);
    let mut actions = vec![UserAction::create::<Service>(draw.namespace, &name, object)];
    let foreign = json!([{"addresses": [{"ip": "10.9.9.9"}], "ports": [{"port": 7}]}]);
    for _ in 0..1 + rng.below(4) {
        let (patch, what) = match rng.below(6) {
            0 => (json!({"subsets": foreign}), "writes a foreign address"),
            1 => (json!({"subsets": null}), "takes all addresses away"),
            2 => {
                let labels = json!({"team": "nobody"});
                (json!({"metadata": {"labels": labels}}), "writes a label")
            }
            3 => {
                let labels = json!({ENDPOINTS_MANAGED_BY: null});
                (json!({"metadata": {"labels": labels}}), "takes over")
            }
            4 => {
                let annotations = json!({OVER_CAPACITY: "truncated"});
                let patch = json!({"metadata": {"annotations": annotations}});
                (patch, "says that there are more")
            }
            _ => {
                actions.push(UserAction::delete::<Endpoints>(draw.namespace, &name));
                continue;
            }
        };
        let change = UserAction::change::<Endpoints>(draw.namespace, &name, patch, what);
        actions.push(change);
    }
    if rng.chance(3) {
        actions.push(UserAction::delete::<Service>(draw.namespace, &name));
    }
    actions
}
