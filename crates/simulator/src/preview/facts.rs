//! The objects at the end of a preview, and what they mean.

use std::collections::BTreeMap;

use api::Key;
use explain::{Decision, Decisions, Facts, Source};
use manager::built::decisions_about;
use serde_json::Value;

use super::run::Run;
use super::{rollout, state};

/// All objects that a report speaks of, as they are in the end.
pub(crate) struct Gathered {
    objects: Vec<Value>,
    pub(crate) events: Vec<Value>,
}

/// The text at a place of an object; empty where there is none.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Kinds beside the workloads that a report speaks of.
const OTHERS: [&str; 5] = [
    "Node",
    "ControllerRevision",
    "PersistentVolumeClaim",
    "PodDisruptionBudget",
    "ResourceQuota",
];

impl Gathered {
    pub(crate) async fn of(run: &Run) -> Gathered {
        let client = run.world.client("preview");
        let mut objects = Vec::new();
        for kind in rollout::KINDS.iter().chain(&OTHERS) {
            objects.extend(state::list(&client, &run.discovery, kind).await);
        }
        let events = state::list(&client, &run.discovery, "events").await;
        Gathered { objects, events }
    }

    pub(crate) fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> + Clone {
        self.objects
            .iter()
            .filter(move |object| object["kind"] == kind)
    }

    pub(crate) fn workloads(&self) -> impl Iterator<Item = &Value> + Clone {
        self.objects.iter().filter(|object| {
            let kind = object["kind"].as_str().unwrap_or_default();
            kind != "Pod" && rollout::KINDS.contains(&kind)
        })
    }

    pub(crate) fn find(&self, kind: &str, namespace: &str, name: &str) -> Option<&Value> {
        self.objects.iter().find(|object| {
            object["kind"] == kind
                && object["metadata"]["name"] == name
                && object["metadata"]["namespace"].as_str().unwrap_or_default() == namespace
        })
    }

    /// What the pods of the current template carry; `None` where the kind tells no templates apart.
    pub(crate) fn current_hash(&self, object: &Value) -> Option<String> {
        let label = |object: &Value, key: &str| {
            object["metadata"]["labels"][key]
                .as_str()
                .map(str::to_owned)
        };
        match object["kind"].as_str()? {
            "Deployment" => {
                let revision = |set: &&Value| {
                    let text = &set["metadata"]["annotations"]["deployment.kubernetes.io/revision"];
                    text.as_str()
                        .and_then(|text| text.parse::<i64>().ok())
                        .unwrap_or(0)
                };
                let newest = self.owned("ReplicaSet", object).max_by_key(revision)?;
                label(newest, "pod-template-hash")
            }
            "StatefulSet" => object["status"]["updateRevision"]
                .as_str()
                .map(str::to_owned),
            "DaemonSet" => {
                let revision = |one: &&Value| one["revision"].as_i64().unwrap_or(0);
                let newest = self
                    .owned("ControllerRevision", object)
                    .max_by_key(revision)?;
                label(newest, "controller-revision-hash")
            }
            _ => None,
        }
    }

    fn owned<'a>(&'a self, kind: &'a str, owner: &'a Value) -> impl Iterator<Item = &'a Value> {
        let uid = &owner["metadata"]["uid"];
        self.of_kind(kind).filter(move |object| {
            let owners = object["metadata"]["ownerReferences"].as_array();
            owners.is_some_and(|owners| owners.iter().any(|one| one["uid"] == *uid))
        })
    }

    /// Why a workload is as it is in the end.
    pub(crate) fn explain(&self, run: &Run, object: &Value) -> explain::Explanation {
        let namespace = &object["metadata"]["namespace"];
        let mut facts = Facts::new(run.end.time(), Source::Simulation, object.clone());
        let near = |other: &&Value| {
            other["metadata"]["namespace"] == *namespace
                && other["metadata"]["uid"] != object["metadata"]["uid"]
        };
        facts.related = self.objects.iter().filter(near).cloned().collect();
        facts.events.clone_from(&self.events);
        facts.decisions = decisions(
            run,
            std::iter::once(object).chain(self.owned("ReplicaSet", object)),
        );
        explain::explain(&facts)
    }
}

fn decisions<'a>(
    run: &Run,
    objects: impl Iterator<Item = &'a Value>,
) -> BTreeMap<String, Vec<Decisions>> {
    let text = |object: &Value, name: &str| {
        object["metadata"][name]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    objects
        .map(|object| {
            let (namespace, name) = (text(object, "namespace"), text(object, "name"));
            let kind = object["kind"].as_str().unwrap_or_default();
            let key = Key::new(&namespace, &name);
            let heard = decisions_about(&run.world.decisions, kind, &key);
            let told = heard.into_iter().map(|(controller, decisions)| Decisions {
                controller: controller.to_owned(),
                decisions: decisions.iter().map(translate).collect(),
            });
            (Facts::key(kind, &namespace, &name), told.collect())
        })
        .collect()
}

fn translate(decision: &runtime::decisions::Decision) -> Decision {
    Decision {
        at: decision.at,
        last_at: decision.last_at,
        count: decision.count,
        lines: decision.lines().map(str::to_owned).collect(),
        failure: decision.failure.as_deref().map(str::to_owned),
    }
}
