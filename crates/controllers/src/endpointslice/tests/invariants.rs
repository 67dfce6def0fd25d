//! The invariants find what they are for.

use serde_json::json;

use super::case::{Case, case};

/// `expected` is how what is found begins after the name of the service.
fn check(case: Case, expected: &str) {
    let found = case.check_published().err().unwrap_or_default();
    let found = found.trim_start_matches("ns/web").trim_start_matches(": ");
    let is_it = found.starts_with(expected) && found.is_empty() == expected.is_empty();
    assert!(is_it, "{found}");
}

#[test]
fn each_endpoint_is_there_once_as_it_is_now() {
    check(case("a:ready b").slice("s", "a:ready b"), "");
    check(case("a:ready b").slice("s", "a:ready").slice("t", "b"), "");
    check(case("").slice("s", ""), "");
    check(case(""), " has no slice of IPv4");
    let endpoint = |text: &str| format!("slices of IPv4 {text} (FullEndpoint {{ addresses: ");
    let missing = |ip: &str| format!("{}[\"{ip}\"]", endpoint("should say"));
    let foreign = |ip: &str| format!("{}[\"{ip}\"]", endpoint("say"));
    let lacks = case("a:ready b").slice("s", "a:ready");
    check(lacks, &missing("10.0.0.2"));
    check(case("a").slice("s", "a:ready"), &missing("10.0.0.1"));
    check(case("a").slice("s", "a b:ready"), &foreign("10.0.0.2"));
    let twice = case("a").slice("s", "a").slice("t", "a");
    check(twice, &foreign("10.0.0.1"));
    let moved = case("a:@na").slice("s", "a:@nb");
    check(moved, &missing("10.0.0.1"));
    let named = case("a:host=h").slice("s", "a");
    check(named, &missing("10.0.0.1"));
    let leaving = case("a:ready,gone").slice("s", "a:ready");
    check(leaving, &missing("10.0.0.1"));
    let without_node = case("a:ready,@nz").slice("s", "a:ready,@nz");
    check(without_node, &foreign("10.0.0.1"));
    let namesake = case("a:uid=2").slice("s", "a:uid=1");
    check(namesake, &missing("10.0.0.1"));
}

#[test]
fn each_slice_is_of_the_service_and_has_its_ports() {
    let port = json!({"spec": {"ports": [{"name": "x", "protocol": "TCP", "targetPort": 1}]}});
    let other = case("a").slice("s", "a").service(port);
    check(other, "slices of IPv4 should say");
    let by_name = json!({"name": "web", "protocol": "TCP", "targetPort": "web"});
    let by_name = json!({"spec": {"ports": [by_name]}});
    let named = case("a:port=web/81 b").service(by_name);
    let apart = named.slice("s", "a:port=web/81").slice("t", "b");
    check(apart, "");
    let large = case("a b c").slice("s", "a b c").most(2);
    check(large, "slice s has 3 endpoints");
    let label = json!({"metadata": {"labels": {"foo": "bar"}}});
    let relabelled = case("").slice("s", "").service(label);
    check(relabelled, "slice s has the labels");
    let namesake = json!({"metadata": {"uid": "u2"}});
    let old = case("").slice("s", "").service(namesake);
    check(old, "slice s is not of this service");
    let both = json!({"spec": {"ipFamilies": ["IPv4", "IPv6"]}});
    let half = case("a").slice("s", "a").service(both.clone());
    check(half, " has no slice of IPv6");
    let ips = "a:ip=10.0.0.1+fd00::1";
    let second = json!({
        "addressType": "IPv6",
        "endpoints": [{
            "addresses": ["fd00::1"], "conditions": {"ready": false, "serving": false, "terminating": false},
            "nodeName": "n1", "targetRef": {"kind": "Pod", "namespace": "ns", "name": "a", "uid": "uid-a"},
        }],
    });
    let whole = case(ips).slice("s", ips).slice_with("t", ips, second);
    check(whole.service(both), "");
    let family = json!({"spec": {"ipFamilies": ["IPv6"]}});
    let other_family = case("").slice("s", "").service(family);
    check(other_family, "slice s is not of this service");
}

#[test]
fn planning_again_changes_nothing() {
    let done = case("a:ready b c:ready,gone").slice("s", "a:ready b c:ready,gone");
    assert_eq!(done.to_text(), "nothing");
    assert!(done.check_published().is_ok() && done.plan().is_nothing());
}
