//! Hints by `trafficDistribution`: each ready endpoint is for its own zone, or for its own node too.

use std::sync::Arc;

use api::kinds::Hints;

use super::desired::Wanted;
use super::packing::{Draft, Packed};

/// Gives all ready endpoints of slices that are written their hints, and writes those that have others.
pub fn add_hints(packed: &mut Packed, endpoints: &[Wanted<'_>], with_nodes: bool) {
    let needs_update = |draft: &mut Draft| {
        let mut members = draft.members.iter().zip(&draft.hints);
        members.any(|(member, held)| {
            let endpoint = &endpoints[*member as usize];
            endpoint.known.is_ready() && !is_right(held.as_deref(), endpoint, with_nodes)
        })
    };
    let moved: Vec<Draft> = packed.unchanged.extract_if(.., needs_update).collect();
    packed.update.extend(moved);
    for draft in packed.create.iter_mut().chain(&mut packed.update) {
        for (member, hints) in draft.members.iter().zip(&mut draft.hints) {
            let endpoint = &endpoints[*member as usize];
            if endpoint.known.is_ready() {
                *hints = hints_for(endpoint, with_nodes);
            }
        }
    }
}

fn hints_for(endpoint: &Wanted<'_>, with_nodes: bool) -> Option<Arc<Hints>> {
    let node = endpoint.node.filter(|_| with_nodes);
    let is_anywhere = endpoint.zone.is_some() || node.is_some();
    is_anywhere.then(|| Hints::shared(endpoint.zone, node))
}

/// Empty hints are as good as none.
fn is_right(held: Option<&Hints>, endpoint: &Wanted<'_>, with_nodes: bool) -> bool {
    let node = endpoint.node.filter(|_| with_nodes);
    let zones = held.map_or(&[][..], |hints| &hints.for_zones);
    let nodes = held.map_or(&[][..], |hints| &hints.for_nodes);
    let is_one = |named: &[api::kinds::Named], wanted: Option<&api::Istr>| match (named, wanted) {
        ([], None) => true,
        ([only], Some(wanted)) => only.name == *wanted,
        _ => false,
    };
    is_one(zones, endpoint.zone) && is_one(nodes, node)
}
