//! What users do with Deployments.

use api::kinds::{Deployment, ROLLBACK_TO};
use api::{Resource, Rng};
use serde_json::{Value, json};

use crate::oracle::workloads::{Changes, amount, draw_object, good_version};
use crate::oracle::{Actions, Draw, UserAction, Workloads};

pub(super) const ACTIONS: [Actions; 2] = [Actions::of(roll_back), Actions::of(resize)];

pub(super) const WORKLOADS: Workloads = Workloads {
    resource: Deployment::TYPE,
    draw: |rng, target, app| {
        let mut object = draw_object(rng, target, app, true);
        let spec = &mut object["spec"];
        spec["strategy"] = strategy(rng);
        spec["revisionHistoryLimit"] = json!(rng.below(4));
        if rng.chance(4) {
            spec["progressDeadlineSeconds"] = json!(20 + rng.below(60));
        }
        object
    },
    change: |rng, versions| {
        let changes = Changes {
            is_scaled: true,
            rolls_out: true,
            own: change,
        };
        changes.draw(rng, versions)
    },
    finish: Some(|| good_version(json!({"paused": false}))),
};

/// A Deployment gets two more versions, and goes back: to the one before, to the first, or to one that never was.
fn roll_back(draw: &Draw<'_>) -> Vec<UserAction> {
    let name = format!("undone-{}", draw.number);
    let to = ["0", "1", "7"][draw.rng.below(3)];
    let back = json!({"metadata": {"annotations": {ROLLBACK_TO: to}}});
    let change = |patch: Value, what: &str| {
        UserAction::change::<Deployment>(draw.namespace, &name, patch, what)
    };
    vec![
        create(draw, &name, 2),
        change(version(1), "sets version 1"),
        change(version(2), "sets version 2"),
        change(back, &format!("rolls back to revision {to}")),
    ]
}

/// A Deployment gets another size in the midst of a rollout: a version that never gets ready holds it up there. Half the
/// time it is paused then.
fn resize(draw: &Draw<'_>) -> Vec<UserAction> {
    let name = format!("resized-{}", draw.number);
    let mut stuck = version(1);
    stuck["spec"]["template"]["metadata"]["annotations"] =
        json!({"steersman.dev/never-ready": "true"});
    let change = |patch: Value, what: &str| {
        UserAction::change::<Deployment>(draw.namespace, &name, patch, what)
    };
    let mut actions = vec![
        create(draw, &name, 4 + draw.rng.below(4)),
        change(stuck, "sets version 1, which is bad"),
    ];
    if draw.rng.chance(2) {
        actions.push(change(json!({"spec": {"paused": true}}), "pauses"));
    }
    let replicas = 2 + draw.rng.below(11);
    let size = json!({"spec": {"replicas": replicas}});
    actions.push(change(size, &format!("scales to {replicas}")));
    actions
}

fn create(draw: &Draw<'_>, name: &str, replicas: usize) -> UserAction {
    let mut spec = version(0)["spec"].take();
    spec["replicas"] = json!(replicas);
    spec["selector"] = json!({"matchLabels": {"app": name}});
    spec["template"]["metadata"]["labels"]["app"] = json!(name);
    spec["strategy"] = json!({"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}});
    spec["progressDeadlineSeconds"] = json!(30);
    UserAction::create::<Deployment>(draw.namespace, name, json!({"spec": spec}))
}

fn version(number: usize) -> Value {
    let container = json!({"name": "c", "image": format!("app:{number}")});
    let labels = json!({"version": number.to_string()});
    json!({"spec": {"template": {
        "metadata": {"labels": labels}, "spec": {"containers": [container]},
    }}})
}

fn change(rng: &Rng, choice: usize) -> Option<(Value, String)> {
    match choice {
        3 => {
            let paused = rng.chance(2);
            let what = if paused { "pauses" } else { "resumes" };
            Some((json!({"spec": {"paused": paused}}), what.to_owned()))
        }
        4 => {
            let strategy = strategy(rng);
            let what = format!("sets the strategy to {strategy}");
            Some((json!({"spec": {"strategy": strategy}}), what))
        }
        _ => None,
    }
}

fn strategy(rng: &Rng) -> Value {
    if rng.chance(4) {
        return json!({"type": "Recreate", "rollingUpdate": null});
    }
    // One of the two must not be zero.
    let (surge, unavailable) = match rng.chance(2) {
        true => (amount(rng, 1), amount(rng, 0)),
        false => (amount(rng, 0), amount(rng, 1)),
    };
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}
