//! Behaviour of the controller, weakest test that suffices first.

mod budget;
mod claims;
mod failures;
mod invariants;
mod oracle;
mod plan;
mod revisions;
mod rollout;
mod stale;
mod status;
mod storage;
mod sync;
mod triggers;

use std::sync::Arc;

use api::kinds::{ControllerRevision, PersistentVolumeClaim, Pod, RevisionData, StatefulSet};
use api::{Gate, Gates, Meta, MicroTime, Resource, Time};
use runtime::{Metrics, Store};
use serde_json::{Value, json};
use testkit::World;

use super::{Options, Revisions, Snapshot, controller};
use runtime::Context;

/// All pods of these tests are looked at at this time.
fn now() -> MicroTime {
    Time::from_unix(1_704_067_200).micro()
}

/// `0:ready,rev=old` and the like: an ordinal (or a name), then facts. Facts: `ready`, `running`,
/// `pending`, `failed`, `succeeded`, `gone` (on its way out), `rev=R` (default `new`), `since=S`
/// (seconds for which it has been ready), `nolabel`, `novolume`.
fn pod(text: &str) -> Arc<Pod> {
    let (place, facts) = text.split_once(':').unwrap_or((text, ""));
    let name = match place.parse::<i32>() {
        Ok(ordinal) => format!("web-{ordinal}"),
        Err(_) => place.to_string(),
    };
    let (mut phase, mut ready, mut gone, mut revision) = ("Running", false, false, "new");
    let (mut since, mut label, mut volume) = (1_000, true, true);
    for fact in facts.split(',').filter(|fact| !fact.is_empty()) {
        match fact {
            "ready" => ready = true,
            "running" => {}
            "pending" => phase = "Pending",
            "failed" => phase = "Failed",
            "succeeded" => phase = "Succeeded",
            "gone" => gone = true,
            "nolabel" => label = false,
            "novolume" => volume = false,
            other => match other.split_once('=') {
                Some(("rev", value)) => revision = value,
                Some(("since", value)) => since = value.parse().unwrap(),
                _ => panic!("{other} is no fact"),
            },
        }
    }
    let at = Time::from_unix(now().time().unix() - since);
    let mut json = json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": name,
            "labels": {"app": "web", "controller-revision-hash": revision},
        },
        "spec": {"volumes": []},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": if ready {"True"} else {"False"}, "lastTransitionTime": at}],
        },
    });
    if label {
        json["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = json!(name);
    }
    if volume {
        let claim = format!("data-{name}");
        json["spec"]["volumes"] =
            json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    }
    if gone {
        json["metadata"]["deletionTimestamp"] = json!(at);
    }
    Arc::new(Pod::decode(json.to_string().as_bytes()).unwrap())
}

/// `replicas=3 parallel partition=1`: a set. Facts: `replicas=N`, `start=N`, `min=N`, `parallel`,
/// `ondelete`, `partition=N`, `max=N`, `norolling`, `current=N` (status), `claims`, `deleted`,
/// `scaled=delete`, `whendeleted=delete`.
fn set(text: &str) -> Arc<StatefulSet> {
    let mut json = json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "set", "generation": 2},
        "spec": {
            "replicas": 1, "serviceName": "web",
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        },
        "status": {"currentRevision": "old"},
    });
    let number = |value: &str| json!(value.parse::<i64>().unwrap());
    let rolling = "rollingUpdate";
    for fact in text.split_whitespace() {
        let (name, value) = fact.split_once('=').unwrap_or((fact, ""));
        let (spec, status) = ("spec", "status");
        match name {
            "replicas" => json[spec]["replicas"] = number(value),
            "start" => json[spec]["ordinals"] = json!({"start": number(value)}),
            "min" => json[spec]["minReadySeconds"] = number(value),
            "parallel" => json[spec]["podManagementPolicy"] = json!("Parallel"),
            "ondelete" => json[spec]["updateStrategy"] = json!({"type": "OnDelete"}),
            "norolling" => json[spec]["updateStrategy"] = json!({"type": "RollingUpdate"}),
            "partition" => json[spec]["updateStrategy"][rolling]["partition"] = number(value),
            "max" => {
                let value = value
                    .parse::<i64>()
                    .map_or(json!(value), |value| json!(value));
                json[spec]["updateStrategy"][rolling]["maxUnavailable"] = value;
            }
            "current" => json[status]["currentReplicas"] = number(value),
            "claims" => {
                json[spec]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}}]);
            }
            "scaled" => retention(&mut json)["whenScaled"] = json!("Delete"),
            "whendeleted" => retention(&mut json)["whenDeleted"] = json!("Delete"),
            "deleted" => json["metadata"]["deletionTimestamp"] = json!(now().time()),
            other => panic!("{other} is no fact of a set"),
        }
    }
    Arc::new(StatefulSet::decode(json.to_string().as_bytes()).unwrap())
}

fn retention(set: &mut Value) -> &mut Value {
    &mut set["spec"]["persistentVolumeClaimRetentionPolicy"]
}

fn revision(name: &str, number: i64) -> Arc<ControllerRevision> {
    Arc::new(ControllerRevision {
        metadata: Meta {
            name: name.into(),
            namespace: "default".into(),
            ..Meta::default()
        },
        data: RevisionData::default(),
        revision: number,
    })
}

/// `data-web-0:set,pod=old-uid`: a claim and its owners: `set`, `pod` (the right ones), `set=U`,
/// `pod=U` (others of the same name), `other` and `cousin` (other controllers), `friend` (no controller), `plainset`, `plainpod` (owners
/// that do not control), `gone`.
fn claim(text: &str) -> Arc<PersistentVolumeClaim> {
    let (name, facts) = text.split_once(':').unwrap_or((text, ""));
    let pod = name.trim_start_matches("data-");
    let owner = |version: &str, kind: &str, name: &str, uid: &str, controller: bool| json!({"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": controller});
    let mut owners = Vec::new();
    let mut json = json!({"metadata": {"name": name, "namespace": "default", "uid": name}});
    for fact in facts.split(',').filter(|fact| !fact.is_empty()) {
        owners.push(match fact.split_once('=').unwrap_or((fact, "")) {
            ("set", "") => owner("apps/v1", "StatefulSet", "web", "set", true),
            ("set", uid) => owner("apps/v1", "StatefulSet", "web", uid, true),
            ("pod", "") => owner("v1", "Pod", pod, pod, true),
            ("pod", uid) => owner("v1", "Pod", pod, uid, true),
            ("plainset", _) => owner("apps/v1", "StatefulSet", "web", "set", false),
            ("plainpod", _) => owner("v1", "Pod", pod, pod, false),
            ("other", _) => owner("v1", "Other", "boss", "boss", true),
            ("cousin", _) => owner("v1", "Pod", "cousin", "cousin", true),
            ("friend", _) => owner("v1", "Other", "boss", "boss", false),
            ("gone", _) => {
                json["metadata"]["deletionTimestamp"] = json!(now().time());
                continue;
            }
            _ => panic!("{fact} is no fact of a claim"),
        });
    }
    json["metadata"]["ownerReferences"] = json!(owners);
    Arc::new(PersistentVolumeClaim::decode(json.to_string().as_bytes()).unwrap())
}

/// `SET | PODS | CLAIMS`, the last one optional. Revisions are called `old` and `new`.
fn snapshot(text: &str, gates: Gates, recover_stuck_rollouts: bool) -> Snapshot {
    let mut parts = text.split('|');
    let set = set(parts.next().unwrap());
    let pods = parts.next().unwrap().split_whitespace().map(pod).collect();
    let claims = Store::new();
    for text in parts.next().unwrap_or_default().split_whitespace() {
        claims.put(claim(text));
    }
    let revisions = Revisions {
        history: Vec::new(),
        news: None,
        current: revision("old", 1),
        update: revision("new", 2),
        collision_count: 0,
    };
    Snapshot::new(set, pods, revisions, &claims, gates, recover_stuck_rollouts)
}

fn with_max_unavailable() -> Gates {
    Gates::default().with(Gate::MaxUnavailableStatefulSet, true)
}

/// A world in which the controller runs.
async fn world() -> World {
    world_with(Gates::default(), false).await
}

async fn world_with(gates: Gates, recover_stuck_rollouts: bool) -> World {
    world_counting(gates, recover_stuck_rollouts, Metrics::new()).await
}

async fn world_counting(gates: Gates, recover_stuck_rollouts: bool, metrics: Metrics) -> World {
    let mut world = World::new().await;
    let context = Context {
        gates,
        metrics,
        ..world.context()
    };
    let options = Options {
        recover_stuck_rollouts,
    };
    let running = controller(&context, 5, &options).run(world.stop());
    world.run(running);
    world.start().await;
    world
}

/// A set as a user writes it.
fn stateful_set(replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas, "serviceName": "web",
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "nginx:1"}]},
            },
        },
    })
}

fn with_claims(mut set: Value, scaled: &str, deleted: &str) -> Value {
    set["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": {"name": "data", "labels": {"tier": "db"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }]);
    set["spec"]["persistentVolumeClaimRetentionPolicy"] =
        json!({"whenScaled": scaled, "whenDeleted": deleted});
    set
}

fn parallel(mut set: Value) -> Value {
    set["spec"]["podManagementPolicy"] = json!("Parallel");
    set
}

async fn set_image(world: &World, image: &str) {
    let containers = json!([{"name": "c", "image": image}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    world.patch(&StatefulSet::TYPE, "web", patch).await;
}

async fn scale(world: &World, replicas: i32) {
    let patch = json!({"spec": {"replicas": replicas}});
    world.patch(&StatefulSet::TYPE, "web", patch).await;
}

/// Plays kubelet until nothing changes any more: pods get ready, deleted ones go.
async fn roll_out(world: &World) {
    for _ in 0..100 {
        let before = pods_and_status(world).await;
        world.wait_until_idle().await;
        world.finish_deletions().await;
        world.make_all_ready().await;
        world.wait_until_idle().await;
        if pods_and_status(world).await == before {
            return;
        }
    }
    panic!("the set does not come to rest");
}

async fn pods_and_status(world: &World) -> Vec<Value> {
    let mut all = world.list(&Pod::TYPE).await;
    all.extend(world.list(&StatefulSet::TYPE).await);
    all
}

/// `web-0=nginx:1 web-1=nginx:2!`: pods with their images; a mark where a pod is on its way out.
async fn images(world: &World) -> String {
    let pods = world.list(&Pod::TYPE).await;
    let text = |pod: &Value| {
        let going = if pod["metadata"]["deletionTimestamp"].is_null() {
            ""
        } else {
            "!"
        };
        let name = pod["metadata"]["name"].as_str().unwrap();
        let image = pod["spec"]["containers"][0]["image"].as_str().unwrap();
        format!("{name}={image}{going}")
    };
    pods.iter().map(text).collect::<Vec<_>>().join(" ")
}
