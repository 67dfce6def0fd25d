//! Behaviour of the controller, weakest test that suffices first.

mod failures;
mod invariants;
mod plan;
mod stale;
mod status;
mod sync;
mod triggers;

use std::sync::Arc;

use api::kinds::{Pod, ReplicaSet};
use api::{Gates, MicroTime, Resource, Time};

use super::Snapshot;

/// All pods of these tests are looked at at this time.
fn now() -> MicroTime {
    Time::from_unix(1_704_067_200).micro()
}

/// `a:ready,10m` and the like: a name, then facts. Facts: `ready`, `pending`, `running`, `unknown`,
/// `nonode`, `on=N`, `cost=N`, `restarts=N`, `sidecar=N` (its restarts), `created=D`, `uid=U`, `nosince`
/// (it does not say since when), and a plain duration that says since when it is ready (or how old it is).
fn pod(text: &str) -> Arc<Pod> {
    let (name, facts) = text.split_once(':').unwrap_or((text, ""));
    let (mut phase, mut ready, mut node, mut uid) =
        ("Running", false, String::from("n1"), name.to_string());
    let (mut since, mut created, mut restarts, mut cost) = (0, 0, 0, String::new());
    let (mut sidecar, mut dated) = (0, true);
    for fact in facts.split(',').filter(|fact| !fact.is_empty()) {
        match fact.split_once('=') {
            Some(("on", value)) => node = value.into(),
            Some(("cost", value)) => cost = value.into(),
            Some(("restarts", value)) => restarts = value.parse().unwrap(),
            Some(("sidecar", value)) => sidecar = value.parse().unwrap(),
            Some(("created", value)) => created = seconds(value),
            Some(("uid", value)) => uid = value.into(),
            _ => match fact {
                "ready" => ready = true,
                "pending" => phase = "Pending",
                "running" => phase = "Running",
                "unknown" => phase = "Unknown",
                "nonode" => node.clear(),
                "nosince" => dated = false,
                duration => since = seconds(duration),
            },
        }
    }
    let at = |ago: i64| Time::from_unix(now().time().unix() - ago);
    let json = serde_json::json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": uid,
            "creationTimestamp": at(created.max(since)),
            "labels": {"app": "web"},
            "annotations": {api::kinds::POD_DELETION_COST: cost},
        },
        "spec": {"nodeName": node, "initContainers": [{"name": "s", "restartPolicy": "Always"}]},
        "status": {
            "phase": phase,
            "conditions": [{
                "type": "Ready", "status": if ready {"True"} else {"False"},
                "lastTransitionTime": dated.then(|| at(since)),
            }],
            "containerStatuses": [{"name": "c", "restartCount": restarts}],
            "initContainerStatuses": [{"name": "s", "restartCount": sidecar}],
        },
    });
    Arc::new(Pod::decode(json.to_string().as_bytes()).unwrap())
}

fn seconds(text: &str) -> i64 {
    let (number, unit) = text.split_at(text.len() - 1);
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => panic!("{text} is no duration"),
    };
    number.parse::<i64>().unwrap() * factor
}

fn replica_set(replicas: i32, min_ready_seconds: i32) -> Arc<ReplicaSet> {
    let json = serde_json::json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "rs", "generation": 2},
        "spec": {
            "replicas": replicas, "minReadySeconds": min_ready_seconds,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}},
        },
    });
    Arc::new(ReplicaSet::decode(json.to_string().as_bytes()).unwrap())
}

/// `replicas=3,min=10 | a:ready,10m b:pending`: a set and its active pods.
fn snapshot(text: &str) -> Snapshot<ReplicaSet> {
    let (set, pods) = text.split_once('|').unwrap();
    let value = |name: &str| {
        set.split([',', ' '])
            .find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
            .map_or(0, |value| value.parse().unwrap())
    };
    Snapshot {
        may_act: true,
        owner: replica_set(value("replicas"), value("min")),
        active: pods.split_whitespace().map(pod).collect(),
        terminating: Some(0),
        gates: Gates::default(),
    }
}
