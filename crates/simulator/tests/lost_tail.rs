//! What was lost with the tail of the API server is made up for: scenarios that once broke a check.

use std::time::Duration;

use api::Resource;
use api::kinds::{ClusterRole, Deployment, Job, ReplicaSet, ReplicationController, StatefulSet};
use client::Propagation;
use serde_json::{Value, json};
use steersman_simulator::{Action, Fault, FaultRates, Scenario, Step, Target, UserAction, verify};

/// Two managers contend, and the clock of the second one is ahead, if `skew` says so.
fn check(
    seed: u64,
    nodes: usize,
    skew: Option<u64>,
    faults: FaultRates,
    steps: Vec<(u64, Action)>,
) {
    let step = |(at, action)| Step {
        at: Duration::from_millis(at),
        action,
    };
    let report = verify(&Scenario {
        name: format!("lost tail {seed}"),
        seed,
        nodes,
        managers: if skew.is_some() { 2 } else { 1 },
        skew: Duration::from_secs(skew.unwrap_or(0)),
        faults,
        is_dual_stack: false,
        crash_after_write: None,
        steps: steps.into_iter().map(step).collect(),
    });
    assert!(!report.is_broken(), "{report}");
}

/// A workload with these fields of its spec, and these annotations and fields of its pods.
fn create<K: Resource>(
    namespace: &'static str,
    name: &str,
    mut spec: Value,
    annotations: Value,
    mut pod: Value,
) -> Action {
    spec["selector"] = match &*K::TYPE.kind {
        "ReplicationController" => json!({"app": name}),
        _ => json!({"matchLabels": {"app": name}}),
    };
    if K::TYPE == Job::TYPE {
        spec["selector"] = Value::Null;
    }
    pod["containers"] = json!([{"name": "c", "image": "app:0"}]);
    let labels = json!({"app": name, "version": "0"});
    spec["template"] =
        json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": pod});
    let action = UserAction::create::<K>(namespace, name, json!({"spec": spec}));
    Action::User(action)
}

fn change<K: Resource>(name: &str, spec: Value) -> Action {
    let patch = json!({"spec": spec});
    Action::User(UserAction::change::<K>("default", name, patch, "changes"))
}

/// Another version of the pods; one that crashes, if it is to.
fn version(number: u32, crash_after: Option<&str>) -> Value {
    json!({"template": {
        "metadata": {
            "labels": {"version": number.to_string()},
            "annotations": {"steersman.dev/crash-after": crash_after},
        },
        "spec": {"containers": [{"name": "c", "image": format!("app:{number}")}]},
    }})
}

fn lose(lost: u64, down: u64) -> Action {
    let down = Duration::from_millis(down);
    Action::Fault(Fault::RestartServer { lost, down })
}

fn freeze(plural: &'static str, lasts: u64) -> Action {
    let lasts = Duration::from_millis(lasts);
    Action::Fault(Fault::Freeze { plural, lasts })
}

fn crash(down: u64) -> Action {
    let down = Duration::from_millis(down);
    Action::Fault(Fault::CrashManager { manager: 0, down })
}

#[test]
fn a_generation_may_go_back() {
    let spec = json!({"replicas": 0, "serviceName": "none", "revisionHistoryLimit": 2});
    let behaviour = json!({"steersman.dev/ready-delay": "6s"});
    let set = create::<StatefulSet>("default", "w1", spec, behaviour, json!({}));
    check(
        3253,
        1,
        None,
        FaultRates::default(),
        vec![
            (19_344, set),
            (31_648, change::<StatefulSet>("w1", version(1, Some("15s")))),
            (32_195, freeze("statefulsets", 24_871)),
            (37_852, change::<StatefulSet>("w1", version(0, None))),
            (54_309, lose(7, 3752)),
        ],
    );
}

#[test]
fn a_finalizer_may_come_back_to_a_pod_of_a_finished_job() {
    let set = create::<ReplicaSet>(
        "default",
        "w0",
        json!({"replicas": 6}),
        json!({"steersman.dev/ready-delay": "3s"}),
        json!({"terminationGracePeriodSeconds": 14}),
    );
    let policy = json!({"rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    ]});
    let job = create::<Job>(
        "default",
        "w2",
        json!({
            "backoffLimit": 1, "completionMode": "Indexed", "completions": 1, "parallelism": 3,
            "podFailurePolicy": policy, "podReplacementPolicy": "Failed",
            "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
        }),
        json!({"steersman.dev/exit-code": "42", "steersman.dev/run-for": "4s"}),
        json!({"restartPolicy": "Never", "terminationGracePeriodSeconds": 10}),
    );
    let controller = |name, spec, behaviour, grace| {
        let pod = json!({"terminationGracePeriodSeconds": grace});
        create::<ReplicationController>("shop", name, spec, behaviour, pod)
    };
    let slow = json!({"steersman.dev/ready-delay": "3s", "steersman.dev/stop-delay": "7s"});
    let user = Action::User;
    let selectors = json!({"clusterRoleSelectors": [{"matchLabels": {"sum": "sum-1"}}]});
    let sum = json!({"aggregationRule": selectors, "rules": []});
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let part = json!({"metadata": {"labels": {"sum": "sum-1"}}, "rules": rules});
    let target = Target::of::<ReplicaSet>("default", "w0");
    check(
        5375,
        3,
        None,
        FaultRates {
            lost_before: 47,
            slow: 6,
            slow_list: 13,
            watch_cut: 20,
            duplicate: 25,
            ..FaultRates::default()
        },
        vec![
            (0, set),
            (364, crash(3863)),
            (
                9025,
                user(UserAction::Delete(target, Propagation::Foreground)),
            ),
            (9346, Action::Fault(Fault::StopKubelet(1))),
            (10_591, change::<ReplicaSet>("w0", json!({"replicas": 5}))),
            (11_281, change::<ReplicaSet>("w0", version(6, None))),
            (22_415, freeze("clusterroles", 18_827)),
            (23_149, Action::Fault(Fault::LoseNode(1))),
            (25_455, user(UserAction::CreateNamespace("shop"))),
            (
                25_455,
                controller(
                    "w1",
                    json!({"replicas": 3, "minReadySeconds": 2}),
                    json!({}),
                    16,
                ),
            ),
            (
                27_205,
                user(UserAction::create::<ClusterRole>("", "sum-1", sum)),
            ),
            (
                30_491,
                user(UserAction::create::<ClusterRole>("", "part-1", part)),
            ),
            (33_276, job),
            (37_127, controller("w3", json!({"replicas": 0}), slow, 22)),
            (39_424, lose(11, 1448)),
            (53_521, crash(734)),
        ],
    );
}

#[test]
fn a_volume_may_be_lost_that_a_claim_was_bound_to() {
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let spec = json!({
        "replicas": 6, "minReadySeconds": 9, "ordinals": {"start": 2}, "serviceName": "none",
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
        "revisionHistoryLimit": 2, "volumeClaimTemplates": [claim],
    });
    let pod = json!({"terminationGracePeriodSeconds": 27});
    check(
        9036,
        1,
        None,
        FaultRates::default(),
        vec![
            (47_112, Action::Fault(Fault::StopKubelet(0))),
            (50_413, Action::User(UserAction::CreateNamespace("shop"))),
            (
                50_413,
                create::<StatefulSet>("shop", "w3", spec, json!({}), pod),
            ),
            (62_686, lose(10, 1934)),
        ],
    );
}

#[test]
fn a_deletion_by_the_collector_may_be_lost_that_no_watch_has_shown() {
    let spec = json!({"replicas": 4, "revisionHistoryLimit": 1, "strategy": {"type": "Recreate"}});
    let pod = json!({"terminationGracePeriodSeconds": 5});
    let deployment = create::<Deployment>("shop", "w1", spec, json!({}), pod);
    let bare = json!({
        "metadata": {"labels": {"app": "w0", "version": "0"}},
        "spec": {"containers": [{"name": "c", "image": "app:0"}]},
    });
    let bare = Target::of::<api::kinds::Pod>("default", "bare-1").object(bare);
    let owner = Target::of::<ReplicaSet>("default", "w0");
    check(
        9927,
        4,
        Some(3),
        FaultRates::default(),
        vec![
            (11_886, Action::Fault(Fault::LoseNode(3))),
            (12_920, lose(10, 3084)),
            (17_716, Action::User(UserAction::CreateNamespace("shop"))),
            (17_716, deployment),
            (18_964, freeze("replicasets", 15_697)),
            (
                25_033,
                Action::User(UserAction::delete::<Deployment>("shop", "w1")),
            ),
            (25_077, Action::User(UserAction::CreatePod(owner, bare))),
            (26_080, lose(12, 835)),
        ],
    );
}
