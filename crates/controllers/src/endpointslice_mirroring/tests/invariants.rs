//! What must be mirrored is reckoned apart from the plan, and what differs from it is found.

use std::sync::Arc;

use api::Resource;
use api::kinds::Endpoints;
use serde_json::{Value, json};

use super::super::invariants::mirrored;
use super::super::plan::{Snapshot, plan};
use super::plan::subsets;
use crate::service_endpoints::reckoning::{FullEndpoints, FullSlice};
use crate::service_endpoints::repack;

/// What is said of what was planned for these subsets, after `edit`.
fn verdict(text: &str, most: usize, edit: impl Fn(&mut Vec<Value>)) -> String {
    let metadata = json!({
        "name": "web", "namespace": "ns", "uid": "u1", "labels": {"team": "a"},
        "annotations": {"note": "a", "endpoints.kubernetes.io/last-change-trigger-time": "x"},
    });
    let object = json!({"metadata": metadata, "subsets": subsets(text)}).to_string();
    let endpoints = Endpoints::decode_in_full(object.as_bytes()).unwrap();
    let snapshot = Snapshot {
        subsets: repack(&endpoints.subsets().unwrap()),
        endpoints: &endpoints,
        slices: Vec::new(),
        max_addresses: most,
    };
    let plan = plan(&snapshot);
    let slice = |(number, mirror): (usize, &super::super::plan::Mirror<'_>)| {
        json!({
            "metadata": {
                "name": format!("s{number}"), "namespace": "ns", "labels": plan.labels,
                "annotations": plan.annotations,
                "ownerReferences": [{"apiVersion": "v1", "kind": "Endpoints", "name": "web", "uid": "u1"}],
            },
            "addressType": mirror.family.as_str(), "ports": mirror.ports, "endpoints": mirror.endpoints,
        })
    };
    let mut slices: Vec<Value> = plan.create.iter().enumerate().map(slice).collect();
    edit(&mut slices);
    let decode = |slice: &Value| Arc::new(FullSlice::decode(slice.to_string().as_bytes()).unwrap());
    let slices: Vec<Arc<FullSlice>> = slices.iter().map(decode).collect();
    let endpoints = FullEndpoints::decode(object.as_bytes()).unwrap();
    let verdict = mirrored(&endpoints, &slices, most);
    verdict.err().unwrap_or_default()
}

#[test]
fn what_is_planned_is_what_must_be_mirrored() {
    let keep = |_: &mut Vec<Value>| {};
    for text in [
        "",
        "10.0.0.1 -10.0.0.2 @80,81",
        "10.0.0.1 @80 | 10.0.0.1 -10.0.0.2 @81 | -10.0.0.1 @80",
        "10.0.0.1 fd00::1 -fd00::2 @80 | fd00::1",
        "10.0.0.1 10.0.0.2",
        "nonsense 10.0.0.1 @80",
    ] {
        assert_eq!(verdict(text, 1000, keep), "", "{text}");
        assert_eq!(verdict(text, 1, keep), "", "one address of {text}");
    }
}

#[test]
fn what_is_mirrored_otherwise_is_found() {
    let check = |edit: fn(&mut Vec<Value>), expected: &str| {
        let found = verdict("10.0.0.1 -10.0.0.2 @80 | fd00::1 @81", 1000, edit);
        assert!(found.contains(expected), "{found}");
    };
    check(Vec::clear, "should say");
    check(|it| drop(it.remove(0)), "should say");
    check(|it| it.push(it[0].clone()), "twice");
    check(
        |it| it[0]["endpoints"][1]["conditions"]["ready"] = json!(true),
        "should say",
    );
    check(|it| it[0]["ports"][0]["port"] = json!(1), "should say");
    check(
        |it| it[0]["endpoints"][0]["hostname"] = json!("h"),
        "has the endpoint",
    );
    check(
        |it| it[1]["addressType"] = json!("IPv4"),
        "has the endpoint",
    );
    check(
        |it| {
            let mut foreign = it[0]["endpoints"][0].clone();
            foreign["addresses"] = json!(["10.9.9.9"]);
            it[0]["endpoints"].as_array_mut().unwrap().push(foreign);
        },
        "and should not",
    );
    check(
        |it| {
            let mut foreign = it[0].clone();
            foreign["ports"][0]["port"] = json!(7);
            it.push(foreign);
        },
        "and should not",
    );
    check(
        |it| it[0]["metadata"]["labels"]["team"] = json!("b"),
        "has the labels",
    );
    check(
        |it| it[0]["metadata"]["annotations"]["note"] = json!("b"),
        "has the annotations",
    );
    check(
        |it| it[0]["metadata"]["ownerReferences"][0]["uid"] = json!("u2"),
        "has another owner",
    );
}

#[test]
fn of_too_many_ready_ones_are_mirrored_first() {
    let text = "10.0.0.1 -10.0.0.2 10.0.0.3 @80";
    assert_eq!(verdict(text, 2, |_| {}), "");
    let not_ready_first = verdict(text, 2, |it| {
        it[0]["endpoints"][1]["addresses"] = json!(["10.0.0.2"]);
        it[0]["endpoints"][1]["conditions"]["ready"] = json!(false);
    });
    assert!(not_ready_first.contains("should say"), "{not_ready_first}");
    let fewer = verdict(text, 2, |it| {
        it[0]["endpoints"].as_array_mut().unwrap().pop();
    });
    assert!(fewer.contains("should say"), "{fewer}");
}
