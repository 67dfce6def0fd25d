//! Defaults of the core group's kinds other than pods: `pkg/apis/core/v1/defaults.go`.

use api::quantity::Quantity;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Object, is_missing, object_in, objects_in, set_empty, set_missing, text};

pub(super) fn of(name: &str) -> Option<fn(&mut Object)> {
    Some(match name.strip_prefix("api.core.v1.")? {
        "ReplicationController" => replication_controller,
        "ReplicationControllerSpec" => |spec| set_missing(spec, "replicas", 1),
        "Service" => service,
        "Secret" => secret,
        "NodeSpec" => node_spec,
        "PersistentVolume" => persistent_volume,
        "PersistentVolumeClaim" => {
            |claim| set_empty(object_in(claim, "status"), "phase", "Pending")
        }
        "PersistentVolumeClaimSpec" => |spec| set_missing(spec, "volumeMode", "Filesystem"),
        "EndpointPort" => |port| set_empty(port, "protocol", "TCP"),
        "Namespace" => namespace,
        "NamespaceStatus" => |status| set_empty(status, "phase", "Active"),
        "NodeStatus" => node_status,
        "LimitRangeItem" => limit_range_item,
        _ => return None,
    })
}

/// Amounts finer than a thousandth are rounded up wherever a resource list occurs.
pub(super) fn round_up_to_milli(list: &mut Object) {
    for (_, value) in list.iter_mut() {
        if let Some(text) = value.as_str()
            && !Quantity::is_plain(text)
            && let Ok(mut quantity) = Quantity::parse(text)
            && !quantity.round_up(Quantity::MILLI)
        {
            *value = Value::from(quantity.to_string());
        }
    }
}

/// `stringData` is a way to write `data` and is never stored.
fn secret(secret: &mut Object) {
    if let Some(Value::Object(entries)) = secret.remove("stringData") {
        for (key, value) in entries {
            let text = value.as_str().unwrap_or_default();
            object_in(secret, "data").insert(key, STANDARD.encode(text).into());
        }
    }
    set_empty(secret, "type", "Opaque");
}

/// `podCIDR` and the first of `podCIDRs` are the same network; the single one wins where they differ.
fn node_spec(spec: &mut Object) {
    let single = text(spec, "podCIDR").to_owned();
    let first = spec
        .get("podCIDRs")
        .and_then(|list| list[0].as_str())
        .map(str::to_owned);
    match first {
        Some(first) if single.is_empty() => {
            spec.insert("podCIDR".to_owned(), first.into());
        }
        first if !single.is_empty() && first.as_ref() != Some(&single) => {
            spec.insert("podCIDRs".to_owned(), json!([single]));
        }
        _ => {}
    }
}

fn replication_controller(controller: &mut Object) {
    let labels = match controller.get("spec").and_then(|spec| spec.get("template")) {
        Some(template) => template["metadata"]["labels"].clone(),
        None => return,
    };
    if labels.is_object() {
        set_empty(object_in(controller, "spec"), "selector", labels.clone());
        set_empty(object_in(controller, "metadata"), "labels", labels);
    }
}

fn service(service: &mut Object) {
    let spec = object_in(service, "spec");
    set_empty(spec, "sessionAffinity", "None");
    match text(spec, "sessionAffinity") {
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            let timeout = spec
                .get("sessionAffinityConfig")
                .map(|config| &config["clientIP"]["timeoutSeconds"]);
            if timeout.is_none_or(Value::is_null) {
                // Three hours, as long as kube-proxy remembers a client.
                spec.insert(
                    "sessionAffinityConfig".to_owned(),
                    json!({"clientIP": {"timeoutSeconds": 10800}}),
                );
            }
        }
        _ => {}
    }
    set_empty(spec, "type", "ClusterIP");
    for port in objects_in(spec, "ports") {
        set_empty(port, "protocol", "TCP");
        let number = port.get("port").cloned().unwrap_or(json!(0));
        set_empty(port, "targetPort", number);
    }
    let kind = text(spec, "type").to_owned();
    let has_external_ips = spec
        .get("externalIPs")
        .is_some_and(|ips| !crate::fields::is_empty(ips));
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer")
        || (kind == "ClusterIP" && has_external_ips)
    {
        set_empty(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP") {
        set_missing(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set_missing(spec, "allocateLoadBalancerNodePorts", true);
        let status = object_in(object_in(service, "status"), "loadBalancer");
        for ingress in
            objects_in(status, "ingress").filter(|ingress| !text(ingress, "ip").is_empty())
        {
            set_missing(ingress, "ipMode", "VIP");
        }
    }
}

fn persistent_volume(volume: &mut Object) {
    set_empty(object_in(volume, "status"), "phase", "Pending");
    let spec = object_in(volume, "spec");
    set_empty(spec, "persistentVolumeReclaimPolicy", "Retain");
    set_missing(spec, "volumeMode", "Filesystem");
}

/// The name as a label, so that network policies can select a namespace by it.
fn namespace(namespace: &mut Object) {
    let metadata = object_in(namespace, "metadata");
    let name = text(metadata, "name").to_owned();
    if !name.is_empty() {
        object_in(metadata, "labels").insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
}

fn node_status(status: &mut Object) {
    if is_missing(status, "allocatable")
        && let Some(capacity) = status
            .get("capacity")
            .filter(|capacity| capacity.is_object())
            .cloned()
    {
        status.insert("allocatable".to_owned(), capacity);
    }
}

fn limit_range_item(item: &mut Object) {
    if text(item, "type") != "Container" {
        return;
    }
    // Each list fills the one after it, in this order.
    for (from, to) in [
        ("max", "default"),
        ("default", "defaultRequest"),
        ("min", "defaultRequest"),
    ] {
        let source = item
            .get(from)
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        for (key, value) in source {
            object_in(item, to).entry(key).or_insert(value);
        }
    }
}
