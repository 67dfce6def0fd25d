use std::collections::BTreeSet;

use api::Template;
use api::json::Node;
use serde_json::{Value, json};

use super::super::new_set::{body, build, name, unlabelled};
use super::snapshot;

fn template(labels: Value, image: &str) -> Template {
    let spec = json!({"containers": [{"name": "c", "image": image}]});
    let text = json!({"metadata": {"labels": labels}, "spec": spec});
    Template::parse(&text.to_string()).unwrap()
}

// Upstream: TestEqualIgnoreHash.
#[test]
fn templates_are_equal_whatever_the_hash_label_says() {
    let both_ways = |one: &Template, two: &Template| {
        let equal = one.same_meaning(two);
        assert_eq!(equal, two.same_meaning(one));
        equal
    };
    let equal = |one: Value, two: Value| both_ways(&template(one, "x"), &template(two, "x"));
    let hashed = |hash: &str| json!({"a": "b", "pod-template-hash": hash});
    assert!(equal(hashed("1"), hashed("1")));
    assert!(equal(hashed("1"), hashed("2")));
    assert!(equal(json!({"a": "b"}), hashed("2")));
    assert!(equal(json!({}), json!({"pod-template-hash": "1"})));
    assert!(!equal(json!({"a": "b"}), json!({"pod-template-hash": "1"})));
    assert!(!equal(json!({"pod-template-hash": "1"}), hashed("1")));
    assert!(!both_ways(
        &template(hashed("1"), "x"),
        &template(hashed("1"), "y")
    ));
    assert!(!both_ways(
        &template(json!({"a": "b"}), "x"),
        &template(hashed("2"), "y")
    ));
    // Names and annotations belong to the meaning.
    let with = |metadata: Value| {
        let text = json!({"metadata": metadata, "spec": {"nodeName": "n"}});
        Template::parse(&text.to_string()).unwrap()
    };
    for (one, two) in [
        (json!({"name": "a"}), json!({"name": "b"})),
        (
            json!({"annotations": {"a": "b"}}),
            json!({"annotations": {"c": "b"}}),
        ),
    ] {
        assert!(both_ways(&with(one.clone()), &with(one.clone())));
        assert!(!both_ways(&with(one), &with(two)));
    }
}

// Upstream: TestPodTemplateSpecHash.
#[test]
fn a_thousand_templates_have_a_thousand_hashes() {
    let hash = |version| template(json!({"a": "b"}), &format!("app:{version}")).short_hash(None);
    let hashes: BTreeSet<String> = (0..1000).map(hash).collect();
    assert_eq!(hashes.len(), 1000);
}

#[test]
fn collisions_change_name_labels_and_selector_alike() {
    let snapshot = snapshot("replicas=3 surge=1 |");
    let deployment = &*snapshot.deployment;
    let (first, second) = (
        build(deployment, None, 1, 2),
        build(deployment, Some(1), 1, 2),
    );
    assert_ne!(first.metadata.name, second.metadata.name);
    for set in [first, second] {
        let hash = set.metadata.labels.get("pod-template-hash").unwrap();
        assert_eq!(*set.metadata.name, name("web", hash));
        assert_eq!(set.spec.selector.match_labels, set.metadata.labels);
        assert_eq!(set.spec.template.labels(), &set.metadata.labels);
        assert!(set.spec.template.same_meaning(&deployment.spec.template));
    }
}

#[test]
fn what_we_do_not_know_in_a_template_survives_both_ways() {
    let mut snapshot = snapshot("replicas=3 |");
    let text = r#"{"metadata":{"labels":{"app":"web"},"newer":1.50},"spec":{"unheardOf":{"z":1,"a":[1e3]},"containers":[]}}"#;
    let deployment = std::sync::Arc::get_mut(&mut snapshot.deployment).unwrap();
    deployment.spec.template = Template::parse(text).unwrap();
    let set = build(deployment, None, 1, 3);
    assert_eq!(unlabelled(&set.spec.template).to_string(), text);
    let posted = body(&set);
    assert_eq!(
        posted
            .get(&["spec", "template", "spec", "unheardOf"])
            .map(Node::to_string),
        Some(r#"{"z":1,"a":[1e3]}"#.into())
    );
}
