//! The invariants find what they are for.

use serde_json::json;

use super::super::invariants::{Published, converged, safe};
use super::case::{Case, case};

fn check(case: Case, expected: &str) {
    let found = converged(&case.snapshot).err().unwrap_or_default();
    assert_eq!(found, expected);
}

#[test]
fn each_endpoint_is_there_once_as_it_is_now() {
    check(case("a:ready b").slice("s", "a:ready b"), "");
    check(case("").slice("s", ""), "");
    check(case(""), "ns/web has no slice of IPv4");
    check(
        case("a:ready b").slice("s", "a:ready"),
        "ns/web: pod b has no endpoint of IPv4",
    );
    check(
        case("a").slice("s", "a:ready"),
        "ns/web: the endpoint of IPv4 of pod a is old",
    );
    let gone = "ns/web: 1 endpoints of IPv4 are of no pod, 1 of them ready";
    check(case("a").slice("s", "a b:ready"), gone);
    let twice = case("a").slice("s", "a").slice("t", "a");
    check(twice, "ns/web: an endpoint of IPv4 is there twice");
    let port = json!({"spec": {"ports": [{"name": "x", "protocol": "TCP", "targetPort": 1}]}});
    let other = case("a").slice("s", "a").service(port);
    check(
        other,
        "ns/web: the endpoint of IPv4 of pod a has other ports",
    );
    let large = case("a b c").slice("s", "a b c").most(2);
    check(large, "ns/web: slice s has 3 endpoints");
    let label = json!({"metadata": {"labels": {"foo": "bar"}}});
    check(
        case("").slice("s", "").service(label),
        "ns/web: slice s has other labels",
    );
    let namesake = json!({"metadata": {"uid": "u2"}});
    check(
        case("").slice("s", "").service(namesake),
        "ns/web: slice s is not of this service",
    );
}

#[test]
fn planning_again_changes_nothing() {
    let done = case("a:ready b c:ready,gone").slice("s", "a:ready b c:ready,gone");
    assert_eq!(done.to_text(), "nothing");
    assert!(converged(&done.snapshot).is_ok() && done.plan().is_nothing());
}

#[test]
fn nobody_sees_an_empty_set_between_two_full_ones() {
    let count = |text: &str| {
        let case = case("").slice("s", text);
        Published::of(case.snapshot.slices.iter().map(|slice| &**slice))
    };
    let (two, none) = (count("a:ready b:ready"), count("a b"));
    assert_eq!((two.ready, none.ready), (2, 0));
    assert!(safe(two, none, 1).is_err() && safe(two, none, 0).is_ok());
    assert!(safe(none, none, 1).is_ok() && safe(none, two, 1).is_ok() && safe(two, two, 2).is_ok());
}
