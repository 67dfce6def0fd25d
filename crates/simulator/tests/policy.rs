//! Autoscalers and budgets, with every action that their controllers know, and with faults.

use std::time::Duration;

use api::Rng;
use api::kinds::{Deployment, ReplicaSet, StatefulSet};
use controllers::oracle::{Draw, UserAction};
use serde_json::json;
use steersman_simulator::{Action, FaultRates, Scenario, Step, run_scenario};

/// All that users do to what these controllers look after, drawn often enough that each thing happens.
fn scenario(controller: &str, seed: u64, faults: FaultRates) -> Scenario {
    let rng = Rng::from_seed(seed);
    let found = controllers::find(controller).expect("it is built");
    let first = workloads().map(|action| Step {
        at: Duration::from_secs(1),
        action: Action::User(action),
    });
    let mut steps: Vec<Step> = first.into_iter().collect();
    let mut at = Duration::from_secs(20);
    for number in 0..4 {
        let draw = Draw {
            rng: &rng,
            namespace: "default",
            number,
            nodes: 3,
            is_dual_stack: false,
        };
        let actions = &found.actions[rng.below(found.actions.len())];
        for action in (actions.draw)(&draw) {
            at += Duration::from_secs(1 + rng.below(40) as u64);
            let action = Action::User(action);
            steps.push(Step { at, action });
        }
    }
    Scenario {
        name: format!("{controller} {seed}"),
        seed,
        nodes: 3,
        managers: 1,
        skew: Duration::ZERO,
        faults,
        is_dual_stack: false,
        crash_after_write: None,
        steps,
    }
}

/// What budgets are over, and evictions of.
fn workloads() -> [UserAction; 3] {
    let fields = |name: &str, replicas: u32| {
        json!({"spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name, "version": "0"}},
                "spec": {"containers": [{"name": "c", "image": "app:0"}]},
            },
        }})
    };
    let mut stateful = fields("w1", 3);
    stateful["spec"]["serviceName"] = json!("none");
    [
        UserAction::create::<Deployment>("default", "w0", fields("w0", 4)),
        UserAction::create::<StatefulSet>("default", "w1", stateful),
        UserAction::create::<ReplicaSet>("default", "w2", fields("w2", 5)),
    ]
}

#[test]
fn autoscalers_come_to_rest_within_their_bounds() {
    for seed in 0..12 {
        let scenario = scenario(
            "horizontal-pod-autoscaler-controller",
            seed,
            FaultRates::default(),
        );
        let report = run_scenario(&scenario);
        assert!(!report.is_broken(), "{report}");
        for line in &report.end_state {
            // All that are busy end with as many as are allowed, and all that are idle with as few.
            let is_off = line.contains(": 0 wanted");
            let is_busy = line.contains("/busy-") && !line.contains(": 5 wanted");
            let is_idle = line.contains("/idle-") && !line.contains(": 2 wanted");
            assert!(is_off || !is_busy && !is_idle, "seed {seed}: {line}");
        }
    }
}

#[test]
fn budgets_are_counted_right_whatever_users_do() {
    for seed in 0..12 {
        let scenario = scenario("disruption-controller", seed, FaultRates::default());
        let report = run_scenario(&scenario);
        assert!(!report.is_broken(), "{report}");
    }
}
