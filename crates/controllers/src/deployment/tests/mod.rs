//! Behaviour of the controller, weakest test that suffices first.

mod annotations;
mod invariants;
mod new_set;
mod oracle;
mod plan;
mod properties;
mod rollback;
mod scaling;
mod status;
mod sync;
mod triggers;

use std::sync::Arc;

use api::kinds::{Deployment, ReplicaSet};
use api::{Gates, MicroTime, Resource, Time};
use serde_json::{Value, json};

use super::plan::{Plan, Step};
use super::{Snapshot, annotations as keys};

/// All Deployments of these tests are looked at at this time.
fn now() -> MicroTime {
    Time::from_unix(1_704_067_200).micro()
}

/// `replicas=10 surge=2 | old:10/8 new:2/0`: a Deployment and its sets, oldest first.
///
/// Facts about the Deployment: `replicas`, `surge`, `unavailable`, `history`, `deadline`,
/// `rollback`, `was` (its replicas when the sets were scaled), `status=replicas/updated/available`,
/// `recreate`, `paused`, `deleted`, `progressing=Reason/seconds-ago`.
///
/// A set is `name:replicas/available`, then facts after commas: `pods` (of its status), `desired`,
/// `max` and `rev` (its annotations; `-` for none), `unfinished` (pods), `deleted`, `unseen` (by
/// its own controller). Sets whose name begins with `new` have the Deployment's template.
fn snapshot(text: &str) -> Snapshot {
    let (head, sets) = text.split_once('|').unwrap();
    let head = Facts(head.split_whitespace().collect());
    let sets: Vec<(Value, usize)> = sets
        .split_whitespace()
        .enumerate()
        .map(|(at, text)| set(text, at, &head))
        .collect();
    Snapshot {
        deployment: Arc::new(deployment(&head)),
        unfinished_pods: sets.iter().map(|(_, unfinished)| *unfinished).collect(),
        sets: sets
            .into_iter()
            .map(|(set, _)| Arc::new(ReplicaSet::decode(set.to_string().as_bytes()).unwrap()))
            .collect(),
        gates: Gates::default(),
    }
}

struct Facts<'a>(Vec<&'a str>);

impl<'a> Facts<'a> {
    fn text(&self, name: &str) -> Option<&'a str> {
        self.0
            .iter()
            .find_map(|fact| fact.strip_prefix(name)?.strip_prefix('='))
    }

    fn number(&self, name: &str) -> Option<i32> {
        Some(self.text(name)?.parse().unwrap())
    }

    fn says(&self, name: &str) -> bool {
        self.0.contains(&name)
    }
}

fn template(name: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": name}]}})
}

fn deployment(facts: &Facts<'_>) -> Deployment {
    let mut object = json!({
        "metadata": {
            "name": "web", "namespace": "default", "uid": "d", "generation": 1,
            "annotations": {keys::REVISION: "9"},
        },
        "spec": {
            "replicas": facts.number("replicas"),
            "selector": {"matchLabels": {"app": "web"}},
            "template": template("new"),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {
                "maxSurge": facts.number("surge").unwrap_or(0),
                "maxUnavailable": unavailable(facts),
            }},
            "progressDeadlineSeconds": facts.number("deadline"),
            "revisionHistoryLimit": facts.number("history"),
            "paused": facts.says("paused"),
        },
        "status": {"observedGeneration": 1},
    });
    if facts.says("recreate") {
        object["spec"]["strategy"] = json!({"type": "Recreate"});
    }
    if facts.says("deleted") {
        object["metadata"]["deletionTimestamp"] = json!(now().time());
    }
    if let Some(revision) = facts.text("rollback") {
        object["metadata"]["annotations"][keys::ROLLBACK_TO] = json!(revision);
    }
    if let Some(counts) = facts.text("status") {
        let counts: Vec<i32> = counts.split('/').map(|one| one.parse().unwrap()).collect();
        object["status"]["replicas"] = json!(counts[0]);
        object["status"]["updatedReplicas"] = json!(counts[1]);
        object["status"]["readyReplicas"] = json!(counts[2]);
        object["status"]["availableReplicas"] = json!(counts[2]);
    }
    if let Some((reason, ago)) = facts
        .text("progressing")
        .and_then(|text| text.split_once('/'))
    {
        let at = Time::from_unix(now().time().unix() - ago.parse::<i64>().unwrap());
        let status = match reason {
            "ProgressDeadlineExceeded" => "False",
            "DeploymentPaused" => "Unknown",
            _ => "True",
        };
        object["status"]["conditions"] = json!([{
            "type": "Progressing", "status": status, "reason": reason, "message": "before",
            "lastUpdateTime": at, "lastTransitionTime": at,
        }]);
    }
    Deployment::decode(object.to_string().as_bytes()).unwrap()
}

/// A number of pods or a percentage.
fn unavailable(facts: &Facts<'_>) -> Value {
    match facts.text("unavailable") {
        Some(percentage) if percentage.ends_with('%') => json!(percentage),
        _ => json!(facts.number("unavailable").unwrap_or(0)),
    }
}

fn set(text: &str, at: usize, head: &Facts<'_>) -> (Value, usize) {
    let (name, facts) = text.split_once(':').unwrap();
    let facts = Facts(facts.split(',').collect());
    let (replicas, available) = facts.0[0]
        .split_once('/')
        .unwrap_or((facts.0[0], facts.0[0]));
    let (replicas, available): (i32, i32) = (replicas.parse().unwrap(), available.parse().unwrap());
    let desired = head.number("was").or(head.number("replicas")).unwrap_or(1);
    let mut annotations = json!({});
    let defaults = [
        ("rev", keys::REVISION, at as i32 + 1),
        ("desired", keys::DESIRED_REPLICAS, desired),
        (
            "max",
            keys::MAX_REPLICAS,
            desired + head.number("surge").unwrap_or(0),
        ),
    ];
    for (fact, key, default) in defaults {
        match facts.text(fact) {
            Some("-") => {}
            Some(text) => annotations[key] = json!(text),
            None => annotations[key] = json!(default.to_string()),
        }
    }
    let is_new = name.starts_with("new");
    let mut object = json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": name, "generation": 1,
            "resourceVersion": "7", "labels": {"app": "web"}, "annotations": annotations,
            "creationTimestamp": Time::from_unix(1_700_000_000 + at as i64),
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(if is_new { "new" } else { name }),
        },
        "status": {
            "replicas": facts.number("pods").unwrap_or(replicas),
            "readyReplicas": available, "availableReplicas": available,
            "terminatingReplicas": 0,
            "observedGeneration": if facts.says("unseen") { 0 } else { 1 },
        },
    });
    if facts.says("deleted") {
        object["metadata"]["deletionTimestamp"] = json!(now().time());
    }
    let unfinished = facts.number("unfinished").unwrap_or(0);
    (object, usize::try_from(unfinished).unwrap())
}

/// `create 2, old 10->8, new noted, delete oldest`: the steps in a line.
fn steps(plan: &Plan) -> String {
    let step = |step: &Step| match step {
        Step::Create(set) => vec![format!("create {}", set.replicas())],
        Step::Update(update) => {
            let name = &update.before.metadata.name;
            match update.scaled.as_slice() {
                [] => vec![format!("{name} noted")],
                scaled => scaled
                    .iter()
                    .map(|(from, to)| format!("{name} {from}->{to}"))
                    .collect(),
            }
        }
        Step::Delete(set) => vec![format!("delete {}", set.metadata.name)],
        Step::RollBack(back) => vec![format!("{}: {}", back.event_reason, back.message)],
    };
    let all: Vec<String> = plan.steps.iter().flat_map(step).collect();
    all.join(", ")
}

/// Plans and gives the steps in a line.
fn planned(text: &str) -> String {
    steps(&super::plan(&snapshot(text), now()))
}
