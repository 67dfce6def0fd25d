//! The objects that exist before anyone asked for them: namespaces, the API server's own Service, priority
//! classes, and the roles and bindings that Kubernetes' components rely on.

pub(crate) mod addresses;
mod flow;
mod rbac;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::admission::{DEFAULT_SERVICE_CIDR, Networks, address_marker};
use crate::fields::{at, set};
use crate::kinds::{self, Kind};
use crate::{defaults, schema, strategy};

pub use rbac::{Previews, objects as rbac_objects};

/// What the boot objects depend on.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    pub networks: &'a Networks,
    /// Where clients reach the server; without it there is no endpoint to publish.
    pub advertise: Option<(std::net::IpAddr, u16)>,
    /// As objects spell it.
    pub now: &'a str,
    /// Roles and bindings, where requests are authorized.
    pub rbac: bool,
    pub previews: Previews,
}

/// Everything to be stored at the first start, in order, ready but for uid, creation time and revision.
pub fn boot_objects(options: &Options<'_>) -> Vec<(Arc<Kind>, Value)> {
    let mut objects = Vec::new();
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    }
    objects.extend(networks(options));
    for (name, value, description) in [
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ] {
        objects.push(
            json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": value, "description": description}),
        );
    }
    let since = options.now.split('T').next().unwrap_or_default();
    objects.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"since": since},
        "metadata": {"namespace": "kube-system", "name": "kube-apiserver-legacy-service-account-token-tracking"}}));
    objects.extend(flow::objects(options.now));
    let mut prepared: Vec<_> = objects
        .into_iter()
        .filter_map(|object| prepare(object, options.now))
        .collect();
    if options.rbac {
        prepared.extend(
            rbac_objects(options.previews)
                .into_iter()
                .filter_map(|object| prepare(object, options.now)),
        );
    }
    prepared
}

/// The Service `kubernetes`, what is behind it, and the range its address is from.
fn networks(options: &Options<'_>) -> Vec<Value> {
    let Some(cidr) = options.networks.service_cidrs.first() else {
        return Vec::new();
    };
    let address = cidr.nth(1);
    let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    let port = options.advertise.map_or(6443, |(_, port)| port);
    let cidrs: Vec<_> = options
        .networks
        .service_cidrs
        .iter()
        .map(ToString::to_string)
        .collect();
    let mut objects = vec![
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": DEFAULT_SERVICE_CIDR}, "spec": {"cidrs": cidrs}}),
        json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"namespace": "default", "name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
            "spec": {"type": "ClusterIP", "clusterIP": address.to_string(), "clusterIPs": [address.to_string()],
                "ipFamilies": [family], "ipFamilyPolicy": "SingleStack",
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}]}}),
    ];
    objects.extend(address_marker(
        &address.to_string(),
        "default",
        "kubernetes",
    ));
    if let Some((ip, port)) = options.advertise {
        let name = json!({"namespace": "default", "name": "kubernetes"});
        let mut labelled = name.clone();
        set(
            &mut labelled,
            "labels",
            json!({"kubernetes.io/service-name": "kubernetes"}),
        );
        let mut mirrored = name;
        set(
            &mut mirrored,
            "labels",
            json!({"endpointslice.kubernetes.io/skip-mirror": "true"}),
        );
        objects.push(json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": mirrored,
            "subsets": [{"addresses": [{"ip": ip.to_string()}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}]}));
        objects.push(json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": labelled,
            "addressType": if ip.is_ipv4() { "IPv4" } else { "IPv6" },
            "endpoints": [{"addresses": [ip.to_string()], "conditions": {"ready": true}}],
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}));
    }
    objects
}

/// What says where the server is reached follows it when it is started anew at another address or port.
pub fn follow_address(kind: &Kind, held: &mut Value, booted: &Value) -> bool {
    let members: &[&str] = match &*kind.kind {
        "Endpoints" => &["subsets"],
        "EndpointSlice" => &["addressType", "endpoints", "ports"],
        "Service" => &["spec.ports"],
        _ => return false,
    };
    let mut has_moved = false;
    for member in members {
        if at(held, member) != at(booted, member) {
            set(held, member, at(booted, member).clone());
            has_moved = true;
        }
    }
    has_moved
}

fn prepare(object: Value, now: &str) -> Option<(Arc<Kind>, Value)> {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let kind = kinds::find(group, object["kind"].as_str().unwrap_or_default())?;
    let ty = schema::type_for(&kind.group, &kind.version, &kind.kind)?;
    let mut object = schema::decode(ty, object).ok()?.object;
    defaults::apply(kind, &mut object);
    let status = object.get("status").cloned();
    strategy::prepare_create(kind, &mut object, now);
    if let (Some(status), "FlowSchema") = (status, &*kind.kind) {
        set(&mut object, "status", status);
    }
    if kind.kind == "ServiceCIDR" {
        let condition = json!({"type": "Ready", "status": "True", "lastTransitionTime": now, "reason": "",
            "message": "Kubernetes default Service CIDR is ready"});
        set(&mut object, "status.conditions", vec![condition]);
    }
    Some((kind.clone(), object))
}
