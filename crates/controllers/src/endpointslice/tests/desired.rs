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
