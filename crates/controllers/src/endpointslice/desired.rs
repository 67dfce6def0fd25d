//! The endpoints that a service should have, from its pods.

use std::borrow::Cow;
use std::sync::Arc;

use api::Istr;
use api::collections::HashMap;
use api::kinds::{
    AddressType, Endpoint, EndpointConditions, EndpointPort, KnownEndpoint, Pod, Service,
    intern_ports,
};

use super::families::family_of;
use super::snapshot::Snapshot;
use crate::service_endpoints::{find_port, has_endpoint, hostname, target_ref};

/// The endpoints of one family, and which ports they have.
pub struct Desired<'a> {
    pub endpoints: Vec<Wanted<'a>>,
    pub groups: Vec<Group>,
    /// Pods that are left out because nobody knows their node.
    pub without_node: Vec<&'a Pod>,
}

/// One endpoint that should be there.
pub struct Wanted<'a> {
    pub pod: &'a Pod,
    pub known: KnownEndpoint,
    pub zone: Option<&'a Istr>,
    pub node: Option<&'a Istr>,
}

/// The endpoints that share their ports: no slice holds any others with them.
pub struct Group {
    pub ports: Arc<[EndpointPort]>,
    pub members: Vec<u32>,
}

impl<'a> Desired<'a> {
    pub fn of(snapshot: &'a Snapshot, family: AddressType) -> Desired<'a> {
        let mut desired = Desired {
            endpoints: Vec::with_capacity(snapshot.pods.len()),
            groups: Vec::new(),
            without_node: Vec::new(),
        };
        let mut groups = Groups::default();
        for pod in &snapshot.pods {
            if !has_endpoint(pod) {
                continue;
            }
            let group = groups.of(&snapshot.service, pod, &mut desired.groups);
            if is_without_node(snapshot, pod) {
                desired.without_node.push(pod);
                continue;
            }
            let endpoint = endpoint(snapshot, pod, family);
            if endpoint.addresses.is_empty() {
                continue;
            }
            let number = u32::try_from(desired.endpoints.len()).unwrap_or(u32::MAX);
            desired.groups[group].members.push(number);
            desired.endpoints.push(Wanted {
                pod,
                known: endpoint.known(),
                zone: zone(snapshot, pod),
                node: Some(&pod.node_name).filter(|node| !node.is_empty()),
            });
        }
        desired
    }
}

/// A pod whose node is gone will be gone too, and its address may be another pod's by now. Who wants addresses whatever
/// state they are in gets it all the same.
pub fn is_without_node(snapshot: &Snapshot, pod: &Pod) -> bool {
    !snapshot.service.spec.publish_not_ready_addresses
        && !snapshot.nodes.contains_key(&pod.node_name)
}

fn zone<'a>(snapshot: &'a Snapshot, pod: &Pod) -> Option<&'a Istr> {
    let zone = snapshot.nodes.get(&pod.node_name)?;
    (!zone.is_empty()).then_some(zone)
}

/// The endpoint of a pod, without hints; it has no address if the pod has none of this family.
pub fn endpoint<'a>(snapshot: &'a Snapshot, pod: &'a Pod, family: AddressType) -> Endpoint<'a> {
    let service = &snapshot.service;
    let addresses = pod.status.ips.iter();
    let (serving, terminating) = (pod.is_ready(), pod.metadata.is_terminating());
    // UPSTREAM: what is on its way out never counts as ready, unless the service publishes all alike.
    let ready = service.spec.publish_not_ready_addresses || (serving && !terminating);
    let present = |text: &'a str| (!text.is_empty()).then_some(Cow::Borrowed(text));
    Endpoint {
        addresses: addresses
            .filter(|address| family_of(*address) == family)
            .map(|address| Cow::Owned(address.to_string()))
            .collect(),
        conditions: EndpointConditions {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(terminating),
        },
        hostname: present(hostname(pod, service)),
        target_ref: Some(target_ref(pod)),
        node_name: present(&pod.node_name),
        zone: zone(snapshot, pod).map(|zone| Cow::Borrowed(zone.as_str())),
        hints: None,
    }
}

/// Finds the group of a pod. Pods of one template have the same ports, and are asked once.
#[derive(Default)]
struct Groups {
    by_body: HashMap<usize, usize>,
    by_ports: HashMap<Arc<[EndpointPort]>, usize>,
}

impl Groups {
    fn of(&mut self, service: &Service, pod: &Pod, groups: &mut Vec<Group>) -> usize {
        let body = Arc::as_ptr(&pod.body) as usize;
        if let Some(group) = self.by_body.get(&body) {
            return *group;
        }
        let ports = endpoint_ports(service, pod);
        let group = *self.by_ports.entry(ports).or_insert_with_key(|ports| {
            groups.push(Group {
                ports: ports.clone(),
                members: Vec::new(),
            });
            groups.len() - 1
        });
        self.by_body.insert(body, group);
        group
    }
}

/// The ports of the service, as this pod has them; those that it has not are left out.
pub fn endpoint_ports(service: &Service, pod: &Pod) -> Arc<[EndpointPort]> {
    let ports = service.spec.ports.iter();
    let found = ports.filter_map(|port| {
        Some(EndpointPort {
            name: Some(port.name.clone()),
            port: Some(find_port(pod, port)?),
            protocol: Some(port.protocol.clone()),
            app_protocol: port.app_protocol.clone(),
        })
    });
    intern_ports(found.collect())
}
