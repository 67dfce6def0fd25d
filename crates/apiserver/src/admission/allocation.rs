//! Addresses and ports that the server gives to Services: cluster IPs of one or two families, node
//! ports, and the IPAddress object that marks each address as taken.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use api::Cidr;
use api::cidr::family;
use api::kinds::{ADDRESS_ALLOCATOR, ADDRESS_MANAGED_BY, ServiceCidr};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Change, Context, Operation, Request, Verdict, built_in};
use crate::fields::{at, integer, list, list_mut, set, text};
use crate::status::{Cause, Status};
use crate::strategy::services::{
    needs_cluster_ip, needs_health_check_port, needs_node_port, node_ports, normalize_cluster_ips,
    prepare_update,
};

/// Where addresses and ports come from.
#[derive(Clone, Debug)]
pub struct Networks {
    /// The Service networks, the default family first; two of them make the cluster dual-stack.
    pub service_cidrs: Vec<Cidr>,
    pub node_ports: RangeInclusive<u16>,
}

impl Default for Networks {
    /// kube-apiserver's defaults.
    fn default() -> Self {
        let cidr = Cidr::parse("10.0.0.0/24").expect("a constant");
        Networks {
            service_cidrs: vec![cidr],
            node_ports: 30000..=32767,
        }
    }
}

/// Gives a Service what it needs and lacks.
pub(super) fn allocate(
    context: &Context<'_>,
    request: &Request<'_>,
    service: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    match old {
        Some(old) => prepare_update(service, old),
        None => normalize_cluster_ips(service, None),
    }
    if is_malformed(service) {
        // Validation, which comes next, says what is wrong; there is nothing to allocate.
        return Ok(());
    }
    let mut causes = Vec::new();
    if needs_cluster_ip(service) {
        set_families(context, service, &mut causes);
        if causes.is_empty() && text(service, "spec.clusterIP") != "None" {
            allocate_addresses(context, service, old, &mut causes);
        }
    }
    if causes.is_empty() {
        allocate_ports(context, service, &mut causes);
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid("", "Service", request.name, causes))
    }
}

/// Addresses that are none, that contradict each other, or families that are not known or named twice.
fn is_malformed(service: &Value) -> bool {
    let texts = |path: &str| -> Vec<String> {
        let items = list(service, path).iter();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let (addresses, families) = (texts("spec.clusterIPs"), texts("spec.ipFamilies"));
    let kinds: Vec<Option<&str>> = addresses
        .iter()
        .map(|address| address.parse().ok().map(|address| family(&address)))
        .collect();
    let first = addresses.first().map_or("", String::as_str);
    let unreadable = addresses
        .iter()
        .zip(&kinds)
        .any(|(address, kind)| kind.is_none() && address != "None");
    let known = |family: &String| family == "IPv4" || family == "IPv6";
    let policy = text(service, "spec.ipFamilyPolicy");
    unreadable
        || first != text(service, "spec.clusterIP")
        || (kinds.len() == 2 && kinds[0] == kinds[1])
        || !families.iter().all(known)
        || (families.len() == 2 && families[0] == families[1])
        || !["", "SingleStack", "PreferDualStack", "RequireDualStack"].contains(&policy)
}

/// Decides for one or two IP families where the author did not, and checks that the cluster has them.
fn set_families(context: &Context<'_>, service: &mut Value, causes: &mut Vec<Cause>) {
    let available: Vec<&str> = context
        .networks
        .service_cidrs
        .iter()
        .map(Cidr::family)
        .collect();
    let default = available.first().copied().unwrap_or("IPv4");
    let mut families: Vec<String> = list(service, "spec.ipFamilies")
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    for address in list(service, "spec.clusterIPs")
        .iter()
        .skip(families.len())
        .filter_map(Value::as_str)
    {
        if let Ok(address) = address.parse::<IpAddr>() {
            families.push(family(&address).to_owned());
        }
    }
    let headless = text(service, "spec.clusterIP") == "None";
    let selectorless = at(service, "spec.selector")
        .as_object()
        .is_none_or(serde_json::Map::is_empty);
    let policy = match text(service, "spec.ipFamilyPolicy") {
        "" if families.len() == 2 || (headless && selectorless) => "RequireDualStack".to_owned(),
        "" => "SingleStack".to_owned(),
        given => given.to_owned(),
    };
    if families.is_empty() {
        families.push(default.to_owned());
    }
    let other = if families[0] == "IPv4" {
        "IPv6"
    } else {
        "IPv4"
    };
    let wants_both = policy != "SingleStack" && families.len() == 1;
    // UPSTREAM: endpoints of a headless service without selector are someone else's, so both families are possible.
    if wants_both && (available.contains(&other) || (headless && selectorless)) {
        families.push(other.to_owned());
    }
    if !(headless && selectorless) {
        if policy == "RequireDualStack" && available.len() < 2 {
            let message = "Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services";
            causes.push(Cause::new(
                "spec.ipFamilyPolicy",
                "FieldValueInvalid",
                message,
            ));
        }
        for (index, family) in families
            .iter()
            .enumerate()
            .filter(|(_, family)| !available.contains(&family.as_str()))
        {
            let message = format!("Invalid value: \"{family}\": not configured on this cluster");
            causes.push(Cause::new(
                format!("spec.ipFamilies[{index}]"),
                "FieldValueInvalid",
                message,
            ));
        }
    }
    set(service, "spec.ipFamilyPolicy", policy);
    set(service, "spec.ipFamilies", families);
}

/// In the words that upstream has for a dry run, which name a range; where there is none, in the others.
fn out_of_range(address: &str, ranges: &[Cidr]) -> String {
    match ranges.first() {
        Some(range) => format!(
            "the provided IP ({address}) is not in the valid range. The range of valid IPs is {range}"
        ),
        None => "the provided network does not match the current range".to_owned(),
    }
}

fn allocate_addresses(
    context: &Context<'_>,
    service: &mut Value,
    old: Option<&Value>,
    causes: &mut Vec<Cause>,
) {
    let families: Vec<String> = list(service, "spec.ipFamilies")
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let mut addresses: Vec<Value> = list(service, "spec.clusterIPs").to_vec();
    addresses.truncate(families.len());
    let held = old.map(self::addresses).unwrap_or_default();
    let own = |address: &str| held.contains(&canonical(address));
    let taken = |address: &str| {
        let kind = built_in("networking.k8s.io", "IPAddress");
        let name = canonical(address);
        context.cluster.get(kind, "", &name).is_some()
    };
    for (index, family) in families.iter().enumerate() {
        let ranges = ready_ranges(context, family);
        if let Some(given) = addresses
            .get(index)
            .and_then(Value::as_str)
            .filter(|given| !given.is_empty())
        {
            let parsed = given.parse::<IpAddr>().ok();
            let is_ours = parsed.is_some_and(|it| ranges.iter().any(|range| range.assigns(&it)));
            let why = match (own(given), is_ours, taken(given)) {
                (true, _, _) | (false, true, false) => continue,
                (false, false, _) => out_of_range(given, &ranges),
                (false, true, true) => "provided IP is already allocated".to_owned(),
            };
            let message =
                format!("Invalid value: [\"{given}\"]: failed to allocate IP {given}: {why}");
            causes.push(Cause::new("spec.clusterIPs", "FieldValueInvalid", message));
            return;
        }
        let mut free = ranges.iter();
        match free.find_map(|range| free_address(context, range, &taken)) {
            Some(address) => addresses.push(address.into()),
            None => {
                let message = "Internal error: failed to allocate a serviceIP: range is full";
                causes.push(Cause::new("spec.clusterIPs", "InternalError", message));
                return;
            }
        }
    }
    if let Some(first) = addresses.first().cloned() {
        set(service, "spec.clusterIP", first);
    }
    set(service, "spec.clusterIPs", addresses);
}

/// The ranges of a family that addresses may be taken from: of every ServiceCIDR that is ready and not being deleted, the
/// default one first.
fn ready_ranges(context: &Context<'_>, family: &str) -> Vec<Cidr> {
    let kind = built_in("networking.k8s.io", "ServiceCIDR");
    let stored = context.cluster.list(kind, "");
    let mut ready: Vec<ServiceCidr> = stored
        .iter()
        .filter_map(|stored| ServiceCidr::deserialize(&**stored).ok())
        .filter(|cidr| !cidr.metadata.is_terminating())
        .filter(|cidr| api::conditions::is_true(&cidr.status.conditions, "Ready"))
        .collect();
    ready.sort_by_key(|cidr| {
        let name = cidr.metadata.name.clone();
        (&*name != DEFAULT_SERVICE_CIDR, name)
    });
    let ranges = ready.iter().flat_map(ServiceCidr::ranges);
    ranges.filter(|range| range.family() == family).collect()
}

/// The ServiceCIDR that the server itself makes of its flags.
pub(crate) const DEFAULT_SERVICE_CIDR: &str = "kubernetes";

/// A random address from the upper part of the range, so that those asked for by hand (mostly low) stay free.
fn free_address(
    context: &Context<'_>,
    network: &Cidr,
    taken: &dyn Fn(&str) -> bool,
) -> Option<String> {
    // Nobody runs 2^64 services.
    let size = network.size().min(1 << 64);
    // Neither the network's own address nor, in IPv4, the broadcast address.
    let usable = size.checked_sub(if network.is_ipv4() { 2 } else { 1 })?;
    if usable == 0 {
        return None;
    }
    // UPSTREAM: the lower band is at least 16 addresses, at most 256, otherwise a sixteenth; a small range has none.
    let reserved = match size {
        ..=16 => 0,
        _ => (size / 16).clamp(16, 256).min(usable - 1),
    };
    let span = (usable - reserved).min(u128::from(u32::MAX));
    let start = u128::from(context.random.next_u64()) % span;
    // The dynamic band from a random point on, then the reserved one; bounded so that a full range answers.
    let dynamic = (0..span.min(1 << 16)).map(|step| 1 + reserved + (start + step) % span);
    let fallback = 1..=reserved;
    dynamic
        .chain(fallback)
        .map(|index| network.nth(index).to_string())
        .find(|address| !taken(address))
}

fn allocate_ports(context: &Context<'_>, service: &mut Value, causes: &mut Vec<Cause>) {
    if !needs_node_port(service) && !needs_health_check_port(service) {
        return;
    }
    let identity = |service: &Value| {
        (
            text(service, "metadata.namespace").to_owned(),
            text(service, "metadata.name").to_owned(),
        )
    };
    let mine = identity(service);
    let others = context.cluster.list(built_in("", "Service"), "");
    let mut used: BTreeSet<i64> = BTreeSet::new();
    for other in others.iter().filter(|other| identity(other) != mine) {
        used.extend(node_ports(other));
        used.extend(integer(other, "spec.healthCheckNodePort").filter(|port| *port != 0));
    }
    let range = &context.networks.node_ports;
    if needs_node_port(service) {
        let given: Vec<(i64, i64)> = list(service, "spec.ports")
            .iter()
            .filter_map(|port| {
                Some((
                    integer(port, "port")?,
                    integer(port, "nodePort").filter(|port| *port != 0)?,
                ))
            })
            .collect();
        // Ports of the same number and different protocols share a node port.
        let mut by_port: Vec<(i64, i64)> = given;
        let mut asked = BTreeSet::new();
        for (index, port) in list_mut(service, "spec.ports")
            .into_iter()
            .flatten()
            .enumerate()
        {
            let number = integer(port, "port").unwrap_or_default();
            match integer(port, "nodePort").filter(|port| *port != 0) {
                Some(wanted) => {
                    let field = format!("spec.ports[{index}].nodePort");
                    let again = !asked.insert((text(port, "protocol").to_owned(), wanted));
                    let taken = if again {
                        &BTreeSet::from([wanted])
                    } else {
                        &used
                    };
                    causes.extend(check_port(wanted, taken, range, &field));
                }
                None => {
                    let shared = by_port
                        .iter()
                        .find(|(other, _)| *other == number)
                        .map(|(_, node_port)| *node_port);
                    let Some(free) = shared.or_else(|| free_port(context, &used, &by_port, range))
                    else {
                        let message =
                            "Internal error: failed to allocate a nodePort: range is full";
                        causes.push(Cause::new(
                            format!("spec.ports[{index}].nodePort"),
                            "InternalError",
                            message,
                        ));
                        return;
                    };
                    set(port, "nodePort", free);
                    by_port.push((number, free));
                }
            }
        }
        used.extend(by_port.iter().map(|(_, node_port)| *node_port));
    }
    if needs_health_check_port(service) {
        match integer(service, "spec.healthCheckNodePort").filter(|port| *port != 0) {
            Some(wanted) => {
                causes.extend(check_port(wanted, &used, range, "spec.healthCheckNodePort"))
            }
            None => {
                if let Some(free) = free_port(context, &used, &[], range) {
                    set(service, "spec.healthCheckNodePort", free);
                }
            }
        }
    }
}

fn check_port(
    port: i64,
    used: &BTreeSet<i64>,
    range: &RangeInclusive<u16>,
    field: &str,
) -> Option<Cause> {
    let valid = u16::try_from(port).is_ok_and(|port| range.contains(&port));
    let why = if !valid {
        format!(
            "provided port is not in the valid range. The range of valid ports is {}-{}",
            range.start(),
            range.end()
        )
    } else if used.contains(&port) {
        "provided port is already allocated".to_owned()
    } else {
        return None;
    };
    Some(Cause::new(
        field,
        "FieldValueInvalid",
        format!("Invalid value: {port}: {why}"),
    ))
}

fn free_port(
    context: &Context<'_>,
    used: &BTreeSet<i64>,
    own: &[(i64, i64)],
    range: &RangeInclusive<u16>,
) -> Option<i64> {
    let size = usize::from(range.end() - range.start()) + 1;
    let start = context.random.below(size);
    let ports = (0..size).map(|step| i64::from(*range.start()) + ((start + step) % size) as i64);
    ports
        .into_iter()
        .find(|port| !used.contains(port) && !own.iter().any(|(_, given)| given == port))
}

/// The IPAddress objects that come and go with a Service's addresses.
pub(super) fn record(
    request: &Request<'_>,
    service: &Value,
    old: Option<&Value>,
    verdict: &mut Verdict,
) {
    if !request.is("", "Service") || request.subresource.is_some() {
        return;
    }
    let (before, after) = (old.map(addresses).unwrap_or_default(), addresses(service));
    for address in before.difference(&after) {
        verdict.changes.push(released(address));
    }
    for address in after.difference(&before) {
        let marker = marker(address, request.namespace, request.name);
        verdict.changes.extend(
            marker.map(|marker| {
                Change::Put(built_in("networking.k8s.io", "IPAddress").clone(), marker)
            }),
        );
    }
    debug_assert!(request.operation != Operation::Delete);
}

/// The IPAddress that says whose an address is.
pub(crate) fn marker(address: &str, namespace: &str, name: &str) -> Option<Value> {
    let parsed: IpAddr = address.parse().ok()?;
    Some(
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": {"name": address, "labels": {
            "ipaddress.kubernetes.io/ip-family": family(&parsed),
            ADDRESS_MANAGED_BY: ADDRESS_ALLOCATOR}},
        "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": name}}}),
    )
}

/// What goes when a Service is gone.
pub fn released_by_deletion(kind: &crate::kinds::Kind, object: &Value) -> Vec<Change> {
    if !kind.is("", "Service") {
        return Vec::new();
    }
    addresses(object)
        .iter()
        .map(|address| released(address))
        .collect()
}

fn released(address: &str) -> Change {
    let kind = built_in("networking.k8s.io", "IPAddress").clone();
    Change::Delete {
        kind,
        namespace: String::new(),
        name: address.to_owned(),
    }
}

/// The cluster IPs that a Service has, as their IPAddresses are named.
pub(crate) fn addresses(service: &Value) -> BTreeSet<String> {
    let given = list(service, "spec.clusterIPs")
        .iter()
        .filter_map(Value::as_str);
    given
        .filter(|address| *address != "None" && !address.is_empty())
        .map(canonical)
        .collect()
}

/// An address in the one form of all that it may be written in: `FD00:0::5` is `fd00::5`.
fn canonical(address: &str) -> String {
    let parsed = address.parse::<IpAddr>();
    parsed.map_or_else(|_| address.to_owned(), |parsed| parsed.to_string())
}
