//! What must hold once nothing changes any more, reckoned from the Endpoints apart from the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use api::Resource;
use api::cidr::family;
use api::kinds::{LAST_CHANGE_TRIGGER_TIME, MANAGED_BY, SERVICE_NAME};

use super::CONTROLLER;
use crate::oracle::Verdict;
use crate::service_endpoints::reckoning::{
    FullAddress, FullEndpoints, FullPort, FullSlice, Target, same, without,
};

/// One address at one port, or without any: what stands behind it does not change by the port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    port: Option<FullPort>,
    ip: IpAddr,
    target: Option<Target>,
}

/// Does what a user wrote have to be mirrored, where the service has no selector?
pub fn is_mirrored(endpoints: &FullEndpoints) -> bool {
    let meta = &endpoints.metadata;
    let label = meta.labels.get("endpointslice.kubernetes.io/skip-mirror");
    let leader = "control-plane.alpha.kubernetes.io/leader";
    label != Some("true") && meta.annotation(leader).is_none()
}

/// Each address is an endpoint at each of its ports, once, as ready as it is; nothing else is; the slices are labelled and
/// annotated as the Endpoints are, and belong to them. `slices` are those that the controller manages.
pub fn mirrored(
    endpoints: &FullEndpoints,
    slices: &[Arc<FullSlice>],
    max_addresses: usize,
) -> Verdict {
    let key = endpoints.key();
    for slice in slices {
        check_metadata(endpoints, slice)?;
    }
    let expected = expected(endpoints);
    let mut by_port: BTreeMap<Option<FullPort>, Vec<(Place, bool)>> = BTreeMap::new();
    for (place, ready) in &expected {
        let of_port = by_port.entry(place.port.clone()).or_default();
        of_port.push((place.clone(), *ready));
    }
    let mut published: BTreeMap<Option<FullPort>, Vec<(Place, bool)>> = BTreeMap::new();
    for (place, ready) in slices.iter().flat_map(|slice| places_of(slice)) {
        let of_port = published.entry(place.port.clone()).or_default();
        of_port.push((place, ready));
    }
    for (port, expected) in by_port {
        let published = published.remove(&port).unwrap_or_default();
        let wanted = at_most(expected, &published, max_addresses);
        same(&key, "slices that mirror", wanted, published)?;
    }
    match published.into_values().flatten().next() {
        Some((foreign, _)) => Err(format!(
            "{key}: slices that mirror say {foreign:?}, and should not"
        )),
        None => check_families(endpoints, slices),
    }
}

/// Of too many, those that were chosen, as long as ready ones come first.
fn at_most(
    expected: Vec<(Place, bool)>,
    published: &[(Place, bool)],
    most: usize,
) -> Vec<(Place, bool)> {
    if expected.len() <= most {
        return expected;
    }
    let (mut chosen, mut others): (Vec<_>, Vec<_>) =
        expected.into_iter().partition(|it| published.contains(it));
    let order = |(_, ready): &(Place, bool)| !ready;
    others.sort_by_key(order);
    chosen.extend(others);
    chosen.sort_by_key(order);
    chosen.truncate(most);
    chosen
}

fn check_metadata(endpoints: &FullEndpoints, slice: &FullSlice) -> Verdict {
    let (key, name) = (endpoints.key(), &slice.metadata.name);
    let (meta, held) = (&endpoints.metadata, &slice.metadata);
    let mut labels = without(&meta.labels, &[]);
    labels.insert(SERVICE_NAME.to_owned(), meta.name.to_string());
    labels.insert(MANAGED_BY.to_owned(), CONTROLLER.to_owned());
    let problem = if without(&held.labels, &[]) != labels {
        format!("the labels {}", held.labels)
    } else if without(&held.annotations, &[]) != annotations(endpoints) {
        format!("the annotations {}", held.annotations)
    } else if !held.owners.iter().any(|owner| owner.uid == meta.uid) {
        "another owner".to_owned()
    } else {
        return Ok(());
    };
    Err(format!(
        "{key}: slice {name}, which mirrors it, has {problem}"
    ))
}

fn annotations(endpoints: &FullEndpoints) -> BTreeMap<String, String> {
    let unwanted = [
        LAST_CHANGE_TRIGGER_TIME,
        "kubectl.kubernetes.io/last-applied-configuration",
    ];
    without(&endpoints.metadata.annotations, &unwanted)
}

/// An address that is ready and not ready at one port is not ready.
fn expected(endpoints: &FullEndpoints) -> BTreeMap<Place, bool> {
    let mut expected = BTreeMap::new();
    for subset in endpoints.subsets() {
        for (address, ready) in subset.addresses() {
            let Ok(ip) = address.ip.parse() else {
                continue;
            };
            for port in subset.ports() {
                let target = address.target_ref.clone();
                let held = expected.entry(Place { port, ip, target });
                held.and_modify(|held| *held &= ready).or_insert(ready);
            }
        }
    }
    expected
}

fn places_of(slice: &FullSlice) -> Vec<(Place, bool)> {
    let mut ports: Vec<Option<FullPort>> = slice.ports().into_iter().map(Some).collect();
    if ports.is_empty() {
        ports.push(None);
    }
    let mut places = Vec::new();
    for endpoint in slice.endpoints() {
        let ips = endpoint.addresses.iter();
        for ip in ips.filter_map(|address| address.parse().ok()) {
            let ready = endpoint.conditions.ready == Some(true);
            places.extend(ports.iter().map(|port| {
                let (port, target) = (port.clone(), endpoint.target_ref.clone());
                (Place { port, ip, target }, ready)
            }));
        }
    }
    places
}

/// A slice holds addresses of one family, which have the names and nodes that the Endpoints give them.
fn check_families(endpoints: &FullEndpoints, slices: &[Arc<FullSlice>]) -> Verdict {
    let key = endpoints.key();
    let given: Vec<&FullAddress> = endpoints
        .subsets()
        .iter()
        .flat_map(|subset| subset.addresses().map(|(address, _)| address))
        .collect();
    for slice in slices {
        for endpoint in slice.endpoints() {
            let ip = endpoint.addresses.first().and_then(|ip| ip.parse().ok());
            let family = ip.as_ref().map_or("", family);
            let is_given = given.iter().any(|address| {
                address.ip.parse().ok() == ip
                    && address.hostname == endpoint.hostname.clone().unwrap_or_default()
                    && address.node_name == endpoint.node_name
            });
            if slice.address_type != family || !is_given {
                let name = &slice.metadata.name;
                return Err(format!("{key}: slice {name} has the endpoint {endpoint:?}"));
            }
        }
    }
    Ok(())
}

/// The families of which the slices that mirror it have something ready.
pub fn ready(endpoints: &FullEndpoints) -> BTreeSet<&'static str> {
    let expected = expected(endpoints).into_iter();
    let ready = expected.filter(|(_, ready)| *ready);
    ready.map(|(place, _)| family(&place.ip)).collect()
}
