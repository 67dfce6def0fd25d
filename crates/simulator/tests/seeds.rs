//! A few seeds with everything that can go wrong. `cargo xtask test` runs thousands.

use std::time::Duration;

use api::Resource;
use api::kinds::{Pod, ReplicaSet, StatefulSet};
use serde_json::{Value, json};
use steersman_simulator::{
    Action, FaultRates, Scenario, Step, Target, UserAction, library, run_scenario, verify,
    verify_crash,
};

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for seed in 0..6 {
        let scenario = Scenario::from_seed(seed);
        let (one, two) = (run_scenario(&scenario), run_scenario(&scenario));
        assert_eq!(one.hash, two.hash, "seed {seed}\n{one}\n{two}");
        assert_eq!(one.to_string(), two.to_string());
    }
    let hash = |seed| run_scenario(&Scenario::from_seed(seed)).hash;
    assert_ne!(hash(1), hash(2));
}

/// `cargo xtask mutants` asks for more of them.
#[test]
fn seeds_converge_to_what_they_would_without_faults() {
    let asked = std::env::var("STEERSMAN_SEEDS").ok();
    let seeds = asked.map_or(12, |text| text.parse().expect("it is a number"));
    for seed in 0..seeds {
        let report = verify(&Scenario::from_seed(seed));
        assert!(!report.is_broken(), "{report}");
        assert!(report.checks > 50, "hardly anything was checked: {report}");
    }
}

/// Where nothing comes between a manager and the API server no view lags, and no check may be suspended for it.
#[test]
fn a_run_without_faults_suspends_no_check_for_a_lagging_view() {
    let (mut evaluated, mut troubled) = (0, 0);
    for seed in 0..8 {
        let scenario = Scenario::from_seed(seed);
        let name = "only sums of cluster roles are written";
        let calm = run_scenario(&scenario.calm());
        let tally = calm.tallies.get(name).copied().unwrap_or_default();
        assert_eq!(tally.suspended, 0, "{calm}");
        evaluated += tally.evaluated;
        let report = run_scenario(&scenario);
        let suspended = report.tallies.values().map(|tally| tally.suspended);
        troubled += suspended.sum::<u64>();
    }
    assert!(evaluated > 0 && troubled > 0, "{evaluated}, {troubled}");
}

/// Each write of a calm run in turn is the last one before a crash. The other scenarios of the library
/// are for `cargo xtask bench simulate`.
#[test]
fn a_crash_after_each_single_write_is_survived() {
    let calm = library::find("orphan-adopt").expect("it is in the library");
    let undisturbed = run_scenario(&calm);
    assert!(!undisturbed.is_broken(), "{undisturbed}");
    for write in 1..=undisturbed.manager_writes {
        let crashed = verify_crash(&calm, write, &undisturbed);
        assert!(!crashed.is_broken(), "crash after write {write}: {crashed}");
        assert_eq!(crashed.crashes, 1, "crash after write {write}");
    }
}

#[test]
fn every_scenario_of_the_library_ends_well_by_itself() {
    for named in &library::LIBRARY {
        let report = run_scenario(&named.scenario());
        assert!(!report.is_broken(), "{report}");
        assert!(report.granted.iter().all(|granted| *granted), "{report}");
    }
}

fn workload<K: Resource>(name: &str, replicas: u32) -> UserAction {
    let template = json!({
        "metadata": {"labels": {"app": name, "version": "0"}},
        "spec": {"containers": [{"name": "c", "image": "app:0"}]},
    });
    let selector = json!({"matchLabels": {"app": name}});
    create::<K>(
        name,
        json!({"spec": {"replicas": replicas, "selector": selector, "serviceName": "none", "template": template}}),
    )
}

fn create<K: Resource>(name: &str, mut object: Value) -> UserAction {
    let (target, resource) = (name.to_owned(), K::TYPE);
    object["apiVersion"] = json!(resource.api_version());
    object["kind"] = json!(resource.kind);
    object["metadata"]["name"] = json!(name);
    object["metadata"]["namespace"] = json!("default");
    let namespace = "default";
    UserAction::Create(
        Target {
            resource,
            namespace,
            name: target,
        },
        object,
    )
}

/// The name of its first pod is taken by a pod that another controller has adopted: it tries for ever, as upstream, and
/// ever more rarely. Refusals are no writes.
#[test]
fn a_set_whose_name_is_taken_does_not_disturb_the_peace() {
    let taken = json!({
        "metadata": {"labels": {"app": "other", "version": "0"}},
        "spec": {"containers": [{"name": "c", "image": "app:0"}]},
    });
    let actions = [
        create::<Pod>("w0-0", taken),
        workload::<ReplicaSet>("other", 1),
        workload::<StatefulSet>("w0", 2),
    ];
    let step = |action| Step {
        at: Duration::from_secs(1),
        action: Action::User(action),
    };
    let scenario = Scenario {
        name: "a name is taken".to_owned(),
        seed: 1,
        nodes: 1,
        managers: 1,
        skew: Duration::ZERO,
        faults: FaultRates::default(),
        is_dual_stack: false,
        crash_after_write: None,
        steps: actions.into_iter().map(step).collect(),
    };
    let report = run_scenario(&scenario);
    assert!(!report.is_broken(), "{report}");
    assert!(report.granted.iter().all(|granted| *granted), "{report}");
    let end = report.end_state.join("\n");
    assert!(
        end.contains("statefulset default/w0: 2 wanted, 0 pods"),
        "{end}"
    );
}
