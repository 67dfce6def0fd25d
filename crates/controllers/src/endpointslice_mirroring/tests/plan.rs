//! Which slices mirror which subsets. Upstream: reconciler_test.go, utils_test.go, reconciler_helpers_test.go.

use std::sync::Arc;

use api::Resource;
use api::kinds::{Address, EndpointSlice, Endpoints, Subset};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::super::plan::{Mirror, Plan, Snapshot, endpoint, plan};
use crate::service_endpoints::repack;

fn decode<K: Resource>(value: &Value) -> Arc<K> {
    Arc::new(K::decode(value.to_string().as_bytes()).unwrap())
}

/// `10.0.0.1 -10.0.0.2 @80,81 | …`: subsets with addresses that are ready, or not, and ports.
pub(super) fn subsets(text: &str) -> Value {
    let parts = text.split('|').filter(|part| !part.trim().is_empty());
    let subsets: Vec<Value> = parts
        .map(|part| {
            let (addresses, ports) = part.split_once('@').unwrap_or((part, ""));
            let words: Vec<&str> = addresses.split_whitespace().collect();
            let ready: Vec<Value> = words.iter().filter(|word| !word.starts_with('-')).map(|ip| json!({"ip": ip})).collect();
            let others: Vec<Value> = words.iter().filter_map(|word| word.strip_prefix('-')).map(|ip| json!({"ip": ip})).collect();
            let ports = ports.trim().split(',').filter(|port| !port.is_empty());
            let ports: Vec<Value> = ports
                .map(|port| json!({"name": format!("p{port}"), "port": port.parse::<i32>().unwrap(), "protocol": "TCP"}))
                .collect();
            json!({"addresses": ready, "notReadyAddresses": others, "ports": ports})
        })
        .collect();
    json!(subsets)
}

pub(super) fn snapshot(text: &str, patch: Value) -> Snapshot<'static> {
    let mut metadata = json!({"name": "web", "namespace": "ns", "uid": "u1"});
    for (key, value) in patch.as_object().into_iter().flatten() {
        metadata[key] = value.clone();
    }
    let object = json!({"metadata": metadata, "subsets": subsets(text)}).to_string();
    // As long as the test lasts.
    let endpoints: &Endpoints = Box::leak(Box::new(
        Endpoints::decode_in_full(object.as_bytes()).unwrap(),
    ));
    Snapshot {
        subsets: repack(&endpoints.subsets().unwrap()),
        endpoints,
        slices: Vec::new(),
        max_addresses: 1000,
    }
}

/// The slice that mirrors this alone, after `patch`.
pub(super) fn with_slice(
    mut snapshot: Snapshot<'static>,
    name: &str,
    text: &str,
    patch: Value,
) -> Snapshot<'static> {
    let alone = self::snapshot(text, json!({}));
    let plan = plan(&alone);
    let mirror = &plan.create[0];
    let mut object = json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "labels": plan.labels,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Endpoints", "name": "web", "uid": "u1"}],
        },
        "addressType": mirror.family.as_str(), "ports": mirror.ports, "endpoints": mirror.endpoints,
    });
    for (key, value) in patch.as_object().into_iter().flatten() {
        object["metadata"][key] = value.clone();
    }
    snapshot.slices.push(decode::<EndpointSlice>(&object));
    snapshot
}

fn text(plan: &Plan<'_>, snapshot: &Snapshot<'_>) -> String {
    let mirror = |verb: &str, mirror: &Mirror<'_>| {
        let name = mirror
            .slice
            .map_or("", |number| &snapshot.slices[number].metadata.name);
        let ports: Vec<String> = mirror
            .ports
            .iter()
            .map(|port| port.port.unwrap_or(0).to_string())
            .collect();
        let endpoints: Vec<String> = mirror
            .endpoints
            .iter()
            .map(|endpoint| {
                let mark = if endpoint.conditions.ready == Some(true) {
                    ""
                } else {
                    "-"
                };
                format!("{mark}{}", endpoint.addresses[0])
            })
            .collect();
        format!(
            "{verb} {name}[{} @{}]",
            endpoints.join(" "),
            ports.join(",")
        )
    };
    let created = plan.create.iter().map(|new| mirror("create", new));
    let updated = plan.update.iter().map(|new| mirror("update", new));
    let deleted = plan
        .delete
        .iter()
        .map(|number| format!("delete {}", snapshot.slices[*number].metadata.name));
    let all: Vec<String> = created.chain(updated).chain(deleted).collect();
    match all.is_empty() {
        true => "nothing".into(),
        false => all.join("; "),
    }
}

fn check(snapshot: Snapshot<'_>, expected: Expect) {
    expected.assert_eq(&text(&plan(&snapshot), &snapshot));
}

// Upstream: TestReconcile.
#[test]
fn each_set_of_ports_and_each_family_is_a_slice() {
    let none = json!({});
    check(snapshot("", none.clone()), expect!["nothing"]);
    check(
        snapshot("10.0.0.1 -10.0.0.2 @80", none.clone()),
        expect!["create [10.0.0.1 -10.0.0.2 @80]"],
    );
    check(
        snapshot("10.0.0.1 fd00::1 @80", none.clone()),
        expect!["create [10.0.0.1 @80]; create [fd00::1 @80]"],
    );
    check(
        snapshot("10.0.0.1 @80 | 10.0.0.2 @81 | 10.0.0.1 @82", none.clone()),
        expect!["create [10.0.0.1 @80,82]; create [10.0.0.2 @81]"],
    );
    check(
        snapshot("10.0.0.1 10.0.0.1 @80", none.clone()),
        expect!["create [10.0.0.1 @80]"],
    );
    check(
        snapshot("10.0.0.1", none.clone()),
        expect!["create [10.0.0.1 @]"],
    );
    check(
        snapshot("010.00.0.1 @80", none),
        expect!["create [10.0.0.1 @80]"],
    );
}

// Upstream: TestReconcile (existing slices).
#[test]
fn what_is_there_is_kept_or_written_over() {
    let held = |want: &str, have: &str| with_slice(snapshot(want, json!({})), "s", have, json!({}));
    check(held("10.0.0.1 @80", "10.0.0.1 @80"), expect!["nothing"]);
    check(
        held("-10.0.0.1 @80", "10.0.0.1 @80"),
        expect!["update s[-10.0.0.1 @80]"],
    );
    check(
        held("10.0.0.1 10.0.0.2 @80", "10.0.0.1 @80"),
        expect!["update s[10.0.0.1 10.0.0.2 @80]"],
    );
    check(
        held("10.0.0.1 @81", "10.0.0.1 @80"),
        expect!["update s[10.0.0.1 @81]"],
    );
    check(
        held("fd00::1 @80", "10.0.0.1 @80"),
        expect!["create [fd00::1 @80]; delete s"],
    );
    check(held("", "10.0.0.1 @80"), expect!["delete s"]);
    let two = with_slice(
        held("10.0.0.1 @80", "10.0.0.1 @80"),
        "t",
        "10.0.0.1 @80",
        json!({}),
    );
    check(two, expect!["delete t"]);
    let own = with_slice(
        snapshot("10.0.0.1 @80", json!({"labels": {"foo": "bar"}})),
        "s",
        "10.0.0.1 @80",
        json!({}),
    );
    check(own, expect!["update s[10.0.0.1 @80]"]);
    let noted = with_slice(
        snapshot("10.0.0.1 @80", json!({"annotations": {"foo": "bar"}})),
        "s",
        "10.0.0.1 @80",
        json!({}),
    );
    check(noted, expect!["update s[10.0.0.1 @80]"]);
    let namesake = json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Endpoints", "name": "web", "uid": "u0"}]});
    check(
        with_slice(
            snapshot("10.0.0.1 @80", json!({})),
            "s",
            "10.0.0.1 @80",
            namesake,
        ),
        expect!["update s[10.0.0.1 @80]"],
    );
    let ignored = json!({"annotations": {
        "endpoints.kubernetes.io/last-change-trigger-time": "x", "kubectl.kubernetes.io/last-applied-configuration": "y",
    }});
    check(
        with_slice(
            snapshot("10.0.0.1 @80", ignored),
            "s",
            "10.0.0.1 @80",
            json!({}),
        ),
        expect!["nothing"],
    );
}

// Upstream: TestRecycleSlices.
#[test]
fn slices_of_the_same_family_are_reused() {
    let case = with_slice(
        snapshot("10.0.0.1 @81 | fd00::1 @82", json!({})),
        "a",
        "10.0.0.1 @70",
        json!({}),
    );
    let case = with_slice(case, "b", "10.0.0.2 @71", json!({}));
    let case = with_slice(case, "c", "fd00::2 @72", json!({}));
    check(
        case,
        expect!["update a[10.0.0.1 @81]; update c[fd00::1 @82]; delete b"],
    );
    let going = json!({"deletionTimestamp": "2024-01-01T00:00:00Z"});
    check(snapshot("10.0.0.1 @81", going), expect!["nothing"]);
}

// Upstream: TestReconcile (invalid addresses, too many addresses).
#[test]
fn what_is_no_address_or_too_many_is_skipped_and_counted() {
    let mut case = snapshot("10.0.0.1 nonsense 10.0.0.2 web.example -x @80", json!({}));
    let counts = plan(&case).counts;
    assert_eq!(
        (counts.endpoints, counts.invalid, counts.skipped),
        (2, 3, 3)
    );
    case.max_addresses = 1;
    let counts = plan(&case).counts;
    assert_eq!(counts.endpoints, 1);
    assert!(counts.skipped > counts.invalid, "{counts:?}");
    check(case, expect!["create [10.0.0.1 @80]"]);
}

// Upstream: TestReconcile (metrics), TestNumEndpointsAndSlices.
#[test]
fn changes_are_counted() {
    let held = with_slice(
        snapshot("10.0.0.1 -10.0.0.2 10.0.0.3 @80", json!({})),
        "s",
        "10.0.0.2 10.0.0.3 10.0.0.4 @80",
        json!({}),
    );
    let counts = plan(&held).counts;
    assert_eq!((counts.added, counts.updated, counts.removed), (1, 1, 1));
    assert_eq!((counts.slices, counts.ideal_slices), (1, 1));
}

// Upstream: TestAddressToEndpoint.
#[test]
fn an_address_becomes_an_endpoint() {
    let address = json!({
        "ip": "10.0.0.1", "hostname": "h", "nodeName": "n",
        "targetRef": {"kind": "Pod", "namespace": "ns", "name": "a", "uid": "u", "resourceVersion": "7"},
    });
    let text = address.to_string();
    let address: Address<'_> = serde_json::from_str(&text).unwrap();
    let (family, found) = endpoint(&address, false).unwrap();
    assert_eq!(family.as_str(), "IPv4");
    expect![[r#"{"addresses":["10.0.0.1"],"conditions":{"ready":false},"hostname":"h","targetRef":{"kind":"Pod","namespace":"ns","name":"a","uid":"u","resourceVersion":"7"},"nodeName":"n"}"#]]
        .assert_eq(&serde_json::to_string(&found).unwrap());
    assert!(endpoint(&Address::default(), true).is_none());
}

// Upstream: TestShouldMirror.
#[test]
fn some_endpoints_are_not_mirrored() {
    let is = |patch: Value| snapshot("", patch).endpoints.is_mirrored();
    assert!(
        is(json!({}))
            && is(json!({"labels": {"endpointslice.kubernetes.io/skip-mirror": "false"}}))
    );
    assert!(!is(
        json!({"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}})
    ));
    assert!(!is(
        json!({"annotations": {"control-plane.alpha.kubernetes.io/leader": ""}})
    ));
}

// Upstream: TestReconcile (canonicalisation), RepackSubsets.
#[test]
fn subsets_are_repacked() {
    let pack = |text: &str| {
        let text = subsets(text).to_string();
        let subsets: Vec<Subset<'_>> = serde_json::from_str(&text).unwrap();
        let packed = repack(&subsets);
        let texts: Vec<String> = packed
            .iter()
            .map(|subset| {
                let ready: Vec<&str> = subset
                    .addresses
                    .iter()
                    .map(|address| &*address.ip)
                    .collect();
                let others: Vec<&str> = subset
                    .not_ready_addresses
                    .iter()
                    .map(|address| &*address.ip)
                    .collect();
                let ports: Vec<String> = subset
                    .ports
                    .iter()
                    .map(|port| port.port.to_string())
                    .collect();
                format!(
                    "{} -{} @{}",
                    ready.join(" "),
                    others.join(" "),
                    ports.join(",")
                )
            })
            .collect();
        texts.join(" | ")
    };
    assert_eq!(pack("1.1.1.1 @80 | 1.1.1.1 @81"), "1.1.1.1 - @80,81");
    assert_eq!(pack("2.2.2.2 @80 | 1.1.1.1 @80"), "1.1.1.1 2.2.2.2 - @80");
    assert_eq!(
        pack("1.1.1.1 @80 | -1.1.1.1 @80"),
        " -1.1.1.1 @80",
        "not ready wins"
    );
    assert_eq!(
        pack("1.1.1.1 @80 | -1.1.1.1 @81"),
        "1.1.1.1 - @80 |  -1.1.1.1 @81"
    );
    assert_eq!(pack("1.1.1.1"), "1.1.1.1 - @");
    assert_eq!(pack(""), "");
}

#[test]
fn slices_with_ready_addresses_are_written_before_those_that_lose_them() {
    let now = snapshot("-10.0.0.1 @80 | 10.0.0.2 @81", json!({}));
    let held = with_slice(now, "s", "10.0.0.1 @80", json!({}));
    let held = with_slice(held, "t", "-10.0.0.2 @81", json!({}));
    check(
        held,
        expect!["update t[10.0.0.2 @81]; update s[-10.0.0.1 @80]"],
    );
}
