//! What upstream leaves as it is, and no check may ask for.

use std::time::Duration;

use api::kinds::{Deployment, Job, StatefulSet};
use api::{Resource, ResourceType};
use client::Propagation;
use serde_json::{Value, json};
use steersman_simulator::{
    Action, Fault, FaultRates, Report, Scenario, Step, Target, UserAction, run_scenario, verify,
};

fn target(resource: ResourceType) -> Target {
    Target {
        resource,
        namespace: "default",
        name: "w".to_owned(),
    }
}

/// A workload `w` with this spec, for which `annotations` say how its pods behave.
fn create<K: Resource>(mut spec: Value, annotations: Value) -> UserAction {
    spec["template"]["metadata"] =
        json!({"labels": {"app": "w", "version": "0"}, "annotations": annotations});
    spec["template"]["spec"]["containers"] = json!([{"name": "c", "image": "app:0"}]);
    let object = json!({
        "apiVersion": K::TYPE.api_version(),
        "kind": K::TYPE.kind,
        "metadata": {"name": "w", "namespace": "default"},
        "spec": spec,
    });
    UserAction::Create(target(K::TYPE), object)
}

fn replicated<K: Resource>(replicas: u32, more: Value) -> UserAction {
    let mut spec = json!({"replicas": replicas, "selector": {"matchLabels": {"app": "w"}}});
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    create::<K>(spec, json!({"steersman.dev/stop-delay": "10s"}))
}

fn change<K: Resource>(spec: Value) -> UserAction {
    UserAction::Change(target(K::TYPE), json!({"spec": spec}), spec.to_string())
}

fn delete<K: Resource>(propagation: Propagation) -> UserAction {
    UserAction::Delete(target(K::TYPE), propagation)
}

fn scenario(steps: impl IntoIterator<Item = (u64, Action)>) -> Scenario {
    let step = |(at, action)| Step {
        at: Duration::from_secs(at),
        action,
    };
    Scenario {
        name: "upstream".to_owned(),
        seed: 1,
        nodes: 2,
        managers: 1,
        skew: Duration::ZERO,
        faults: FaultRates::default(),
        is_dual_stack: false,
        crash_after_write: None,
        steps: steps.into_iter().map(step).collect(),
    }
}

/// The actions are granted, at these seconds, and no check is broken.
fn check(actions: impl IntoIterator<Item = (u64, UserAction)>) -> Report {
    let steps = actions.into_iter();
    let report = run_scenario(&scenario(
        steps.map(|(at, action)| (at, Action::User(action))),
    ));
    assert!(!report.is_broken(), "{report}");
    assert!(report.granted.iter().all(|granted| *granted), "{report}");
    report
}

/// The second deletion takes the finalizer of the first one away.
#[test]
fn who_is_told_to_orphan_and_then_not_to_takes_its_dependents_along() {
    check([
        (1, replicated::<Deployment>(4, json!({}))),
        (20, delete::<Deployment>(Propagation::Orphan)),
        (20, delete::<Deployment>(Propagation::Background)),
    ]);
}

/// It adopts 0, 2, 3 and 5 of what another set has left, and wants five.
#[test]
fn a_set_that_adopts_pods_takes_them_with_their_gaps() {
    let named = json!({"serviceName": "none"});
    let report = check([
        (1, replicated::<StatefulSet>(6, named.clone())),
        (15, UserAction::StrayPod(target(StatefulSet::TYPE), 4)),
        (16, delete::<StatefulSet>(Propagation::Orphan)),
        (22, UserAction::StrayPod(target(StatefulSet::TYPE), 1)),
        (24, replicated::<StatefulSet>(5, named)),
    ]);
    let end = report.end_state.join("\n");
    let wanted = "statefulset default/w: 5 wanted, 5 pods of version 9";
    assert!(end.contains(wanted), "{end}");
}

/// The pod that failed knows how often its index has; the job may make no other.
#[test]
fn a_job_that_may_run_nothing_holds_the_last_failed_pod_of_an_index() {
    let spec = json!({
        "completionMode": "Indexed", "completions": 3, "parallelism": 2, "backoffLimitPerIndex": 1,
        "template": {"spec": {"restartPolicy": "Never"}},
    });
    let behaviour = json!({"steersman.dev/exit-code": "42", "steersman.dev/run-for": "4s"});
    check([
        (1, create::<Job>(spec, behaviour)),
        (10, change::<Job>(json!({"parallelism": 0}))),
        (30, UserAction::EvictPod(target(Job::TYPE), 1)),
    ]);
}

/// The last pods were on their way, and own the claims that go with them, when the set was deleted in the foreground.
#[test]
fn a_pod_that_owns_its_claim_waits_for_it_and_the_claim_for_the_pod() {
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let more = json!({
        "serviceName": "none", "volumeClaimTemplates": [claim],
        "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete", "whenDeleted": "Delete"},
    });
    let report = check([
        (1, replicated::<StatefulSet>(5, more)),
        (10, change::<StatefulSet>(json!({"replicas": 3}))),
        (18, delete::<StatefulSet>(Propagation::Foreground)),
    ]);
    let end = report.end_state.join("\n");
    assert!(!end.contains("statefulset"), "{end}");
}

/// Without faults it is over before it is stopped, and gone before the end.
#[test]
fn a_job_with_a_time_to_live_that_is_stopped_may_be_gone_or_not() {
    let spec = json!({
        "completions": 1, "backoffLimit": 0, "ttlSecondsAfterFinished": 10,
        "template": {"spec": {"restartPolicy": "Never"}},
    });
    let job = create::<Job>(spec, json!({"steersman.dev/run-for": "2s"}));
    let late = Fault::Freeze {
        plural: "jobs",
        lasts: Duration::from_secs(40),
    };
    let report = verify(&scenario([
        (1, Action::Fault(late)),
        (2, Action::User(job)),
        (12, Action::User(change::<Job>(json!({"parallelism": 0})))),
    ]));
    assert!(!report.is_broken(), "{report}");
}
