//! What users do with autoscalers.

use api::kinds::{Deployment, HorizontalPodAutoscaler};
use serde_json::json;

use super::invariants::CALM;
use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions::of(autoscale)];

/// A Deployment with a load of its own, and an autoscaler over it. Each pod uses the same, however many there are: what
/// is too much asks for all that are allowed, and what is too little for as few.
fn autoscale(draw: &Draw<'_>) -> Vec<UserAction> {
    let (name, usage) = match draw.rng.below(3) {
        0 => (format!("busy-{}", draw.number), "40m"),
        1 => (format!("idle-{}", draw.number), "5m"),
        _ => (format!("{CALM}{}", draw.number), "21m"),
    };
    let labels = json!({"app": name, "version": "0"});
    let target = json!({"spec": {
        "replicas": 1 + draw.rng.below(7),
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {"labels": labels, "annotations": {"steersman.dev/cpu-use": usage}},
            "spec": {"containers": [{"name": "c", "image": "app:0"}]},
        },
    }});
    let cpu = json!({"name": "cpu", "target": {"type": "AverageValue", "averageValue": "20m"}});
    let mut fields = json!({"spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "minReplicas": 2, "maxReplicas": 5, "metrics": [{"type": "Resource", "resource": cpu}],
    }});
    if draw.rng.chance(2) {
        let policies = json!([{"type": "Pods", "value": 1, "periodSeconds": 30}]);
        fields["spec"]["behavior"] = json!({
            "scaleUp": {"policies": policies, "stabilizationWindowSeconds": 30},
            "scaleDown": {"policies": policies, "stabilizationWindowSeconds": 60},
        });
    }
    let mut actions = vec![
        UserAction::create::<Deployment>(draw.namespace, &name, target),
        UserAction::create::<HorizontalPodAutoscaler>(draw.namespace, &name, fields),
    ];
    // Scaling to zero turns autoscaling off.
    if draw.rng.chance(4) {
        let zero = json!({"spec": {"replicas": 0}});
        let what = "scales to zero";
        actions.push(UserAction::change::<Deployment>(
            draw.namespace,
            &name,
            zero,
            what,
        ));
    }
    actions
}
