//! Old and new lists of many items are compared: each item searched for among all others would take minutes to hours.

use serde_json::json;

use super::*;
use crate::kinds;

const COUNT: usize = 30_000;

fn items(item: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..COUNT).map(item).collect()
}

fn reversed(object: &Value, path: &str) -> Value {
    let mut object = object.clone();
    crate::fields::list_mut(&mut object, path)
        .unwrap()
        .reverse();
    object
}

fn messages(causes: &[Cause]) -> Vec<&str> {
    causes.iter().map(|cause| cause.message.as_str()).collect()
}

fn container(name: String) -> Value {
    json!({"name": name, "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"})
}

fn pod(spec: Value) -> Value {
    let mut pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    crate::fields::object_mut(&mut pod, "spec").extend(spec.as_object().unwrap().clone());
    pod
}

#[test]
fn finalizers_of_an_object_that_is_being_deleted() {
    let kind = kinds::find("", "ConfigMap").unwrap();
    let finalizers = items(|number| format!("example.com/{number}").into());
    let old = json!({"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers}});
    let mut new = reversed(&old, "metadata.finalizers");
    assert!(update(kind, &new, &old, Gates::default()).is_empty());
    new["metadata"]["finalizers"][0] = json!("example.com/new");
    let causes = update(kind, &new, &old, Gates::default());
    assert!(messages(&causes)[0].ends_with("found new finalizers []string{\"example.com/new\"}"));
}

#[test]
fn tolerations_and_scheduling_gates_of_a_pod() {
    let kind = kinds::find("", "Pod").unwrap();
    let said = |new: &Value, old: &Value, words: &str| {
        let causes = update(kind, new, old, Gates::default());
        messages(&causes)
            .iter()
            .any(|message| message.contains(words))
    };
    let tolerations = items(|number| json!({"key": format!("k{number}"), "operator": "Exists"}));
    let old = pod(json!({"tolerations": tolerations}));
    let mut new = reversed(&old, "spec.tolerations");
    assert!(!said(&new, &old, "existing toleration"));
    new["spec"]["tolerations"][0]["tolerationSeconds"] = json!(1);
    assert!(said(&new, &old, "existing toleration can not be modified"));
    let old =
        pod(json!({"schedulingGates": items(|number| json!({"name": format!("g{number}")}))}));
    let mut new = reversed(&old, "spec.schedulingGates");
    assert!(!said(&new, &old, "new scheduling gate"));
    new["spec"]["schedulingGates"][0]["name"] = json!("new");
    assert!(said(&new, &old, "but found new scheduling gate 'new'"));
}

#[test]
fn seconds_of_a_toleration_of_evictions_may_change() {
    let kind = kinds::find("", "Pod").unwrap();
    let tolerating = |effect: &str, seconds: i64| {
        pod(
            json!({"tolerations": [{"key": "k", "operator": "Exists", "effect": effect, "tolerationSeconds": seconds}]}),
        )
    };
    for (effect, is_free) in [("NoExecute", true), ("NoSchedule", false)] {
        let causes = update(
            kind,
            &tolerating(effect, 2),
            &tolerating(effect, 1),
            Gates::default(),
        );
        let is_refused = messages(&causes)
            .iter()
            .any(|message| message.contains("existing toleration"));
        assert_eq!(is_refused, !is_free, "{effect}");
    }
}

#[test]
fn spread_constraints_of_a_pod() {
    let kind = kinds::find("", "Pod").unwrap();
    let mut constraints = items(
        |number| json!({"maxSkew": 1, "topologyKey": format!("k{number}"), "whenUnsatisfiable": "DoNotSchedule"}),
    );
    constraints[COUNT - 1] = constraints[0].clone();
    let pod = pod(json!({"topologySpreadConstraints": constraints}));
    let causes = create(kind, &pod, Gates::default());
    let repeated: Vec<&Cause> = causes
        .iter()
        .filter(|cause| cause.reason == "FieldValueDuplicate")
        .collect();
    assert_eq!(repeated.len(), 1);
    let first = "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}";
    assert_eq!(repeated[0].field, first);
}

#[test]
fn containers_and_their_states() {
    let kind = kinds::find("", "Pod").unwrap();
    let containers = items(|number| container(format!("c{number}")));
    let added = items(|number| container(format!("e{number}")));
    let ended = json!({"terminated": {"exitCode": 0}});
    let statuses = items(|number| json!({"name": format!("c{number}"), "state": ended}));
    let mut old = pod(json!({"restartPolicy": "Never", "ephemeralContainers": added}));
    old["spec"]["containers"] = json!(containers);
    old["status"] = json!({"containerStatuses": statuses, "ephemeralContainerStatuses": statuses});
    let mut new = reversed(&old, "status.containerStatuses");
    let causes = status_update(kind, &new, &old, 0);
    assert_eq!(messages(&causes), [""; 0]);
    new["status"]["containerStatuses"][0]["state"] = json!({"running": {}});
    crate::fields::list_mut(&mut new, "spec.ephemeralContainers")
        .unwrap()
        .pop();
    let causes = status_update(kind, &new, &old, 0);
    let said = messages(&causes).join("\n");
    for words in [
        "may not be transitioned to non-terminated state",
        "existing ephemeral containers \"e29999\" may not be removed",
    ] {
        assert!(said.contains(words), "{words}");
    }
}

#[test]
fn claims_and_volumes_of_a_stateful_set() {
    let kind = kinds::find("apps", "StatefulSet").unwrap();
    let claims = items(|number| {
        json!({"metadata": {"name": format!("v{number}")},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}})
    });
    let volumes = items(|number| json!({"name": format!("w{number}"), "emptyDir": {}}));
    let set = json!({"metadata": {"name": "s"}, "spec": {"serviceName": "s", "selector": {"matchLabels": {"a": "b"}},
        "volumeClaimTemplates": claims, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
            "volumes": volumes, "containers": [{"name": "c", "image": "i", "volumeMounts": [
                {"name": "v7", "mountPath": "/v"}, {"name": "w7", "mountPath": "/w"}, {"name": "x", "mountPath": "/x"}]}]}}}});
    let causes = create(kind, &set, Gates::default());
    let missing = causes
        .iter()
        .filter(|cause| cause.reason == "FieldValueNotFound");
    let missing: Vec<&str> = missing.map(|cause| cause.message.as_str()).collect();
    assert_eq!(missing, ["Not found: \"x\""]);
}

#[test]
fn rules_for_failures_of_a_job() {
    let kind = kinds::find("batch", "Job").unwrap();
    let name = |number: usize| format!("c{number}");
    let rules = items(
        |number| json!({"action": "Ignore", "onExitCodes": {"containerName": name(COUNT - number), "operator": "In", "values": [1]}}),
    );
    let containers = items(|number| container(name(number)));
    let job = json!({"metadata": {"name": "j"}, "spec": {"podFailurePolicy": {"rules": rules}, "template": {"spec": {
        "restartPolicy": "Never", "containers": containers}}}});
    let causes = create(kind, &job, Gates::default());
    let strange = causes
        .iter()
        .filter(|cause| cause.message.contains("must be one of the container"));
    assert_eq!(strange.count(), 1);
}

#[test]
fn conditions_of_a_certificate_request() {
    let conditions = items(|number| json!({"type": format!("T{number}"), "status": "True"}));
    let old = json!({"metadata": {"name": "r"}});
    let mut new = json!({"metadata": {"name": "r"}, "status": {"conditions": conditions}});
    assert!(approval_update(&new, &old).is_empty());
    new["status"]["conditions"][COUNT - 1]["type"] = json!("T0");
    new["status"]["conditions"][1]["type"] = json!("Denied");
    new["status"]["conditions"][2]["type"] = json!("Approved");
    let causes = approval_update(&new, &old);
    assert_eq!(
        messages(&causes),
        [
            "Invalid value: \"Approved\": Approved and Denied conditions are mutually exclusive",
            "Duplicate value: \"T0\"",
        ]
    );
}

#[test]
fn external_addresses_of_a_service() {
    let kind = kinds::find("", "Service").unwrap();
    let addresses = items(|number| {
        format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255).into()
    });
    let old = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}], "externalIPs": addresses}});
    let mut new = reversed(&old, "spec.externalIPs");
    let said = |new: &Value| {
        let causes = update(kind, new, &old, Gates::default());
        let causes = causes
            .iter()
            .filter(|cause| cause.field.starts_with("spec.externalIPs"));
        causes.count()
    };
    assert_eq!(said(&new), 0);
    new["spec"]["externalIPs"][5] = json!("010.0.0.1");
    assert_eq!(said(&new), 1);
}

#[test]
fn an_object_of_rubbish_has_a_thousand_faults() {
    let kind = kinds::find("", "Pod").unwrap();
    let pod = pod(json!({"containers": vec![json!({}); COUNT]}));
    let causes = create(kind, &pod, Gates::default());
    assert_eq!(causes.len(), 1000);
}
