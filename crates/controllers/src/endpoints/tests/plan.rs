//! Which subsets there should be, and whether anything has to be written.

use std::sync::Arc;

use api::kinds::{Endpoints, Pod, Service};
use api::{Resource, Time};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::super::plan::{Action, Plan, Snapshot, annotations, labels, plan};
use super::super::reason::explain;
use super::super::subsets::{address, truncate};

pub(super) fn decode<K: Resource>(value: &Value) -> Arc<K> {
    Arc::new(K::decode(value.to_string().as_bytes()).unwrap())
}

pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    for (key, value) in fields {
        match value.is_null() {
            true => drop(target.as_object_mut().map(|held| held.remove(key))),
            false => merge(&mut target[key], value),
        }
    }
}

fn service(patch: Value) -> Arc<Service> {
    let mut object = json!({
        "metadata": {"name": "web", "namespace": "ns", "labels": {"team": "a"}},
        "spec": {
            "clusterIP": "10.1.0.1", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
            "ports": [{"name": "http", "protocol": "TCP", "targetPort": 8080}],
        },
    });
    merge(&mut object, &patch);
    decode(&object)
}

/// `a:ready,gone,port=web/81,ip=10.0.0.9`
fn pod(text: &str) -> Arc<Pod> {
    let (name, words) = text.split_once(':').unwrap_or((text, ""));
    let digits: String = name.chars().filter(char::is_ascii_digit).collect();
    let number: u32 = digits
        .parse()
        .unwrap_or_else(|_| u32::from(name.as_bytes()[0] - b'a') + 1);
    let ip = format!("10.0.{}.{}", number / 256, number % 256);
    let mut object = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}")},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}]},
    });
    let mut ports: Vec<Value> = Vec::new();
    for word in words.split(',').filter(|word| !word.is_empty()) {
        match word.split_once('=') {
            Some(("ip", list)) => {
                let ips: Vec<Value> = list.split('+').map(|ip| json!({"ip": ip})).collect();
                object["status"]["podIPs"] = json!(ips);
            }
            Some(("port", port)) => {
                let (name, number) = port.split_once('/').unwrap();
                let number: i32 = number.parse().unwrap();
                ports.push(json!({"name": name, "protocol": "TCP", "containerPort": number}));
            }
            Some((_, name)) => {
                object["spec"]["hostname"] = json!(name);
                object["spec"]["subdomain"] = json!("web");
            }
            None if word == "ready" => {
                object["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
            }
            None if word == "gone" => {
                object["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
            }
            None if word == "noip" => object["status"]["podIPs"] = json!([]),
            None => object["status"]["phase"] = json!(word),
        }
    }
    object["spec"]["containers"] = json!([{"name": "c", "ports": ports}]);
    if words.contains("noip") {
        object["status"]["podIP"] = json!("");
    }
    decode(&object)
}

pub(super) fn snapshot(patch: Value, pods: &str) -> Snapshot {
    Snapshot {
        service: service(patch),
        pods: pods.split_whitespace().map(pod).collect(),
        endpoints: None,
        triggered_at: None,
    }
}

/// `a -b:http/8080`: b is not ready.
fn text(plan: &Plan<'_>) -> String {
    let subsets = plan.subsets.iter().map(|subset| {
        let name = |address: &api::kinds::Address<'_>| {
            address.target_ref.as_ref().unwrap().name.to_string()
        };
        let ready = subset.addresses.iter().map(name);
        let others = subset
            .not_ready_addresses
            .iter()
            .map(|address| format!("-{}", name(address)));
        let ports = subset
            .ports
            .iter()
            .map(|port| format!("{}/{}", port.name, port.port));
        let addresses: Vec<String> = ready.chain(others).collect();
        format!(
            "{}: {}",
            ports.collect::<Vec<String>>().join(","),
            addresses.join(" ")
        )
    });
    subsets.collect::<Vec<String>>().join(" | ")
}

pub(super) fn check(patch: Value, pods: &str, expected: Expect) {
    expected.assert_eq(&text(&plan(&snapshot(patch, pods))));
}

// Upstream: TestSyncEndpointsItems, TestSyncEndpointsItemsEmptySelectorSelectsAll,
// TestSyncEndpointsItemsEmptySelectorSelectsAllNotReady, TestSyncEndpointsItemsEmptySelectorSelectsAllMixed,
// TestSyncEndpointsHeadlessService.
#[test]
fn pods_are_ready_or_not() {
    check(json!({}), "", expect![""]);
    check(json!({}), "a:ready b:ready", expect!["http/8080: a b"]);
    check(json!({}), "b a", expect!["http/8080: -a -b"]);
    check(json!({}), "c:ready a:ready b", expect!["http/8080: a c -b"]);
}

// Upstream: TestSyncEndpointsItemsExcludeNotReadyPodsWithRestartPolicyNeverAndPhaseFailed,
// …NeverAndPhaseSucceeded, …OnFailureAndPhaseSucceeded, TestSyncServiceAddresses.
#[test]
fn finished_pods_those_without_address_and_those_that_go_are_left_out() {
    check(
        json!({}),
        "a:ready,Failed b:ready,Succeeded c:noip d:ready,gone e:ready",
        expect!["http/8080: e"],
    );
    // Whatever else the phase is, readiness decides.
    check(
        json!({}),
        "a:ready b:ready,gone c:ready,Unknown d:ready,Unknown,gone e:ready,Pending f:ready,Pending,gone g:Unknown h:Pending i:Failed j:Succeeded",
        expect!["http/8080: a c e -g -h"],
    );
    let all = || json!({"spec": {"publishNotReadyAddresses": true}});
    check(
        all(),
        "a:Failed b c:noip d:gone e:ready",
        expect!["http/8080: b d e"],
    );
    check(
        all(),
        "a b:gone c:Unknown d:Unknown,gone e:Pending f:Pending,gone g:Failed h:Succeeded",
        expect!["http/8080: a b c d e f"],
    );
}

// Upstream: TestSyncEndpointsHeadlessWithoutPort, TestSyncEndpointsItems (ports), TestEndpointPortFromServicePort,
// TestSyncEndpointsProtocolTCP, …UDP, …SCTP, TestSyncEndpointsProtocolMultiProtocolSamePort, TestSyncEndpointsAddDeletePorts.
#[test]
fn ports_that_the_same_pods_have_stand_together() {
    let ports = |ports: Value| json!({"spec": {"ports": ports}});
    let tcp =
        |name: &str, target: Value| json!({"name": name, "protocol": "TCP", "targetPort": target});
    check(
        ports(json!([tcp("b", json!(82)), tcp("a", json!(81))])),
        "a:ready b",
        expect!["a/81,b/82: a -b"],
    );
    let named = ports(json!([tcp("web", json!("web")), tcp("admin", json!(9090))]));
    check(
        named,
        "a:ready,port=web/81 b:ready,port=web/82 c:ready d:port=web/81",
        expect!["admin/9090: a b c -d | web/81: a -d | web/82: b"],
    );
    check(
        ports(json!([tcp("web", json!("web"))])),
        "a:ready",
        expect![""],
    );
    let same = json!([
        {"name": "tcp", "protocol": "TCP", "targetPort": 53},
        {"name": "udp", "protocol": "UDP", "targetPort": 53},
        {"name": "sctp", "protocol": "SCTP", "targetPort": 53, "appProtocol": "x"},
    ]);
    check(
        ports(same.clone()),
        "a:ready",
        expect!["sctp/53,tcp/53,udp/53: a"],
    );
    let written = snapshot(ports(same), "a:ready");
    let ports_written = serde_json::to_string(&plan(&written).subsets[0].ports).unwrap();
    expect![[r#"[{"name":"sctp","port":53,"protocol":"SCTP","appProtocol":"x"},{"name":"tcp","port":53,"protocol":"TCP"},{"name":"udp","port":53,"protocol":"UDP"}]"#]]
        .assert_eq(&ports_written);
    check(
        json!({"spec": {"ports": null, "clusterIP": "None"}}),
        "a:ready b",
        expect![": a -b"],
    );
    check(json!({"spec": {"ports": null}}), "a:ready", expect![""]);
}

// Upstream: TestPodToEndpointAddressForService, TestPodToEndpointAddressForServiceEmptyIPFamilies.
#[test]
fn the_first_family_decides() {
    let ip = |patch: Value, ips: &str| {
        let pod = pod(&format!("a:ready,ip={ips}"));
        address(&service(patch), &pod).map(|address| address.ip.to_string())
    };
    let families = |list: Value| json!({"spec": {"ipFamilies": list}});
    let both = "10.0.0.1+fd00::1";
    assert_eq!(
        ip(families(json!(["IPv4"])), both).as_deref(),
        Some("10.0.0.1")
    );
    assert_eq!(
        ip(families(json!(["IPv6", "IPv4"])), both).as_deref(),
        Some("fd00::1")
    );
    assert_eq!(ip(families(json!(["IPv6"])), "10.0.0.1"), None);
    assert_eq!(
        ip(families(json!(["IPv4"])), "010.000.0.1").as_deref(),
        Some("10.0.0.1")
    );
    assert_eq!(ip(families(json!(["IPv4"])), "nonsense"), None);
    // With a cluster IP or without, and whichever of its addresses is the pod's first.
    for cluster_ip in ["10.1.0.1", "None"] {
        let of = |family: &str| json!({"spec": {"ipFamilies": [family], "clusterIP": cluster_ip}});
        for ips in ["10.0.0.1", both, "fd00::1+10.0.0.1"] {
            assert_eq!(ip(of("IPv4"), ips).as_deref(), Some("10.0.0.1"));
        }
        for ips in ["fd00::1", both] {
            assert_eq!(ip(of("IPv6"), ips).as_deref(), Some("fd00::1"));
        }
    }
    let old = |address: &str| json!({"spec": {"ipFamilies": null, "clusterIP": address}});
    assert_eq!(ip(old("10.1.0.1"), "fd00::10"), None);
    assert_eq!(ip(old("fd00::9"), "fd00::10").as_deref(), Some("fd00::10"));
    assert_eq!(ip(old("None"), "10.0.0.1").as_deref(), Some("10.0.0.1"));
    assert_eq!(ip(old("None"), "fd00::10").as_deref(), Some("fd00::10"));
    assert_eq!(ip(old("10.1.0.1"), both).as_deref(), Some("10.0.0.1"));
    assert_eq!(ip(old("fd00::9"), both).as_deref(), Some("fd00::1"));
    assert_eq!(
        ip(old("None"), "fd00::1+10.0.0.1").as_deref(),
        Some("fd00::1")
    );
    assert_eq!(ip(old(""), both).as_deref(), Some("10.0.0.1"));
}

#[test]
fn an_address_says_who_it_is() {
    let named = pod("a:ready,host=h");
    let address = address(&service(json!({})), &named).unwrap();
    expect![[r#"{"ip":"10.0.0.1","hostname":"h","nodeName":"n1","targetRef":{"kind":"Pod","namespace":"ns","name":"a","uid":"uid-a"}}"#]]
        .assert_eq(&serde_json::to_string(&address).unwrap());
}

/// As the API server has it after the plan was carried out.
pub(super) fn carried_out(before: &Snapshot) -> Arc<Endpoints> {
    decode(&written(before))
}

pub(super) fn written(before: &Snapshot) -> Value {
    let plan = plan(before);
    let metadata = json!({
        "name": "web", "namespace": "ns", "uid": "u", "resourceVersion": "5",
        "labels": labels(&before.service), "annotations": annotations(before, plan.is_truncated),
    });
    json!({"metadata": metadata, "subsets": plan.subsets})
}

// Upstream: TestSyncEndpointsItemsPreexisting, …PreexistingIdentical, …PreexistingIdenticalUnsorted,
// …PreexistingLabelsChange, TestSyncEndpointsExistingNilSubsets, …ExistingEmptySubsets,
// TestSyncEndpointsWithPodResourceVersionUpdateOnly, TestSyncEndpointsNewNoSubsets, TestSyncEndpointsItemsWithLabels,
// TestSyncEndpointsHeadlessServiceLabel.
#[test]
fn nothing_is_written_that_is_there_already() {
    let action = |held: Option<Arc<Endpoints>>, patch: Value, pods: &str| {
        let mut now = snapshot(patch, pods);
        now.endpoints = held;
        plan(&now).action
    };
    assert_eq!(action(None, json!({}), ""), Action::Create);
    for pods in ["", "a:ready b", "a:ready,port=web/81 b:ready"] {
        let held = carried_out(&snapshot(json!({}), pods));
        assert_eq!(
            action(Some(held), json!({}), pods),
            Action::Nothing,
            "{pods}"
        );
    }
    let held = || Some(carried_out(&snapshot(json!({}), "a:ready b")));
    assert_eq!(
        action(held(), json!({}), "b a:ready"),
        Action::Nothing,
        "another order"
    );
    assert_eq!(action(held(), json!({}), "a:ready b:ready"), Action::Update);
    assert_eq!(action(held(), json!({}), "a:ready"), Action::Update);
    let label = json!({"metadata": {"labels": {"team": "b"}}});
    assert_eq!(action(held(), label, "a:ready b"), Action::Update);
    let headless = json!({"metadata": {"labels": {"service.kubernetes.io/headless": ""}}});
    assert_eq!(action(held(), headless, "a:ready b"), Action::Nothing);
    let mut unlabelled = (*carried_out(&snapshot(json!({}), "a:ready"))).clone();
    unlabelled.metadata.labels = service(json!({})).metadata.labels.clone();
    assert_eq!(
        action(Some(Arc::new(unlabelled)), json!({}), "a:ready"),
        Action::Update
    );
}

#[test]
fn labels_are_those_of_the_service_and_ours() {
    let of = |patch: Value| labels(&service(patch)).to_string();
    let ours = "endpoints.kubernetes.io/managed-by=endpoint-controller";
    assert_eq!(of(json!({})), format!("{ours},team=a"));
    let headless = "service.kubernetes.io/headless";
    assert_eq!(
        of(json!({"spec": {"clusterIP": "None"}})),
        format!("{ours},{headless}=,team=a")
    );
    assert_eq!(
        of(json!({"metadata": {"labels": {headless: ""}}})),
        format!("{ours},team=a")
    );
}

// Upstream: TestLastTriggerChangeTimeAnnotation, …AnnotationOverridden, …AnnotationCleared.
#[test]
fn the_time_of_the_change_is_set_and_cleared_and_other_annotations_stay() {
    let mut now = snapshot(json!({}), "a:ready");
    let of = |now: &Snapshot| annotations(now, false).to_string();
    assert_eq!(of(&now), "");
    now.triggered_at = Some(Time::from_unix(60));
    let time = "endpoints.kubernetes.io/last-change-trigger-time=1970-01-01T00:01:00Z";
    assert_eq!(of(&now), time);
    let held = json!({"metadata": {"name": "web", "annotations": {
        "endpoints.kubernetes.io/last-change-trigger-time": "old", "endpoints.kubernetes.io/over-capacity": "truncated", "mine": "x",
    }}});
    now.endpoints = Some(decode(&held));
    assert_eq!(of(&now), format!("{time},mine=x"));
    now.triggered_at = None;
    assert_eq!(of(&now), "mine=x");
}

pub(super) fn many(from: usize, to: usize, state: &str) -> String {
    let pods: Vec<String> = (from..=to)
        .map(|number| format!("p{number}{state}"))
        .collect();
    pods.join(" ")
}

// Upstream: TestSyncServiceOverCapacity.
#[test]
fn no_more_than_a_thousand_addresses_are_stored_and_an_annotation_says_so() {
    let check = |pods: &str, ready: usize, others: usize, truncated: bool| {
        let mut now = snapshot(json!({}), pods);
        let plan = plan(&now);
        assert_eq!(plan.is_truncated, truncated);
        let subset = &plan.subsets[0];
        assert_eq!(
            (subset.addresses.len(), subset.not_ready_addresses.len()),
            (ready, others)
        );
        let annotation = annotations(&now, truncated).to_string();
        assert_eq!(
            annotation,
            if truncated {
                "endpoints.kubernetes.io/over-capacity=truncated"
            } else {
                ""
            }
        );
        now.endpoints = Some(carried_out(&now));
        assert_eq!(
            super::super::plan::plan(&now).action,
            Action::Nothing,
            "and that is not written again"
        );
    };
    check(&many(1, 999, ":ready"), 999, 0, false);
    check(&many(1, 1000, ":ready"), 1000, 0, false);
    check(&many(1, 1001, ":ready"), 1000, 0, true);
    let with_others = |ready: usize, others: usize| {
        let others = many(ready + 1, ready + others, "");
        format!("{} {others}", many(1, ready, ":ready"))
    };
    check(&with_others(997, 4), 997, 3, true);
    check(&with_others(1000, 10), 1000, 0, true);
    check(
        &format!("{} {}", many(1, 900, ":ready"), many(901, 1200, "")),
        900,
        100,
        true,
    );
    check(
        &format!("{} {}", many(1, 1200, ":ready"), many(1201, 1300, "")),
        1000,
        0,
        true,
    );
}

// Upstream: TestSyncServiceOverCapacity (annotations that were there).
#[test]
fn an_annotation_that_is_not_true_is_corrected() {
    for (pods, said) in [
        (1, "truncated"),
        (999, "truncated"),
        (1000, "warning"),
        (1000, "truncated"),
        (1001, "warning"),
        (1001, "invalid"),
    ] {
        let mut now = snapshot(json!({}), &many(1, pods, ":ready"));
        let mut held = (*carried_out(&now)).clone();
        let over_capacity = "endpoints.kubernetes.io/over-capacity";
        held.metadata.annotations = held.metadata.annotations.with(over_capacity, said);
        now.endpoints = Some(Arc::new(held));
        let plan = plan(&now);
        assert_eq!(plan.action, Action::Update, "{pods} pods, {said}");
        let expected = (pods > 1000).then_some("truncated");
        let annotations = annotations(&now, plan.is_truncated);
        assert_eq!(annotations.get(over_capacity), expected);
    }
}

// Upstream: TestTruncateEndpoints.
#[test]
fn each_subset_keeps_its_share() {
    let cut = |sizes: &[(usize, usize)]| {
        let address = || api::kinds::Address::default();
        let mut subsets: Vec<api::kinds::Subset<'_>> = sizes
            .iter()
            .map(|(ready, others)| api::kinds::Subset {
                addresses: vec![address(); *ready],
                not_ready_addresses: vec![address(); *others],
                ports: Vec::new(),
            })
            .collect();
        let cut = truncate(&mut subsets);
        let left: Vec<String> = subsets
            .iter()
            .map(|subset| {
                format!(
                    "{}/{}",
                    subset.addresses.len(),
                    subset.not_ready_addresses.len()
                )
            })
            .collect();
        format!("{cut} {}", left.join(" "))
    };
    assert_eq!(cut(&[]), "false ");
    assert_eq!(
        cut(&[(50, 50), (100, 100), (100, 100), (100, 100), (100, 100)]),
        "false 50/50 100/100 100/100 100/100 100/100"
    );
    assert_eq!(
        cut(&[(100, 100); 5]),
        "false 100/100 100/100 100/100 100/100 100/100"
    );
    assert_eq!(
        cut(&[(90, 101), (110, 200), (50, 200), (10, 201), (20, 298)]),
        "true 90/73 110/144 50/144 10/145 20/214"
    );
    assert_eq!(
        cut(&[(205, 100), (400, 200), (402, 200), (400, 200), (693, 300)]),
        "true 98/0 191/0 192/0 191/0 328/0"
    );
    assert_eq!(cut(&[(500, 500)]), "false 500/500");
    assert_eq!(cut(&[(3000, 3000)]), "true 1000/0");
    assert_eq!(cut(&[(400, 100), (500, 100)]), "true 400/50 500/50");
    assert_eq!(
        cut(&[(3000, 0), (3000, 0), (3000, 0)]),
        "true 334/0 334/0 332/0"
    );
    assert_eq!(
        cut(&[(3000, 10), (10, 30), (4000, 0)]),
        "true 428/0 2/0 570/0"
    );
    assert_eq!(cut(&[(100, 5000), (0, 5000)]), "true 100/450 0/450");
}

#[test]
fn says_what_is_stored() {
    let lines = |pods: &str| {
        let now = snapshot(json!({}), pods);
        let lines: Vec<String> = explain(&plan(&now))
            .iter()
            .map(ToString::to_string)
            .collect();
        lines.join("\n")
    };
    expect![[r#"
        stores 1 ready address in Endpoints, and 1 not ready
        creates Endpoints"#]]
    .assert_eq(&lines("a:ready b"));
    expect![[r#"
        stores 1000 ready addresses in Endpoints
        leaves out 200 addresses: Endpoints hold at most 1000
        creates Endpoints"#]]
    .assert_eq(&lines(&many(1, 1200, ":ready")));
}
