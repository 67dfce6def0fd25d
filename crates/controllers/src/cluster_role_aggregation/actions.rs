//! What users do to cluster roles that are sums of others.

use api::kinds::ClusterRole;
use serde_json::json;

use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions::of(change_part)];

/// A role that is the sum of another, which then changes or goes.
fn change_part(draw: &Draw<'_>) -> Vec<UserAction> {
    let (sum, part) = (
        format!("sum-{}", draw.number),
        format!("part-{}", draw.number),
    );
    let labels = json!({"sum": sum});
    let rule = |verb: &str| json!([{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]);
    let selectors = json!({"clusterRoleSelectors": [{"matchLabels": labels}]});
    let last = match draw.rng.below(3) {
        0 => UserAction::delete::<ClusterRole>("", &part),
        1 => {
            let patch = json!({"rules": rule("list")});
            UserAction::change::<ClusterRole>("", &part, patch, "changes")
        }
        _ => {
            let patch = json!({"metadata": {"labels": {"sum": null}}});
            UserAction::change::<ClusterRole>("", &part, patch, "takes out")
        }
    };
    vec![
        UserAction::create::<ClusterRole>(
            "",
            &sum,
            json!({"aggregationRule": selectors, "rules": []}),
        ),
        UserAction::create::<ClusterRole>(
            "",
            &part,
            json!({"metadata": {"labels": labels}, "rules": rule("get")}),
        ),
        last,
    ]
}
