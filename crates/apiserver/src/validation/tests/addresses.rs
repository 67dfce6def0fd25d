//! Addresses and ranges, as strictly as upstream 1.36 reads them.

use serde_json::{Value, json};

use super::{Gates, create, prepared, said, update};

const IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const ZEROS: &str = "must not have leading 0s";
const MAPPED: &str = "must not be an IPv4-mapped IPv6 address";

fn created(object: &Value) -> String {
    let (kind, object) = prepared(object);
    said(create(&kind, &object, Gates::default()))
}

/// What is said about each text that is refused: `text: path: why`, without the value.
fn check(object: impl Fn(&str) -> Value, path: &str, cases: &[(&str, &str)]) {
    for (address, why) in cases {
        let found = created(&object(address));
        let wanted = match *why {
            "" => String::new(),
            why => format!("{path}: Invalid value: \"{address}\": {why}"),
        };
        // A fault of an address may be followed by more of the same one.
        let first = found.lines().next().unwrap_or_default();
        assert_eq!(first, wanted, "{address}");
    }
}

fn service(address: &str) -> Value {
    let spec = json!({"ports": [{"port": 80}], "externalIPs": [address]});
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec})
}

/// Upstream: `TestIsValidIPForLegacyField`, strict.
#[test]
fn older_fields_take_any_spelling_of_an_address_but_ambiguous_ones() {
    let cases = [
        ("1.2.3.4", ""),
        ("2001:DB8::1", ""),
        ("2001:db8:0:0:0:0:0:1", ""),
        ("010.1.1.1", ZEROS),
        ("1.2.3.00", ZEROS),
        ("::ffff:1.2.3.4", MAPPED),
        ("::ffff:0102:0304", MAPPED),
        ("256.1.1.1", IP),
        ("1.2.3", IP),
        ("1..2.3", IP),
        ("fe80::1%eth0", IP),
        ("a", IP),
    ];
    let endpoints = |address: &str| {
        let subsets = json!([{"addresses": [{"ip": address}]}]);
        json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "e"}, "subsets": subsets})
    };
    check(endpoints, "subsets[0].addresses[0].ip", &cases);
    check(service, "spec.externalIPs[0]", &cases);
    let pod = |address: &str| {
        let spec = json!({
            "containers": [{"name": "c", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"}],
            "dnsConfig": {"nameservers": [address]},
        });
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    };
    check(pod, "spec.dnsConfig.nameservers[0]", &cases);
}

fn slice(family: &str, address: &str) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "e"},
        "addressType": family, "endpoints": [{"addresses": [address]}],
    })
}

/// Upstream: `TestIsValidIP`.
#[test]
fn newer_fields_take_addresses_in_canonical_form_only() {
    let path = "endpoints[0].addresses[0]";
    let canonical = "must be in canonical form (\"2001:db8::1\")";
    let cases = [
        ("2001:db8::1", ""),
        ("2001:DB8::1", canonical),
        ("2001:db8:0:0:0:0:0:1", canonical),
        ("::ffff:1.2.3.4", MAPPED),
        ("010.1.1.1", ZEROS),
    ];
    check(|address| slice("IPv6", address), path, &cases);
    let cases = [
        ("1.2.3.4", ""),
        ("::ffff:1.2.3.4", MAPPED),
        ("010.1.1.1", ZEROS),
    ];
    check(|address| slice("IPv4", address), path, &cases);
    let named = |address: &str| {
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": address},
            "spec": {"parentRef": {"resource": "services", "name": "s"}},
        })
    };
    let cases = [
        ("1.2.3.4", ""),
        ("2001:DB8::1", canonical),
        ("::ffff:1.2.3.4", MAPPED),
        ("010.1.1.1", ZEROS),
        ("a", IP),
    ];
    check(named, "metadata.name", &cases);
}

/// Upstream: `TestIsValidCIDR`.
#[test]
fn ranges_of_services_are_canonical() {
    let ranges = |range: &str| {
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "c"},
            "spec": {"cidrs": [range]},
        })
    };
    let zeros = "must not have leading 0s in IP or prefix length";
    let cidr = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    let cases = [
        ("10.0.0.0/24", ""),
        ("2001:db8::/64", ""),
        (
            "::ffff:10.0.0.0/104",
            "must not have an IPv4-mapped IPv6 address",
        ),
        ("010.0.0.0/24", zeros),
        ("10.0.0.0/08", zeros),
        (
            "10.0.0.1/24",
            "must not have bits set beyond the prefix length",
        ),
        (
            "2001:DB8::/64",
            "must be in canonical form (\"2001:db8::/64\")",
        ),
        ("10.0.0.0/33", cidr),
        ("10.0.0.0", cidr),
        ("10.0.0.0/", cidr),
        ("10.0.0.0/+8", cidr),
    ];
    check(ranges, "spec.cidrs[0]", &cases);
}

/// Upstream: `TestValidateServiceUpdate`, of external addresses.
#[test]
fn a_service_keeps_the_addresses_that_it_has() {
    let (kind, old) = prepared(&service("::ffff:1.2.3.4"));
    assert!(!create(&kind, &old, Gates::default()).is_empty());
    assert_eq!(said(update(&kind, &old, &old, Gates::default())), "");
    let (_, mut new) = prepared(&service("::ffff:1.2.3.5"));
    new["metadata"] = old["metadata"].clone();
    assert!(said(update(&kind, &new, &old, Gates::default())).ends_with(MAPPED));
}
