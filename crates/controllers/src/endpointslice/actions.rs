//! What users do to services, and to the slices that are made of them.

use api::kinds::{EndpointSlice, MANAGED_BY, SERVICE_NAME, Service};
use serde_json::{Value, json};

use crate::oracle::{Actions, Draw, Labelled, UserAction};
use crate::service_endpoints::actions::{
    draw_policy, draw_ports, draw_selector, draw_service, name_of, replaced,
};

/// As often as it takes for one run in three to have a service: most of what runs is reached through one.
pub(super) const ACTIONS: [Actions; 5] = [
    Actions::of(publish),
    Actions::of(publish),
    Actions::of(publish),
    Actions::of(publish),
    Actions::of(edit_slices),
];

/// A service, whose user then changes their mind.
fn publish(draw: &Draw<'_>) -> Vec<UserAction> {
    let name = name_of(draw);
    let object = draw_service(draw);
    let mut actions = vec![UserAction::create::<Service>(draw.namespace, &name, object)];
    for _ in 0..draw.rng.below(5) {
        actions.extend(change(draw, &name));
    }
    actions
}

fn change(draw: &Draw<'_>, name: &str) -> Vec<UserAction> {
    let (rng, namespace) = (draw.rng, draw.namespace);
    let patch =
        |patch: Value, what: &str| UserAction::change::<Service>(namespace, name, patch, what);
    let spec = |spec: Value, what: &str| vec![patch(json!({"spec": spec}), what)];
    if draw.is_dual_stack && rng.chance(4) {
        let policy = draw_policy(rng);
        let what = format!("sets the family policy {policy}");
        return spec(json!({"ipFamilyPolicy": policy}), &what);
    }
    match rng.below(9) {
        0 => spec(
            json!({"selector": replaced(draw_selector(rng))}),
            "points elsewhere",
        ),
        1 => {
            let selector = replaced(draw_selector(rng));
            vec![
                patch(
                    json!({"spec": {"selector": null}}),
                    "takes the selector away",
                ),
                patch(
                    json!({"spec": {"selector": selector}}),
                    "gives it a selector",
                ),
            ]
        }
        2 => spec(json!({"selector": null}), "takes the selector away"),
        3 => spec(
            json!({"ports": replaced(json!(draw_ports(rng)))}),
            "sets other ports",
        ),
        4 => spec(
            json!({"publishNotReadyAddresses": rng.chance(2)}),
            "sets whether addresses that are not ready are published",
        ),
        5 => {
            let external = json!({"type": "ExternalName", "externalName": "example.com"});
            let back = json!({"type": "ClusterIP", "externalName": null});
            vec![
                patch(json!({"spec": external}), "makes it a name alone"),
                patch(json!({"spec": back}), "makes it a service again"),
            ]
        }
        6 => {
            let type_ = ["ClusterIP", "NodePort", "LoadBalancer"][rng.below(3)];
            spec(json!({"type": type_}), "sets another type")
        }
        7 => {
            let team = ["a", "b"][rng.below(2)];
            let labels = json!({"team": team, "tier": "x"});
            vec![patch(
                json!({"metadata": {"labels": labels}}),
                "sets labels",
            )]
        }
        _ => {
            let deletion = UserAction::delete::<Service>(namespace, name);
            let object = draw_service(draw);
            match rng.chance(2) {
                true => vec![deletion],
                false => vec![
                    deletion,
                    UserAction::create::<Service>(namespace, name, object),
                ],
            }
        }
    }
}

/// Somebody who writes to slices by hand.
fn edit_slices(draw: &Draw<'_>) -> Vec<UserAction> {
    let (rng, name) = (draw.rng, name_of(draw));
    let object = draw_service(draw);
    let mut actions = vec![UserAction::create::<Service>(draw.namespace, &name, object)];
    let slices = Labelled::of::<EndpointSlice>(draw.namespace, SERVICE_NAME, &name);
    let foreign = json!([{"addresses": ["10.9.9.9"], "conditions": {"ready": true}}]);
    for _ in 0..1 + rng.below(4) {
        let (patch, what) = match rng.below(7) {
            0 => (json!({"endpoints": foreign}), "writes a foreign endpoint"),
            1 => (json!({"endpoints": null}), "takes all endpoints away"),
            2 => {
                let ports = json!([{"name": "x", "port": 7, "protocol": "TCP"}]);
                (json!({"ports": ports}), "writes other ports")
            }
            3 => {
                let labels = json!({"team": "nobody"});
                (json!({"metadata": {"labels": labels}}), "writes a label")
            }
            4 => {
                let labels = json!({MANAGED_BY: null});
                (json!({"metadata": {"labels": labels}}), "takes over")
            }
            5 => {
                actions.extend(change(draw, &name));
                continue;
            }
            _ => {
                actions.push(UserAction::DeleteEach(slices.clone()));
                continue;
            }
        };
        actions.push(UserAction::ChangeEach(
            slices.clone(),
            patch,
            what.to_owned(),
        ));
    }
    actions
}
