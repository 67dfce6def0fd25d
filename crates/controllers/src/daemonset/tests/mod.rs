//! Behaviour of the controller, weakest test that suffices first.

mod eligibility;
mod failures;
mod history;
mod invariants;
mod plan;
mod pods;
mod rollout;
mod stale;
mod status;
mod sync;
mod triggers;

use std::sync::Arc;

use api::kinds::{DaemonSet, Node, Pod};
use api::{Gates, MicroTime, Resource, Time};
use serde_json::{Value, json};
use testkit::World;

use super::{Snapshot, controller};
use runtime::Context;

/// All pods of these tests are looked at at this time.
fn now() -> MicroTime {
    Time::from_unix(1_704_067_200).micro()
}

/// `a@n1:ready,old`: a name, the node it is on (`>` in place of `@`: meant for), then facts. Facts:
/// `ready`, `pending`, `failed`, `succeeded`, `gone` (on its way out), `old` (of the old revision),
/// `generation=N` (marked by template generation alone), `since=S` (seconds for which it has been
/// ready), `age=S`.
fn pod(text: &str) -> Arc<Pod> {
    let (place, facts) = text.split_once(':').unwrap_or((text, ""));
    let (name, node, bound) = match place.split_once('@') {
        Some((name, node)) => (name, node, true),
        None => {
            let (name, node) = place.split_once('>').unwrap();
            (name, node, false)
        }
    };
    let (mut phase, mut ready, mut gone) = ("Running", false, false);
    let (mut since, mut age) = (1_000, 1_000);
    let mut labels = json!({"app": "web", "controller-revision-hash": "new"});
    for fact in facts.split(',').filter(|fact| !fact.is_empty()) {
        match fact.split_once('=').unwrap_or((fact, "")) {
            ("ready", _) => ready = true,
            ("pending", _) => phase = "Pending",
            ("failed", _) => phase = "Failed",
            ("succeeded", _) => phase = "Succeeded",
            ("gone", _) => gone = true,
            ("old", _) => labels["controller-revision-hash"] = json!("old"),
            ("generation", number) => {
                labels = json!({"app": "web", "pod-template-generation": number});
            }
            ("since", seconds) => since = seconds.parse().unwrap(),
            ("age", seconds) => age = seconds.parse().unwrap(),
            _ => panic!("{fact} is no fact of a pod"),
        }
    }
    let ago = |seconds: i64| Time::from_unix(now().time().unix() - seconds);
    let mut json = json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": name, "labels": labels,
            "creationTimestamp": ago(age),
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "web", "uid": "set", "controller": true}],
        },
        "spec": {},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": if ready {"True"} else {"False"}, "lastTransitionTime": ago(since)}],
        },
    });
    if bound {
        json["spec"]["nodeName"] = json!(node);
    } else {
        json["spec"]["affinity"] = meant_for(node);
    }
    if gone {
        json["metadata"]["deletionTimestamp"] = json!(now().time());
    }
    Arc::new(Pod::decode(json.to_string().as_bytes()).unwrap())
}

fn meant_for(node: &str) -> Value {
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchFields": [field]}],
    }}})
}

/// `n1:disk=ssd,taint=k/NoSchedule`: a node, its labels and taints.
fn node(text: &str) -> Arc<Node> {
    let node = node_json(text);
    Arc::new(Node::decode(node.to_string().as_bytes()).unwrap())
}

fn node_json(text: &str) -> Value {
    let (name, facts) = text.split_once(':').unwrap_or((text, ""));
    let mut json = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": {},
    });
    let mut taints = Vec::new();
    for fact in facts.split(',').filter(|fact| !fact.is_empty()) {
        match fact.split_once('=').unwrap() {
            ("taint", taint) => {
                let (key, effect) = taint.rsplit_once('/').unwrap();
                taints.push(json!({"key": key, "effect": effect}));
            }
            (key, value) => json["metadata"]["labels"][key] = json!(value),
        }
    }
    json["spec"]["taints"] = json!(taints);
    json
}

/// `max=1 surge=25% ondelete`: a set. Facts: `max=N`, `surge=N`, `ondelete`, `min=N`, `node=N`,
/// `selector=K/V`, `tolerate=K`, `hostnetwork`, `generation=N`, `misscheduled=N`.
fn set(text: &str) -> Arc<DaemonSet> {
    let mut json = daemon_set();
    json["metadata"]["namespace"] = json!("default");
    json["metadata"]["uid"] = json!("set");
    json["metadata"]["generation"] = json!(2);
    json["spec"]["updateStrategy"] = json!({"type": "RollingUpdate"});
    for fact in text.split_whitespace() {
        let (name, value) = fact.split_once('=').unwrap_or((fact, ""));
        let number = || {
            value
                .parse::<i64>()
                .map_or(json!(value), |value| json!(value))
        };
        let spec = &mut json["spec"];
        match name {
            "max" => spec["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = number(),
            "surge" => spec["updateStrategy"]["rollingUpdate"]["maxSurge"] = number(),
            "ondelete" => spec["updateStrategy"] = json!({"type": "OnDelete"}),
            "min" => spec["minReadySeconds"] = number(),
            "node" => spec["template"]["spec"]["nodeName"] = json!(value),
            "hostnetwork" => spec["template"]["spec"]["hostNetwork"] = json!(true),
            "tolerate" => {
                spec["template"]["spec"]["tolerations"] =
                    json!([{"key": value, "operator": "Exists"}]);
            }
            "selector" => {
                let (key, value) = value.split_once('/').unwrap();
                spec["template"]["spec"]["nodeSelector"] = json!({key: value});
            }
            "generation" => {
                json["metadata"]["annotations"] =
                    json!({"deprecated.daemonset.template.generation": value});
            }
            other => panic!("{other} is no fact of a set"),
        }
    }
    Arc::new(DaemonSet::decode(json.to_string().as_bytes()).unwrap())
}

/// `SET | NODES | PODS`. The current revision is called `new`.
fn snapshot(text: &str) -> Snapshot {
    let mut parts = text.split('|');
    let set = set(parts.next().unwrap());
    let nodes = parts.next().unwrap().split_whitespace().map(node).collect();
    let pods = parts.next().unwrap().split_whitespace().map(pod).collect();
    Snapshot::new(set, nodes, pods, "new", true, Gates::default())
}

/// A world in which the controller runs, with these nodes.
async fn world(nodes: &[&str]) -> World {
    let mut world = World::new().await;
    for text in nodes {
        add_node(&world, text).await;
    }
    let running = controller(&world.context(), 5).run(world.stop());
    world.run(running);
    world.start().await;
    world
}

/// Admission marks a new node as not ready; what is its own of taints remains.
async fn add_node(world: &World, text: &str) {
    let node = node_json(text);
    let patch = json!({"spec": {"taints": node["spec"]["taints"]}});
    let name = node["metadata"]["name"].as_str().unwrap().to_string();
    world.create(&Node::TYPE, node).await;
    world.patch(&Node::TYPE, &name, patch).await;
}

/// A set as a user writes it.
fn daemon_set() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "nginx:1"}]},
            },
        },
    })
}

async fn set_image(world: &World, image: &str) {
    let containers = json!([{"name": "c", "image": image}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    world.patch(&DaemonSet::TYPE, "web", patch).await;
}

/// The status of the set, as text.
async fn status(world: &World) -> String {
    let set = world.get(&DaemonSet::TYPE, "web").await.unwrap();
    set["status"].to_string()
}

/// `n1=nginx:1 n2=nginx:2!`: pods by the node they are meant for, with their images; a mark where a
/// pod is on its way out.
async fn images(world: &World) -> String {
    let mut all: Vec<String> = world
        .list(&Pod::TYPE)
        .await
        .iter()
        .map(|pod| {
            let going = match pod["metadata"]["deletionTimestamp"].is_null() {
                true => "",
                false => "!",
            };
            let node = target(pod);
            let image = pod["spec"]["containers"][0]["image"].as_str().unwrap();
            format!("{node}={image}{going}")
        })
        .collect();
    all.sort();
    all.join(" ")
}

fn target(pod: &Value) -> String {
    let terms = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        ["nodeSelectorTerms"];
    let node = terms[0]["matchFields"][0]["values"][0].as_str();
    node.unwrap_or_default().to_string()
}
