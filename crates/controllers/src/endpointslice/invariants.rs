//! What must hold once nothing changes any more, reckoned from the service, its pods and their nodes apart from the plan.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use api::Resource;
use api::kinds::{HEADLESS, MANAGED_BY, Pod, SERVICE_NAME, Service};

use crate::oracle::Verdict;
use crate::service_endpoints::reckoning::{
    Conditions, FullEndpoint, FullPort, FullSlice, hostname_of, is_ready, ports_of, same,
    target_of, without,
};

/// The zones (empty where unknown) of the nodes that there are.
pub type NodeZones = BTreeMap<String, String>;

/// Each endpoint that should be there is there once, as it is now, with the right ports; nothing else is; no slice is too
/// large; and there is a slice for each family. `pods` are those that the service selects and that have an address,
/// `slices` those that the controller manages.
pub fn published(
    service: &Service,
    pods: &[Arc<Pod>],
    zones: &NodeZones,
    slices: &[Arc<FullSlice>],
    max_endpoints: usize,
) -> Verdict {
    let key = service.key();
    for slice in slices {
        let name = &slice.metadata.name;
        let mut owners = slice.metadata.owners.iter();
        let is_of_family = service
            .spec
            .ip_families
            .iter()
            .any(|family| **family == *slice.address_type);
        if !is_of_family || !owners.any(|owner| owner.uid == service.metadata.uid) {
            return Err(format!("{key}: slice {name} is not of this service"));
        }
        let reserved = [SERVICE_NAME, MANAGED_BY, HEADLESS];
        let labels = &slice.metadata.labels;
        if without(labels, &reserved) != without(&service.metadata.labels, &reserved) {
            return Err(format!("{key}: slice {name} has the labels {labels}"));
        }
        let count = slice.endpoints().len();
        if count > max_endpoints {
            return Err(format!("{key}: slice {name} has {count} endpoints"));
        }
    }
    for family in &service.spec.ip_families {
        let of_family = || {
            slices
                .iter()
                .filter(|slice| *slice.address_type == **family)
        };
        if of_family().next().is_none() {
            return Err(format!("{key} has no slice of {family}"));
        }
        let held = of_family().flat_map(|slice| {
            let ports = slice.ports();
            let endpoints = slice.endpoints().iter();
            endpoints.map(move |endpoint| (endpoint.clone(), ports.clone()))
        });
        let expected = expected(service, pods, zones, family);
        same(
            &key,
            &format!("slices of {family}"),
            expected,
            held.collect(),
        )?;
    }
    Ok(())
}

/// An endpoint, and the ports of the slice that it is in.
type Fact = (FullEndpoint, Vec<FullPort>);

fn expected(service: &Service, pods: &[Arc<Pod>], zones: &NodeZones, family: &str) -> Vec<Fact> {
    let placed = pods.iter().filter(|pod| has_place(service, pod, zones));
    placed
        .filter_map(|pod| {
            Some((
                endpoint(service, pod, zones, family)?,
                ports_of(service, pod),
            ))
        })
        .collect()
}

/// Who lost its node is published only where everything is.
fn has_place(service: &Service, pod: &Pod, zones: &NodeZones) -> bool {
    service.spec.publish_not_ready_addresses || zones.contains_key(&*pod.node_name)
}

fn endpoint(service: &Service, pod: &Pod, zones: &NodeZones, family: &str) -> Option<FullEndpoint> {
    let of_family = |ip: &IpAddr| match ip {
        IpAddr::V4(_) => family == "IPv4",
        IpAddr::V6(_) => family == "IPv6",
    };
    let ips = pod.status.ips.iter().filter(of_family);
    let addresses: Vec<String> = ips.map(|ip| ip.to_string()).collect();
    let node = Some(pod.node_name.to_string()).filter(|node| !node.is_empty());
    let zone = node.as_ref().and_then(|node| zones.get(node));
    (!addresses.is_empty()).then(|| FullEndpoint {
        addresses,
        conditions: Conditions {
            ready: Some(is_ready(service, pod)),
            serving: Some(pod.status.ready),
            terminating: Some(pod.metadata.deleted_at.is_some()),
        },
        hostname: hostname_of(service, pod),
        target_ref: Some(target_of(pod)),
        zone: zone.filter(|zone| !zone.is_empty()).cloned(),
        node_name: node,
    })
}

/// The families of which the slices of a service have something ready.
pub fn ready<'a>(service: &'a Service, pods: &[Arc<Pod>], zones: &NodeZones) -> Vec<&'a str> {
    let has_ready = |family: &&str| {
        let facts = expected(service, pods, zones, family);
        let mut endpoints = facts.iter().map(|(endpoint, _)| endpoint);
        endpoints.any(|endpoint| endpoint.conditions.ready == Some(true))
    };
    let families = service.spec.ip_families.iter().map(|family| &**family);
    families.filter(has_ready).collect()
}
