//! What is said of Services and Ingresses.

use super::{check, check_verdict};
use expect_test::{Expect, expect};

const SERVICE: &str = "
kind: Service
metadata: {name: web, namespace: shop}
spec: {type: ClusterIP, selector: {app: web}, ipFamilies: [IPv4], ports: [{name: http, port: 80, targetPort: web}]}";

const PORTS: &str =
    "containers: [{name: main, ports: [{name: web, containerPort: 8080}], readinessProbe: {}}]";

/// A pod of the Service on node n1: its name, and its status.
fn pod(name: &str, status: &str) -> String {
    format!(
        "
---
kind: Pod
metadata: {{name: {name}, namespace: shop, uid: {name}, labels: {{app: web}}}}
spec: {{nodeName: n1, {PORTS}}}
status: {{phase: Running, {status}}}"
    )
}

const READY: &str = "podIP: 10.0.0.1, conditions: [{type: Ready, status: 'True', lastTransitionTime: '2026-01-01T11:00:00Z'}]";
const FAILS: &str = "podIP: 10.0.0.2, conditions: [{type: Ready, status: 'False'}], containerStatuses: [{name: main, ready: false, started: true, state: {running: {startedAt: '2026-01-01T11:58:00Z'}}}]";
const UNHEALTHY: &str = "
---
kind: Event
reason: Unhealthy
message: 'Readiness probe failed: HTTP probe failed with statuscode: 503'
involvedObject: {kind: Pod, name: b}";

fn slice(endpoints: &str) -> String {
    format!(
        "
---
kind: EndpointSlice
metadata: {{name: web-x, namespace: shop, labels: {{kubernetes.io/service-name: web, endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io}}}}
endpoints: [{endpoints}]
ports: [{{port: 80}}]"
    )
}

#[test]
fn names_who_is_left_out_and_why() {
    let yaml = [
        SERVICE,
        &pod("a", READY),
        &pod("b", FAILS),
        &pod("c", "podIP: ''"),
        &pod("d", READY).replace("labels", "deletionTimestamp: '2026-01-01T12:00:20Z', labels"),
        &pod("e", READY).replace("name: web, containerPort", "name: admin, containerPort"),
        UNHEALTHY,
        &slice("{addresses: [10.0.0.1], conditions: {ready: true}, targetRef: {uid: a}}, {addresses: [10.0.0.2], conditions: {ready: false}, targetRef: {uid: b}}"),
        "
---
controller: endpointslice-controller
object: {kind: Service, namespace: shop, name: web}
lines: [{class: states, reason: Publishes, what: publishes 1 ready endpoint in 1 slice}, {class: states, reason: NotReady, what: publishes b as not ready}, {class: acts, reason: WritesSlices, what: updates 1 slice}]
---
controller: endpoints-controller
object: {kind: Service, namespace: shop, name: web}
lines: [{class: states, reason: StoresEndpoints, what: stores 1 ready address in Endpoints}]",
    ];
    check(
        &yaml.concat(),
        expect![[r#"
            service/web in shop: publishes 1 of the 5 pods that it selects; pod/b container main runs, but its readiness probe fails: Readiness probe failed: HTTP probe failed with statuscode: 503

            wants       to send traffic to the pods with app=web
                        port 80 (http, TCP) to port web of the pods

            sees        stores 1 ready address in Endpoints
                        endpointslice-controller.k8s.io publishes 1 ready endpoint and 1 not ready in 1 slice

            did         2m ago    updates 1 slice

            in the way  pod/b: container main runs, but its readiness probe fails: Readiness probe failed: HTTP probe failed with statuscode: 503 (for 2m)
                        pod/c: has no IP address: runs and is not ready
                        pod/d: is stopping; its grace period ends in 20s (12:00:20Z)
                        pod/e: has no TCP port named web: it has admin (TCP)

            would help  kubectl logs b -c main -n shop
                        shows why it does not answer

            Source: the controllers themselves, at https://here.
        "#]],
    );
}

#[test]
fn publishes_all_or_a_part() {
    let check = |more: &[&str], expected: Expect| {
        check_verdict(&format!("{SERVICE}{}", more.concat()), expected);
    };
    let (a, b) = (pod("a", READY), pod("b", READY));
    let both = slice(
        "{addresses: [10.0.0.1], targetRef: {uid: a}}, {addresses: [10.0.0.3], targetRef: {uid: b}}",
    );
    check(
        &[&a, &b, &both],
        expect!["publishes all 2 pods that it selects"],
    );
    check(
        &[&a, &slice("{addresses: [10.0.0.1], targetRef: {uid: a}}")],
        expect!["publishes the one pod that it selects"],
    );
    check(
        &[&a, &b],
        expect![
            "2 pods are ready, and 0 published: the endpointslice-controller has not done it yet"
        ],
    );
    check(
        &[&pod("b", FAILS), UNHEALTHY, &slice("")],
        expect![[r#"
        the only pod that it selects takes no traffic; pod/b container main runs, but its readiness probe fails: Readiness probe failed: HTTP probe failed with statuscode: 503
        kubectl logs b -c main -n shop"#]],
    );
}

#[test]
fn the_nearest_labels_are_named_where_nothing_is_selected() {
    let with = |labels: &str| pod("a", READY).replace("labels: {app: web}", labels);
    let check = |labels: &str, expected: Expect| {
        let yaml = SERVICE.replace("selector: {app: web}", "selector: {app: web, tier: front}");
        let told = crate::explain(&super::facts(&format!("{yaml}{}", with(labels))));
        expected.assert_eq(&format!("{}\n{}", told.verdict, told.sees.join("\n")));
    };
    check(
        "labels: {app: web, tier: back}",
        expect![[r#"
        selects no pods: none has app=web,tier=front
        the nearest is pod/a: has app=web, has tier=back instead of tier=front"#]],
    );
    check(
        "labels: {app: web}",
        expect![[r#"
        selects no pods: none has app=web,tier=front
        the nearest is pod/a: has app=web, has no label tier"#]],
    );
    check(
        "labels: {app.kubernetes.io/name: web, tier: fronts}",
        expect![[r#"
        selects no pods: none has app=web,tier=front
        the nearest is pod/a: has app.kubernetes.io/name=web instead of app=web, has tier=fronts instead of tier=front"#]],
    );
    check(
        "labels: {k: v}",
        expect![[r#"
            selects no pods: none has app=web,tier=front
            1 pod in its namespace, without a label like these"#]],
    );
    let yaml = format!(
        "{SERVICE}
---
kind: Deployment
metadata: {{name: web, namespace: shop}}
spec: {{replicas: 0, template: {{metadata: {{labels: {{app: web, x: 'y'}}}}}}}}"
    );
    super::check(
        &yaml,
        expect![[r#"
        service/web in shop: selects no pods: none has app=web

        wants       to send traffic to the pods with app=web
                    port 80 (http, TCP) to port web of the pods

        sees        deployment/web creates pods with these labels, and wants none

        would help  kubectl get pods --show-labels -n shop
                    shows what the pods are labelled; spec.selector must match all of its labels

        Source: the controllers themselves, at https://here.
    "#]],
    );
    super::check(
        SERVICE,
        expect![[r#"
        service/web in shop: selects no pods: none has app=web

        wants       to send traffic to the pods with app=web
                    port 80 (http, TCP) to port web of the pods

        sees        there are no pods in its namespace

        would help  kubectl get pods --show-labels -n shop
                    shows what the pods are labelled; spec.selector must match all of its labels

        Source: the controllers themselves, at https://here.
    "#]],
    );
}

#[test]
fn says_what_hints_and_policies_do() {
    let zones = slice(
        "{addresses: [a], targetRef: {uid: a}, nodeName: n1, hints: {forZones: [{name: east}]}}, {addresses: [b], targetRef: {uid: b}, nodeName: n2, hints: {forZones: [{name: west}]}}",
    );
    let asks = SERVICE.replace(
        "spec: {",
        "spec: {internalTrafficPolicy: Local, trafficDistribution: PreferClose, ",
    );
    let check = |yaml: String, expected: Expect| {
        let told = crate::explain(&super::facts(&yaml));
        expected.assert_eq(&told.sees.join("\n"));
    };
    check(
        format!("{asks}{}", &zones),
        expect![[r#"
        endpointslice-controller.k8s.io publishes 2 ready endpoints in 1 slice
        by hints, clients go to endpoints of their own zone: east has 1, west has 1; where there is none, to all
        internalTrafficPolicy is Local: clients in the cluster reach endpoints on the node where they arrive alone: n1 has 1, n2 has 1
        there are no pods in its namespace"#]],
    );
    check(
        format!("{asks}{}", slice("")),
        expect![[r#"
        endpointslice-controller.k8s.io publishes 0 ready endpoints in 1 slice
        trafficDistribution PreferClose requests hints, and no endpoint has one: clients use all endpoints
        internalTrafficPolicy is Local: clients in the cluster reach endpoints on the node where they arrive alone: no node has any
        there are no pods in its namespace"#]],
    );
}

#[test]
fn an_endpoint_of_both_families_is_one() {
    let dual = SERVICE.replace(
        "ipFamilies: [IPv4]",
        "ipFamilies: [IPv4, IPv6], internalTrafficPolicy: Local, trafficDistribution: PreferClose",
    );
    let endpoint =
        "{addresses: [a], targetRef: {uid: a}, nodeName: n1, hints: {forZones: [{name: east}]}}";
    let of = |family: &str, endpoints: &str| {
        let slice =
            slice(endpoints).replace("endpoints:", &format!("addressType: {family}\nendpoints:"));
        slice.replace("web-x", &format!("web-{family}"))
    };
    let check = |v6: &str, expected: Expect| {
        let yaml = format!("{dual}{}{}", of("IPv4", endpoint), of("IPv6", v6));
        expected.assert_eq(&crate::explain(&super::facts(&yaml)).sees.join("\n"));
    };
    check(
        endpoint,
        expect![[r#"
        endpointslice-controller.k8s.io publishes 1 ready endpoint in 2 slices
        by hints, clients go to endpoints of their own zone: east has 1; where there is none, to all
        internalTrafficPolicy is Local: clients in the cluster reach endpoints on the node where they arrive alone: n1 has 1
        there are no pods in its namespace"#]],
    );
    check(
        "",
        expect![[r#"
        endpointslice-controller.k8s.io publishes 1 ready endpoint in 2 slices
        no endpoint has an IPv6 address: clients cannot reach the service over it
        by hints, clients go to endpoints of their own zone: east has 1; where there is none, to all
        internalTrafficPolicy is Local: clients in the cluster reach endpoints on the node where they arrive alone: n1 has 1
        there are no pods in its namespace"#]],
    );
}

#[test]
fn services_without_pods_of_their_own() {
    let service = "
kind: Service
metadata: {name: web, namespace: shop}
spec: ";
    check_verdict(
        &format!("{service} {{type: ExternalName, externalName: db.example.com}}"),
        expect!["is an alias of db.example.com: it selects no pods and has no endpoints"],
    );
    super::check(
        &format!(
            "{service} {{type: ExternalName, externalName: db.example.com, ports: [{{port: 80}}]}}"
        ),
        expect![[r#"
            service/web in shop: is an alias of db.example.com: it selects no pods and has no endpoints

            wants       its name to be an alias of db.example.com

            Source: the controllers themselves, at https://here.
        "#]],
    );
    super::check(
        &format!("{service} {{ports: [{{port: 80}}]}}"),
        expect![[r#"
            service/web in shop: has no selector, and no endpoints were written for it

            wants       to send traffic to endpoints that another controller writes
                        port 80 (TCP) to port 80 of the endpoints

            would help  set spec.selector, or create an EndpointSlice with the label kubernetes.io/service-name=web

            Source: the controllers themselves, at https://here.
        "#]],
    );
    check_verdict(
        &format!(
            "{service} {{ports: [{{port: 80}}]}}{}",
            slice("{addresses: [10.1.1.1]}")
        ),
        expect!["has no selector; 1 ready endpoint was written for it"],
    );
}

#[test]
fn a_load_balancer_without_an_address_says_so() {
    let yaml = SERVICE.replace(
        "type: ClusterIP",
        "type: LoadBalancer, loadBalancerClass: example.com/lb",
    );
    let all = slice("{addresses: [10.0.0.1], targetRef: {uid: a}}");
    super::check(
        &format!("{yaml}{}{all}", pod("a", READY)),
        expect![[r#"
            service/web in shop: publishes the one pod that it selects; has no external address yet

            wants       to send traffic to the pods with app=web
                        port 80 (http, TCP) to port web of the pods

            sees        endpointslice-controller.k8s.io publishes 1 ready endpoint in 1 slice

            in the way  service/web: has no external address: the controller of load balancer class example.com/lb has given none yet

            would help  install what serves example.com/lb, or create the service without spec.loadBalancerClass

            Source: the controllers themselves, at https://here.
        "#]],
    );
}

const INGRESS: &str = "
kind: Ingress
metadata: {name: shop, namespace: shop, creationTimestamp: '2026-01-01T11:50:00Z'}
spec: {ingressClassName: simulated, rules: [{host: shop.example.com, http: {paths: [{path: /, backend: {service: {name: web, port: {name: http}}}}]}}]}
---
kind: IngressClass
metadata: {name: simulated}
spec: {controller: steersman.dev/simulated}
---";

#[test]
fn an_ingress_is_as_good_as_its_services() {
    let ready = [
        &pod("a", READY),
        &slice("{addresses: [10.0.0.1], targetRef: {uid: a}}"),
    ]
    .map(String::as_str)
    .concat();
    super::check(
        &format!("{INGRESS}{SERVICE}{ready}"),
        expect![[r#"
            ingress/shop in shop: has no address: the controller of its class has given none yet

            wants       shop.example.com/ to go to service/web port http

            sees        class simulated, served by steersman.dev/simulated
                        service/web publishes the one pod that it selects

            Source: the controllers themselves, at https://here.
        "#]],
    );
    let addressed = INGRESS.replace(
        "\nspec: {ingressClassName",
        "\nstatus: {loadBalancer: {ingress: [{ip: 192.0.2.255}]}}\nspec: {ingressClassName",
    );
    check_verdict(
        &format!("{addressed}{SERVICE}{ready}"),
        expect!["its Service has endpoints"],
    );
    super::check(
        &format!("{addressed}{SERVICE}"),
        expect![[r#"
        ingress/shop in shop: service/web selects no pods: none has app=web

        wants       shop.example.com/ to go to service/web port http

        sees        class simulated, served by steersman.dev/simulated
                    address 192.0.2.255

        in the way  service/web: selects no pods: none has app=web

        would help  steersman why service/web -n shop
                    says which of its pods are left out, and why

        Source: the controllers themselves, at https://here.
    "#]],
    );
    check_verdict(
        &format!(
            "{}{SERVICE}{ready}",
            addressed.replace("name: http", "name: https")
        ),
        expect![[r#"
        service/web has no port https: it has 80 (http)
        kubectl describe ingress/shop -n shop"#]],
    );
    check_verdict(
        addressed.trim_end_matches("---"),
        expect![[r#"
        service/web does not exist
        kubectl get services -n shop"#]],
    );
    check_verdict(
        &format!(
            "{}{SERVICE}{ready}",
            addressed.replace("ingressClassName: simulated, ", "")
        ),
        expect![[r#"
            has no ingress class, and there was no default class when it was created: no controller serves it
            kubectl get ingressclasses"#]],
    );
    check_verdict(
        &format!(
            "{}{SERVICE}{ready}",
            addressed.replace("ingressClassName: simulated, ", "ingressClassName: other, ")
        ),
        expect![[r#"
            its class other does not exist: no controller serves it
            kubectl get ingressclasses"#]],
    );
}

/// Such endpoints are published as ready, and still nobody reaches them.
#[test]
fn endpoints_without_a_port_are_said_to_be_so() {
    let told = |ports: &str| {
        let slices = format!(
            "
---
kind: EndpointSlice
metadata: {{name: web-1, namespace: shop, labels: {{kubernetes.io/service-name: web, endpointslice.kubernetes.io/managed-by: us}}}}
endpoints: [{{addresses: [a], targetRef: {{uid: a}}}}]
ports: {ports}"
        );
        crate::explain(&super::facts(&format!("{SERVICE}{slices}"))).sees[0].clone()
    };
    assert_eq!(
        told("[]"),
        "us publishes 1 ready endpoint in 1 slice, without a port: they cannot be reached"
    );
    assert_eq!(
        told("[{port: 80}]"),
        "us publishes 1 ready endpoint in 1 slice"
    );
    let other = "
---
kind: EndpointSlice
metadata: {name: web-2, namespace: shop, labels: {kubernetes.io/service-name: web, endpointslice.kubernetes.io/managed-by: us}}
endpoints: [{addresses: [b], targetRef: {uid: b}}, {addresses: [c], targetRef: {uid: c}, conditions: {ready: false}}]";
    assert_eq!(
        told(&format!("[{{port: 80}}]{other}")),
        "us publishes 2 ready endpoints and 1 not ready in 2 slices, 2 of them without a port: those cannot be reached"
    );
}

#[test]
fn a_port_of_another_protocol_or_name_is_named_as_what_it_is() {
    let check = |yaml: &str, expected: Expect| {
        let explanation = crate::explain(&super::facts(yaml));
        let help = explanation.help.map(|help| help.why).unwrap_or_default();
        expected.assert_eq(&format!("{}\n{help}", explanation.verdict));
    };
    let hinted = "
---
controller: endpointslice-controller
object: {kind: Service, namespace: shop, name: web}
lines: [{class: states, reason: NotReady, what: publishes b as not ready, hint: 'kubectl describe pod: readiness probes'}]";
    let over_udp = pod("a", READY).replace(
        "name: web, containerPort",
        "name: web, protocol: UDP, containerPort",
    );
    check(
        &format!("{SERVICE}{over_udp}{hinted}"),
        expect![[r#"
            the only pod that it selects takes no traffic; pod/a has no TCP port named web: it has web (UDP)
            compare spec.ports[].targetPort with the names and protocols of the pods' ports"#]],
    );
    let in_init = |policy: &str| {
        let container = "initContainers: [{name: init, POLICY ports: [{name: web, containerPort: 1}]}], containers: [{name: main}]";
        let pod = pod("a", READY).replace(PORTS, &container.replace("POLICY", policy));
        format!(
            "{SERVICE}{pod}{}",
            slice("{addresses: [10.0.0.1], targetRef: {uid: a}}")
        )
    };
    check(
        &in_init(""),
        expect![[r#"
            the only pod that it selects takes no traffic; pod/a has no TCP port named web: none of its ports has a name
            compare spec.ports[].targetPort with the names and protocols of the pods' ports"#]],
    );
    check(
        &in_init("restartPolicy: Always,"),
        expect![[r#"
            publishes the one pod that it selects
        "#]],
    );
}
