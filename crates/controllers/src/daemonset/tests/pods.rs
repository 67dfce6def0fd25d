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

// Upstream: TestReplaceDaemonSetPodNodeNameNodeAffinity.
#[test]
fn its_node_replaces_all_required_terms_and_nothing_else() {
    let affinity = |held: Value| {
        let mut set = daemon_set();
        set["metadata"]["uid"] = json!("u");
        if !held.is_null() {
            set["spec"]["template"]["spec"]["affinity"] = held;
        }
        let set = DaemonSet::decode(set.to_string().as_bytes()).unwrap();
        let made = PodMaker::new(&set, "").on("n1").to_string();
        let made: Value = serde_json::from_str(&made).unwrap();
        made["spec"]["affinity"].clone()
    };
    let meant = super::meant_for("n1");
    let required = |terms: Value| json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
    let one = |key: &str, operator: &str, values: Value| json!([{"key": key, "operator": operator, "values": values}]);
    let name = "metadata.name";
    let host = one("kubernetes.io/hostname", "In", json!(["n1"]));
    for held in [
        Value::Null,
        json!({}),
        json!({"nodeAffinity": {}}),
        required(json!([{"matchExpressions": host}])),
        required(json!([{"matchFields": one(name, "In", json!(["n1", "n2"]))}])),
        required(json!([
            {"matchExpressions": one("hostname", "In", json!(["n1"]))},
            {"matchFields": one(name, "In", json!(["n2"]))},
        ])),
        required(json!([{"matchFields": one(name, "NotIn", json!(["n2"]))}])),
        required(json!([{"matchFields": one("metadata.foo", "In", json!(["bar"]))}])),
    ] {
        assert_eq!(affinity(held.clone()), meant, "{held}");
    }
    let preferred = json!([{"weight": 1, "preference": {"matchExpressions": host}}]);
    let held =
        json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}});
    let mut expected = meant;
    expected["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = preferred;
    assert_eq!(affinity(held), expected);
}

// Upstream: TestCreatePodTemplate.
#[test]
fn a_pod_of_no_revision_has_its_template_generation_alone() {
    let made = PodMaker::new(&set("generation=1"), "").on("n1").to_string();
    let made: Value = serde_json::from_str(&made).unwrap();
    let expected = json!({"app": "web", "pod-template-generation": "1"});
    assert_eq!(made["metadata"]["labels"], expected);
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
    assert!(is_updated(&by_generation, "", Some(3)));
    let with = |labels: Value| {
        let pod = json!({"metadata": {"name": "a", "labels": labels}});
        Pod::decode(pod.to_string().as_bytes()).unwrap()
    };
    let both = with(json!({"controller-revision-hash": "new", "pod-template-generation": "3"}));
    for (hash, generation, expected) in [
        ("new", 3, true),
        ("other", 3, true),
        ("", 3, true),
        ("new", 4, true),
        ("other", 4, false),
    ] {
        assert_eq!(is_updated(&both, hash, Some(generation)), expected);
    }
    for labels in [json!({}), Value::Null] {
        assert!(!is_updated(&with(labels.clone()), "", Some(3)));
        assert!(!is_updated(&with(labels), "new", Some(3)));
    }
    assert_eq!(template_generation(&set("generation=3")), Some(3));
    assert_eq!(template_generation(&set("generation=x")), None);
}
