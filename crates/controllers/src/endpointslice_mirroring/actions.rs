//! What users do who write Endpoints themselves.

use api::Rng;
use api::kinds::{EndpointSlice, Endpoints, LEADER_ELECTION, MANAGED_BY, SERVICE_NAME, Service};
use serde_json::{Value, json};

use crate::oracle::{Actions, Draw, Labelled, UserAction};
use crate::service_endpoints::actions::{draw_selector, replaced};

pub(super) const ACTIONS: [Actions; 3] =
    [Actions::of(write), Actions::of(write), Actions::of(write)];

/// Of both families; the first three are of one.
const ADDRESSES: [&str; 6] = [
    "10.9.0.1",
    "10.9.0.2",
    "10.9.0.3",
    "2001:db8::1",
    "2001:db8::2",
    "10.9.0.4",
];

/// Endpoints and their service, in any order, and what becomes of them.
fn write(draw: &Draw<'_>) -> Vec<UserAction> {
    let (rng, namespace) = (draw.rng, draw.namespace);
    let name = format!("manual-{}", draw.number);
    let ports = json!([{"name": "http", "port": 80}]);
    let mut service = json!({"spec": {"ports": ports}});
    if rng.chance(3) {
        service["spec"]["clusterIP"] = json!("None");
    }
    let mut endpoints = json!({"subsets": draw_subsets(rng)});
    if rng.chance(3) {
        endpoints["metadata"] = json!({"labels": {"team": "a"}, "annotations": {"note": "a"}});
    }
    let mut actions = vec![
        UserAction::create::<Service>(namespace, &name, service),
        UserAction::create::<Endpoints>(namespace, &name, endpoints),
    ];
    if rng.chance(2) {
        actions.reverse();
    }
    for _ in 0..1 + rng.below(5) {
        actions.extend(change(draw, &name));
    }
    actions
}

fn change(draw: &Draw<'_>, name: &str) -> Vec<UserAction> {
    let (rng, namespace) = (draw.rng, draw.namespace);
    let endpoints = |patch: Value, what: &str| {
        vec![UserAction::change::<Endpoints>(
            namespace, name, patch, what,
        )]
    };
    let metadata = |field: &str, key: &str, value: Value, what: &str| {
        endpoints(json!({"metadata": {field: {key: value}}}), what)
    };
    match rng.below(10) {
        0..=2 => endpoints(
            json!({"subsets": draw_subsets(rng)}),
            "writes other addresses",
        ),
        3 => metadata("labels", "team", json!("b"), "writes a label"),
        4 => metadata("annotations", "note", json!("b"), "writes an annotation"),
        5 => {
            let skip = ["endpointslice.kubernetes.io/skip-mirror", "true"];
            let skips = metadata("labels", skip[0], json!(skip[1]), "asks for no mirror");
            let back = metadata("labels", skip[0], Value::Null, "asks for a mirror");
            match rng.chance(2) {
                true => skips,
                false => skips.into_iter().chain(back).collect(),
            }
        }
        6 => match rng.below(3) {
            0 => vec![UserAction::delete::<Service>(namespace, name)],
            1 => vec![UserAction::delete::<Endpoints>(namespace, name)],
            _ => metadata(
                "annotations",
                LEADER_ELECTION,
                json!("{}"),
                "elects a leader",
            ),
        },
        7 => {
            let change = |selector: Value, what: &str| {
                let patch = json!({"spec": {"selector": selector}});
                UserAction::change::<Service>(namespace, name, patch, what)
            };
            vec![
                change(replaced(draw_selector(rng)), "gives it a selector"),
                change(Value::Null, "takes the selector away"),
            ]
        }
        _ => vec![edit_mirror(rng, namespace, name)],
    }
}

/// Somebody who writes to the slices that mirror.
fn edit_mirror(rng: &Rng, namespace: &'static str, name: &str) -> UserAction {
    let slices = Labelled::of::<EndpointSlice>(namespace, SERVICE_NAME, name);
    let foreign = json!([{"addresses": ["10.9.9.9"], "conditions": {"ready": true}}]);
    let (patch, what) = match rng.below(5) {
        0 => return UserAction::DeleteEach(slices),
        1 => (json!({"endpoints": null}), "takes all endpoints away"),
        2 => {
            let labels = json!({"team": "nobody"});
            (json!({"metadata": {"labels": labels}}), "writes a label")
        }
        3 => {
            let labels = json!({MANAGED_BY: null});
            (json!({"metadata": {"labels": labels}}), "takes over")
        }
        _ => (json!({"endpoints": foreign}), "writes a foreign endpoint"),
    };
    UserAction::ChangeEach(slices, patch, what.to_owned())
}

/// Up to three subsets, which may share addresses and ports; of one family, so that there is a single slice, or of both.
fn draw_subsets(rng: &Rng) -> Value {
    let drawn = if rng.chance(2) { 3 } else { ADDRESSES.len() };
    let subsets = (0..rng.below(4)).map(|_| {
        let (mut ready, mut others) = (Vec::new(), Vec::new());
        for ip in &ADDRESSES[..drawn] {
            let mut address = json!({"ip": ip});
            if ip.ends_with('1') {
                address["hostname"] = json!("first");
            }
            match rng.below(4) {
                0 | 1 => ready.push(address),
                2 => others.push(address),
                _ => {}
            }
        }
        // One without any address is refused.
        if ready.is_empty() && others.is_empty() {
            ready.push(json!({"ip": ADDRESSES[0], "hostname": "first"}));
        }
        let ports = match rng.below(4) {
            0 => json!([{"name": "http", "port": 80}]),
            1 => json!([{"name": "http", "port": 80}, {"name": "https", "port": 443}]),
            2 => json!([{"name": "https", "port": 443}]),
            _ => json!([{"port": 80}]),
        };
        json!({"addresses": ready, "notReadyAddresses": others, "ports": ports})
    });
    Value::Array(subsets.collect())
}
