//! Services, endpoints and endpoint slices.

use std::collections::BTreeSet;
use std::net::IpAddr;

use api::syntax;
use serde_json::{Value, json};

use super::addresses::{canonical_ip_address, cidr, ip_address, kept};
use super::metadata::labels;
use super::place::{Errors, Place, port_name};
use crate::fields::text;
use crate::strategy::services::{is_external, is_load_balancer, needs_health_check_port};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// A day: longer than a client should stick to one endpoint.
const AFFINITY_SECONDS_MAX: i64 = 86_400;

/// A Service that is created, or that replaces `old`.
pub(super) fn service(errors: &mut Errors, root: &Place<'_>, old: &Value) {
    let spec = root.field("spec");
    let (kind, cluster_ip) = (spec.field("type"), spec.field("clusterIP"));
    let headless = cluster_ip.text() == "None";
    let ports = spec.field("ports");
    if ports.is_empty() && !headless && kind.text() != "ExternalName" {
        errors.required(&ports, "");
    }
    match kind.text() {
        "ExternalName" => {
            let name = spec.field("externalName");
            if name.text().is_empty() {
                errors.required(&name, "");
            } else {
                for fault in syntax::validate_dns1123_subdomain(name.text().trim_end_matches('.')) {
                    errors.invalid(&name, &fault);
                }
            }
        }
        "NodePort" | "LoadBalancer" if headless => {
            let shown = json!("None");
            let addresses = spec.field("clusterIPs");
            let first = addresses.items().next();
            let detail = format!("may not be set to 'None' for {} services", kind.text());
            errors.invalid(&first.unwrap_or(addresses).showing(&shown), &detail);
        }
        _ => {}
    }
    service_ports(errors, &spec, &ports, headless);
    let selector = spec.field("selector");
    labels(errors, &selector);
    let affinity = spec.field("sessionAffinity");
    if affinity.text().is_empty() {
        errors.required(&affinity, "")
    } else {
        errors.one_of(&affinity, &["ClientIP", "None"])
    }
    if affinity.text() == "ClientIP" {
        let config = spec.field("sessionAffinityConfig");
        let client = config.field("clientIP");
        let timeout = client.field("timeoutSeconds");
        if !timeout
            .integer()
            .is_some_and(|seconds| (1..=AFFINITY_SECONDS_MAX).contains(&seconds))
        {
            errors.invalid(
                &timeout,
                &format!("must be greater than 0 and less than {AFFINITY_SECONDS_MAX}"),
            );
        }
    }
    if kind.text().is_empty() {
        errors.required(&kind, "")
    } else {
        errors.one_of(
            &kind,
            &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
        )
    }
    addresses(errors, root, &spec, &old["spec"]);
    policies(errors, root, &spec);
}

fn service_ports(errors: &mut Errors, spec: &Place<'_>, ports: &Place<'_>, headless: bool) {
    let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    let need_name = ports.len() > 1;
    for port in ports.items() {
        let name = port.field("name");
        if need_name && name.text().is_empty() {
            errors.required(&name, "");
        } else if !name.text().is_empty() {
            errors.syntax(&name, syntax::validate_dns1123_label);
            if !names.insert(name.text().to_owned()) {
                errors.duplicate(&name);
            }
        }
        let (number, target, protocol) = (
            port.field("port"),
            port.field("targetPort"),
            port.field("protocol"),
        );
        errors.port(&number);
        if protocol.text().is_empty() {
            errors.required(&protocol, "")
        } else {
            errors.one_of(&protocol, &PROTOCOLS)
        }
        if headless && target.value.is_string() && !target.text().is_empty() {
            errors.syntax(&target, port_name);
        } else {
            errors.port_or_name(&target);
        }
        let app = port.field("appProtocol");
        if app.is_set() {
            errors.syntax(&app, syntax::validate_qualified_name);
        }
        let key = (protocol.text().to_owned(), number.integer());
        if !numbers.insert(key) {
            let shown = json!({"Name": "", "Protocol": protocol.text(), "AppProtocol": null, "Port": number.integer(), "TargetPort": 0, "NodePort": 0});
            errors.duplicate(&port.showing(&shown));
        }
        let node = port.field("nodePort");
        let kind = spec.field("type").text();
        if !node.is_empty() && matches!(kind, "ClusterIP" | "ExternalName") {
            errors.forbidden(&node, &format!("may not be used when `type` is '{kind}'"));
        }
    }
}

fn addresses(errors: &mut Errors, root: &Place<'_>, spec: &Place<'_>, old: &Value) {
    let (single, plural) = (spec.field("clusterIP"), spec.field("clusterIPs"));
    if text(root.value, "spec.type") == "ExternalName" && !plural.is_empty() {
        errors.forbidden(&plural, "may not be set for ExternalName services");
    }
    let families = spec.field("ipFamilies");
    let mut seen = Vec::new();
    for family in families.items() {
        errors.one_of(&family, &["IPv4", "IPv6"]);
        if seen.contains(&family.text()) {
            errors.duplicate(&family);
        }
        seen.push(family.text());
    }
    errors.one_of_if_set(
        &spec.field("ipFamilyPolicy"),
        &["PreferDualStack", "RequireDualStack", "SingleStack"],
    );
    let six = |address: &str| address.contains(':');
    let both: Vec<&str> = plural.items().map(|address| address.text()).collect();
    if let [first, second] = both.as_slice()
        && six(first) == six(second)
    {
        let why = "may specify no more than one IP for each IP family";
        errors.invalid(&plural, why);
    }
    let held = kept(&old["clusterIPs"]);
    for address in plural.items() {
        if address.text() != "None" && !held.contains(address.text()) {
            errors.syntax(&address, ip_address);
        }
    }
    if single.is_empty() && !plural.is_empty() {
        errors.invalid(&plural, "must be empty when `clusterIP` is not specified");
    } else if plural
        .items()
        .next()
        .is_some_and(|first| first.text() != single.text())
    {
        errors.invalid(&plural, "first value must match `clusterIP`");
    }
    let external = spec.field("externalIPs");
    let held = kept(&old["externalIPs"]);
    for address in external.items() {
        if held.contains(address.text()) || ip_address(address.text()).is_empty() {
            not_special(errors, &address);
        } else {
            errors.syntax(&address, ip_address);
        }
    }
}

/// An address that something else can be reached at.
fn not_special(errors: &mut Errors, place: &Place<'_>) {
    let Some(address) = api::ip::parse(place.text()) else {
        errors.invalid(place, "must be a valid IP address");
        return;
    };
    if address.is_unspecified() {
        let why = format!("may not be unspecified ({})", place.text());
        errors.invalid(place, &why);
    }
    if address.is_loopback() {
        errors.invalid(
            place,
            "may not be in the loopback range (127.0.0.0/8, ::1/128)",
        );
    }
    let (link_local, link_multicast) = match address {
        IpAddr::V4(address) => (
            address.is_link_local(),
            address.octets()[..3] == [224, 0, 0],
        ),
        IpAddr::V6(address) => (
            address.segments()[0] & 0xffc0 == 0xfe80,
            address.segments()[0] & 0xff0f == 0xff02,
        ),
    };
    if link_local {
        errors.invalid(
            place,
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
        );
    }
    if link_multicast {
        errors.invalid(
            place,
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        );
    }
}

fn policies(errors: &mut Errors, root: &Place<'_>, spec: &Place<'_>) {
    let service = root.value;
    let external = spec.field("externalTrafficPolicy");
    if is_external(service) {
        if external.text().is_empty() {
            errors.required(&external, "")
        } else {
            errors.one_of(&external, &["Cluster", "Local"])
        }
    } else if !external.text().is_empty() {
        errors.invalid(
            &external,
            "may only be set for externally-accessible services",
        );
    }
    let internal = spec.field("internalTrafficPolicy");
    if internal.is_set() {
        errors.one_of(&internal, &["Cluster", "Local"]);
    }
    errors.one_of_if_set(
        &spec.field("trafficDistribution"),
        &["PreferClose", "PreferSameZone", "PreferSameNode"],
    );
    let health = spec.field("healthCheckNodePort");
    if !needs_health_check_port(service) && !health.is_empty() {
        errors.invalid(
            &health,
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        );
    }
    let ranges = spec.field("loadBalancerSourceRanges");
    // UPSTREAM: the path is written with a capital letter.
    let shown = spec.field("LoadBalancerSourceRanges");
    let shown = shown.showing(ranges.value);
    if !is_load_balancer(service) && !ranges.is_empty() {
        errors.forbidden(&shown, "may only be used when `type` is 'LoadBalancer'");
    }
    for range in shown.items() {
        errors.syntax(&range, cidr);
    }
    let class = spec.field("loadBalancerClass");
    if class.is_set() {
        if is_load_balancer(service) {
            errors.syntax(&class, syntax::validate_qualified_name);
        } else {
            errors.forbidden(&class, "may only be used when `type` is 'LoadBalancer'");
        }
    }
    let allocate = spec.field("allocateLoadBalancerNodePorts");
    if allocate.is_set() && !is_load_balancer(service) {
        errors.forbidden(&allocate, "may only be used when `type` is 'LoadBalancer'");
    }
}

/// Only load balancers have addresses of their own to report.
pub(super) fn service_status(errors: &mut Errors, root: &Place<'_>) {
    let status = root.field("status");
    let balancer = status.field("loadBalancer");
    let ingress = balancer.field("ingress");
    if !ingress.is_empty() && !is_load_balancer(root.value) {
        errors.forbidden(
            &ingress,
            "may only be used when `spec.type` is 'LoadBalancer'",
        );
        return;
    }
    for entry in ingress.items() {
        let (ip, host) = (entry.field("ip"), entry.field("hostname"));
        if !ip.text().is_empty() {
            errors.syntax(&ip, ip_address);
        }
        if !host.text().is_empty() {
            errors.syntax(&host, syntax::validate_dns1123_subdomain);
        }
    }
}

/// A Service keeps its addresses and, once given, its class.
pub(super) fn service_update(errors: &mut Errors, root: &Place<'_>, old: &Value) {
    service(errors, root, old);
    let spec = root.field("spec");
    let external = |service: &Value| text(service, "spec.type") == "ExternalName";
    if external(old) || external(root.value) {
        return;
    }
    let before = &old["spec"];
    let cluster_ips = spec.field("clusterIPs");
    let old_first = before["clusterIPs"][0].as_str().unwrap_or_default();
    if let Some(first) = cluster_ips.items().next() {
        if !old_first.is_empty() && first.text() != old_first {
            let shown = json!(cluster_ips.value);
            errors.invalid(
                &cluster_ips
                    .items()
                    .next()
                    .unwrap_or(cluster_ips)
                    .showing(&shown),
                "may not change once set",
            );
        }
    } else if !old_first.is_empty() {
        errors.invalid(&cluster_ips, "primary clusterIP can not be unset");
    }
    let class = spec.field("loadBalancerClass");
    let balances = |service: &Value| text(service, "spec.type") == "LoadBalancer";
    if balances(old) && balances(root.value) && class.value != &before["loadBalancerClass"] {
        errors.invalid(&class, "may not change once set");
    }
}

pub(super) fn endpoints(errors: &mut Errors, root: &Place<'_>) {
    let subsets = root.field("subsets");
    for subset in subsets.items() {
        let (ready, not_ready) = (subset.field("addresses"), subset.field("notReadyAddresses"));
        if ready.is_empty() && not_ready.is_empty() {
            errors.required(&subset, "must specify `addresses` or `notReadyAddresses`");
        }
        for list in [&ready, &not_ready] {
            for address in list.items() {
                let ip = address.field("ip");
                errors.syntax(&ip, ip_address);
                not_special(errors, &ip);
                let hostname = address.field("hostname");
                if !hostname.text().is_empty() {
                    errors.syntax(&hostname, syntax::validate_dns1123_label);
                }
                let node = address.field("nodeName");
                if node.is_set() {
                    errors.syntax(&node, syntax::validate_dns1123_subdomain);
                }
            }
        }
        let ports = subset.field("ports");
        for port in ports.items() {
            let name = port.field("name");
            if ports.len() > 1 && name.text().is_empty() {
                errors.required(&name, "");
            } else if !name.text().is_empty() {
                errors.syntax(&name, syntax::validate_dns1123_label);
            }
            errors.port(&port.field("port"));
            errors.one_of(&port.field("protocol"), &PROTOCOLS);
        }
    }
}

/// As many as one slice may hold of each.
const SLICE_MAX: usize = 1000;

pub(super) fn endpoint_slice(errors: &mut Errors, root: &Place<'_>) {
    let kind = root.field("addressType");
    if kind.text().is_empty() {
        errors.required(&kind, "")
    } else {
        errors.one_of(&kind, &["FQDN", "IPv4", "IPv6"])
    }
    let endpoints = root.field("endpoints");
    if endpoints.len() > SLICE_MAX {
        errors.invalid(&endpoints, &format!("must have at most {SLICE_MAX} items"));
        return;
    }
    for endpoint in endpoints.items() {
        let addresses = endpoint.field("addresses");
        if addresses.is_empty() {
            errors.required(&addresses, "must contain at least 1 address");
        } else if addresses.len() > 100 {
            errors.invalid(&addresses, "must have at most 100 items");
        }
        for address in addresses.items() {
            slice_address(errors, kind.text(), &addresses, &address);
        }
        let (hostname, node) = (endpoint.field("hostname"), endpoint.field("nodeName"));
        if hostname.is_set() {
            errors.syntax(&hostname, syntax::validate_dns1123_label);
        }
        if node.is_set() {
            errors.syntax(&node, syntax::validate_dns1123_subdomain);
        }
    }
    slice_ports(errors, &root.field("ports"));
}

fn slice_address(errors: &mut Errors, kind: &str, addresses: &Place<'_>, address: &Place<'_>) {
    let check = match kind {
        "IPv4" => ip_address,
        "IPv6" => canonical_ip_address,
        "FQDN" => return errors.syntax(address, syntax::validate_dns1123_subdomain),
        // The type itself is refused.
        _ => return,
    };
    if !check(address.text()).is_empty() {
        return errors.syntax(address, check);
    }
    let is_v4 = !address.text().contains(':');
    if is_v4 != (kind == "IPv4") {
        let why = format!("must be an {kind} address");
        errors.invalid(&addresses.showing(address.value), &why);
    }
    not_special(errors, address);
}

fn slice_ports(errors: &mut Errors, ports: &Place<'_>) {
    let mut names = BTreeSet::new();
    for port in ports.items() {
        let name = port.field("name");
        if !name.text().is_empty() {
            errors.syntax(&name, syntax::validate_dns1123_label);
        }
        if !names.insert(name.text().to_owned()) {
            errors.duplicate(&name);
        }
        errors.one_of(&port.field("protocol"), &PROTOCOLS);
        let app = port.field("appProtocol");
        if app.is_set() {
            errors.syntax(&app, syntax::validate_qualified_name);
        }
    }
}
