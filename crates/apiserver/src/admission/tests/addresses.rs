//! Addresses and ports of Services. Upstream: pkg/registry/core/service/{ipallocator,portallocator,storage}.

use serde_json::{Value, json};

use super::*;

#[test]
fn services_get_addresses_and_ports_and_keep_them() {
    let case = cluster([]);
    let (admitted, verdict) = case.create(service(json!({"type": "NodePort", "ports": [
        {"name": "a", "port": 80}, {"name": "b", "port": 80, "protocol": "UDP"}, {"name": "c", "port": 81}]}))).unwrap();
    let address = text(&admitted, "spec.clusterIP").to_owned();
    assert!(address.starts_with("10.0.0."), "{address}");
    assert_eq!(at(&admitted, "spec.clusterIPs"), &json!([address]));
    assert_eq!(at(&admitted, "spec.ipFamilies"), &json!(["IPv4"]));
    let ports = crate::strategy::services::node_ports(&admitted);
    assert!(
        ports.len() == 3 && ports[0] == ports[1] && ports[0] != ports[2],
        "{ports:?}"
    );
    let [Change::Put(kind, marker)] = verdict.changes.as_slice() else {
        panic!("{verdict:?}")
    };
    assert_eq!(
        (&*kind.kind, text(marker, "metadata.name")),
        ("IPAddress", address.as_str())
    );
    let (updated, verdict) = case
        .run(
            &service(json!({"type": "ClusterIP", "ports": [{"name": "a", "port": 80}]})),
            Some(&admitted),
            None,
        )
        .unwrap();
    assert_eq!(text(&updated, "spec.clusterIP"), address);
    assert!(
        crate::strategy::services::node_ports(&updated).is_empty() && verdict.changes.is_empty()
    );
    let (external, verdict) = case
        .run(
            &service(json!({"type": "ExternalName", "externalName": "x.y"})),
            Some(&admitted),
            None,
        )
        .unwrap();
    assert!(at(&external, "spec.clusterIP").is_null());
    assert!(
        matches!(verdict.changes.as_slice(), [Change::Delete { name, .. }] if *name == address)
    );
}

#[test]
fn taken_addresses_and_ports_are_refused() {
    let case = cluster([
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": "10.0.0.5"}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "ns", "name": "other"}, "spec": {"ports": [{"port": 1, "nodePort": 30001}]}}),
    ]);
    case.refuses(
        service(json!({"clusterIP": "10.0.0.5", "ports": [{"port": 1}]})),
        "Service \"s\" is invalid: spec.clusterIPs: Invalid value: [\"10.0.0.5\"]: failed to allocate IP 10.0.0.5: provided IP is already allocated",
    );
    case.refuses(
        service(json!({"clusterIP": "10.9.9.9", "ports": [{"port": 1}]})),
        "Service \"s\" is invalid: spec.clusterIPs: Invalid value: [\"10.9.9.9\"]: failed to allocate IP 10.9.9.9: the provided IP (10.9.9.9) is not in the valid range. The range of valid IPs is 10.0.0.0/24",
    );
    case.refuses(
        service(json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": 30001}]})),
        "Service \"s\" is invalid: spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated",
    );
    case.refuses(
        service(json!({"type": "NodePort", "ports": [{"name": "a", "port": 1, "nodePort": 30002}, {"name": "b", "port": 2, "nodePort": 30002}]})),
        "Service \"s\" is invalid: spec.ports[1].nodePort: Invalid value: 30002: provided port is already allocated",
    );
    case.refuses(
        service(json!({"ipFamilyPolicy": "RequireDualStack", "ports": [{"port": 1}]})),
        "Service \"s\" is invalid: spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
    );
}

#[test]
fn a_load_balancer_with_a_local_policy_gets_a_port_for_health_checks() {
    let taken = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30001});
    let case = cluster([
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "ns", "name": "other"}, "spec": taken}),
    ]);
    let balanced = |policy: &str, more: Value| {
        let mut spec = json!({"type": "LoadBalancer", "externalTrafficPolicy": policy, "ports": [{"port": 80}]});
        if !more.is_null() {
            spec["healthCheckNodePort"] = more;
        }
        service(spec)
    };
    let (local, _) = case.create(balanced("Local", Value::Null)).unwrap();
    let port = at(&local, "spec.healthCheckNodePort").as_i64().unwrap();
    assert!((30000..=32767).contains(&port) && port != 30001, "{port}");
    assert!(!crate::strategy::services::node_ports(&local).contains(&port));
    let (anywhere, _) = case.create(balanced("Cluster", Value::Null)).unwrap();
    assert!(at(&anywhere, "spec.healthCheckNodePort").is_null());
    let refused = case.create(balanced("Local", json!(30001)));
    assert!(
        refused
            .unwrap_err()
            .contains("spec.healthCheckNodePort: Invalid value: 30001")
    );
}

#[test]
fn dual_stack_services_get_one_address_of_each_family() {
    let mut case = cluster([]);
    case.networks.service_cidrs = ["10.0.0.0/16", "fd00::/112"]
        .iter()
        .filter_map(|text| api::Cidr::parse(text))
        .collect();
    let (admitted, _) = case
        .create(service(
            json!({"ipFamilyPolicy": "PreferDualStack", "ports": [{"port": 1}]}),
        ))
        .unwrap();
    assert_eq!(at(&admitted, "spec.ipFamilies"), &json!(["IPv4", "IPv6"]));
    assert!(
        list(&admitted, "spec.clusterIPs")[1]
            .as_str()
            .unwrap()
            .starts_with("fd00::")
    );
}

#[test]
fn an_address_is_the_same_however_it_is_written() {
    let taken = json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": "fd00::7"}});
    let mut case = cluster([taken]);
    case.networks.service_cidrs = vec![api::Cidr::parse("fd00::/112").unwrap()];
    let at = |address: &str| service(json!({"clusterIP": address, "ports": [{"port": 1}]}));
    let (admitted, verdict) = case.create(at("FD00:0::5")).unwrap();
    assert_eq!(text(&admitted, "spec.clusterIP"), "FD00:0::5");
    let [Change::Put(_, marker)] = verdict.changes.as_slice() else {
        panic!("{verdict:?}")
    };
    assert_eq!(text(marker, "metadata.name"), "fd00::5");
    case.refuses(
        at("FD00::7"),
        "Service \"s\" is invalid: spec.clusterIPs: Invalid value: [\"FD00::7\"]: failed to allocate IP FD00::7: provided IP is already allocated",
    );
    let registry = Registry::default();
    let released = released_by_deletion(registry.kind("v1", "Service").unwrap(), &admitted);
    assert!(matches!(released.as_slice(), [Change::Delete { name, .. }] if name == "fd00::5"));
}

// Upstream: TestCalculateRangeOffset.
#[test]
fn a_small_range_keeps_no_addresses_back() {
    let mut case = cluster([]);
    let mut given = |range: &str, taken: u8| {
        case.networks.service_cidrs = vec![api::Cidr::parse(range).unwrap()];
        case.objects.retain(|object| object["kind"] != "IPAddress");
        case.objects.extend((1..=taken).map(|last| {
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": format!("10.0.0.{last}")}})
        }));
        let (admitted, _) = case
            .create(service(json!({"ports": [{"port": 1}]})))
            .unwrap();
        let address = text(&admitted, "spec.clusterIP").to_owned();
        address.rsplit('.').next().unwrap().parse::<u8>().unwrap()
    };
    // With the fourteenth free alone, and with any of the others: each of them can be chosen.
    assert_eq!(given("10.0.0.0/28", 13), 14);
    assert!(given("10.0.0.0/28", 0) < 14, "all are as good");
    assert!(
        given("10.0.0.0/27", 0) > 16,
        "the first sixteen are for those who ask for them"
    );
}

#[test]
fn a_full_range_is_said_to_be_full() {
    let mut case = cluster((1..=2).map(|last| {
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": format!("10.0.0.{last}")}})
    }));
    case.networks.service_cidrs = vec![api::Cidr::parse("10.0.0.0/30").unwrap()];
    let message = case
        .create(service(json!({"ports": [{"port": 1}]})))
        .unwrap_err();
    assert!(message.ends_with("range is full"), "{message}");
}

#[test]
fn further_ranges_widen_the_pool_once_they_are_ready() {
    let full = (1..=2).map(|last| {
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": format!("10.0.0.{last}")}})
    });
    let mut case = cluster(full);
    case.networks.service_cidrs = vec![api::Cidr::parse("10.0.0.0/30").unwrap()];
    let more = |ready: &str| service_cidr("more", vec!["10.7.0.0/28".to_owned()], ready);
    case.objects.push(more("False"));
    let service = service(json!({"ports": [{"port": 1}]}));
    assert!(
        case.create(service.clone())
            .unwrap_err()
            .ends_with("range is full")
    );
    case.objects.pop();
    let mut going = more("True");
    going["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
    case.objects.push(going);
    assert!(
        case.create(service.clone())
            .unwrap_err()
            .ends_with("range is full")
    );
    case.objects.pop();
    case.objects.push(more("True"));
    let (admitted, _) = case.create(service).unwrap();
    assert!(
        text(&admitted, "spec.clusterIP").starts_with("10.7.0."),
        "{admitted}"
    );
}
