//! What must hold once nothing changes any more, reckoned from the service and its pods apart from the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use api::Resource;
use api::kinds::{ENDPOINT_CONTROLLER, ENDPOINTS_MANAGED_BY, HEADLESS, Pod, Service};

use super::plan::OVER_CAPACITY;
use crate::oracle::Verdict;
use crate::service_endpoints::reckoning::{
    FullAddress, FullEndpoints, FullPort, hostname_of, is_ready, ports_of, same, target_of, without,
};

/// Upstream's number; more addresses are left out.
const MOST: usize = 1000;

/// One address at one port, or without any, and whether it is ready.
type Fact = (Option<FullPort>, FullAddress, bool);

/// The Endpoints object says what the pods say, all of it or as much as it may hold. `pods` are those that the service
/// selects and that have an address.
pub fn published(service: &Service, pods: &[Arc<Pod>], held: Option<&FullEndpoints>) -> Verdict {
    let key = service.key();
    let Some(held) = held else {
        return Err(format!("{key} has no Endpoints"));
    };
    let labels = &held.metadata.labels;
    let reserved = [HEADLESS, ENDPOINTS_MANAGED_BY];
    if labels.get(ENDPOINTS_MANAGED_BY) != Some(ENDPOINT_CONTROLLER)
        || without(labels, &reserved) != without(&service.metadata.labels, &reserved)
    {
        return Err(format!("{key}: Endpoints have the labels {labels}"));
    }
    let expected = expected(service, pods);
    let facts: Vec<Fact> = held.subsets().iter().flat_map(facts_of).collect();
    let is_annotated = held.metadata.annotation(OVER_CAPACITY) == Some("truncated");
    let all = Size::of(&expected);
    if is_annotated != (all.count() > MOST) {
        return Err(format!(
            "{key}: of {} addresses Endpoints say {}",
            all.count(),
            if is_annotated {
                "that they are too many"
            } else {
                "nothing"
            }
        ));
    }
    match is_annotated {
        false => same(&key, "Endpoints", expected, facts),
        true => cut(service, &expected, held, facts),
    }
}

/// As many as fit are there, ready ones before others.
fn cut(service: &Service, expected: &[Fact], held: &FullEndpoints, facts: Vec<Fact>) -> Verdict {
    let (key, all) = (service.key(), Size::of(expected));
    let ready = all.ready.min(MOST);
    let wanted = (ready, (MOST - ready).min(all.not_ready));
    let listed = held.subsets().iter().flat_map(|subset| subset.addresses());
    let (is, not): (Vec<bool>, Vec<bool>) = listed.map(|(_, ready)| ready).partition(|it| *it);
    if (is.len(), not.len()) != wanted {
        return Err(format!(
            "{key}: Endpoints have {} ready addresses and {} others, and not {wanted:?}",
            is.len(),
            not.len()
        ));
    }
    let of_pods: Vec<Fact> = facts
        .iter()
        .filter(|it| expected.contains(it))
        .cloned()
        .collect();
    same(&key, "Endpoints", of_pods, facts)
}

fn facts_of(subset: &crate::service_endpoints::reckoning::FullSubset) -> Vec<Fact> {
    let ports = subset.ports();
    let at_ports = |(address, ready): (&FullAddress, bool)| {
        let at = |port: &Option<FullPort>| (port.clone(), address.clone(), ready);
        ports.iter().map(at).collect::<Vec<Fact>>()
    };
    subset.addresses().flat_map(at_ports).collect()
}

fn expected(service: &Service, pods: &[Arc<Pod>]) -> Vec<Fact> {
    let is_portless = service.spec.ports.is_empty();
    // A service that has a cluster IP is reached at its ports.
    if is_portless && &*service.spec.cluster_ip != "None" {
        return Vec::new();
    }
    let mut facts = Vec::new();
    for pod in pods {
        let is_leaving = pod.metadata.deleted_at.is_some();
        let address = address_of(service, pod);
        let (Some(address), false) = (
            address,
            is_leaving && !service.spec.publish_not_ready_addresses,
        ) else {
            continue;
        };
        let ports = match is_portless {
            true => vec![None],
            false => ports_of(service, pod).into_iter().map(Some).collect(),
        };
        let ready = is_ready(service, pod);
        let at = |port: Option<FullPort>| (port, address.clone(), ready);
        facts.extend(ports.into_iter().map(at));
    }
    facts
}

/// How many addresses subsets list: one for each set of ports that the same addresses have.
struct Size {
    ready: usize,
    not_ready: usize,
}

impl Size {
    fn of(facts: &[Fact]) -> Size {
        let mut by_port: BTreeMap<&Option<FullPort>, BTreeSet<(&FullAddress, bool)>> =
            BTreeMap::new();
        for (port, address, ready) in facts {
            by_port.entry(port).or_default().insert((address, *ready));
        }
        let subsets: BTreeSet<_> = by_port.into_values().collect();
        let listed = || subsets.iter().flatten();
        let ready = listed().filter(|(_, ready)| *ready).count();
        Size {
            ready,
            not_ready: listed().count() - ready,
        }
    }

    fn count(&self) -> usize {
        self.ready + self.not_ready
    }
}

/// Endpoints are of one family, the first of the service.
fn address_of(service: &Service, pod: &Pod) -> Option<FullAddress> {
    let is_v6 = service
        .spec
        .ip_families
        .first()
        .is_some_and(|it| &**it == "IPv6");
    let mut ips = pod.status.ips.iter();
    let ip = ips.find(|ip| matches!(ip, IpAddr::V6(_)) == is_v6)?;
    Some(FullAddress {
        ip: ip.to_string(),
        hostname: hostname_of(service, pod).unwrap_or_default(),
        node_name: Some(pod.node_name.to_string()),
        target_ref: Some(target_of(pod)),
    })
}

/// How many pods the Endpoints of a service have ready.
pub fn ready(service: &Service, pods: &[Arc<Pod>]) -> usize {
    let facts = expected(service, pods).into_iter();
    facts.filter(|(_, _, ready)| *ready).count()
}
