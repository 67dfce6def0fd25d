//! What daemon pods look like.

use api::Resource;
use api::kinds::{DaemonSet, Pod};
use expect_test::expect;
use serde_json::{Value, json};

use super::super::pods::{PodMaker, is_updated, template_generation};
use super::{daemon_set, pod, set};

// Upstream: TestReplaceDaemonSetPodNodeNameNodeAffinity, TestCreatePodTemplate.
#[test]
fn a_pod_is_meant_for_its_node_and_keeps_the_rest() {
    let mut json = daemon_set();
    json["metadata"]["uid"] = json!("u");
    json["metadata"]["annotations"] = json!({"deprecated.daemonset.template.generation": "7"});
    let spec = &mut json["spec"]["template"]["spec"];
    spec["tolerations"] = json!([
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        {"key": "mine"},
    ]);
    spec["affinity"] = json!({
        "podAffinity": {"x": 1},
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [],
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": []}]},
        },
    });
    let set = DaemonSet::decode(json.to_string().as_bytes()).unwrap();
    let made = PodMaker::new(&set, "hash").on("n1").to_string();
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    expect![[r#"{"app":"web","controller-revision-hash":"hash","pod-template-generation":"7"}"#]]
        .assert_eq(&made["metadata"]["labels"].to_string());
    expect![[r#"{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[],"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]}]}},"podAffinity":{"x":1}}"#]]
        .assert_eq(&made["spec"]["affinity"].to_string());
    let tolerations = made["spec"]["tolerations"].as_array().unwrap();
    let keys: Vec<String> = tolerations
        .iter()
        .map(|one| {
            let seconds = &one["tolerationSeconds"];
            format!("{}:{}:{seconds}", one["key"], one["effect"])
        })
        .collect();
    expect![[r#"
        "node.kubernetes.io/not-ready":"NoExecute":null
        "mine":null:null
        "node.kubernetes.io/unreachable":"NoExecute":null
        "node.kubernetes.io/disk-pressure":"NoSchedule":null
        "node.kubernetes.io/memory-pressure":"NoSchedule":null
        "node.kubernetes.io/pid-pressure":"NoSchedule":null
        "node.kubernetes.io/unschedulable":"NoSchedule":null"#]]
    .assert_eq(&keys.join("\n"));
}

// Upstream: TestGetTargetNodeName.
#[test]
fn a_pod_belongs_to_the_node_it_is_on_or_meant_for() {
    assert_eq!(pod("a@n1").target_node(), Some("n1"));
    assert_eq!(pod("a>n1").target_node(), Some("n1"));
    assert_eq!(pod("a@").target_node(), None);
    let with_affinity = |affinity: Value| {
        let pod = json!({"metadata": {"name": "a"}, "spec": {"affinity": affinity}});
        let pod = Pod::decode(pod.to_string().as_bytes()).unwrap();
        pod.target_node().map(str::to_string)
    };
    let required = |terms: Value| json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
    let field = |key: &str, operator: &str, values: Value| json!({"key": key, "operator": operator, "values": values});
    let name = "metadata.name";
    let terms = json!([
        {"matchExpressions": [field("k", "In", json!(["n0"]))]},
        {"matchFields": [field(name, "In", json!(["n1"]))]},
        {"matchFields": [field(name, "In", json!(["n2"]))]},
    ]);
    assert_eq!(with_affinity(required(terms)).as_deref(), Some("n1"));
    let two = json!([{"matchFields": [field(name, "In", json!(["n1", "n2"]))]}]);
    assert_eq!(with_affinity(required(two)), None);
    let not = json!([{"matchFields": [field(name, "NotIn", json!(["n1"]))]}]);
    assert_eq!(with_affinity(required(not)), None);
    assert_eq!(with_affinity(required(json!([]))), None);
    assert_eq!(with_affinity(json!({"nodeAffinity": {}})), None);
}

// Upstream: TestIsPodUpdated.
#[test]
fn either_mark_makes_a_pod_up_to_date() {
    let (by_hash, by_generation) = (pod("a@n1"), pod("a@n1:generation=3"));
    assert!(is_updated(&by_hash, "new", Some(9)));
    assert!(!is_updated(&by_hash, "other", None));
    assert!(!is_updated(&by_hash, "", None));
    assert!(is_updated(&by_generation, "new", Some(3)));
    assert!(!is_updated(&by_generation, "new", Some(4)));
    assert!(!is_updated(&by_generation, "new", None));
    assert_eq!(template_generation(&set("generation=3")), Some(3));
    assert_eq!(template_generation(&set("generation=x")), None);
}
