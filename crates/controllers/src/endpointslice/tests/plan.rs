//! What becomes of slices.

use expect_test::expect;
use serde_json::json;

use super::case::case;

// Upstream: TestReconcileEmpty, TestPlaceHolderSliceCompare, TestNewPortMapKey_NilVsEmptySlice.
#[test]
fn a_service_without_endpoints_has_one_empty_slice() {
    case("").check(expect!["create [:]"]);
    case("").slice("s", "").check(expect!["nothing"]);
    case("")
        .slice("s", "a:ready")
        .check(expect!["replace s[:]"]);
    case("a:failed b:noip")
        .slice("s", "")
        .check(expect!["nothing"]);
    case("")
        .slice("s", "")
        .slice("t", "")
        .check(expect!["replace s[:]; delete t"]);
    case("a:ready")
        .slice("s", "")
        .check(expect!["replace s[a]"]);
    let label = json!({"metadata": {"labels": {"foo": "bar"}}});
    case("")
        .slice("s", "")
        .service(label)
        .check(expect!["replace s[:]"]);
}

// Upstream: TestReconcilerPodMissingNode.
#[test]
fn a_pod_whose_node_is_unknown_is_left_out_unless_all_are_published() {
    case("a:ready b:ready,@gone").check(expect!["create [a]"]);
    case("b:ready,@gone").check(expect!["create [:]"]);
    case("a:ready")
        .slice("s", "a:ready b:ready,@gone")
        .check(expect!["update s[a]"]);
    let all = json!({"spec": {"publishNotReadyAddresses": true}});
    case("a:ready b:ready,@gone")
        .service(all)
        .check(expect!["create [a b]"]);
    let missing = case("a:ready b:ready,@gone");
    let plan = missing.plan();
    let without = &plan.families[0].desired.without_node;
    assert_eq!(without.len(), 1);
    assert_eq!(missing.pod(1).metadata.name, without[0].metadata.name);
}

// Upstream: TestEndpointsEqualBeyondHash.
#[test]
fn what_changes_of_a_pod_changes_its_endpoint() {
    for (before, expected) in [
        ("a:ready", expect!["nothing"]),
        ("a", expect!["update s[a]"]),
        ("a:ready,gone", expect!["update s[a]"]),
        ("a:ready,@na", expect!["update s[a]"]),
        ("a:ready,uid=other", expect!["update s[a]"]),
        ("a:ready,ip=10.9.9.9", expect!["replace s[a]"]),
        ("a:ready,host=h", expect!["replace s[a]"]),
        ("b:ready", expect!["replace s[a]"]),
        ("a:ready b:ready", expect!["update s[a]"]),
        ("a:ready a:ready", expect!["update s[a]"]),
    ] {
        case("a:ready").slice("s", before).check(expected);
    }
}

// Upstream: TestSyncService, TestSupportedServiceAddressType.
#[test]
fn each_family_has_slices_of_its_own() {
    let dual = json!({"spec": {"ipFamilies": ["IPv6", "IPv4"]}});
    case("a:ready,ip=10.0.0.1+fd00::1 b:ready")
        .service(dual)
        .check(expect!["IPv6: create [a] | IPv4: create [a b]"]);
    let families = |patch: serde_json::Value| {
        let case = case("")
            .service(json!({"spec": {"ipFamilies": null}}))
            .service(patch);
        let plan = case.plan();
        let names: Vec<&str> = plan
            .families
            .iter()
            .map(|family| family.family.as_str())
            .collect();
        names.join(" ")
    };
    let address = |address: &str| json!({"spec": {"clusterIP": address}});
    let listed = |families: &[&str], address: &str| json!({"spec": {"ipFamilies": families, "clusterIP": address}});
    for address in ["10.0.0.1", "None"] {
        assert_eq!(families(listed(&["IPv4"], address)), "IPv4");
        assert_eq!(families(listed(&["IPv6"], address)), "IPv6");
        assert_eq!(families(listed(&["IPv4", "IPv6"], address)), "IPv4 IPv6");
        assert_eq!(families(listed(&["IPv6", "IPv4"], address)), "IPv6 IPv4");
    }
    assert_eq!(families(address("10.0.0.1")), "IPv4");
    assert_eq!(families(address("fd00::1")), "IPv6");
    assert_eq!(families(address("None")), "IPv4 IPv6");
    assert_eq!(families(address("nonsense")), "IPv4");
    assert_eq!(families(json!({"spec": {"ipFamilies": ["IPv5"]}})), "IPv4");
}

// Upstream: TestReconcilerFinalizeSvcDeletionTimestamp.
#[test]
fn a_service_that_is_going_away_gets_no_new_slices() {
    let going = json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}});
    case("a:ready")
        .service(going.clone())
        .check(expect!["nothing"]);
    case("a:ready")
        .slice("s", "b:ready")
        .service(going.clone())
        .check(expect!["replace s[a]"]);
    case("a:ready")
        .slice("s", "a")
        .service(going)
        .check(expect!["update s[a]"]);
}

#[test]
fn unused_ports_are_removed_with_their_slices() {
    let two = json!({"spec": {"ports": [
        {"name": "http", "protocol": "TCP", "targetPort": 8080},
        {"name": "admin", "protocol": "TCP", "targetPort": 9090},
    ]}});
    case("a:ready b:ready")
        .slice("s", "a:ready")
        .slice("t", "b:ready")
        .service(two)
        .check(expect!["replace s[admin/9090,http/8080: a b]; delete t"]);
}

// Upstream: TestSyncService (pods with the same address).
#[test]
fn pods_that_share_an_address_are_endpoints_of_their_own() {
    case("a:ready,ip=10.0.0.9 b:ready,ip=10.0.0.9 c:failed,ip=10.0.0.9")
        .check(expect!["create [a b]"]);
    case("a:ready,ip=10.0.0.9 b:ready,ip=10.0.0.9")
        .slice("s", "b:ready,ip=10.0.0.9 c:ready,ip=10.0.0.9")
        .check(expect!["update s[b a]"]);
}

#[test]
fn slices_with_ready_endpoints_are_written_before_those_that_lose_them() {
    let by_name = json!({"name": "web", "protocol": "TCP", "targetPort": "web"});
    case("a:port=web/81 b:ready,port=web/82")
        .service(json!({"spec": {"ports": [by_name]}}))
        .slice("s", "a:ready,port=web/81")
        .slice("t", "b:port=web/82")
        .check(expect!["update t[web/82: b]; update s[web/81: -a]"]);
}
