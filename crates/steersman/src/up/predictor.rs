//! What a preview of a rollout that is under way would have said before it began: the workload as it was is brought to
//! life on a cluster of its own, and the new one applied on top.
//!
//! Only what is in the workload counts. What its pods need from elsewhere (accounts, claims, keys of ConfigMaps) is taken
//! to be there: a preview on an empty cluster would wait for it for ever.

use std::sync::Arc;
use std::time::Duration;

use api::kinds::{DaemonSet, Deployment, StatefulSet};
use api::{Resource, ResourceType};
use controllers::discovery::Discovery;
use dashboard::Named;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::connect::Connection;

/// Predicts one rollout at a time.
pub(crate) struct Predictor {
    /// How many nodes there are; none where that is not known.
    nodes: Option<usize>,
    turn: Arc<Semaphore>,
}

/// A larger rollout is not predicted: the preview of it would take the processor from what it predicts.
const PODS_MAX: i64 = 200;

/// A controller that needs longer is held up, and what it does cannot be predicted anyway.
const OBSERVED_WITHIN: Duration = Duration::from_secs(2);
const OBSERVATIONS_MAX: u32 = 40;

/// How much time a rollout gets.
const LENGTH: Duration = Duration::from_secs(600);

impl Predictor {
    pub(crate) fn on(nodes: Option<usize>) -> Predictor {
        Predictor {
            nodes,
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    /// None where the rollout is too large, or not all of it may be read.
    pub(crate) async fn predict(
        &self,
        connection: &Connection,
        discovery: &Discovery,
        object: &Named,
    ) -> Option<Value> {
        let history = match object.kind.as_str() {
            kind if kind == Deployment::TYPE.kind => "replicasets",
            kind if kind == StatefulSet::TYPE.kind || kind == DaemonSet::TYPE.kind => {
                "controllerrevisions"
            }
            _ => return None,
        };
        let turn = self.turn.clone().acquire_owned().await.ok()?;
        let list = async |plural: &str| {
            let resource = discovery.named(plural)?;
            let found = connection.list(resource, &object.namespace, None).await;
            found.ok()
        };
        let resource = discovery.named(&object.kind)?;
        let found = observed(connection, resource, object).await?;
        if pods(&found) > PODS_MAX {
            return None;
        }
        let history = list(history).await?;
        let budgets = list("poddisruptionbudgets").await.unwrap_or_default();
        let before = before(&found, &history).into_iter();
        let budgets = budgets.iter().map(declared);
        let setup = preview::Setup {
            manifests: vec![manifest(self.prepared(declared(&found)))],
            state: before
                .map(|before| self.prepared(before))
                .chain(budgets)
                .map(manifest)
                .collect(),
            namespace: object.namespace.clone(),
            begin: connection.now().await,
            ready_after: Duration::ZERO,
            fail_images: Vec::new(),
            nodes: self.nodes_for(&found),
            node_config: None,
            stages: nodes::stages::Stages::default(),
            assumed: Vec::new(),
            length: LENGTH,
            missing: Vec::new(),
            from: String::new(),
            drain: Vec::new(),
            loads: Vec::new(),
        };
        let previewed = tokio::task::spawn_blocking(move || {
            let preview = preview::preview(&setup).ok();
            // Whoever asked may have gone away; the next one waits until this has ended all the same.
            drop(turn);
            preview
        });
        let preview = previewed.await.ok()??;
        // Nothing else was applied.
        let workload = preview.workloads.into_iter().next()?;
        Some(json!({
            "generation": found["metadata"]["generation"],
            "completes": workload.completes,
            "samples": workload.samples,
        }))
    }

    /// Without what its pods need from elsewhere; where the nodes are not known, they are taken to have room.
    fn prepared(&self, mut workload: Value) -> Value {
        const KEPT: [&str; 4] = [
            "containers",
            "initContainers",
            "restartPolicy",
            "terminationGracePeriodSeconds",
        ];
        if let Some(spec) = workload["spec"].as_object_mut() {
            spec.remove("volumeClaimTemplates");
        }
        let Some(pod) = workload["spec"]["template"]["spec"].as_object_mut() else {
            return workload;
        };
        pod.retain(|name, _| KEPT.contains(&name.as_str()));
        let lists = ["containers", "initContainers"].map(|name| pod.remove(name));
        for (name, containers) in ["containers", "initContainers"].into_iter().zip(lists) {
            let Some(mut containers) = containers else {
                continue;
            };
            for container in containers.as_array_mut().into_iter().flatten() {
                let Some(fields) = container.as_object_mut() else {
                    continue;
                };
                for field in ["env", "envFrom", "volumeMounts", "volumeDevices"] {
                    fields.remove(field);
                }
                if self.nodes.is_none() {
                    fields.remove("resources");
                }
            }
            pod.insert(name.to_owned(), containers);
        }
        workload
    }

    /// A DaemonSet has its pods on as many nodes as it says.
    fn nodes_for(&self, workload: &Value) -> Option<usize> {
        let is_daemon = workload["kind"] == *DaemonSet::TYPE.kind;
        match is_daemon {
            true => usize::try_from(pods(workload)).ok(),
            false => self.nodes,
        }
    }
}

/// The workload once its controller has seen the last change: before that nothing tells where its rollout begins.
async fn observed(
    connection: &Connection,
    resource: &ResourceType,
    object: &Named,
) -> Option<Value> {
    let mut found = Value::Null;
    for _ in 0..OBSERVATIONS_MAX {
        let read = connection.get(resource, &object.namespace, &object.name);
        found = read.await.ok()?;
        if found["status"]["observedGeneration"] == found["metadata"]["generation"] {
            break;
        }
        tokio::time::sleep(OBSERVED_WITHIN / OBSERVATIONS_MAX).await;
    }
    Some(found)
}

/// How many pods it asks for.
fn pods(workload: &Value) -> i64 {
    let number = |pointer: &str| workload.pointer(pointer).and_then(Value::as_i64);
    let wanted = number("/spec/replicas").or(number("/status/desiredNumberScheduled"));
    wanted.unwrap_or(1)
}

/// The workload before the change that rolls out: with the template of the pods that are not of the newest one, or, where
/// all are, with as many as are ready. None if it has no pods yet.
fn before(workload: &Value, history: &[Value]) -> Option<Value> {
    let uid = &workload["metadata"]["uid"];
    let is_own = |one: &&Value| one["metadata"]["ownerReferences"][0]["uid"] == *uid;
    let mut own: Vec<&Value> = history.iter().filter(is_own).collect();
    own.sort_by_key(|one| std::cmp::Reverse(revision(one)));
    let mut before = declared(workload);
    match template_before(workload, &own) {
        Some(mut template) => {
            if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
                labels.remove("pod-template-hash");
            }
            if let Some(fields) = template.as_object_mut() {
                fields.remove("$patch");
            }
            before["spec"]["template"] = template;
        }
        // The number of a DaemonSet's pods is that of its nodes.
        None if workload["kind"] == *DaemonSet::TYPE.kind => return None,
        None => {
            let ready = workload["status"]["readyReplicas"].as_i64().unwrap_or(0);
            if ready == 0 {
                return None;
            }
            before["spec"]["replicas"] = ready.into();
        }
    }
    Some(before)
}

/// The template of the pods that are not of the newest one; `own` has the newest revision first.
fn template_before(workload: &Value, own: &[&Value]) -> Option<Value> {
    let status = |field: &str| workload["status"][field].as_i64().unwrap_or(0);
    if workload["kind"] == *Deployment::TYPE.kind {
        let others = own.iter().skip(1);
        let most = others.max_by_key(|set| set["status"]["replicas"].as_i64().unwrap_or(0))?;
        let has_pods = most["status"]["replicas"].as_i64().unwrap_or(0) > 0;
        return has_pods.then(|| most["spec"]["template"].clone());
    }
    let is_rolling = match workload["kind"] == *DaemonSet::TYPE.kind {
        true => status("updatedNumberScheduled") < status("currentNumberScheduled"),
        false => workload["status"]["currentRevision"] != workload["status"]["updateRevision"],
    };
    let current = &workload["status"]["currentRevision"];
    let of_name = own.iter().find(|one| one["metadata"]["name"] == *current);
    let old = of_name.or(own.get(1)).filter(|_| is_rolling)?;
    Some(old["data"]["spec"]["template"].clone())
}

/// The revision of a ReplicaSet or a ControllerRevision.
fn revision(one: &Value) -> i64 {
    let noted = one["metadata"]["annotations"]["deployment.kubernetes.io/revision"].as_str();
    let noted = noted.and_then(|text| text.parse().ok());
    noted.or(one["revision"].as_i64()).unwrap_or(0)
}

/// What a user would have written.
fn declared(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"],
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "labels": metadata["labels"]},
        "spec": object["spec"],
    })
}

fn manifest(object: Value) -> preview::Manifest {
    preview::Manifest {
        file: "the cluster".to_owned(),
        line: 0,
        object,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(kind: &str, status: Value) -> Value {
        json!({"apiVersion": "apps/v1", "kind": kind,
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "generation": 2},
            "spec": {"replicas": 3, "template": {"spec": {"containers": [{"image": "web:3"}]}}},
            "status": status})
    }

    fn template(image: &str) -> Value {
        json!({"metadata": {"labels": {"app": "web", "pod-template-hash": "x"}},
            "spec": {"containers": [{"image": image}]}})
    }

    fn set(revision: &str, image: &str, replicas: i64) -> Value {
        json!({"metadata": {"annotations": {"deployment.kubernetes.io/revision": revision},
            "ownerReferences": [{"uid": "u"}]},
            "spec": {"template": template(image)}, "status": {"replicas": replicas}})
    }

    fn stored(name: &str, revision: i64, image: &str) -> Value {
        let mut template = template(image);
        template["$patch"] = "replace".into();
        json!({"metadata": {"name": name, "ownerReferences": [{"uid": "u"}]},
            "revision": revision, "data": {"spec": {"template": template}}})
    }

    fn image(before: Option<&Value>) -> &Value {
        &before.unwrap()["spec"]["template"]["spec"]["containers"][0]["image"]
    }

    #[test]
    fn a_rollout_is_predicted_from_the_template_that_has_pods() {
        let web = workload("Deployment", json!({"readyReplicas": 3}));
        let sets = [
            set("9", "web:2", 3),
            set("10", "web:3", 1),
            set("2", "web:1", 0),
        ];
        let before = super::before(&web, &sets);
        assert_eq!(image(before.as_ref()), "web:2");
        let labels = &before.unwrap()["spec"]["template"]["metadata"]["labels"];
        assert_eq!(labels, &json!({"app": "web"}));
    }

    #[test]
    fn a_change_of_the_number_of_pods_begins_with_those_that_are_ready() {
        let mut web = workload("Deployment", json!({"readyReplicas": 3}));
        web["spec"]["replicas"] = 10.into();
        let sets = [set("9", "web:2", 0), set("10", "web:3", 3)];
        let before = super::before(&web, &sets).unwrap();
        assert_eq!(before["spec"]["replicas"], 3);
        assert_eq!(image(Some(&before)), "web:3");
    }

    #[test]
    fn the_first_rollout_comes_from_nothing() {
        let web = workload("Deployment", json!({}));
        assert_eq!(super::before(&web, &[set("1", "web:3", 1)]), None);
        let agent = workload("DaemonSet", json!({"currentNumberScheduled": 0}));
        assert_eq!(super::before(&agent, &[stored("a", 1, "web:3")]), None);
    }

    #[test]
    fn sets_are_predicted_from_their_revisions() {
        let history = [
            stored("a", 1, "web:1"),
            stored("b", 2, "web:2"),
            stored("c", 3, "web:3"),
        ];
        let status = json!({"readyReplicas": 3, "currentRevision": "a", "updateRevision": "c"});
        let before = super::before(&workload("StatefulSet", status), &history);
        assert_eq!(image(before.as_ref()), "web:1");
        assert!(before.unwrap()["spec"]["template"]["$patch"].is_null());
        let status = json!({"currentNumberScheduled": 3, "updatedNumberScheduled": 1});
        let before = super::before(&workload("DaemonSet", status), &history);
        assert_eq!(image(before.as_ref()), "web:2");
    }

    #[test]
    fn what_pods_need_from_elsewhere_is_taken_to_be_there() {
        let mut web = workload("Deployment", json!({}));
        web["spec"]["template"]["spec"] = json!({
            "serviceAccountName": "web", "volumes": [{"name": "v"}], "terminationGracePeriodSeconds": 5,
            "containers": [{"image": "web:3", "envFrom": [{}], "volumeMounts": [{"name": "v"}], "resources": {"requests": {"cpu": "4"}}}],
        });
        let prepared = |nodes| {
            Predictor::on(nodes).prepared(declared(&web))["spec"]["template"]["spec"].clone()
        };
        assert_eq!(
            prepared(None),
            json!({"terminationGracePeriodSeconds": 5, "containers": [{"image": "web:3"}]})
        );
        assert_eq!(
            prepared(Some(3))["containers"][0]["resources"]["requests"]["cpu"],
            "4"
        );
    }
}
