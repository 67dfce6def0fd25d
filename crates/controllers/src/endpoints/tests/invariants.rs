//! What must be published is reckoned apart from the plan, and what differs from it is found.

use serde_json::{Value, json};

use super::super::invariants::published;
use super::plan::{decode, merge, snapshot, written};
use crate::service_endpoints::reckoning::{FullEndpoints, may_be_published};

/// What is said of what was planned, after `edit`; a pod without labels is selected by everybody.
fn verdict(patch: Value, pods: &str, edit: impl Fn(&mut Value)) -> String {
    let mut service = json!({"spec": {"selector": null}});
    merge(&mut service, &patch);
    let before = snapshot(service, pods);
    let mut object = written(&before);
    edit(&mut object);
    let held = decode::<FullEndpoints>(&object);
    let mut pods = before.pods.clone();
    pods.retain(|pod| may_be_published(&before.service, pod));
    let verdict = published(&before.service, &pods, Some(&held));
    verdict.err().unwrap_or_default()
}

fn ports(ports: Value) -> Value {
    json!({"spec": {"ports": ports}})
}

#[test]
fn what_is_planned_is_what_must_be_published() {
    let both = json!([
        {"name": "http", "protocol": "TCP", "targetPort": 8080},
        {"name": "web", "protocol": "TCP", "targetPort": "web"},
    ]);
    let services = [
        json!({}),
        ports(both.clone()),
        ports(json!([both[1]])),
        ports(json!([])),
        json!({"spec": {"ports": [], "clusterIP": "None"}}),
        json!({"spec": {"publishNotReadyAddresses": true}}),
        json!({"spec": {"ipFamilies": ["IPv6", "IPv4"]}}),
    ];
    let pods = "a:ready b c:ready,gone d:gone e:ready,port=web/81 f:port=web/82 g:Failed h:noip \
        i:ready,ip=10.1.0.1+fd00::1 j:ready,host=h";
    for service in services {
        assert_eq!(verdict(service.clone(), pods, |_| {}), "", "{service}");
    }
}

#[test]
fn what_is_published_otherwise_is_found() {
    let check = |edit: fn(&mut Value), expected: &str| {
        let found = verdict(json!({}), "a:ready b:ready c", edit);
        assert!(found.contains(expected) && !expected.is_empty(), "{found}");
    };
    let first = |it: &mut Value| it["subsets"][0]["addresses"][0].clone();
    check(|it| it["subsets"] = json!([]), "should say");
    check(
        |it| it["subsets"][0]["addresses"] = json!([it["subsets"][0]["addresses"][1]]),
        "should say",
    );
    check(
        |it| {
            let again = it["subsets"][0].clone();
            it["subsets"] = json!([again, again]);
        },
        "twice",
    );
    check(
        |it| {
            let subset = &mut it["subsets"][0];
            subset["addresses"] = subset["notReadyAddresses"].take();
        },
        "should say",
    );
    check(
        |it| it["subsets"][0]["ports"][0]["port"] = json!(1),
        "should say",
    );
    check(
        |it| it["subsets"][0]["addresses"][0]["nodeName"] = json!("n2"),
        "should say",
    );
    check(
        |it| it["metadata"]["labels"]["team"] = json!("b"),
        "have the labels",
    );
    check(
        |it| it["metadata"]["labels"]["endpoints.kubernetes.io/managed-by"] = json!("me"),
        "have the labels",
    );
    let foreign = verdict(json!({}), "a:ready", |it| {
        let mut address = first(it);
        address["ip"] = json!("10.9.9.9");
        let addresses = it["subsets"][0]["addresses"].as_array_mut().unwrap();
        addresses.push(address);
    });
    assert!(foreign.contains("and should not"), "{foreign}");
    let service = &snapshot(json!({}), "").service;
    let none = published(service, &[], None).unwrap_err();
    assert_eq!(none, "ns/web has no Endpoints");
}

#[test]
fn of_too_many_a_thousand_are_there_and_ready_ones_first() {
    let pods = |ready: usize, others: usize| {
        let ready = (0..ready).map(|number| format!("p{number}:ready"));
        let others = (0..others).map(|number| format!("q{}", 5000 + number));
        ready.chain(others).collect::<Vec<String>>().join(" ")
    };
    let keep = |_: &mut Value| {};
    for (ready, others) in [(1000, 0), (1100, 5), (990, 30), (1000, 1)] {
        assert_eq!(verdict(json!({}), &pods(ready, others), keep), "");
    }
    let unsaid = verdict(json!({}), &pods(1001, 0), |it| {
        it["metadata"]["annotations"] = json!({});
    });
    assert_eq!(unsaid, "ns/web: of 1001 addresses Endpoints say nothing");
    let claimed = verdict(json!({}), "a:ready", |it| {
        it["metadata"]["annotations"] =
            json!({"endpoints.kubernetes.io/over-capacity": "truncated"});
    });
    assert!(claimed.contains("that they are too many"), "{claimed}");
    let fewer = verdict(json!({}), &pods(1001, 0), |it| {
        it["subsets"][0]["addresses"].as_array_mut().unwrap().pop();
    });
    assert!(
        fewer.contains("have 999 ready addresses and 0 others"),
        "{fewer}"
    );
    let foreign = verdict(json!({}), &pods(1001, 0), |it| {
        it["subsets"][0]["addresses"][0]["ip"] = json!("10.9.9.9");
    });
    assert!(foreign.contains("and should not"), "{foreign}");
}
