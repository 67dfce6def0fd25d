//! What must be published of services, reckoned from the objects alone: a second opinion for the oracles of those who
//! publish it. It shares no code with their plans, on purpose: who gets something wrong there must not get it wrong here.

mod first_ready;
mod objects;
mod supply;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use api::kinds::{Phase, Pod, Service, ServicePort};
use api::{IntOrString, Key, LabelSet, Resource};

pub use first_ready::FirstReady;
pub use objects::{
    Conditions, FullAddress, FullEndpoint, FullEndpoints, FullPort, FullSlice, FullSubset, Target,
};
pub use supply::{Followed, Supply};

use crate::oracle::{Change, Verdict, World};

/// Does the service want its pods to be published? One that is being deleted may be left as it is.
pub fn publishes_pods(service: &Service) -> bool {
    !service.metadata.is_terminating()
        && &*service.spec.type_ != "ExternalName"
        && service.spec.selector.iter().next().is_some()
}

/// The pods that the service selects, that have an address and have not ended.
pub fn pods_of(world: &World, service: &Service) -> Vec<Arc<Pod>> {
    let mut pods = world
        .store::<Pod>()
        .in_namespace(&service.metadata.namespace);
    pods.retain(|pod| may_be_published(service, pod));
    pods
}

pub fn may_be_published(service: &Service, pod: &Pod) -> bool {
    let labels = &pod.metadata.labels;
    let mut wanted = service.spec.selector.iter();
    let has_ended = matches!(pod.status.phase, Phase::Succeeded | Phase::Failed);
    wanted.all(|(key, value)| labels.get(key) == Some(value))
        && !has_ended
        && pod.status.ips.iter().next().is_some()
}

/// Should traffic go to the pod?
pub fn is_ready(service: &Service, pod: &Pod) -> bool {
    service.spec.publish_not_ready_addresses
        || pod.status.ready && pod.metadata.deleted_at.is_none()
}

/// The ports of the service that this pod has, sorted.
pub fn ports_of(service: &Service, pod: &Pod) -> Vec<FullPort> {
    let ports = service.spec.ports.iter();
    let mut ports: Vec<FullPort> = ports
        .filter_map(|port| {
            Some(FullPort {
                name: port.name.to_string(),
                protocol: port.protocol.to_string(),
                port: Some(number_of(port, pod)?),
                app_protocol: port.app_protocol.as_deref().map(str::to_owned),
            })
        })
        .collect();
    ports.sort();
    ports
}

fn number_of(port: &ServicePort, pod: &Pod) -> Option<i32> {
    match &port.target_port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::Text(name) => pod.body.ports.iter().find_map(|held| {
            let is_it = held.protocol == port.protocol && *held.name == **name;
            is_it.then_some(held.port)
        }),
    }
}

/// The name that the pod has below the service's.
pub fn hostname_of(service: &Service, pod: &Pod) -> Option<String> {
    let name = pod.own.as_ref().map(|own| own.hostname.to_string());
    name.filter(|name| !name.is_empty() && *pod.body.subdomain == *service.metadata.name)
}

pub fn target_of(pod: &Pod) -> Target {
    let meta = &pod.metadata;
    Target {
        kind: "Pod".to_owned(),
        namespace: meta.namespace.to_string(),
        name: meta.name.to_string(),
        uid: meta.uid.to_string(),
        ..Target::default()
    }
}

/// Labels without those that tell whose the object is.
pub fn without(labels: &LabelSet, reserved: &[&str]) -> BTreeMap<String, String> {
    let own = labels.iter().filter(|(key, _)| !reserved.contains(key));
    own.map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// Is everything published that must be, once, and nothing else? `what` names where.
pub fn same<T: Ord + Debug>(
    key: &Key,
    what: &str,
    mut expected: Vec<T>,
    mut published: Vec<T>,
) -> Verdict {
    expected.sort();
    published.sort();
    if let Some(twice) = published.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("{key}: {what} say {:?} twice", twice[0]));
    }
    if let Some(missing) = expected.iter().find(|it| !published.contains(it)) {
        return Err(format!("{key}: {what} should say {missing:?}, and do not"));
    }
    match published.iter().find(|it| !expected.contains(it)) {
        Some(foreign) => Err(format!("{key}: {what} say {foreign:?}, and should not")),
        None => Ok(()),
    }
}

/// The slices with the label of this service, written by any controller.
pub fn slices_of(world: &World, service: &Key) -> Vec<Arc<FullSlice>> {
    let mut slices = world.store::<FullSlice>().in_namespace(&service.namespace);
    slices.retain(|slice| slice.service().is_some_and(|name| *name == *service.name));
    slices
}

/// After a change of a slice of this manager: its service and family, and how many ready endpoints all slices of these had
/// before and have now. None after a change of anything else.
pub fn ready_in_slices(
    world: &World,
    change: &Change,
    managed_by: &str,
) -> Option<(Followed, (usize, usize))> {
    let slice = change.before::<FullSlice>().or(change.after())?;
    if !slice.is_managed_by(managed_by) {
        return None;
    }
    // One that names no service is nobody's supply.
    let service = slice.service().unwrap_or_default();
    let key = Key::new(&slice.metadata.namespace, service);
    let ready = |slice: Arc<FullSlice>| slice.ready();
    let mut slices = slices_of(world, &key);
    slices.retain(|other| other.address_type == slice.address_type);
    let now: usize = slices.into_iter().map(ready).sum();
    let (was, is) = (
        change.before().map_or(0, ready),
        change.after().map_or(0, ready),
    );
    let followed = Followed::of_family(&key, &slice.address_type);
    Some((followed, ((now + was).saturating_sub(is), now)))
}

/// The service of this name.
pub fn service_of(world: &World, key: &Key) -> Option<Arc<Service>> {
    world.store::<Service>().find(&key.namespace, &key.name)
}

/// All services, by what they are called.
pub fn services(world: &World) -> impl Iterator<Item = (Key, Arc<Service>)> {
    let services = world.store::<Service>().list().into_iter();
    services.map(|service| (service.key(), service))
}
