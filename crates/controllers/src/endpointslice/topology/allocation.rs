//! How many endpoints each zone should have.

use std::collections::BTreeMap;

use api::Istr;

use super::{ByZone, Zones};

/// What a zone may have of a service's endpoints.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allocation {
    pub minimum: usize,
    pub maximum: usize,
    pub desired: f64,
}

/// How much more than its share an endpoint may have to carry: upstream's number.
const OVERLOAD: f64 = 0.2;

/// The least endpoints for a zone whose share is so many.
pub(super) fn share_at_least(desired: f64) -> usize {
    (desired * (1.0 / (1.0 + OVERLOAD))).ceil() as usize
}

/// What each zone may have of so many ready endpoints, or why none may have any.
pub fn allocate(zones: &Zones, endpoints: usize) -> Result<BTreeMap<Istr, Allocation>, String> {
    let Some(zones) = &zones.0 else {
        return Err("Insufficient Node information: allocatable CPU or zone not specified on one or more nodes".into());
    };
    let counts = format!("({endpoints} endpoints, {} zones)", zones.len());
    if zones.len() > endpoints {
        return Err(format!("Insufficient number of endpoints {counts}"));
    }
    let mut allocations = BTreeMap::new();
    let mut minimum_in_all = 0;
    for (zone, share) in zones {
        let desired = share * endpoints as f64;
        let minimum = share_at_least(desired);
        minimum_in_all += minimum;
        allocations.insert(
            zone.clone(),
            Allocation {
                minimum,
                maximum: minimum,
                desired: desired.max(minimum as f64),
            },
        );
    }
    let Some(spare) = endpoints.checked_sub(minimum_in_all) else {
        return Err(format!(
            "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold {counts}"
        ));
    };
    for allocation in allocations.values_mut() {
        allocation.maximum += spare;
    }
    Ok(allocations)
}

/// How many endpoints zones give, and how many they receive.
pub fn giving_and_receiving(
    allocations: &BTreeMap<Istr, Allocation>,
    by_zone: &ByZone,
) -> (ByZone, ByZone) {
    let (mut surplus, mut need) = (Vec::new(), Vec::new());
    for (zone, allocation) in allocations {
        let held = by_zone.get(zone).copied().unwrap_or(0) as f64;
        match held - allocation.desired {
            more if more > 0.0 => surplus.push((zone, more)),
            less if less < 0.0 => need.push((zone, -less)),
            _ => {}
        }
    }
    let (mut giving, mut receiving) = (ByZone::new(), ByZone::new());
    while let (Some(from), Some(to)) = (most(&mut surplus), most(&mut need)) {
        // UPSTREAM: whole endpoints; half of one is given only where a whole one is needed, or the other way round.
        let is_too_little = from.1 < 0.5 || to.1 < 0.5 || (from.1 < 1.0 && to.1 < 1.0);
        if is_too_little {
            break;
        }
        *giving.entry(from.0.clone()).or_default() += 1;
        *receiving.entry(to.0.clone()).or_default() += 1;
        from.1 -= 1.0;
        to.1 -= 1.0;
    }
    (giving, receiving)
}

/// The zone with the most, if any has something.
fn most<'a, 'b>(zones: &'a mut [(&'b Istr, f64)]) -> Option<&'a mut (&'b Istr, f64)> {
    let mut found: Option<&mut (&Istr, f64)> = None;
    for zone in zones {
        if zone.1 > found.as_ref().map_or(0.0, |held| held.1) {
            found = Some(zone);
        }
    }
    found
}
