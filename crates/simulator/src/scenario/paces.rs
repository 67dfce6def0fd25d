//! Scenarios for measuring how fast time goes by: nothing new happens in them, but it goes on for long.

use std::time::Duration;

use api::Resource;
use api::kinds::Deployment;
use serde_json::json;

use super::library::{LIBRARY, deployment, object, target};
use super::version_patch;
use super::{Action, Fault, Scenario, Step, Target, UserAction};

/// So many nodes, and Deployments of so many pods each: the 200 pods that figures speak of.
const NODES: usize = 10;
const DEPLOYMENTS: usize = 4;
const REPLICAS: usize = 50;

/// Where a Deployment goes for a minute when it is scaled up.
const REPLICAS_MORE: usize = 70;

const MINUTE: Duration = Duration::from_secs(60);

/// A busy cluster: ten nodes, 200 pods, and somebody who does something every minute. In turn: a new version, more
/// replicas, fewer again, a pod deleted by hand, a node whose kubelet stops posting status, and the node back.
pub fn busy(lasts: Duration) -> Scenario {
    let mut scenario = four_deployments("busy");
    let minutes = usize::try_from(lasts.as_secs() / MINUTE.as_secs()).unwrap_or(0);
    for minute in 1..minutes {
        let (step, cycle) = (minute % 6, minute / 6);
        let action = match step {
            1 => Action::User(version(cycle, minute)),
            2 => Action::User(scale(cycle, REPLICAS_MORE)),
            3 => Action::User(scale(cycle, REPLICAS)),
            4 => Action::User(UserAction::DeletePod(web(cycle), cycle)),
            5 => Action::Fault(Fault::StopKubelet(cycle % NODES)),
            // The one of the cycle before.
            _ => Action::Fault(Fault::StartKubelet((cycle - 1) % NODES)),
        };
        let at = MINUTE * u32::try_from(minute).unwrap_or(u32::MAX);
        scenario.steps.push(Step { at, action });
    }
    scenario
}

/// The same cluster under somebody who never rests: one of the Deployments gets a new version every fifteen seconds.
pub fn restless(lasts: Duration) -> Scenario {
    let mut scenario = four_deployments("restless");
    let pause = Duration::from_secs(15);
    let versions = usize::try_from(lasts.as_secs() / pause.as_secs()).unwrap_or(0);
    for number in 1..versions {
        let at = pause * u32::try_from(number).unwrap_or(u32::MAX);
        let action = Action::User(version(number, number));
        scenario.steps.push(Step { at, action });
    }
    scenario
}

/// A cluster in which nothing happens for a long time.
pub fn idle(lasts: Duration) -> Scenario {
    let mut scenario = LIBRARY[2].scenario();
    scenario.name = "idle".to_owned();
    scenario.steps.truncate(1);
    let action = Action::Fault(Fault::StartKubelet(0));
    scenario.steps.push(Step { at: lasts, action });
    scenario
}

/// The nodes and the Deployments, and nobody who changes them.
fn four_deployments(name: &str) -> Scenario {
    let mut scenario = LIBRARY[0].scenario();
    scenario.name = name.to_owned();
    scenario.nodes = NODES;
    let create = |number: usize| {
        let target = web(number);
        let rolling = json!({"maxSurge": "25%", "maxUnavailable": "25%"});
        let mut spec = deployment(REPLICAS, rolling);
        spec["selector"]["matchLabels"]["app"] = json!(target.name);
        spec["template"]["metadata"]["labels"]["app"] = json!(target.name);
        let mut object = object(&Deployment::TYPE, "default", spec);
        object["metadata"]["name"] = json!(target.name);
        Step {
            at: Duration::ZERO,
            action: Action::User(UserAction::Create(target, object)),
        }
    };
    scenario.steps = (0..DEPLOYMENTS).map(create).collect();
    scenario
}

fn web(number: usize) -> Target {
    Target {
        name: format!("web{}", number % DEPLOYMENTS),
        ..target::<Deployment>()
    }
}

fn version(number: usize, version: usize) -> UserAction {
    let what = format!("sets version {version}");
    UserAction::Change(web(number), version_patch(version, false), what)
}

fn scale(number: usize, replicas: usize) -> UserAction {
    let patch = json!({"spec": {"replicas": replicas}});
    UserAction::Change(web(number), patch, format!("scales to {replicas}"))
}
