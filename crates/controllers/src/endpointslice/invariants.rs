//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use api::Resource;
use api::collections::HashMap;
use api::kinds::{AddressType, EndpointSlice};

use super::desired::Desired;
use super::families::families;
use super::ownership::{is_managed, is_owned, is_relabeled};
use super::snapshot::Snapshot;
use crate::service_endpoints::not_ours;

/// Each endpoint that should be there is there once, as it is now, with the right ports; nothing else is; no slice is too
/// large; and there is a slice for each family.
pub fn converged(snapshot: &Snapshot) -> Result<(), String> {
    let service = &snapshot.service;
    if service.metadata.is_terminating() || not_ours(service).is_some() {
        return Ok(());
    }
    let key = service.key();
    let families = families(service);
    for slice in &snapshot.slices {
        let name = &slice.metadata.name;
        if !is_managed(slice) || slice.metadata.is_terminating() {
            continue;
        }
        if !families.contains(&slice.address_type) || !is_owned(slice, service) {
            return Err(format!("{key}: slice {name} is not of this service"));
        }
        if is_relabeled(slice, service) {
            return Err(format!("{key}: slice {name} has other labels"));
        }
        if slice.endpoints.len() > snapshot.max_endpoints {
            let count = slice.endpoints.len();
            return Err(format!("{key}: slice {name} has {count} endpoints"));
        }
    }
    for family in families {
        converged_family(snapshot, family)?;
    }
    Ok(())
}

fn converged_family(snapshot: &Snapshot, family: AddressType) -> Result<(), String> {
    let (key, text) = (snapshot.service.key(), family.as_str());
    let desired = Desired::of(snapshot, family);
    let mut published = HashMap::default();
    let mut slices = 0;
    for slice in snapshot
        .slices
        .iter()
        .filter(|slice| slice.address_type == family)
    {
        slices += 1;
        for endpoint in &slice.endpoints {
            let again = published.insert(endpoint.identity, (endpoint, &slice.ports));
            if again.is_some() {
                return Err(format!("{key}: an endpoint of {text} is there twice"));
            }
        }
    }
    for group in &desired.groups {
        for member in &group.members {
            let wanted = &desired.endpoints[*member as usize];
            let pod = &wanted.pod.metadata.name;
            let Some((held, ports)) = published.remove(&wanted.known.identity) else {
                return Err(format!("{key}: pod {pod} has no endpoint of {text}"));
            };
            if !wanted.known.is_same(held) {
                return Err(format!("{key}: the endpoint of {text} of pod {pod} is old"));
            }
            if *ports != group.ports {
                return Err(format!(
                    "{key}: the endpoint of {text} of pod {pod} has other ports"
                ));
            }
        }
    }
    let ready = published
        .values()
        .filter(|(held, _)| held.is_ready())
        .count();
    match (published.len(), slices) {
        (0, 0) => Err(format!("{key} has no slice of {text}")),
        (0, _) => Ok(()),
        (left, _) => Err(format!(
            "{key}: {left} endpoints of {text} are of no pod, {ready} of them ready"
        )),
    }
}

/// How many ready endpoints somebody who follows a service's slices has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Published {
    pub ready: usize,
}

impl Published {
    pub fn of<'a>(slices: impl IntoIterator<Item = &'a EndpointSlice>) -> Published {
        let endpoints = slices.into_iter().flat_map(|slice| &slice.endpoints);
        Published {
            ready: endpoints.filter(|endpoint| endpoint.is_ready()).count(),
        }
    }
}

/// Nobody sees an empty set between two full ones: `least` is the smallest number of ready pods that the service had
/// since the state before, and of which all were published then.
pub fn safe(before: Published, after: Published, least: usize) -> Result<(), String> {
    match before.ready > 0 && after.ready == 0 && least > 0 {
        true => Err(format!(
            "{} ready endpoints were published, then none, with at least {least} ready pods",
            before.ready
        )),
        false => Ok(()),
    }
}
