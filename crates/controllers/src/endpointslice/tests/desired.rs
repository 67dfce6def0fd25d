//! The endpoint of a pod in full. Upstream: utils_test.go.

use api::kinds::AddressType;
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::super::desired::{endpoint, endpoint_ports};
use super::super::ownership::{is_owned, is_relabeled, slice_labels};
use super::case::{case, decode, slice_of};
use crate::service_endpoints::slices::{name_prefix, service_of};

fn check(pod: &str, service: Value, expected: Expect) {
    let case = case(pod).service(service);
    let endpoint = endpoint(&case.snapshot, case.pod(0), AddressType::Ipv4);
    expected.assert_eq(&serde_json::to_string(&endpoint).unwrap());
}

// Upstream: TestPodToEndpoint.
#[test]
fn an_endpoint_says_what_the_pod_is() {
    check(
        "a:ready",
        json!({}),
        expect![[
            r#"{"addresses":["10.0.0.1"],"conditions":{"ready":true,"serving":true,"terminating":false},"targetRef":{"kind":"Pod","namespace":"ns","name":"a","uid":"uid-a"},"nodeName":"n1"}"#
        ]],
    );
    check(
        "a:ready,gone,@na,host=h,ip=010.000.0.9+fd00::1",
        json!({}),
        expect![[
            r#"{"addresses":["10.0.0.9"],"conditions":{"ready":false,"serving":true,"terminating":true},"hostname":"h","targetRef":{"kind":"Pod","namespace":"ns","name":"a","uid":"uid-a"},"nodeName":"na","zone":"za"}"#
        ]],
    );
    let all = json!({"spec": {"publishNotReadyAddresses": true}});
    check(
        "a:gone,@",
        all,
        expect![[
            r#"{"addresses":["10.0.0.1"],"conditions":{"ready":true,"serving":false,"terminating":true},"targetRef":{"kind":"Pod","namespace":"ns","name":"a","uid":"uid-a"}}"#
        ]],
    );
    check(
        "a:ready,ip=fd00::1",
        json!({}),
        expect![[
            r#"{"addresses":[],"conditions":{"ready":true,"serving":true,"terminating":false},"targetRef":{"kind":"Pod","namespace":"ns","name":"a","uid":"uid-a"},"nodeName":"n1"}"#
        ]],
    );
}

// Upstream: TestPodToEndpoint.
#[test]
fn terminating_endpoints_are_not_ready_unless_not_ready_addresses_are_published() {
    let conditions = |pod: &str, all: bool| {
        let case = case(pod).service(json!({"spec": {"publishNotReadyAddresses": all}}));
        let conditions = endpoint(&case.snapshot, case.pod(0), AddressType::Ipv4).conditions;
        let flag = |flag: Option<bool>, name: &'static str| flag.unwrap().then_some(name);
        let flags = [
            flag(conditions.ready, "ready"),
            flag(conditions.serving, "serving"),
            flag(conditions.terminating, "terminating"),
        ];
        flags.into_iter().flatten().collect::<Vec<&str>>().join(" ")
    };
    for (pod, by_itself, published) in [
        ("a:ready", "ready serving", "ready serving"),
        ("a", "", "ready"),
        (
            "a:ready,gone",
            "serving terminating",
            "ready serving terminating",
        ),
        ("a:gone", "terminating", "ready terminating"),
    ] {
        assert_eq!(conditions(pod, false), by_itself, "{pod}");
        assert_eq!(conditions(pod, true), published, "{pod}");
    }
}

// Upstream: TestGetEndpointPorts.
#[test]
fn ports_are_those_of_the_service_as_the_pod_has_them() {
    let ports = |ports: Value| {
        let case = case("a:port=web/81").service(json!({"spec": {"ports": ports}}));
        serde_json::to_string(&endpoint_ports(&case.snapshot.service, case.pod(0))).unwrap()
    };
    expect![[r#"[{"name":"","protocol":"TCP","port":80}]"#]].assert_eq(&ports(
        json!([{"name": "", "protocol": "TCP", "targetPort": 80}]),
    ));
    expect![[r#"[{"name":"a","protocol":"TCP","port":81,"appProtocol":"h2"},{"name":"b","protocol":"UDP","port":5}]"#]].assert_eq(
        &ports(json!([
            {"name": "b", "protocol": "UDP", "targetPort": 5},
            {"name": "a", "protocol": "TCP", "targetPort": "web", "appProtocol": "h2"},
            {"name": "c", "protocol": "TCP", "targetPort": "missing"},
            {"name": "d", "protocol": "UDP", "targetPort": "web"},
        ])),
    );
    assert_eq!(ports(json!([])), "[]");
}

// Upstream: TestSetEndpointSliceLabels, TestNewEndpointSlice.
#[test]
fn a_slice_has_the_labels_of_its_service() {
    let labels = |patch: Value| slice_labels(&case("").service(patch).snapshot.service).to_string();
    let ours = "endpointslice.kubernetes.io/managed-by=endpointslice-controller.k8s.io";
    let name = "kubernetes.io/service-name=web";
    assert_eq!(labels(json!({})), format!("{ours},{name}"));
    let own = json!({"metadata": {"labels": {"foo": "bar", "kubernetes.io/service-name": "x", "service.kubernetes.io/headless": "y"}}});
    assert_eq!(labels(own.clone()), format!("{ours},foo=bar,{name}"));
    let headless = "service.kubernetes.io/headless=";
    assert_eq!(
        labels(json!({"spec": {"clusterIP": "None"}})),
        format!("{ours},{name},{headless}")
    );
    assert_eq!(
        labels(json!({"spec": {"clusterIP": ""}})),
        format!("{ours},{name},{headless}")
    );
    let changed = |slice: Value| {
        let slice = slice_of(&json!({"metadata": {"name": "s", "labels": slice}}));
        is_relabeled(&slice, &case("").service(own.clone()).snapshot.service)
    };
    assert!(
        !changed(json!({"foo": "bar"}))
            && !changed(json!({"foo": "bar", "kubernetes.io/service-name": "z"}))
    );
    assert!(
        changed(json!({}))
            && changed(json!({"foo": "baz"}))
            && changed(json!({"foo": "bar", "a": "b"}))
    );
}

// Upstream: TestSetEndpointSliceLabels.
#[test]
fn reserved_labels_are_neither_taken_from_the_service_nor_a_reason_to_write() {
    let (name, by, headless) = (
        "kubernetes.io/service-name",
        "endpointslice.kubernetes.io/managed-by",
        "service.kubernetes.io/headless",
    );
    let ours = json!({name: "web", by: "endpointslice-controller.k8s.io"});
    let of = |more: Value| {
        let mut labels = ours.clone();
        labels
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().cloned().unwrap());
        labels
    };
    let (none, foo) = (json!({}), json!({"foo": "bar"}));
    let (mark, evil) = (
        json!({headless: ""}),
        json!({name: "bad", by: "actor", headless: "invalid"}),
    );
    let mut sly = evil.clone();
    sly["foo"] = json!("bar");
    // Labels of the slice and of the service, whether that is headless, and whether the slice is written.
    for (slice, service, is_headless, own, written) in [
        (&none, &none, false, &none, false),
        (&none, &foo, true, &foo, true),
        (&none, &none, true, &none, false),
        (&none, &mark, false, &none, false),
        (&of(mark.clone()), &mark, false, &none, false),
        (&of(mark.clone()), &none, false, &none, false),
        (&of(foo.clone()), &foo, true, &foo, false),
        (&none, &foo, false, &foo, true),
        (&of(foo.clone()), &none, false, &none, true),
        (&ours, &foo, false, &foo, true),
        (&ours, &evil, false, &none, false),
        (&ours, &sly, false, &foo, true),
    ] {
        let address = if is_headless { "None" } else { "1.1.1.1" };
        let patch = json!({"metadata": {"labels": service}, "spec": {"clusterIP": address}});
        let service = case("").service(patch).snapshot.service;
        let mut expected = of(own.clone());
        if is_headless {
            expected[headless] = json!("");
        }
        assert_eq!(json!(slice_labels(&service)), expected);
        let slice = slice_of(&json!({"metadata": {"name": "s", "labels": slice}}));
        assert_eq!(is_relabeled(&slice, &service), written, "{slice:?}");
    }
}

// Upstream: TestServiceControllerKey, TestNewEndpointSlice.
#[test]
fn a_slice_names_its_service_twice() {
    let service = decode(&json!({"metadata": {"name": "web", "uid": "u1"}}));
    let owned = |owner: Value| {
        is_owned(
            &slice_of(&json!({"metadata": {"ownerReferences": [owner]}})),
            &service,
        )
    };
    assert!(owned(
        json!({"apiVersion": "v1", "kind": "Service", "uid": "u1"})
    ));
    assert!(!owned(
        json!({"apiVersion": "v1", "kind": "Service", "uid": "u2"})
    ));
    assert!(!owned(
        json!({"apiVersion": "v1", "kind": "Pod", "uid": "u1"})
    ));
    assert!(!owned(
        json!({"apiVersion": "v2", "kind": "Service", "uid": "u1"})
    ));
    let named = |labels: Value| {
        let slice = slice_of(&json!({"metadata": {"namespace": "ns", "labels": labels}}));
        service_of(&slice).map(|key| key.to_string())
    };
    assert_eq!(
        named(json!({"kubernetes.io/service-name": "web"})).as_deref(),
        Some("ns/web")
    );
    assert_eq!(
        (
            named(json!({})),
            named(json!({"kubernetes.io/service-name": ""}))
        ),
        (None, None)
    );
    assert_eq!(name_prefix("web"), "web-");
    assert_eq!(name_prefix(&"x".repeat(253)).len(), 253);
}
