//! Which slices mirror an Endpoints object: pure.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use api::collections::HashMap;
use api::kinds::{
    Address, AddressType, Endpoint, EndpointConditions, EndpointPort, EndpointSlice, Endpoints,
    KnownEndpoint, LAST_CHANGE_TRIGGER_TIME, MANAGED_BY, SERVICE_NAME, Subset, SubsetPort,
    intern_ports,
};
use api::{LabelSet, Meta};

use super::CONTROLLER;

/// What kubectl remembers of the last apply: of no use to consumers of slices, and large.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

pub struct Snapshot<'a> {
    pub endpoints: &'a Endpoints,
    /// Its subsets, repacked.
    pub subsets: Vec<Subset<'a>>,
    /// The slices that mirror it now, by name.
    pub slices: Vec<Arc<EndpointSlice>>,
    /// The most addresses of a subset that are mirrored.
    pub max_addresses: usize,
}

pub struct Plan<'a> {
    pub create: Vec<Mirror<'a>>,
    pub update: Vec<Mirror<'a>>,
    pub delete: Vec<usize>,
    pub labels: LabelSet,
    pub annotations: LabelSet,
    pub counts: Counts,
}

/// One slice as it should be.
#[derive(Clone)]
pub struct Mirror<'a> {
    /// The one that it is now, by its place in the snapshot; none for a new one.
    pub slice: Option<usize>,
    pub family: AddressType,
    pub ports: Arc<[EndpointPort]>,
    pub endpoints: Vec<Endpoint<'a>>,
}

impl Mirror<'_> {
    fn has_ready(&self) -> bool {
        let mut endpoints = self.endpoints.iter();
        endpoints.any(|endpoint| endpoint.conditions.ready == Some(true))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counts {
    pub endpoints: usize,
    /// Slices that there are in the end, and that there would be if all were full.
    pub slices: usize,
    pub ideal_slices: usize,
    pub added: usize,
    pub updated: usize,
    pub removed: usize,
    /// Addresses that are no IP addresses.
    pub invalid: usize,
    /// Those, and addresses that are too many.
    pub skipped: usize,
}

/// The endpoints of one family with the same ports, by identity.
struct Group<'a> {
    family: AddressType,
    ports: Arc<[EndpointPort]>,
    endpoints: Vec<(KnownEndpoint, Endpoint<'a>)>,
}

pub fn plan<'a>(snapshot: &'a Snapshot<'_>) -> Plan<'a> {
    let endpoints = snapshot.endpoints;
    let mut counts = Counts::default();
    let groups = groups(&snapshot.subsets, snapshot.max_addresses, &mut counts);
    let mut plan = Plan {
        create: Vec::new(),
        update: Vec::new(),
        delete: Vec::new(),
        labels: labels(&endpoints.metadata),
        annotations: annotations(&endpoints.metadata),
        counts,
    };
    let mut by_kind: HashMap<(AddressType, &Arc<[EndpointPort]>), Vec<usize>> = HashMap::default();
    for (number, slice) in snapshot.slices.iter().enumerate() {
        let kind = (slice.address_type, &slice.ports);
        by_kind.entry(kind).or_default().push(number);
    }
    for group in &groups {
        let held = by_kind
            .remove(&(group.family, &group.ports))
            .unwrap_or_default();
        plan.mirror(group, &held, snapshot);
    }
    let mut unwanted: Vec<usize> = by_kind.into_values().flatten().collect();
    unwanted.sort_unstable();
    plan.delete.extend(unwanted);
    plan.reuse(snapshot);
    // What gets ready in one slice while another loses all that was is seen by those who follow before that one is empty.
    plan.update.sort_by_key(|mirror| !mirror.has_ready());
    if endpoints.metadata.is_terminating() {
        plan.create.clear();
    }
    plan
}

fn groups<'a>(subsets: &'a [Subset<'_>], most: usize, counts: &mut Counts) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for subset in subsets {
        let ports = intern_ports(subset.ports.iter().map(slice_port).collect());
        let mut indexes = [AddressType::Ipv4, AddressType::Ipv6].map(|family| {
            let same = |group: &Group<'_>| group.family == family && group.ports == ports;
            groups.iter().position(same).unwrap_or_else(|| {
                groups.push(Group {
                    family,
                    ports: ports.clone(),
                    endpoints: Vec::new(),
                });
                groups.len() - 1
            })
        });
        indexes.sort_unstable();
        let ready = subset.addresses.iter().map(|address| (address, true));
        let others = subset
            .not_ready_addresses
            .iter()
            .map(|address| (address, false));
        let mut mirrored = 0;
        for (address, ready) in ready.chain(others) {
            if mirrored >= most {
                counts.skipped += 1;
                continue;
            }
            let Some((family, endpoint)) = endpoint(address, ready) else {
                counts.invalid += 1;
                counts.skipped += 1;
                continue;
            };
            mirrored += 1;
            let index = indexes
                .iter()
                .find(|index| groups[**index].family == family);
            if let Some(group) = index.map(|index| &mut groups[*index]) {
                group.insert(endpoint);
            }
        }
    }
    for group in &groups {
        let count = group.endpoints.len();
        counts.endpoints += count;
        counts.ideal_slices += count.div_ceil(most.max(1));
    }
    groups
}

impl<'a> Group<'a> {
    /// Of two that are the same endpoint the later one counts.
    fn insert(&mut self, endpoint: Endpoint<'a>) {
        let known = endpoint.known();
        let mut held = self.endpoints.iter_mut();
        match held.find(|(held, _)| held.identity == known.identity) {
            Some(held) => *held = (known, endpoint),
            None => self.endpoints.push((known, endpoint)),
        }
    }
}

impl<'a> Plan<'a> {
    /// One slice for the group; what else there is of it goes.
    fn mirror(&mut self, group: &Group<'a>, held: &[usize], snapshot: &Snapshot<'_>) {
        let Some((first, others)) = held.split_first() else {
            if !group.endpoints.is_empty() {
                self.counts.added += group.endpoints.len();
                self.counts.slices += 1;
                self.create.push(group.mirror(None, snapshot.max_addresses));
            }
            return;
        };
        let slice = &snapshot.slices[*first];
        if group.endpoints.is_empty() {
            let slices = held
                .iter()
                .map(|number| snapshot.slices[*number].endpoints.len());
            self.counts.removed += slices.sum::<usize>();
            self.delete.extend(held);
            return;
        }
        self.counts.slices += 1;
        self.delete.extend(others);
        let is_same = self.count_changes(group, slice);
        let meta = &slice.metadata;
        let is_right = is_same
            && meta.labels == self.labels
            && meta.annotations == self.annotations
            && !is_of_namesake(meta, &snapshot.endpoints.metadata);
        if !is_right {
            self.update
                .push(group.mirror(Some(*first), snapshot.max_addresses));
        }
    }

    fn count_changes(&mut self, group: &Group<'_>, slice: &EndpointSlice) -> bool {
        let wanted: HashMap<u64, &KnownEndpoint> = group
            .endpoints
            .iter()
            .map(|(known, _)| (known.identity, known))
            .collect();
        let (mut matched, mut updated) = (0, 0);
        for held in &slice.endpoints {
            if let Some(wanted) = wanted.get(&held.identity) {
                matched += 1;
                updated += usize::from(!wanted.is_same(held));
            }
        }
        let removed = slice.endpoints.len() - matched;
        let added = wanted.len().saturating_sub(matched);
        self.counts.added += added;
        self.counts.updated += updated;
        self.counts.removed += removed;
        (added, updated, removed) == (0, 0, 0)
    }

    /// Writes new slices over those of the same family that would be deleted.
    fn reuse(&mut self, snapshot: &Snapshot<'_>) {
        self.delete.retain(|number| {
            let family = snapshot.slices[*number].address_type;
            let Some(index) = self.create.iter().position(|new| new.family == family) else {
                return true;
            };
            let mut mirror = self.create.remove(index);
            mirror.slice = Some(*number);
            self.update.push(mirror);
            false
        });
    }
}

impl<'a> Group<'a> {
    fn mirror(&self, slice: Option<usize>, most: usize) -> Mirror<'a> {
        let endpoints = self.endpoints.iter().take(most);
        Mirror {
            slice,
            family: self.family,
            ports: self.ports.clone(),
            endpoints: endpoints.map(|(_, endpoint)| endpoint.clone()).collect(),
        }
    }
}

/// The endpoint of an address, and its family; none if it is no IP address.
pub fn endpoint<'a>(address: &'a Address<'_>, ready: bool) -> Option<(AddressType, Endpoint<'a>)> {
    let ip = api::ip::parse(&address.ip)?;
    let family = match ip {
        IpAddr::V4(_) => AddressType::Ipv4,
        IpAddr::V6(_) => AddressType::Ipv6,
    };
    let endpoint = Endpoint {
        addresses: vec![Cow::Owned(ip.to_string())],
        conditions: EndpointConditions {
            ready: Some(ready),
            ..EndpointConditions::default()
        },
        hostname: (!address.hostname.is_empty()).then(|| Cow::Borrowed(&*address.hostname)),
        target_ref: address.target_ref.clone(),
        node_name: address.node_name.as_deref().map(Cow::Borrowed),
        zone: None,
        hints: None,
    };
    Some((family, endpoint))
}

fn slice_port(port: &SubsetPort) -> EndpointPort {
    EndpointPort {
        name: Some(port.name.clone()),
        protocol: Some(port.protocol.clone()),
        port: Some(port.port),
        app_protocol: port.app_protocol.clone(),
    }
}

/// Was the slice made for Endpoints of the same name that are gone?
fn is_of_namesake(slice: &Meta, endpoints: &Meta) -> bool {
    slice.owners.iter().any(|owner| {
        owner.kind == "Endpoints" && *owner.name == *endpoints.name && owner.uid != endpoints.uid
    })
}

fn labels(endpoints: &Meta) -> LabelSet {
    endpoints
        .labels
        .with(SERVICE_NAME, &endpoints.name)
        .with(MANAGED_BY, CONTROLLER)
}

fn annotations(endpoints: &Meta) -> LabelSet {
    let unwanted = [LAST_CHANGE_TRIGGER_TIME, LAST_APPLIED];
    endpoints
        .annotations
        .filtered(|key| !unwanted.contains(&key))
}
