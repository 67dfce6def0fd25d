//! Hints by the annotation `topology-mode: Auto`: endpoints are given to zones in proportion to their CPU.
//!
//! Most endpoints are for their own zone; some are given to a zone that has fewer than its share. Where no zone can
//! have enough of them that none carries more than a fifth too much, or where zone or CPU of a node are not known, there
//! are no hints at all, and an event says why.

mod allocation;
mod zones;

use std::collections::BTreeMap;

use api::Istr;
use api::kinds::{AddressType, Hints};
use runtime::EventType;

use super::desired::Wanted;
use super::packing::{Draft, Packed};

pub use allocation::{Allocation, allocate, giving_and_receiving};
pub use zones::{Zones, is_overloaded};

/// How many endpoints each zone has.
pub type ByZone = BTreeMap<Istr, usize>;

/// The hints that a service has been given, by family.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Hinted {
    /// Were hints given by the last sync?
    pub is_on: bool,
    pub by_family: BTreeMap<AddressType, ByZone>,
}

impl Hinted {
    // UPSTREAM: families have one switch in common.
    pub fn remove(&mut self, family: AddressType) {
        self.by_family.remove(&family);
        self.is_on = false;
    }
}

/// An event of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub event_type: EventType,
    pub reason: &'static str,
    pub message: String,
}

impl Event {
    fn on(family: AddressType) -> Event {
        Event {
            event_type: EventType::Normal,
            reason: "TopologyAwareHintsEnabled",
            message: with_family("Topology Aware Hints has been enabled", family),
        }
    }

    fn off(why: &str, family: AddressType) -> Event {
        Event {
            event_type: EventType::Warning,
            reason: "TopologyAwareHintsDisabled",
            message: with_family(why, family),
        }
    }
}

fn with_family(text: &str, family: AddressType) -> String {
    format!("{text}, addressType: {}", family.as_str())
}

/// Gives the endpoints of a family to zones, or takes all hints away.
pub fn add_hints(
    packed: &mut Packed,
    endpoints: &[Wanted<'_>],
    family: AddressType,
    zones: &Zones,
    hinted: &mut Hinted,
) -> Option<Event> {
    match distribute(packed, endpoints, zones) {
        Ok(by_zone) => {
            let was_on = std::mem::replace(&mut hinted.is_on, true);
            hinted.by_family.insert(family, by_zone);
            (!was_on).then(|| Event::on(family))
        }
        Err(why) => {
            hinted.remove(family);
            remove_hints(packed);
            Some(Event::off(&why, family))
        }
    }
}

/// The service does not ask for such hints any more.
pub fn turn_off(family: AddressType, hinted: &mut Hinted) -> Option<Event> {
    let was_on = hinted.is_on;
    hinted.remove(family);
    was_on.then(|| Event::off("Topology Aware Hints has been disabled", family))
}

/// Writes all slices that have hints without them.
pub fn remove_hints(packed: &mut Packed) {
    let has_hints = |draft: &mut Draft| draft.hints.iter().any(Option::is_some);
    let moved: Vec<Draft> = packed.unchanged.extract_if(.., has_hints).collect();
    packed.update.extend(moved);
    for draft in packed.create.iter_mut().chain(&mut packed.update) {
        draft.hints.fill(None);
    }
}

/// How many endpoints each zone has got, or why none can.
fn distribute(
    packed: &mut Packed,
    endpoints: &[Wanted<'_>],
    zones: &Zones,
) -> Result<ByZone, String> {
    let drafts = || {
        packed
            .create
            .iter()
            .chain(&packed.update)
            .chain(&packed.unchanged)
    };
    let ready = drafts()
        .flat_map(|draft| &draft.members)
        .filter(|member| endpoints[**member as usize].known.is_ready())
        .count();
    let allocations = allocate(zones, ready)?;
    let mut by_zone = ByZone::new();
    keep_hints(packed, endpoints, &allocations, &mut by_zone);
    for draft in packed.create.iter_mut().chain(&mut packed.update) {
        for (member, hints) in draft.members.iter().zip(&mut draft.hints) {
            let endpoint = &endpoints[*member as usize];
            if !endpoint.known.is_ready() {
                continue;
            }
            let Some(zone) = endpoint.zone else {
                return Err("One or more endpoints do not have a zone specified".into());
            };
            *by_zone.entry(zone.clone()).or_default() += 1;
            *hints = Some(Hints::shared(Some(zone), None));
        }
    }
    let (giving, receiving) = giving_and_receiving(&allocations, &by_zone);
    redistribute(packed, endpoints, giving, receiving, &mut by_zone);
    match by_zone.is_empty() {
        true => Err("No hints allocated for zones".into()),
        false => Ok(by_zone),
    }
}

/// Counts the hints of slices that are not written otherwise. A slice whose hints are no good is written.
fn keep_hints(
    packed: &mut Packed,
    endpoints: &[Wanted<'_>],
    allocations: &BTreeMap<Istr, Allocation>,
    by_zone: &mut ByZone,
) {
    let is_no_good = |draft: &mut Draft| {
        let Some(own) = hints_by_zone(draft, endpoints, allocations, by_zone) else {
            return true;
        };
        for (zone, count) in own {
            *by_zone.entry(zone).or_default() += count;
        }
        false
    };
    let moved: Vec<Draft> = packed.unchanged.extract_if(.., is_no_good).collect();
    packed.update.extend(moved);
}

/// How many endpoints of a slice are for which zone; none if that cannot stay: a ready endpoint has no hint, a zone needs
/// none any more, or one would have so many that others could not have enough.
fn hints_by_zone(
    draft: &Draft,
    endpoints: &[Wanted<'_>],
    allocations: &BTreeMap<Istr, Allocation>,
    by_zone: &ByZone,
) -> Option<ByZone> {
    let mut own = ByZone::new();
    for (member, hints) in draft.members.iter().zip(&draft.hints) {
        if !endpoints[*member as usize].known.is_ready() {
            continue;
        }
        let zones = &hints.as_ref()?.for_zones;
        if zones.is_empty() {
            return None;
        }
        for zone in zones {
            allocations.get(&zone.name)?;
            *own.entry(zone.name.clone()).or_default() += 1;
        }
    }
    let fits = own.iter().all(|(zone, count)| {
        let held = by_zone.get(zone).copied().unwrap_or(0);
        let allocation = allocations.get(zone);
        allocation.is_some_and(|allocation| held + count <= allocation.maximum)
    });
    fits.then_some(own)
}

/// Gives endpoints of zones that have too many to zones that have too few.
fn redistribute(
    packed: &mut Packed,
    endpoints: &[Wanted<'_>],
    mut giving: ByZone,
    mut receiving: ByZone,
    by_zone: &mut ByZone,
) {
    for draft in packed.create.iter_mut().chain(&mut packed.update) {
        for (member, hints) in draft.members.iter().zip(&mut draft.hints) {
            let endpoint = &endpoints[*member as usize];
            let (true, Some(zone)) = (endpoint.known.is_ready(), endpoint.zone) else {
                continue;
            };
            if !giving.contains_key(zone) {
                continue;
            }
            let Some(other) = receiving.keys().next().cloned() else {
                return;
            };
            *hints = Some(Hints::shared(Some(&other), None));
            take_one(&mut giving, zone);
            take_one(&mut receiving, &other);
            take_one(by_zone, zone);
            *by_zone.entry(other).or_default() += 1;
        }
    }
}

fn take_one(counts: &mut ByZone, zone: &Istr) {
    match counts.get_mut(zone) {
        Some(count @ 2..) => *count -= 1,
        _ => drop(counts.remove(zone)),
    }
}
