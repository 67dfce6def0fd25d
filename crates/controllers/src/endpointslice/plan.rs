//! Which slices to write, and why: pure.

use std::sync::Arc;

use api::LabelSet;
use api::collections::HashMap;
use api::kinds::{AddressType, EndpointPort, EndpointSlice, intern_ports};

use super::desired::{Desired, Wanted};
use super::families::families;
use super::ownership::{is_owned, slice_labels};
use super::packing::{Draft, Packed, pack};
use super::snapshot::{Closeness, Snapshot};
use super::topology::{self, Event, Hinted};
use super::traffic_distribution;

/// What becomes of the slices of a service.
pub struct Plan<'a> {
    pub families: Vec<FamilyPlan<'a>>,
    /// Slices of families that the service has no longer.
    pub other_families: Vec<usize>,
    /// The labels of all that is written.
    pub labels: LabelSet,
    pub closeness: Closeness,
    /// The hints that the service has from here on.
    pub hinted: Hinted,
}

/// The same of one family of addresses: created first, then updated (those with ready endpoints before others), then
/// deleted, so that nobody who follows sees fewer endpoints than there are.
pub struct FamilyPlan<'a> {
    pub family: AddressType,
    pub desired: Desired<'a>,
    pub create: Vec<Draft>,
    pub update: Vec<Draft>,
    /// How many slices are fine as they are.
    pub unchanged: usize,
    pub delete: Vec<usize>,
    pub added: usize,
    pub removed: usize,
    /// How many slices would do if all were full.
    pub ideal_slices: usize,
    pub event: Option<Event>,
}

impl FamilyPlan<'_> {
    pub fn is_nothing(&self) -> bool {
        self.create.is_empty() && self.update.is_empty() && self.delete.is_empty()
    }

    /// How many slices there are in the end.
    pub fn slices(&self) -> usize {
        self.create.len() + self.update.len() + self.unchanged
    }

    pub fn ready(&self) -> usize {
        let ready = |endpoint: &&Wanted<'_>| endpoint.known.is_ready();
        self.desired.endpoints.iter().filter(ready).count()
    }
}

impl Plan<'_> {
    pub fn is_nothing(&self) -> bool {
        self.other_families.is_empty() && self.families.iter().all(FamilyPlan::is_nothing)
    }
}

pub fn plan(snapshot: &Snapshot) -> Plan<'_> {
    let families = families(&snapshot.service);
    let closeness = Closeness::of(&snapshot.service, snapshot.gates);
    let labels = slice_labels(&snapshot.service);
    let mut hinted = snapshot.hinted.clone();
    let mut other_families = Vec::new();
    for (number, slice) in snapshot.slices.iter().enumerate() {
        if !families.contains(&slice.address_type) {
            hinted.remove(slice.address_type);
            other_families.push(number);
        }
    }
    let plan_family = |family| plan_family(snapshot, family, &labels, closeness, &mut hinted);
    Plan {
        families: families.into_iter().map(plan_family).collect(),
        other_families,
        closeness,
        hinted,
        labels,
    }
}

fn plan_family<'a>(
    snapshot: &'a Snapshot,
    family: AddressType,
    labels: &LabelSet,
    closeness: Closeness,
    hinted: &mut Hinted,
) -> FamilyPlan<'a> {
    let desired = Desired::of(snapshot, family);
    let mut packed = pack_all(snapshot, family, &desired);
    ensure_one(snapshot, family, labels, &mut packed);
    let endpoints = &desired.endpoints;
    let event = match closeness {
        Closeness::Proportional => {
            let zones = &snapshot.zones;
            topology::add_hints(&mut packed, endpoints, family, zones, hinted)
        }
        Closeness::Zone | Closeness::Node => {
            let with_nodes = closeness == Closeness::Node;
            traffic_distribution::add_hints(&mut packed, endpoints, with_nodes);
            topology::turn_off(family, hinted)
        }
        Closeness::Nowhere => {
            topology::remove_hints(&mut packed);
            topology::turn_off(family, hinted)
        }
    };
    reuse(snapshot, &mut packed);
    // What gets ready in one slice while another loses all that was is seen by those who follow before that one is empty.
    packed
        .update
        .sort_by_key(|draft| !has_ready(draft, endpoints));
    let most = snapshot.max_endpoints;
    let of_group = |count: usize| count.div_ceil(most);
    let ideal = desired
        .groups
        .iter()
        .map(|group| of_group(group.members.len()));
    FamilyPlan {
        family,
        // There is always one, if only to say that there are no endpoints.
        ideal_slices: ideal.sum::<usize>().max(1),
        desired,
        unchanged: packed.unchanged.len(),
        create: packed.create,
        update: packed.update,
        delete: packed.delete,
        added: packed.added,
        removed: packed.removed,
        event,
    }
}

fn has_ready(draft: &Draft, endpoints: &[Wanted<'_>]) -> bool {
    let mut members = draft.members.iter();
    members.any(|member| endpoints[*member as usize].known.is_ready())
}

/// Packs each group into the slices that have its ports; slices with ports that nobody has go away.
fn pack_all(snapshot: &Snapshot, family: AddressType, desired: &Desired<'_>) -> Packed {
    let service = &snapshot.service;
    let mut packed = Packed::default();
    let mut by_ports: HashMap<&Arc<[EndpointPort]>, Vec<(usize, &EndpointSlice)>> =
        HashMap::default();
    let slices = snapshot.slices.iter().enumerate();
    let of_family = |(_, slice): &(usize, &Arc<EndpointSlice>)| slice.address_type == family;
    for (number, slice) in slices.clone().filter(of_family) {
        match is_owned(slice, service) {
            true => by_ports
                .entry(&slice.ports)
                .or_default()
                .push((number, slice)),
            false => packed.delete.push(number),
        }
    }
    for group in &desired.groups {
        let slices = by_ports.remove(&group.ports).unwrap_or_default();
        let most = snapshot.max_endpoints;
        packed.append(pack(service, &desired.endpoints, group, &slices, most));
    }
    let unwanted = |(number, slice): (usize, &Arc<EndpointSlice>)| {
        let same = by_ports.get(&slice.ports)?;
        same.iter()
            .any(|(held, _)| *held == number)
            .then_some(number)
    };
    packed.delete.extend(slices.filter_map(unwanted));
    packed
}

/// A service without endpoints has one slice that says so.
fn ensure_one(snapshot: &Snapshot, family: AddressType, labels: &LabelSet, packed: &mut Packed) {
    if !packed.create.is_empty() || !packed.update.is_empty() || !packed.unchanged.is_empty() {
        return;
    }
    let is_placeholder = |slice: &EndpointSlice| {
        slice.endpoints.is_empty()
            && slice.ports.is_empty()
            && slice.address_type == family
            && slice.metadata.labels == *labels
            && is_owned(slice, &snapshot.service)
    };
    let mut placeholder = Draft::new(&intern_ports(Vec::new()));
    match packed.delete.as_slice() {
        [only] if is_placeholder(&snapshot.slices[*only]) => {
            placeholder.slice = packed.delete.pop();
            packed.unchanged.push(placeholder);
        }
        _ => packed.create.push(placeholder),
    }
}

/// Writes new slices over those that would be deleted: one request, and nobody sees the one without the other.
fn reuse(snapshot: &Snapshot, packed: &mut Packed) {
    let service = &snapshot.service;
    packed.delete.retain(|number| {
        if !is_owned(&snapshot.slices[*number], service) {
            return true;
        }
        let Some(mut draft) = packed.create.pop() else {
            return true;
        };
        draft.slice = Some(*number);
        draft.replaces = true;
        packed.update.push(draft);
        false
    });
    // The garbage collector would have to find what is made while it deletes.
    if service.metadata.is_terminating() {
        packed.create.clear();
    }
}
