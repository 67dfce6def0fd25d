//! What drivers and users do to devices that pods use.

use api::kinds::{DeviceTaintRule, Pod, ResourceClaim, ResourceSlice};
use serde_json::{Value, json};

use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 2] = [Actions::of(taint_devices), Actions::of(add_rule)];

const DRIVER: &str = "gpu.example.com";

/// A claim with the device `at` of the pool, for the pod of the same name. The pod is bound, so the claim controller adds
/// it to the consumers.
fn user_of_device(draw: &Draw<'_>, at: usize, tolerations: Value) -> Vec<UserAction> {
    let name = format!("device-{}-{at}", draw.number);
    let node = format!("node-{}", draw.rng.below(draw.nodes));
    let request = json!({"name": "gpu", "exactly": {"deviceClassName": "gpu"}});
    let spec = json!({"spec": {"devices": {"requests": [request]}}});
    let result = json!({
        "request": "gpu", "driver": DRIVER, "pool": format!("pool-{}", draw.number),
        "device": format!("gpu-{at}"), "tolerations": tolerations,
    });
    let status = json!({"status": {"allocation": {"devices": {"results": [result]}}}});
    let pod = json!({"spec": {
        "nodeName": node, "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "c", "image": "app:0"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
    }});
    vec![
        UserAction::create::<ResourceClaim>(draw.namespace, &name, spec),
        UserAction::change_part::<ResourceClaim>(
            draw.namespace,
            &name,
            "status",
            status,
            "allocates a device",
        ),
        UserAction::create::<Pod>(draw.namespace, &name, pod),
    ]
}

fn slice(draw: &Draw<'_>, taints: Value) -> Value {
    let device = |at: usize| {
        let taints = if at == 2 { json!([]) } else { taints.clone() };
        json!({"name": format!("gpu-{at}"), "taints": taints})
    };
    json!({"spec": {
        "driver": DRIVER, "allNodes": true,
        "pool": {"name": format!("pool-{}", draw.number), "generation": 1, "resourceSliceCount": 1},
        "devices": [device(0), device(1), device(2)],
    }})
}

/// Two devices are tainted, of which one is tolerated for some time; a third is not. Half the time the taints go again.
fn taint_devices(draw: &Draw<'_>) -> Vec<UserAction> {
    let name = format!("slice-{}", draw.number);
    let seconds = 5 + draw.rng.below(40);
    let tolerations = json!([{
        "key": "example.com/broken", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds,
    }]);
    let mut actions = vec![UserAction::create::<ResourceSlice>(
        "",
        &name,
        slice(draw, json!([])),
    )];
    for (at, tolerations) in [json!([]), tolerations, json!([])].into_iter().enumerate() {
        actions.extend(user_of_device(draw, at, tolerations));
    }
    let taints = json!([{"key": "example.com/broken", "effect": "NoExecute"}]);
    let (tainted, clean) = (slice(draw, taints), slice(draw, json!([])));
    actions.push(UserAction::change::<ResourceSlice>(
        "",
        &name,
        tainted,
        "taints its devices",
    ));
    if draw.rng.chance(2) {
        actions.push(UserAction::change::<ResourceSlice>(
            "",
            &name,
            clean,
            "takes the taints off",
        ));
    }
    actions
}

/// A rule that shows what it would do, and then does it.
fn add_rule(draw: &Draw<'_>) -> Vec<UserAction> {
    let name = format!("rule-{}", draw.number);
    let rule = |effect: &str| {
        json!({"spec": {
            "deviceSelector": {"driver": DRIVER, "pool": format!("pool-{}", draw.number), "device": "gpu-0"},
            "taint": {"key": "example.com/service", "effect": effect},
        }})
    };
    let mut actions = user_of_device(draw, 0, json!([]));
    actions.extend(user_of_device(draw, 1, json!([])));
    let first = ["None", "NoExecute"][draw.rng.below(2)];
    actions.push(UserAction::create::<DeviceTaintRule>(
        "",
        &name,
        rule(first),
    ));
    actions.push(UserAction::change::<DeviceTaintRule>(
        "",
        &name,
        rule("NoExecute"),
        "evicts",
    ));
    if draw.rng.chance(2) {
        actions.push(UserAction::delete::<DeviceTaintRule>("", &name));
    }
    actions
}
