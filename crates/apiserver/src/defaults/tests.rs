use serde_json::{Value, json};

use super::*;
use crate::kinds::Registry;

fn defaulted(mut object: Value) -> Value {
    let registry = Registry::default();
    let kind = registry
        .kind(
            object["apiVersion"].as_str().unwrap(),
            object["kind"].as_str().unwrap(),
        )
        .unwrap();
    apply(kind, &mut object);
    object
}

#[test]
fn types_are_defaulted_wherever_they_occur() {
    let container = json!({"name": "c", "image": "a:1", "livenessProbe": {"httpGet": {"port": 1}}});
    let spec = json!({"containers": [container]});
    let job = defaulted(
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": {"spec": spec}}}}}),
    );
    let inner = &job["spec"]["jobTemplate"]["spec"]["template"]["spec"];
    assert_eq!(
        inner["containers"][0]["livenessProbe"]["httpGet"],
        json!({"port": 1, "path": "/", "scheme": "HTTP"})
    );
    assert_eq!(inner["dnsPolicy"], "ClusterFirst");
    // A pod's own defaults are not for templates.
    assert!(inner.get("enableServiceLinks").is_none());
}

#[test]
fn images_without_a_fixed_tag_are_pulled_always() {
    for (image, policy) in [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1", "IfNotPresent"),
        ("host:5000/nginx", "Always"),
        ("host:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:0", "IfNotPresent"),
        ("nginx:latest@sha256:0", "Always"),
        ("", "IfNotPresent"),
    ] {
        let pod = defaulted(
            json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"image": image}]}}),
        );
        assert_eq!(
            pod["spec"]["containers"][0]["imagePullPolicy"], policy,
            "{image}"
        );
    }
}

#[test]
fn what_was_given_stays() {
    let given = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 0, "revisionHistoryLimit": 0,
        "progressDeadlineSeconds": 1, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}});
    assert_eq!(defaulted(given.clone()), given);
}

#[test]
fn defaulting_twice_changes_nothing_more() {
    let corpus: Vec<Value> =
        serde_json::from_str(include_str!("../../testdata/created.json")).unwrap();
    for case in corpus {
        let once = defaulted(case["sent"].clone());
        assert_eq!(defaulted(once.clone()), once);
    }
}

#[test]
fn amounts_finer_than_a_thousandth_are_rounded_up() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"resources": {"limits": {"cpu": "100u"}}}]}});
    let resources = &defaulted(pod)["spec"]["containers"][0]["resources"];
    assert_eq!(
        resources,
        &json!({"limits": {"cpu": "1m"}, "requests": {"cpu": "1m"}})
    );
}
