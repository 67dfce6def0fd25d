//! From a Service to an address that can be called.
//!
//! Nothing routes the cluster IPs of this server, and nothing runs in simulated pods. What can be reached is what runs
//! beside the server: endpoints that were written by hand (they belong to no pod), and Services of type ExternalName
//! that lead to this machine.

use crate::fields::{list, text};
use crate::kinds::{self, Kind};
use crate::server::Shared;
use crate::status::{Status, Subject};
use serde_json::Value;
use std::net::IpAddr;
use std::sync::Arc;

/// The host and port behind a port of a Service, or why there is none, in upstream's words.
pub(crate) fn resolve(
    shared: &Shared,
    namespace: &str,
    name: &str,
    port: u16,
) -> Result<String, String> {
    let not_found = || {
        let subject = Subject {
            group: "",
            plural: "service",
            name,
        };
        Status::not_found(subject).message
    };
    let services = kind("", "Service").ok_or_else(not_found)?;
    let stored = shared.store.get(services, &format!("{namespace}/{name}"));
    let service = stored.ok_or_else(not_found)?.value(services);
    let service_type = text(&service, "spec.type");
    if service_type == "ExternalName" {
        let host = text(&service, "spec.externalName");
        if is_here(host) {
            return Ok(format!("{host}:{port}"));
        }
    }
    if !matches!(service_type, "" | "ClusterIP" | "NodePort" | "LoadBalancer") {
        return Err(format!("unsupported service type \"{service_type}\""));
    }
    let mut ports = list(&service, "spec.ports").iter();
    let Some(wanted) = ports.find(|candidate| candidate["port"] == port) else {
        return Err(format!(
            "no service port {port} found for service \"{name}\""
        ));
    };
    let port_name = wanted["name"].as_str().unwrap_or_default();
    let Some(slices) = kind("discovery.k8s.io", "EndpointSlice") else {
        return Err(no_endpoints(name));
    };
    let stored = shared.store.list_newest(slices, &format!("{namespace}/"));
    let mut of_service = stored
        .iter()
        .filter(|slice| slice.label("kubernetes.io/service-name") == Some(name))
        .map(|slice| slice.value(slices));
    of_service
        .find_map(|slice| endpoint(&slice, port_name))
        .ok_or_else(|| no_endpoints(name))
}

/// The first endpoint of a slice that is ready and that somebody other than a simulated kubelet vouches for.
fn endpoint(slice: &Value, port_name: &str) -> Option<String> {
    let mut ports = list(slice, "ports").iter();
    let port = ports.find_map(|port| {
        let is_named = port["name"].as_str().unwrap_or_default() == port_name;
        port["port"].as_u64().filter(|_| is_named)
    })?;
    let ready = |endpoint: &&Value| endpoint["conditions"]["ready"] != false;
    let real = |endpoint: &&Value| endpoint["targetRef"]["kind"] != "Pod";
    let found = list(slice, "endpoints").iter().filter(ready).find(real)?;
    let address = found["addresses"].get(0)?.as_str()?;
    Some(match address.parse() {
        Ok(IpAddr::V6(address)) => format!("[{address}]:{port}"),
        _ => format!("{address}:{port}"),
    })
}

fn is_here(host: &str) -> bool {
    let address: Option<IpAddr> = host.parse().ok();
    host.eq_ignore_ascii_case("localhost") || address.is_some_and(|address| address.is_loopback())
}

fn no_endpoints(name: &str) -> String {
    format!("no endpoints available for service \"{name}\"")
}

fn kind(group: &str, kind: &str) -> Option<&'static Arc<Kind>> {
    kinds::find(group, kind)
}
