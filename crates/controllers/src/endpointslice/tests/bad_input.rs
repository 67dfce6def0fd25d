//! What nobody should send, and somebody does: never a panic, and the right slices at rest.

use std::sync::Arc;

use expect_test::expect;
use serde_json::{Value, json};

use super::case::{case, decode, pod};

#[test]
fn malformed_addresses_and_those_of_another_family_are_left_out() {
    case("a:ready,ip=nonsense b:ready,ip=10.0.0.300 c:ready,ip= d:ready,ip=fd00::1 e:ready,ip=x+10.0.0.7")
        .check(expect!["create [e]"]);
    case("a:ready,ip=::ffff:10.0.0.1").check(expect!["create [a]"]);
}

#[test]
fn a_hundred_ports_are_a_hundred_ports_also_if_names_are_there_twice() {
    let ports: Vec<Value> = (0..100)
        .map(|number| json!({"name": format!("p{}", number % 50), "protocol": "TCP", "targetPort": number}))
        .collect();
    let case = case("a:ready b:ready").service(json!({"spec": {"ports": ports}}));
    let plan = case.plan();
    assert_eq!(plan.families[0].create.len(), 1);
    assert_eq!(plan.families[0].create[0].ports.len(), 100);
}

#[test]
fn ten_thousand_pods_are_a_hundred_slices() {
    let pods: Vec<String> = (1..=10_000)
        .map(|number| format!("p{number}:ready"))
        .collect();
    let case = case(&pods.join(" "));
    let plan = case.plan();
    assert_eq!(plan.families[0].create.len(), 100);
    assert!(
        plan.families[0]
            .create
            .iter()
            .all(|draft| draft.members.len() == 100)
    );
}

#[test]
fn edited_slices_are_repaired() {
    case("a:ready b:ready")
        .slice("s", "a:ready a:ready b c:ready")
        .check(expect!["update s[a b]"]);
    case("a:ready")
        .slice("s", "a:ready")
        .slice("t", "a:ready")
        .check(expect!["delete t"]);
    let ports = json!({"ports": [{"name": "http", "port": 1, "protocol": "TCP"}]});
    case("a:ready")
        .slice_with("s", "a:ready", ports)
        .check(expect!["replace s[a]"]);
    let bare = json!({"ports": null, "endpoints": [{"addresses": []}, {}]});
    case("a:ready")
        .slice_with("s", "", bare)
        .check(expect!["replace s[a]"]);
    let labels = json!({"metadata": {"labels": {"mine": "x"}}});
    case("a:ready")
        .slice_with("s", "a:ready", labels)
        .check(expect!["update s[a]"]);
}

#[test]
fn nodes_without_zones_give_no_hints_and_no_trouble() {
    let prefer = json!({"spec": {"trafficDistribution": "PreferSameZone"}});
    case("a:ready b:ready,@na")
        .service(prefer)
        .check(expect!["create [a b>za]"]);
}

#[test]
fn odd_objects_decode_to_something_harmless() {
    for service in [
        json!({}),
        json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}}}),
        json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{}], "ipFamilies": [""]}}),
    ] {
        let mut case = case("a:ready b");
        case.snapshot.service = Arc::new(decode(&service));
        let plan = case.plan();
        assert!(!plan.families.is_empty());
    }
    let odd = pod("a:ready,@");
    let mut case = case("");
    case.snapshot.pods = vec![odd];
    case.snapshot.max_endpoints = 1;
    assert_eq!(case.to_text(), "create [:]", "a pod without a node");
}

#[test]
fn whatever_slices_there_are_one_plan_is_enough() {
    let pods = "a:ready b c:ready,gone d:ready,@na e:ready f:ready";
    let cases = [
        "",
        "a",
        "a:ready",
        "b a:ready",
        "x:ready y z",
        "a:ready a:ready",
        "f:ready e:ready d:ready,@na",
    ];
    for one in cases {
        for two in cases {
            for most in [1, 2, 5, 100] {
                let case = case(pods).slice("s", one).slice("t", two).most(most);
                let after = carried_out(&case);
                if let Err(why) = after.check_published()
                    && !why.contains("slice s has")
                    && !why.contains("slice t has")
                {
                    panic!("{one} | {two} | {most}: {why}");
                }
                assert_eq!(after.to_text(), "nothing", "{one} | {two} | {most}");
            }
        }
    }
}

/// The same, with slices as the plan leaves them.
fn carried_out(before: &super::case::Case) -> super::case::Case {
    let plan = before.plan();
    let family = &plan.families[0];
    let mut after = case("a:ready b c:ready,gone d:ready,@na e:ready f:ready")
        .most(before.snapshot.max_endpoints);
    let text = |draft: &super::super::packing::Draft| {
        let spec = "a:ready b c:ready,gone d:ready,@na e:ready f:ready";
        let names: Vec<&str> = draft
            .members
            .iter()
            .map(|member| {
                let name = &*family.desired.endpoints[*member as usize].pod.metadata.name;
                spec.split_whitespace()
                    .find(|word| word.split(':').next() == Some(name))
                    .unwrap()
            })
            .collect();
        names.join(" ")
    };
    let written: Vec<Option<usize>> = family.update.iter().map(|draft| draft.slice).collect();
    for (number, slice) in before.snapshot.slices.iter().enumerate() {
        if !family.delete.contains(&number) && !written.contains(&Some(number)) {
            after = after.existing(slice.clone(), before.full[number].clone());
        }
    }
    for (number, draft) in family.create.iter().chain(&family.update).enumerate() {
        after = after.slice(&format!("w{number}"), &text(draft));
    }
    after
}
