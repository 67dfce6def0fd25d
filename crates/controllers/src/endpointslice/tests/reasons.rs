//! What `steersman why` can say of a service.

use api::decision::Line;
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::super::reason::explain;
use super::case::{Case, case};
use crate::service_endpoints::not_ours;

fn check(case: Case, expected: Expect) {
    let lines = explain(&case.snapshot, &case.plan());
    let lines: Vec<String> = lines.iter().map(Line::to_string).collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn says_what_is_published_and_who_is_left_out() {
    let three = "a:ready b:ready c:ready";
    check(
        case(three).slice("s", three),
        expect!["publishes 3 ready endpoints in 1 slice"],
    );
    check(
        case("a:ready b c:ready,gone d:noip e:failed f:ready,@gone g:ready,ip=fd00::1"),
        expect![[r#"
            publishes 1 ready endpoint, and 2 not ready in 1 slice
            creates 1 slice: 3 endpoints new
            leaves out d: no IP yet
            leaves out e: finished
            leaves out f: there is no such node as theirs
            leaves out g: no usable IPv4 address
            publishes b as not ready: the Ready condition is not True
            publishes c as not ready: terminating"#]],
    );
    check(
        case(""),
        expect![[r#"
        publishes 0 ready endpoints in 1 slice
        creates 1 slice: it has no endpoints, and an empty slice says so
        selects no pods with app=web"#]],
    );
    let named =
        json!({"spec": {"ports": [{"name": "http", "protocol": "TCP", "targetPort": "web"}]}});
    check(
        case("a:ready b:ready,port=web/81").service(named),
        expect![[r#"
        publishes 2 ready endpoints in 2 slices
        creates 2 slices: 2 endpoints new
        publishes a without some ports: no container has a port with the name and protocol of targetPort"#]],
    );
}

#[test]
fn says_it_of_each_family_and_of_hints() {
    let dual =
        json!({"spec": {"ipFamilies": ["IPv4", "IPv6"], "trafficDistribution": "PreferSameNode"}});
    check(
        case("a:ready,@na,ip=10.0.0.1+fd00::1").service(dual),
        expect![[r#"
        publishes 1 ready endpoint of IPv4 in 1 slice
        creates 1 slice: 1 endpoint new
        publishes 1 ready endpoint of IPv6 in 1 slice
        creates 1 slice: 1 endpoint new
        gives each endpoint the hints of its node and zone"#]],
    );
    let near = |pods: &str, how: &str, expected: Expect| {
        let service = json!({"spec": {"trafficDistribution": how}});
        check(case(pods).service(service).slice("s", pods), expected);
    };
    near(
        "a:ready",
        "PreferClose",
        expect![[r#"
        publishes 1 ready endpoint in 1 slice
        gives no hints: no node of its pods is in a zone"#]],
    );
    near(
        "a",
        "PreferSameNode",
        expect![[r#"
        publishes 0 ready endpoints, and 1 not ready in 1 slice
        publishes a as not ready: the Ready condition is not True
        gives each endpoint the hint of its node"#]],
    );
    let auto =
        json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": "Auto"}}});
    check(
        case("a:ready,@na")
            .service(auto)
            .zones("za=1 zb=1")
            .slice("s", "a:ready,@na"),
        expect![[r#"
        publishes 1 ready endpoint in 1 slice
        gives no hints: Insufficient number of endpoints (1 endpoints, 2 zones), addressType: IPv4"#]],
    );
    check(
        case("")
            .slice_with("s", "", json!({"addressType": "IPv6"}))
            .slice("t", ""),
        expect![[r#"
        publishes 0 ready endpoints in 1 slice
        deletes 1 slice: the service has no addresses of that family any more
        selects no pods with app=web"#]],
    );
}

#[test]
fn many_pods_are_a_few_names() {
    let pods: Vec<String> = (1..=1000).map(|number| format!("p{number}")).collect();
    check(
        case(&pods.join(" ")),
        expect![[r#"
        publishes 0 ready endpoints, and 1000 not ready in 10 slices
        creates 10 slices: 1000 endpoints new
        publishes p1, p2, p3, p4, p5 and 995 more as not ready: the Ready condition is not True"#]],
    );
}

#[test]
fn some_services_are_none_of_our_business() {
    let says = |patch: Value| {
        not_ours(&case("").service(patch).snapshot.service).map(|line| line.to_string())
    };
    assert_eq!(says(json!({})), None);
    assert_eq!(
        says(json!({"spec": {"selector": null}})).as_deref(),
        Some("publishes no endpoints: the service has no selector")
    );
    assert_eq!(
        says(json!({"spec": {"type": "ExternalName"}})).as_deref(),
        Some("publishes no endpoints: a service of type ExternalName is a name alone")
    );
}
