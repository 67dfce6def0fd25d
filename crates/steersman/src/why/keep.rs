//! What is kept of the objects that an explanation reads. A workload may have thousands of pods and each of them a handful
//! of events, of which few say why anything is as it is; read whole they take fifty times what they take on the wire.

use std::collections::BTreeSet;

use explain::Facts;
use serde::Deserialize;
use serde_json::{Value, json};

use super::gather::text;

/// An object as explanations need it: who wrote which field is none of their business.
pub(super) fn object(item: &[u8]) -> Option<Value> {
    let mut object: Value = serde_json::from_slice(item).ok()?;
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    Some(object)
}

/// An object with the keys of its data and none of the values: some are secret.
pub(super) fn without_values(mut object: Value) -> Value {
    for part in ["data", "binaryData"] {
        for value in object[part].as_object_mut().into_iter().flatten() {
            *value.1 = Value::Null;
        }
    }
    object
}

/// A pod of a workload. One that is ready and has never failed only counts: as such a pod, on its node, with its labels.
pub(super) fn pod_of_workload(item: &[u8]) -> Option<Value> {
    let mut pod = object(item)?;
    if !is_at_work(&pod) {
        return Some(pod);
    }
    let mut kept = json!({"metadata": {}, "spec": {}, "status": {}});
    let fields = [
        (
            "metadata",
            &[
                "name",
                "namespace",
                "uid",
                "labels",
                "ownerReferences",
                "creationTimestamp",
            ][..],
        ),
        ("spec", &["nodeName"]),
        ("status", &["phase", "conditions", "startTime"]),
    ];
    for (part, names) in fields {
        for name in names {
            if let Some(value) = pod[part].as_object_mut().and_then(|all| all.remove(*name)) {
                kept[part][*name] = value;
            }
        }
    }
    // Since when it is ready, and whether it is about to go: nothing else is asked of its conditions.
    if let Some(conditions) = kept["status"]["conditions"].as_array_mut() {
        conditions.retain(|one| one["type"] == "Ready" || one["type"] == "DisruptionTarget");
    }
    Some(kept)
}

/// A pod behind a Service. One at work counts, by its addresses and by the names of its ports.
pub(super) fn pod_behind_service(item: &[u8]) -> Option<Value> {
    let mut pod = object(item)?;
    if !is_at_work(&pod) {
        return Some(pod);
    }
    let ports = |container: &Value| json!({"name": container["name"], "ports": container["ports"]});
    let mut kept = pod_of_workload(item)?;
    for list in ["containers", "initContainers"] {
        let containers = pod["spec"][list].as_array();
        if let Some(containers) = containers {
            kept["spec"][list] = containers.iter().map(ports).collect();
        }
    }
    for field in ["podIP", "podIPs"] {
        kept["status"][field] = pod["status"][field].take();
    }
    Some(kept)
}

/// A pod of a workload that may be why that is not settled: one at work is not.
pub(super) fn pod_that_may_be_why(item: &[u8]) -> Option<Value> {
    let pod = object(item)?;
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let is_to_go = conditions.any(|one| one["type"] == "DisruptionTarget");
    (is_to_go || !is_at_work(&pod)).then_some(pod)
}

/// The events that tell something of the facts: about the object and what has to do with it, but for pods that are at
/// work. A quota is told of by the events of whoever it refused, which may be anybody.
pub(super) struct Events(Option<BTreeSet<(String, String)>>);

impl Events {
    pub(super) fn about(facts: &Facts) -> Events {
        if explain::kind_of(&facts.object) == "ResourceQuota" {
            return Events(None);
        }
        let related = facts.related.iter();
        let related =
            related.filter(|object| explain::kind_of(object) != "Pod" || !is_at_work(object));
        let name = |object: &Value| {
            let of = |pointer: &str| text(object, pointer).to_owned();
            (of("/kind"), of("/metadata/name"))
        };
        let all = std::iter::once(&facts.object).chain(related);
        Events(Some(all.map(name).collect()))
    }

    pub(super) fn keep(&self, item: &[u8]) -> Option<Value> {
        #[derive(Deserialize)]
        struct Event {
            #[serde(rename = "involvedObject")]
            about: About,
        }
        #[derive(Deserialize)]
        struct About {
            #[serde(default)]
            kind: String,
            #[serde(default)]
            name: String,
        }
        if let Some(wanted) = &self.0 {
            let Event { about } = serde_json::from_slice(item).ok()?;
            if !wanted.contains(&(about.kind, about.name)) {
                return None;
            }
        }
        object(item)
    }
}

/// Is the pod ready, not on its way out, and was none of its containers ever restarted?
fn is_at_work(pod: &Value) -> bool {
    let list = |pointer: &str| pod.pointer(pointer).and_then(Value::as_array);
    let is_ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
    let conditions = list("/status/conditions");
    let containers = list("/status/containerStatuses");
    let mut containers = containers.into_iter().flatten();
    conditions.is_some_and(|all| all.iter().any(is_ready))
        && pod["metadata"]["deletionTimestamp"].is_null()
        && containers.all(|one| one["restartCount"].as_i64().unwrap_or(0) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, ready: &str, restarts: i64) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "uid": name, "labels": {"app": "web"}, "managedFields": [{"manager": "x"}]},
            "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
            "status": {
                "phase": "Running", "conditions": [{"type": "Ready", "status": ready}], "podIP": "10.0.0.1",
                "containerStatuses": [{"name": "c", "restartCount": restarts}],
            },
        })
    }

    #[test]
    fn pods_at_work_are_kept_as_what_they_count_for() {
        let kept = |pod: &Value| pod_of_workload(pod.to_string().as_bytes()).unwrap();
        let mut at_work = pod("a", "True", 0);
        let conditions = at_work["status"]["conditions"].as_array_mut().unwrap();
        conditions.push(json!({"type": "PodScheduled", "status": "True"}));
        assert_eq!(
            kept(&at_work),
            json!({
                "metadata": {"name": "a", "uid": "a", "labels": {"app": "web"}}, "spec": {"nodeName": "n1"},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
            })
        );
        for told in [
            pod("b", "False", 0),
            pod("c", "True", 1),
            with_deletion(pod("d", "True", 0)),
        ] {
            let mut expected = told.clone();
            expected["metadata"]
                .as_object_mut()
                .unwrap()
                .remove("managedFields");
            assert_eq!(kept(&told), expected);
        }
    }

    #[test]
    fn pods_behind_a_service_keep_their_addresses_and_ports() {
        let mut at_work = pod("a", "True", 0);
        at_work["spec"]["containers"][0]["ports"] = json!([{"name": "web", "containerPort": 80}]);
        at_work["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "a"}]);
        let kept = pod_behind_service(at_work.to_string().as_bytes()).unwrap();
        assert_eq!(kept["status"]["podIP"], "10.0.0.1");
        assert_eq!(
            kept["spec"]["containers"],
            json!([{"name": "c", "ports": [{"name": "web", "containerPort": 80}]}])
        );
        let unready = pod("b", "False", 0);
        let kept = pod_behind_service(unready.to_string().as_bytes()).unwrap();
        assert_eq!(kept["status"], unready["status"]);
    }

    #[test]
    fn pods_at_work_are_not_why_a_workload_waits() {
        let is_kept = |pod: &Value| pod_that_may_be_why(pod.to_string().as_bytes()).is_some();
        assert!(!is_kept(&pod("a", "True", 0)));
        assert!(is_kept(&pod("b", "False", 0)));
        assert!(is_kept(&pod("c", "True", 1)));
        assert!(is_kept(&with_deletion(pod("d", "True", 0))));
        let mut to_go = pod("e", "True", 0);
        let conditions = to_go["status"]["conditions"].as_array_mut().unwrap();
        conditions.push(json!({"type": "DisruptionTarget", "status": "True"}));
        assert!(is_kept(&to_go));
    }

    fn with_deletion(mut pod: Value) -> Value {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        pod
    }

    fn version(kind: &str) -> &str {
        match kind {
            "Deployment" => "apps/v1",
            "ResourceQuota" => "v1",
            _ => "example.com/v1",
        }
    }

    #[test]
    fn events_of_others_and_of_pods_at_work_are_passed_over() {
        let object = |kind: &str| json!({"apiVersion": version(kind), "kind": kind, "metadata": {"name": "web"}});
        let about = |kind: &str| {
            let source = explain::Source::Simulation;
            let mut facts = Facts::new(api::Time::default(), source, object(kind));
            facts.related = vec![pod("a", "True", 0), pod("b", "False", 0)];
            let events = Events::about(&facts);
            let of = |kind: &str, name: &str| {
                let event = json!({"metadata": {}, "involvedObject": {"kind": kind, "name": name}});
                events.keep(event.to_string().as_bytes()).is_some()
            };
            [
                of("Deployment", "web"),
                of("Pod", "a"),
                of("Pod", "b"),
                of("Job", "web"),
            ]
        };
        assert_eq!(about("Deployment"), [true, false, true, false]);
        assert_eq!(about("Widget"), [false, false, true, false]);
        assert_eq!(about("ResourceQuota"), [true; 4]);
    }
}
